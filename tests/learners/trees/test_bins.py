"""The bins of features of small groups: their rows, the gaps between them, and what they let
trees learn."""

import json

import duckdb
import numpy as np
import pytest
from forests import grown, margins
from hypothesis import given
from hypothesis import strategies as st

from tuskml.kernels.trees.boosting import SQUARED, least_bin_rows, least_child_rows

pytestmark = pytest.mark.native
DEEP = {"trees": 40, "num_leaves": 1000, "min_child_rows": 1, "min_child_hessian": 0.0}


def thresholds(x: np.ndarray, y: np.ndarray, **given: object) -> np.ndarray:
    """All thresholds of trees that split as far as they can, rising."""
    forest = grown(x, y, **(DEEP | given))
    return np.unique(forest.nodes["value"][forest.nodes["feature"] >= 0])


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([30, 200, 700]),
    st.sampled_from([1, 2, 5, 12]),
    st.sampled_from([4, 60, 255]),
    st.booleans(),
)
def test_a_bin_has_its_least_rows_and_bounds_lie_between_values(
    seed: int, n: int, least: int, most: int, ties: bool
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 40, (n, 1)).astype(float) if ties else rng.normal(size=(n, 1)) ** 3
    found = thresholds(x, rng.normal(size=n), min_bin_rows=least, max_bins=most)
    assert len(found) < most
    assert not np.isin(found, x).any()
    between = np.digitize(x[:, 0], found)
    assert np.bincount(between, minlength=len(found) + 1).min() >= min(least, n)


@given(st.integers(0, 2**32 - 1), st.sampled_from([20, 50, 100, 333, 700]), st.integers(2, 5))
def test_no_bin_reaches_across_the_space_between_clusters(seed: int, n: int, k: int) -> None:
    """Clusters of n rows each, 50 widths apart: some bound lies in every space."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([c + rng.normal(size=n) * 0.02 for c in range(k)])[:, None]
    found = thresholds(x, rng.normal(size=len(x)), trees=60)
    for c in range(k - 1):
        assert ((found > c + 0.2) & (found < c + 0.8)).any()


@pytest.mark.parametrize("n", [60, 100, 1000])
@pytest.mark.parametrize("rare", [1, 2])
def test_a_single_row_of_another_value_is_a_leaf_where_leaves_may_have_one(
    n: int, rare: int
) -> None:
    x = np.ones((n, 1))
    x[:rare] = 0
    y = np.where(x[:, 0] == 0, 100.0, 0.0)
    how = {"trees": 1, "learning_rate": 1.0, "min_child_rows": 1, "objective": SQUARED}
    assert margins(grown(x, y, **how), x).tolist() == pytest.approx(y.tolist(), abs=1e-9)


def test_as_many_rows_as_values_are_learned_by_heart() -> None:
    """In a group of fewer than 256 rows each value has a bin of its own."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 1)), rng.normal(size=200)
    forest = grown(x, y, **(DEEP | {"trees": 1, "learning_rate": 1.0, "l2": 0.0}))
    assert margins(forest, x) == pytest.approx(y, abs=1e-9)


def test_bounds_are_halfway_and_do_not_change_with_units() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(900, 1)), rng.normal(size=900)
    found = thresholds(x, y)
    rising = np.sort(x[:, 0])
    middles = (rising[1:] + rising[:-1]) / 2
    assert np.isin(found, rising[:-1] + (rising[1:] - rising[:-1]) / 2).all()
    assert len(middles) > len(found)
    assert (thresholds(x * 2.0**40, y) / 2.0**40).tolist() == found.tolist()


def test_least_rows_grow_with_the_group() -> None:
    sizes = [1, 10, 30, 36, 120, 240, 500, 5000, 10**9]
    assert [least_child_rows(n) for n in sizes] == [3, 3, 3, 3, 10, 20, 20, 20, 20]
    assert [least_bin_rows(n) for n in sizes] == [1, 1, 1, 1, 1, 1, 3, 4, 4]


@pytest.mark.parametrize("n", [30, 60, 150, 300])
def test_a_group_has_its_own_least_rows_unless_they_are_given(
    con: duckdb.DuckDBPyConnection, n: int
) -> None:
    """A group of n rows beside one of 5,000 in one statement: its trees are those of the option
    with the number for its size, and of no other."""

    def trees(options: dict[str, int]) -> list[tuple[object, ...]]:
        given = json.dumps({"trees": 5} | options)
        return con.execute(
            f"""WITH t AS (SELECT i, (i >= {n})::INT AS g FROM range({n} + 5000) r(i)),
            models AS (SELECT g, train_model('gbdt', sin(i) + i % 7,
                                             [sin(i * 1.7), cos(i * 3)], '{given}') AS m
                       FROM t GROUP BY g)
            SELECT m.payload, m.loss FROM models ORDER BY g"""
        ).fetchall()

    own, said = trees({}), trees({"min_child_rows": least_child_rows(n)})
    assert own[0] == said[0]
    assert own[0] != trees({"min_child_rows": 25 if n > 200 else 20})[0]
    assert own[1] == trees({"min_child_rows": 20})[1]


@pytest.mark.parametrize("n", [30, 199, 200])
@pytest.mark.parametrize("objective", ["squared", "poisson"])
def test_small_groups_draw_and_shrink_by_default(
    con: duckdb.DuckDBPyConnection, n: int, objective: str
) -> None:
    """Their trees are those of the options that groups of fewer than 200 rows have, with any
    weights, and one-side sampling draws by itself."""
    own = {"l2": 1, "row_fraction": 0.7, "feature_fraction": 0.6} if n < 200 else {}
    whole = {"l2": 0, "row_fraction": 1, "feature_fraction": 1}

    def trees(options: dict[str, object], weight: float = 1) -> tuple[object, ...]:
        given = json.dumps({"trees": 5, "objective": objective, "min_child_hessian": 0} | options)
        return con.execute(
            f"""SELECT m.loss, predict(m, [0.3, 0.2]) FROM (
                SELECT train_model('gbdt', 5 + i % 7, [sin(i * 1.7), cos(i * 3)], '{given}',
                                   {weight}) AS m
                FROM range({n}) AS r(i))"""
        ).fetchone()

    assert trees({}) == trees(whole | own)
    assert (trees({}) == trees(whole)) == (n == 200)
    assert trees({}, 2.0**20) == trees({})
    by_gradients = {"goss": True, "learning_rate": 1}
    assert trees(by_gradients) == trees(
        by_gradients
        | {name: value for name, value in (whole | own).items() if name != "row_fraction"}
    )


def test_trees_that_no_draw_can_split_are_left_out(con: duckdb.DuckDBPyConnection) -> None:
    """The value of a single leaf would follow the draw."""
    for rows, x, status in ((5, "i", "too few rows"), (50, "1", "no split")):
        sql = f"""SELECT m.status, m.iterations, predict(m, [1.0]) FROM (
                  SELECT train_model('gbdt', i, [{x}]) AS m FROM range({rows}) AS r(i))"""
        assert con.execute(sql).fetchone() == (status, 0, pytest.approx((rows - 1) / 2))
