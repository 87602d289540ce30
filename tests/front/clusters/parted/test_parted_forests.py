"""Random forests of groups on several shards: the trees of rows in one place, node by node."""

import json
from collections import Counter
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
from tuskml.kernels.parts import dealing
from tuskml.kernels.parts.message import header_of
from tuskml.kernels.trees.parted import bagging
from tuskml.learners.learner import Request
from tuskml.learners.registry import learner_of
from tuskml.learners.trees.learner import FORESTS
from tuskml.learners.trees.options import FOREST_OPTIONS

GIVEN: dict[str, Any] = {
    "label": "n",
    "features": ["x", "z", "u"],
    "group_by": "g",
    "executor": "threads",
    "placement": "gap",
    "trees": 3,
}
SMALL = 20_000
"""Bytes of a branch, some 1,000 rows, so that trees have several."""


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect() as connection:
        connection.execute(f"CREATE TABLE rows AS {parted_trees.ROWS}")
        yield connection


@pytest.fixture(scope="module")
def source(con: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Seven shards of two groups, and one of the small one."""
    return sharded.shards(con, tmp_path_factory.mktemp("parted") / "s", 80_000)


@pytest.fixture
def small_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bagging, "BRANCH_BYTES", SMALL)


def whole(con: duckdb.DuckDBPyConnection, **given: Any) -> tuskml.Models:
    """The models of one query."""
    left = {k: v for k, v in given.items() if k not in ("executor", "placement")}
    return tuskml.train(con, "random_forest", **left | {"source": "rows"})


def by_parts(con: duckdb.DuckDBPyConnection, **given: Any) -> tuskml.Models:
    """The models of groups by parts; a warning is an error."""
    return sharded.by_parts(con, "random_forest", **given)


def asked_of(ran: list[Ran]) -> Counter[str]:
    """How often the parts of the largest group were asked for what, by what it is."""
    found: Counter[str] = Counter()
    for one in ran:
        if "big" in one.unit.name and b'"bagged_tree"' in one.unit.payload:
            begin = one.unit.payload.index(b'{"method"') - 8
            found[header_of(one.unit.payload[begin:])["given"]["do"]] += 1
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"objective": "gini", "label": "y"},
        {"objective": "gini", "label": "k", "weight": "1 + i % 3", "trees": 2},
        {"weight": "1 + i % 3", "max_depth": 6},
        {"features": ["x", "level", "u"], "categorical": [2], "label": "level * 3 + n"},
        {"features": ["level", "z"], "categorical": [1], "max_cat_to_onehot": 20, "cat_l2": 3.0},
        {"features": "[x, z, u]::FLOAT[]", "objective": "gini", "label": "y"},
        {"row_fraction": 0.3, "feature_fraction": 1.0, "seed": 5},
        {"row_fraction": 1e-9, "trees": 2},
        {"features": ["level"], "label": "n % 2"},
        {"min_child_rows": 20, "feature_fraction": 0.7},
        {"features": ["x", "z"], "monotone": [1, -1]},
        {"label": "CASE WHEN i % 5 > 0 THEN n END", "max_bins": 16},
    ],
)
def test_the_trees_are_those_of_rows_in_one_place(
    con: duckdb.DuckDBPyConnection,
    source: str,
    ran: list[Ran],
    small_branches: None,
    more: dict[str, Any],
) -> None:
    """Some splits by sums over parts, and branches by their rows."""
    given = GIVEN | {"source": source} | more
    parted_trees.assert_same_trees(by_parts(con, **given), whole(con, **given))
    assert len({one.unit.pin for one in ran}) > 5, "each part is asked by itself"
    asked = asked_of(ran)
    if "row_fraction" not in more:
        assert asked["divide"] > 0, "a tree has splits by sums"
    assert asked["rows"] > 0 or more.get("row_fraction") == 1e-9


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "more",
    [
        {"num_leaves": 31, "feature_fraction": 0.5},
        {"num_leaves": 31, "objective": "gini", "label": "k", "row_fraction": 0.5},
        {"num_leaves": 2},
        {"label": "7", "trees": 2},
        {"label": "x > 2", "objective": "gini", "trees": 2},
        {"min_child_rows": 100_000},
    ],
)
def test_leaves_that_are_limited_are_split_by_sums_alone(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], more: dict[str, Any]
) -> None:
    given = GIVEN | {"source": source} | more
    parted_trees.assert_same_trees(by_parts(con, **given), whole(con, **given))
    asked = asked_of(ran)
    assert asked["begin"] > 0
    if "num_leaves" in more:
        assert not asked["rows"]
        assert (asked["divide"] > 0) == (more["num_leaves"] > 2)


def test_keys_of_many_rows_are_sent_in_slices(
    con: duckdb.DuckDBPyConnection,
    source: str,
    ran: list[Ran],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With rows that are equal to others, in the same part and in another one."""
    for module in (bagging, dealing):
        monkeypatch.setattr(module, "TOGETHER", 3_000)
    given = GIVEN | {"source": source, "features": ["level", "z"]}
    parted_trees.assert_same_trees(by_parts(con, **given), whole(con, **given))
    parts = len({one.unit.pin for one in ran if "big" in one.unit.name})
    assert asked_of(ran)["sorted"] == 8 * parts


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_bits_do_not_depend_on_workers(
    con: duckdb.DuckDBPyConnection,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    small_branches: None,
    n: int,
) -> None:
    """With labels that are no whole numbers, whose sums depend on the order of the parts."""
    given = GIVEN | {"source": source, "label": "n + u / 3", "weight": "1.1 + z", "trees": 2}
    expected = parted_trees.large_ones(by_parts(con, **given))
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: n)
    sharded.assert_same_bits(parted_trees.large_ones(by_parts(con, **given)), expected)


