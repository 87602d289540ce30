"""Boosted trees of groups on several shards: the trees of rows in one place, node by node."""

from collections.abc import Iterator
from typing import Any

import duckdb
import invariants
import parted_trees
import pytest
import sharded

import tuskml
from tuskml.cluster.parts import part_rows
from tuskml.groups.execution import choosing, leading
from tuskml.groups.execution.leading import Ran
from tuskml.kernels.trees.parted import boosting

GIVEN: dict[str, Any] = {
    "label": "y",
    "features": ["x", "z", "u"],
    "group_by": "g",
    "executor": "threads",
    "placement": "gap",
    "trees": 12,
    "num_leaves": 9,
}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect() as connection:
        connection.execute(f"CREATE TABLE rows AS {parted_trees.ROWS}")
        yield connection


@pytest.fixture(scope="module")
def source(con: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Seven shards of two groups, and one of the small one."""
    return sharded.shards(con, tmp_path_factory.mktemp("parted") / "s", 80_000)


def whole(con: duckdb.DuckDBPyConnection, **given: Any) -> tuskml.Models:
    """The models of one query."""
    left = {k: v for k, v in given.items() if k not in ("executor", "placement", "finished")}
    return tuskml.train(con, "gbdt", **left | {"source": "rows"})


def by_parts(con: duckdb.DuckDBPyConnection, **given: Any) -> tuskml.Models:
    """The models of groups by parts; a warning is an error."""
    return sharded.by_parts(con, "gbdt", **given)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "more",
    [
        {"objective": "logistic"},
        {"objective": "squared", "label": "n"},
        {"objective": "poisson", "label": "n"},
        {"objective": "gamma", "label": "n + 0.5"},
        {"objective": "tweedie", "label": "n", "power": 1.2},
        {"objective": "huber", "label": "n", "delta": 1.0},
        {"objective": "logistic", "label": "k"},
        {"objective": "logistic", "weight": "1 + i % 3"},
        {"objective": "logistic", "label": "k", "weight": "1 + i % 3", "trees": 5},
        {"features": ["x", "level", "u"], "categorical": [2], "label": "level * 3 + n"},
        {"features": ["level", "z"], "categorical": [1], "label": "n", "max_cat_to_onehot": 20},
        {"features": "[x, z, u]::FLOAT[]", "objective": "logistic"},
        {"label": "n", "monotone": [1, 1, 0], "l1": 0.5, "l2": 2.0},
        {"label": "n", "interaction_constraints": [[1, 3], [2]]},
        {"label": "n", "bounds": [[-0.5, 0.0, 0.5], None, None]},
        {"label": "n", "feature_fraction": 0.5, "seed": 3},
        {"label": "n", "row_fraction": 0.4, "seed": 5},
        {"label": "n", "features": ["x * 0"], "row_fraction": 0.4},
        {"label": "k", "objective": "logistic", "row_fraction": 0.5, "weight": "1 + i % 2"},
        {"features": ["level"], "label": "n % 2", "row_fraction": 0.5},
        {"label": "n", "row_fraction": 1e-9, "trees": 2},
        {"label": "n", "validation": 0.2, "trees": 60, "learning_rate": 0.5},
        {"features": ["x", "i"], "label": "n", "validation": 0.3, "weight": "1 + i % 2"},
        {"features": ["level"], "label": "n % 2", "validation": 0.25, "row_fraction": 0.7},
        {"label": "n", "validation": 0.2, "patience": 1, "learning_rate": 2.0},
        {"label": "n", "max_depth": 3, "num_leaves": 40, "min_child_rows": 5},
        {"label": "n", "num_leaves": 4000, "min_child_rows": 50, "trees": 3},
        {"label": "n", "num_leaves": 2},
        {"label": "7"},
        {"label": "x > 2", "objective": "logistic"},
        {"label": "CASE WHEN i % 5 > 0 THEN n END", "max_bins": 16},
        {"label": "n", "min_child_rows": 100_000},
        {"label": "n + u / 3", "objective": "quantile", "quantile": 0.3, "num_leaves": 6},
        {"label": "n", "objective": "quantile", "quantile": 0.9, "weight": "1 + i % 3"},
        {"label": "n - 2", "objective": "quantile", "row_fraction": 0.5, "validation": 0.2},
        {"objective": "logistic", "goss": True, "learning_rate": 0.5},
        {"label": "n", "objective": "poisson", "goss": True, "learning_rate": 1.0, "trees": 6},
        {"label": "k", "objective": "logistic", "goss": True, "learning_rate": 0.5, "trees": 5},
        {"features": ["level"], "label": "n % 2", "goss": True, "learning_rate": 1.0},
        {"label": "n", "goss": True, "trees": 20, "validation": 0.2, "features": ["x", "i"]},
    ],
)  # fmt: skip
def test_the_trees_are_those_of_rows_in_one_place(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], more: dict[str, Any]
) -> None:
    given = GIVEN | {"source": source} | more
    parted_trees.assert_same_trees(by_parts(con, **given), whole(con, **given))
    assert len({one.unit.pin for one in ran}) > 5, "each part is asked by itself"


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "more",
    [
        {"label": "n", "validation": 0.2},
        {"label": "n", "row_fraction": 0.5, "validation": 0.2},
        {"label": "k", "objective": "logistic", "trees": 4},
    ],
)
def test_trees_go_on_from_those_of_a_model(
    con: duckdb.DuckDBPyConnection, source: str, more: dict[str, Any]
) -> None:
    """As in one place: the trees of before come first. Of rows that are equal in their bins, and
    that these trees tell apart, a part may draw others.
    """
    given = {k: v for k, v in GIVEN.items() if k not in ("executor", "placement", "group_by")}
    before = tuskml.train(con, "gbdt", **given | {"source": "rows"} | more)
    given = GIVEN | {"source": source, "warm_start": before} | more
    found, expected = by_parts(con, **given), whole(con, **given)
    for key, model in parted_trees.large_ones(expected).items():
        assert model is not None
        assert found[key].intercept == model.intercept
        assert len(model.coef) > len(before.coef)
        if "row_fraction" in more:
            assert found[key].loss == pytest.approx(model.loss, rel=0.02)
        else:
            assert found[key].coef == model.coef


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_bits_do_not_depend_on_threads(
    con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    """With labels that are no whole numbers, whose sums depend on the order of the parts."""
    given = GIVEN | {"source": source, "label": "n + u / 3", "weight": "1.1 + z"}
    expected = parted_trees.large_ones(by_parts(con, **given))
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: n)
    sharded.assert_same_bits(parted_trees.large_ones(by_parts(con, **given)), expected)


def test_other_labels_have_the_loss_of_rows_in_one_place(
    con: duckdb.DuckDBPyConnection, source: str
) -> None:
    """Their mean is added in another order, so it may differ in its last digit."""
    given = GIVEN | {"source": source, "label": "n + u / 3", "weight": "1.1 + z"}
    found, expected = by_parts(con, **given), whole(con, **given)
    for key, model in expected.items():
        assert found[key].loss == pytest.approx(model.loss, rel=1e-6)
        assert found[key].intercept == pytest.approx(model.intercept, rel=1e-12)


def test_each_part_stays_and_is_asked_alike(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran]
) -> None:
    """Worker exclusivity, and that all parts of a group divide the same leaves, none alone."""
    by_parts(con, **GIVEN | {"source": source, "label": "n"})
    invariants.assert_worker_exclusivity(ran)
    invariants.assert_asked_alike(ran, groups=2)
    assert not part_rows._held, "rows are freed at the end"


def test_a_tree_takes_few_rounds(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran]
) -> None:
    """Several leaves are divided in one round: far fewer rounds than leaves."""
    given = GIVEN | {"source": source, "label": "n", "trees": 5, "num_leaves": 64}
    found = by_parts(con, **given)
    leaves = sum(sum(node["feature"] is None for node in tree) for tree in nodes_of(found["big"]))
    of_big = [one for one in ran if b'"divide"' in one.unit.payload and "big" in one.unit.name]
    rounds = len(of_big) / len({one.unit.pin for one in of_big})
    assert leaves > 200
    assert 5 <= rounds <= leaves / 3


def nodes_of(model: tuskml.Model | None) -> list[list[dict[str, Any]]]:
    """The nodes of each tree, those of leaves with the feature None."""
    assert model is not None
    sizes = [int(one) for one in model.coef[3 : 3 + int(model.coef[1])]]
    numbers, found = iter(model.coef[3 + len(sizes) :]), []
    for size in sizes:
        tree = []
        for _ in range(size):
            feature, *_rest = (next(numbers) for _ in range(6))
            tree.append({"feature": None if feature < 0 else int(feature)})
        found.append(tree)
    return found


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "more",
    [
        {"label": "n"},
        pytest.param({"label": "k", "objective": "logistic"}, marks=pytest.mark.nightly),
        {"label": "n + u / 3", "objective": "quantile"},
        {"label": "n", "goss": True, "learning_rate": 0.5},
        pytest.param(
            {"label": "k", "objective": "logistic", "goss": True, "learning_rate": 0.5},
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_parts_that_forget_are_told_all(
    con: duckdb.DuckDBPyConnection,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, Any],
) -> None:
    """As on a worker that takes a part over in the middle of a tree."""
    given = GIVEN | {"source": source} | more
    parted_trees.assert_parts_may_forget(monkeypatch, lambda: by_parts(con, **given))


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("more", [{"label": "n"}, {"label": "k", "objective": "logistic"}])
def test_parts_that_forget_between_iterations_draw_anew(
    con: duckdb.DuckDBPyConnection,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, Any],
) -> None:
    """The rows that an iteration drew by their gradients are not those of the next one."""
    given = GIVEN | {"source": source, "goss": True, "learning_rate": 0.5, "trees": 4} | more
    parted_trees.assert_parts_may_forget_before(
        monkeypatch, boosting.BoostingRequests, "loss", lambda: by_parts(con, **given)
    )


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("placement", ["dp", "sp"])
def test_the_baselines_have_the_same_trees(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], placement: str
) -> None:
    given = GIVEN | {"source": source, "label": "n", "placement": placement}
    parted_trees.assert_same_trees(by_parts(con, **given), whole(con, **given))
    assert ran


def test_a_value_that_is_no_level_is_refused(con: duckdb.DuckDBPyConnection, source: str) -> None:
    given = GIVEN | {"source": source, "categorical": [1], "invalid": "error"}
    with pytest.raises(tuskml.ClusterError, match="has a value that is no level"):
        by_parts(con, **given)


def test_a_cancel_ends_leaders_too(
    con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Ran] = []

    def cancel(one: Ran) -> None:
        heard.append(one)
        if len(heard) == 60:
            tuskml.cancel()

    monkeypatch.setattr(leading, "heard", [cancel])
    with pytest.raises(tuskml.Interrupted):
        by_parts(con, **GIVEN | {"source": source, "trees": 500})
    assert not part_rows._held


@pytest.mark.nightly
def test_two_giant_groups_have_room_where_whole_groups_have_none(giants: Any) -> None:
    """GTP needs the rows of a group in memory or on disk, GAP those of a shard at a time."""
    run = giants(300_000, shard_bytes=1_000_000)
    options = {"objective": "logistic", "trees": 1, "num_leaves": 2, "max_bins": 16}
    failed = run("gbdt", "gtp", 22, options)
    assert "2 of 2 groups were not trained: no room for" in failed.answer
    answer = run("gbdt", "gap", 22, options).answer
    assert answer == run("gbdt", "gap", 1000, options).answer
