"""Searches over groups on several shards: candidates are trained and judged by parts."""

import json
import time
import warnings
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sharded

import tuskml
from tuskml.cluster import units
from tuskml.cluster.parts import groups
from tuskml.groups.execution import choosing
from tuskml.groups.execution.executor import Outcome, Unit
from tuskml.groups.execution.leading import Ran
from tuskml.groups.selection import parted
from tuskml.learners.trees.learner import TreesByParts

GIVEN: dict[str, Any] = sharded.GIVEN | {"executor": "threads", "placement": "gap"}
NAMED = ["x", "z", "CASE WHEN x > 0.5 THEN 'high' ELSE 'low' || (x * 500)::INT % 3 END"]
COUNT = "CASE WHEN hash(x) % 9 = 0 THEN -1 ELSE hash(x) % 4 END"
"""Some of these are no counts."""
THREE = "CASE WHEN x > 0.3 THEN 2 WHEN z > x THEN 1 ELSE 0 END"
LINE = "2 * x - z + hash(x) % 10 / 10"


def by_parts(con: duckdb.DuckDBPyConnection, task: str, **given: Any) -> tuskml.Models:
    """The models of groups by parts; a warning is an error."""
    return sharded.by_parts(con, task, **GIVEN | given)


def trials(model: Any) -> dict[str, Any]:
    """What became of its candidates."""
    found = model.trials
    return json.loads(found) if isinstance(found, str) else found  # type: ignore[no-any-return]


def judged(model: Any) -> list[list[Any]]:
    """The metric and the iterations of each candidate on each fold."""
    return [
        [(fold["metric"], fold["iterations"]) for fold in one["folds"]]
        for one in trials(model)["trials"]
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("logistic", {"l2": [0.001, 0.1, 10.0], "folds": 3}),
        ("logistic", {"l2": [0.001, 1.0], "folds": 4, "weight": "1 + abs(x)"}),
        ("logistic", {"l2": [0.001, 5.0], "folds": 3, "metric": "accuracy"}),
        ("linear", {"l2": [0.001, 1.0], "folds": 3, "label": LINE}),
        ("linear", {"l2": [0.001, 1.0], "folds": 2, "label": LINE, "metric": "mae"}),
        ("linear", {"l2": [0.001, 1.0], "folds": 2, "label": LINE, "metric": "r2",
                    "weight": "1 + abs(x)"}),
        ("logistic", {"l2": [0.001, 5.0], "folds": 2, "metric": "auc", "weight": "1 + abs(x)"}),
        ("logistic", {"l2": [0.001, 5.0], "folds": 2, "metric": "average_precision"}),
        ("logistic", {"l2": [0.001, 0.5], "folds": 2, "metric": "f1_score"}),
        ("logistic", {"l2": [0.001, 0.5], "folds": 2, "metric": "f1_score", "label": THREE}),
        ("logistic", {"l2": [0.001, 0.5], "folds": 2, "metric": "precision_score",
                      "weight": "1 + abs(x)"}),
        ("poisson", {"l2": [0.001, 1.0], "folds": 3}),
        ("linear", {"l2": [0.001, 1.0], "folds": 3, "label": LINE, "features": NAMED}),
        ("logistic", {"l2": [0.01, 0.1, 1.0, 10.0], "folds": 2,
                      "search": {"strategy": "random", "trials": 3}}),
        ("poisson", {"l2": [0.001, 1.0], "folds": 3, "label": COUNT, "invalid": "skip"}),
        ("auto", {"tasks": ["linear", {"task": "poisson", "l2": [0.001, 1.0]}], "folds": 3,
                  "label": COUNT, "metric": "mae", "invalid": "skip"}),
    ],
    ids=["folds", "weights", "accuracy", "rmse", "mae", "r2", "auc", "average precision", "f1",
         "f1 of three", "precision", "poisson", "named", "random", "invalid",
         "tasks"],
)  # fmt: skip
def test_the_winner_and_the_metrics_are_those_of_rows_in_one_place(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], task: str, more: dict[str, Any]
) -> None:
    """Rows are in the folds that they have in one place, and the winner is trained on all rows."""
    found = by_parts(con, task, source=source, **more)
    same = tuskml.train(con, task, source="rows", **sharded.GIVEN | more)
    assert len({one.unit.name for one in ran}) > 1
    for key, model in found.items():
        other = same[key]
        assert model is not None
        assert other is not None
        its, expected = trials(model), trials(other)
        assert its["chosen"] == expected["chosen"]
        assert model.coef == pytest.approx(other.coef, rel=1e-3, abs=1e-4)
        assert (model.n_rows, model.n_skipped) == (other.n_rows, other.n_skipped)
        for one, same_one in zip(its["trials"], expected["trials"], strict=True):
            assert one["configuration"] == same_one["configuration"]
            assert one["metric"] == pytest.approx(same_one["metric"], rel=1e-4)
            there = [fold["metric"] for fold in same_one["folds"]]
            assert [fold["metric"] for fold in one["folds"]] == pytest.approx(there, rel=1e-4)
            assert all(fold["status"] == "ok" for fold in one["folds"])