@pytest.mark.nightly
def test_other_labels_have_the_loss_of_rows_in_one_place(
    con: duckdb.DuckDBPyConnection, source: str
) -> None:
    """Their mean is added in another order, so it may differ in its last digit."""
    given = GIVEN | {"source": source, "label": "n + u / 3", "weight": "1.1 + z", "trees": 10}
    found, expected = by_parts(con, **given), whole(con, **given)
    for key, model in expected.items():
        assert found[key].loss == pytest.approx(model.loss, rel=1e-3)
        assert found[key].intercept == pytest.approx(model.intercept, rel=1e-12)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "more", [{}, {"label": "k", "objective": "gini", "trees": 1}, {"num_leaves": 40, "trees": 5}]
)
def test_parts_that_forget_get_all_again(
    con: duckdb.DuckDBPyConnection,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    small_branches: None,
    more: dict[str, Any],
) -> None:
    """As on a worker that takes a part over in the middle of a tree."""
    given = GIVEN | {"source": source} | more
    parted_trees.assert_parts_may_forget(monkeypatch, lambda: by_parts(con, **given))


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "when",
    [
        "draw",
        "loss",
        *(pytest.param(one, marks=pytest.mark.nightly) for one in ("start", "grown")),
    ],
)
def test_parts_that_forget_between_steps_draw_the_same_rows(
    con: duckdb.DuckDBPyConnection,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    small_branches: None,
    when: str,
) -> None:
    given = GIVEN | {"source": source, "label": "k", "objective": "gini", "trees": 2}
    parted_trees.assert_parts_may_forget_before(
        monkeypatch, bagging.BaggingRequests, when, lambda: by_parts(con, **given)
    )


@pytest.mark.nightly
def test_each_part_stays_and_is_asked_alike(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], small_branches: None
) -> None:
    """Worker exclusivity, and that all parts of a group make the same splits, none alone."""
    by_parts(con, **GIVEN | {"source": source})
    invariants.assert_worker_exclusivity(ran)
    invariants.assert_asked_alike(ran, groups=2)
    assert not part_rows._held, "rows are freed at the end"


@pytest.mark.sample(1)
@pytest.mark.parametrize("placement", ["dp", "sp"])
def test_the_baselines_have_the_same_trees(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], placement: str
) -> None:
    given = GIVEN | {"source": source, "placement": placement}
    parted_trees.assert_same_trees(by_parts(con, **given), whole(con, **given))
    assert ran


def test_a_value_that_is_no_level_is_refused(con: duckdb.DuckDBPyConnection, source: str) -> None:
    with pytest.raises(tuskml.ClusterError, match="has a value that is no level"):
        by_parts(con, **GIVEN | {"source": source, "categorical": [1], "invalid": "error"})


@pytest.mark.nightly
def test_a_cancel_ends_leaders_too(
    con: duckdb.DuckDBPyConnection,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    small_branches: None,
) -> None:
    heard: list[Ran] = []

    def cancel(one: Ran) -> None:
        heard.append(one)
        if len(heard) == 200:
            tuskml.cancel()

    monkeypatch.setattr(leading, "heard", [cancel])
    with pytest.raises(tuskml.Interrupted):
        by_parts(con, **GIVEN | {"source": source, "trees": 500})
    assert not part_rows._held


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "more", [{}, {"objective": "gini", "label": "y"}, {"num_leaves": 31, "feature_fraction": 1.0}]
)
def test_what_parts_exchange_is_at_most_what_is_estimated(
    con: duckdb.DuckDBPyConnection,
    source: str,
    ran: list[Ran],
    small_branches: None,
    more: dict[str, Any],
) -> None:
    given = GIVEN | {"source": source} | more
    by_parts(con, **given)
    asked = asked_of(ran)
    parts = len({one.unit.pin for one in ran if "big" in one.unit.name})
    rounds = sum(asked[do] for do in ("begin", "divide", "rows", "losses")) / parts
    options = {k: v for k, v in (GIVEN | more).items() if k in FOREST_OPTIONS.by_name}
    request = Request(FORESTS["random_forest"], FOREST_OPTIONS.parse(json.dumps(options)))
    estimated, _ = learner_of(request.task).by_parts.exchanges(request, 3, 1, 3, 12_000)
    assert rounds <= estimated <= 4 * rounds


@pytest.mark.nightly
def test_two_giant_groups_have_room_where_whole_groups_have_none(giants: Any) -> None:
    """GTP needs the rows of a group in memory or on disk, GAP those of a shard at a time."""
    run = giants(800_000)
    options = {"objective": "gini", "trees": 1, "max_depth": 2, "max_bins": 16}
    failed = run("random_forest", "gtp", 43, options)
    assert "2 of 2 groups were not trained: no" in failed.answer
    answer = run("random_forest", "gap", 43, options).answer
    assert answer == run("random_forest", "gap", 1000, options).answer
    assert "not trained" not in answer