@pytest.mark.sample(1)
@pytest.mark.parametrize("search", [{"strategy": "halving"}, {"strategy": "tpe", "trials": 5}])
def test_a_strategy_tries_what_it_tries_in_one_place(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], search: dict[str, Any]
) -> None:
    """The metric of a strong penalty is far from others, so that digits choose nothing."""
    grid = {"l2": [0.001, 0.01, 0.1, 1.0, 10.0, 30.0, 100.0, 300.0], "folds": 3}
    more = grid | {"search": search, "seed": 3, "metric": "brier"}
    found = by_parts(con, "logistic", source=source, **more)
    same = tuskml.train(con, "logistic", source="rows", **sharded.GIVEN | more)
    assert len({one.unit.name for one in ran}) > 1
    for key, model in found.items():
        its, expected = trials(model)["trials"], trials(same[key])["trials"]
        assert [one["configuration"] for one in its] == [one["configuration"] for one in expected]
        told = [[fold["status"] for fold in one["folds"]] for one in its]
        assert told == [[fold["status"] for fold in one["folds"]] for one in expected]
        for one, other in zip(its, expected, strict=True):
            assert one["metric"] == pytest.approx(other["metric"], rel=1e-4)


def test_a_metric_that_does_not_take_the_labels_compares_nothing(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran]
) -> None:
    """No group fails by parts: its model is that of rows in one place."""
    more = {"l2": [0.001, 1.0], "folds": 2, "label": LINE, "metric": "poisson_deviance"}
    found = by_parts(con, "linear", source=source, **more)
    same = tuskml.train(con, "linear", source="rows", **sharded.GIVEN | more)
    assert len({one.unit.name for one in ran}) > 1
    for key, model in found.items():
        other = same[key]
        assert model is not None
        assert other is not None
        assert (model.status, other.status) == ("not compared", "not compared")
        assert model.coef == pytest.approx(other.coef, rel=1e-3, abs=1e-4)
        assert trials(model)["chosen"] is None
        told = [fold["status"] for one in trials(model)["trials"] for fold in one["folds"]]
        assert all(text.startswith("no metric: ") for text in told)


@pytest.mark.nightly
def test_a_trial_is_judged_by_rows_that_it_has_not_seen(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """A net learns labels by chance by heart; its metric is that of chance all the same."""
    for n in range(2):
        con.execute(
            f"""COPY (SELECT 1 AS g, hash(i, 7) % 2 AS y, [hash(i, k) % 1000 / 500 - 1
            FOR k IN range(12)] AS x FROM range({n} * 300, {n + 1} * 300) t(i))
            TO '{tmp_path}/{n}.parquet' (FORMAT parquet)"""
        )
    units.BATCH_ROWS = 100
    given = {"source": f"{tmp_path}/*.parquet", "features": "x", "layers": [[64], [32]]}
    with warnings.catch_warnings():
        warnings.simplefilter("error", tuskml.ClusterWarning)
        options = (
            GIVEN
            | given
            | {"objective": "logistic", "max_iter": 80, "learning_rate": 0.03, "folds": 3}
        )
        del options["deterministic"]
        model = tuskml.train(con, "mlp", **options, metric="accuracy")[1]
    assert model is not None
    assert model.loss < 0.35
    assert all(0.35 < one["metric"] < 0.65 for one in trials(model)["trials"])


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("n", [2, 4])
def test_the_bits_are_those_of_one_worker(
    con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    given = {"source": source, "l2": [0.001, 0.1], "folds": 2}
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: 1)
    expected = by_parts(con, "logistic", **given)
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: n)
    found = by_parts(con, "logistic", **given)
    sharded.assert_same_bits(found, expected)
    for key, model in found.items():
        metrics = [one["metric"] for one in trials(model)["trials"]]
        assert metrics == [one["metric"] for one in trials(expected[key])["trials"]]


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "more", [{}, {"weight": "1 + abs(x)"}, {"class_weight": "balanced", "algorithm": "bgd"}]
)
def test_sums_of_several_configurations_travel_together(
    con: duckdb.DuckDBPyConnection,
    source: str,
    ran: list[Ran],
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, Any],
) -> None:
    """The bits are those of configurations one at a time, and messages are far fewer."""
    given = {"source": source, "l2": [0.001, 0.01, 0.1, 1.0], "folds": 2, "max_iter": 8} | more
    found = by_parts(con, "logistic", **given)
    together = len(ran)
    monkeypatch.setattr(groups, "AT_ONCE", 1)
    ran.clear()
    expected = by_parts(con, "logistic", **given)
    sharded.assert_same_bits(found, expected)
    for key, model in found.items():
        assert judged(model) == judged(expected[key])
    assert together < len(ran) / 2


def test_an_error_of_one_configuration_ends_the_group_alone(
    con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others do not wait for ever for the one that failed."""
    trained = parted.train_by_parts

    def fails(parts: Any, request: Any) -> Any:
        if request.options.l2 == 0.1 and parts.n_rows < 15_000:
            raise ValueError("no luck")
        return trained(parts, request)

    monkeypatch.setattr(parted, "train_by_parts", fails)
    with pytest.raises(tuskml.ClusterError, match="no luck") as failed:
        by_parts(con, "logistic", source=source, l2=[0.001, 0.1, 1.0], folds=2)
    assert len(failed.value.models) > 0


@pytest.mark.nightly
def test_configurations_of_a_net_hop_at_the_same_time(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one of them is at a shard, another one is at another shard of the same group."""
    attempt = choosing.attempt

    def taking_long(work: str, unit: Unit) -> Outcome:
        outcome = attempt(work, unit)
        if b'"method": "net_steps"' in unit.payload:
            time.sleep(0.05)  # a step takes 0.4 ms, in which another one need not begin
        return outcome

    monkeypatch.setattr(choosing, "attempt", taking_long)
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: 2)
    given = {key: value for key, value in GIVEN.items() if key != "deterministic"}
    rates = {"learning_rate": [0.001, 0.01, 0.1], "folds": 2}
    tuskml.train(con, "mlp", source=source, objective="logistic", max_iter=4, **given, **rates)
    steps = [one for one in ran if b'"method": "net_steps"' in one.unit.payload]
    together = [
        (a, b)
        for a in steps
        for b in steps
        if a.unit.name == b.unit.name and a.unit.pin != b.unit.pin and a.begin < b.begin < a.end
    ]
    assert together


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("gbdt", {"objective": "logistic", "learning_rate": [0.1, 1.0], "num_leaves": 6}),
        ("random_forest", {"objective": "gini", "max_depth": [3, 5]}),
    ],
)
def test_trees_of_a_search_do_not_mix(
    con: duckdb.DuckDBPyConnection,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    task: str,
    more: dict[str, Any],
) -> None:
    """A part keeps the state of one training: that of the message before, if several are led."""
    given: dict[str, Any] = {"source": source, "trees": 2, "folds": 2}
    given |= {"executor": "threads", "placement": "gap"} | more
    given |= {key: sharded.GIVEN[key] for key in ("label", "features", "group_by")}

    def found() -> list[tuple[Any, ...]]:
        models = [one for one in tuskml.train(con, task, **given).values() if one is not None]
        tried = [trials(one)["trials"] for one in models]
        return [
            (one.coef, [each["metric"] for each in its])
            for one, its in zip(models, tried, strict=True)
        ]

    expected = found()
    monkeypatch.setattr(groups, "AT_ONCE", 1)
    assert found() == expected
    monkeypatch.setattr(groups, "AT_ONCE", 6)
    monkeypatch.setattr(TreesByParts, "keeps", False)
    assert found() == expected


@pytest.mark.parametrize(
    ("task", "more", "n_rows"),
    [
        ("auto", {"tasks": [{"task": "gbdt", "trees": 2}, "linear"]}, 960),
        ("auto", {"tasks": ["linear", {"task": "gbdt", "trees": 2}]}, 960),
        ("gbdt", {"trees": [1, 2]}, 1_200),
        ("gbdt", {"trees": 2, "missing": ["keep", "impute"]}, 1_200),
    ],
    ids=["trees first", "trees last", "trees", "missing"],
)
def test_rows_with_a_gap_are_those_of_rows_in_one_place(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, task: str, more: dict[str, Any], n_rows: int
) -> None:
    con.execute(
        """CREATE OR REPLACE TEMP TABLE gaps AS SELECT 1 AS g, i, hash(i, 2) % 1000 / 500 AS z,
        CASE WHEN i % 5 > 0 THEN hash(i, 1) % 1000 / 500 END AS x, coalesce(x, 1) + 2 * z AS y
        FROM range(1200) t(i)"""
    )
    for n in range(2):
        to = f"'{tmp_path}/{n}.parquet' (FORMAT parquet)"
        con.execute(f"COPY (SELECT * FROM gaps WHERE i % 2 = {n}) TO {to}")
    units.BATCH_ROWS = 100
    given: dict[str, Any] = {"label": "y", "features": ["x", "z"], "group_by": "g", "folds": 2}
    given |= more
    parts = given | {"executor": "threads", "placement": "gap"}
    found = tuskml.train(con, task, source=f"{tmp_path}/*.parquet", **parts)[1]
    expected = tuskml.train(con, task, source="gaps", **given)[1]
    assert found is not None
    assert expected is not None
    assert (found.n_rows, expected.n_rows) == (n_rows, n_rows)
    assert found.task == expected.task
    metrics = [[each["metric"] for each in trials(one)["trials"]] for one in (found, expected)]
    assert metrics[0] == pytest.approx(metrics[1], rel=0.1)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("task", "more", "sentence"),
    [
        ("logistic", {"search": {"strategy": "halving"}}, "'halving' .* fewer than 3 folds needs"),
        ("logistic", {"fold_by": "z"}, "option 'fold_by' needs all rows"),
        ("logistic", {"validation": 0.2, "folds": None}, "option 'validation' of a search needs"),
        ("logistic", {"algorithm": "svrg"}, "algorithm 'svrg' needs all rows"),
    ],
)
def test_what_needs_all_rows_is_searched_on_one_worker(
    con: duckdb.DuckDBPyConnection, source: str, task: str, more: dict[str, Any], sentence: str
) -> None:
    given = GIVEN | {"l2": [0.01, 0.1, 1.0], "folds": 2} | more
    given = {name: value for name, value in given.items() if value is not None}
    with pytest.warns(tuskml.ClusterWarning, match=sentence):
        tuskml.train(con, task, source=source, **given)
