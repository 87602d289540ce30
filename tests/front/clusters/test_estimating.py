"""What is estimated of a training by group on workers, and what is said after it."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest
import sharded

import tuskml
from research.kingpin.calibrating import Measured, calibrated, line
from tuskml.api.call import parse_task
from tuskml.api.training import resolve
from tuskml.cluster import estimating
from tuskml.cluster import units as cutting
from tuskml.cluster.estimating import Pilot, execution, share_of, train_pilot
from tuskml.cluster.shards.catalogue import catalogue_of
from tuskml.cluster.units import Batch, Units
from tuskml.commands.cli import main
from tuskml.databases.duckdb import DuckDB
from tuskml.groups.execution import choosing
from tuskml.schedule.simulation import Workload, estimates

N_ROWS = 30_000


@pytest.fixture
def con(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    sharded.table(con, N_ROWS)
    return con


def units_of(con: duckdb.DuckDBPyConnection, source: str, options: str = "{}") -> Units:
    """The units of a training."""
    database = DuckDB(con)
    asked = parse_task("logistic", options)
    training = resolve(database, asked, source, "y", ["x", "z"], "g")
    found = catalogue_of(database, training.source.files, training.source.sql, training.keys)
    return Units(database, training, found)


def test_the_pilot_is_a_unit_of_the_training(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    units = units_of(con, sharded.shards(con, tmp_path / "s"))
    pilot = train_pilot(units)
    assert pilot.rows in {batch.rows for _, batch in units.batches.values()}
    assert 0 <= pilot.reading <= pilot.seconds
    assert pilot.coefficients == 2
    assert pilot.passes >= 1


def test_files_that_a_batch_has_for_itself_are_all_its_own(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """Each group lies on both files."""
    units = units_of(con, sharded.shuffled(con, tmp_path / "s"))
    ((_, batch),) = units.batches.values()
    database = DuckDB(con)
    paths = [units.catalogue.shards[place].path for place in batch.shards]
    assert len(paths) == 2
    listed = ", ".join(map(database.text, paths))
    assert share_of(database, listed, batch) == 1
    largest = max(batch.groups, key=lambda group: group.rows)
    assert share_of(database, listed, Batch((largest,))) == largest.rows / N_ROWS


@pytest.mark.nightly
def test_estimates_scale_with_the_workers(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    units = units_of(con, sharded.shards(con, tmp_path / "s"))
    one, many = execution(units, 1, False), execution(units, 8, False)
    assert {found.approach for found in one.estimates} == {"TP", "MTP", "DP", "GAP"}
    assert one.rows == N_ROWS
    computed = {found.approach: found.compute for found in many.estimates}
    assert len({round(seconds, 12) for seconds in computed.values()}) == 1
    seconds = [found.seconds for found in many.estimates]
    assert seconds == sorted(seconds)


def test_a_run_that_is_explained_says_what_it_took(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    given = sharded.GIVEN | {"source": sharded.shards(con, tmp_path / "s"), "executor": "threads"}
    found = tuskml.train(con, "logistic", explain=True, **given)
    assert found.execution is not None
    assert found.execution.seconds > 0
    assert found.execution.groups == len(found)
    text = str(found.execution)
    assert all(name in text for name in ("TP", "MTP", "DP", "GAP", "TP took", "estimated"))
    told = tuskml.train(con, "logistic", **given).execution
    assert told is not None
    assert (told.pilot, told.estimates) == (None, ())
    assert "TP took" in str(told)


@pytest.mark.nightly
def test_the_shell_estimates_without_a_training(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = sharded.shards(con, tmp_path / "s")
    given = ["explain", ":memory:", "--task", "logistic", "--source", source, "--label", "y",
             "--features", "x,z", "--group-by", "g"]  # fmt: skip
    assert main([*given, "--executor", "ray", "--workers", "40"]) == 0
    text = capsys.readouterr().out
    assert "workers: 40" in text
    assert "TP would run, estimated" in text
    assert main([*given, "--workers", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["workers"], found["ran"], found["seconds"]) == (3, "TP", None)
    assert [one["approach"] in found["explanation"] for one in found["estimates"]] == 4 * [True]
    assert all(one["seconds"] > 0 for one in found["estimates"])
    assert main([*given, "--executor", "threads"]) == 0
    assert "GAP" in capsys.readouterr().out
    assert main([*given, "--workers", "0"]) != 0
    assert "--workers is 0, expected 1 or more" in capsys.readouterr().err


def test_costs_come_back_from_runs_that_were_made_with_them() -> None:
    """Units of 0.05 s and 2 us a row; 2 s until a worker works, and 0.5 s per worker of a
    processor."""
    rows = np.array([1_000, 50_000, 200_000, 120_000], np.int64)
    runs = []
    for workers in (1, 2, 3, 4):
        crowd = max(1.0, workers / 2)
        seconds = (0.05 + 2e-6 * rows) * crowd
        first = np.array([True, False, False, False])
        runs.append(Measured(workers, 2, rows, seconds, first, 1.0 + 0.5 * crowd, 0.6, 0.4, 9.0))
    found = calibrated(runs, 10, (1e-4, 1e-3, 1e-9), 5e-7, 50)
    assert found.costs.task == pytest.approx(0.05)
    assert found.costs.row == pytest.approx(1.5e-7)
    assert found.costs.byte == pytest.approx(1e-8)
    assert found.start == pytest.approx(2.0)
    assert found.crowded == pytest.approx(0.5)
    crowded = found.of(4, 2)
    assert crowded.row == pytest.approx(3e-7)
    assert crowded.start == pytest.approx(3.0)
    assert dataclasses.asdict(found.of(2, 2))["start"] == pytest.approx(2.5)


def test_a_line_is_never_negative() -> None:
    assert line([1, 2, 3], [3, 5, 7]) == pytest.approx((1, 2))
    assert line([1, 2], [1, 4])[0] == 0
    assert line([1, 2, 3], [3, 2, 1]) == (2.0, 0.0)
    assert line([2, 2], [1, 3]) == (2.0, 0.0)


PLACED: dict[str, Any] = {"label": "y", "features": ["x", "z"], "group_by": "g", "threads": 1}
SIZES = {
    "TP": "i % 24",  # as many groups as keep all workers busy
    "GAP": "CASE WHEN i % 10 < 7 THEN 0 ELSE 1 + i % 7 END",  # one has most of the rows
    "DP": "0",  # there is one, on all workers
}


@pytest.fixture
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four workers, whose rows take long, and units of few rows."""
    monkeypatch.setattr(cutting, "BATCH_ROWS", 2_500)
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: 4)
    pilot = Pilot(rows=1_000, seconds=1.0, reading=0.0, passes=10, coefficients=2, features=2)
    monkeypatch.setattr(estimating, "train_pilot", lambda units: pilot)


def sized(con: duckdb.DuckDBPyConnection, folder: Path, group: str) -> str:
    con.execute(
        f"""CREATE OR REPLACE TABLE rows AS SELECT {group} AS g, hash(i, 1) % 1000 / 500 - 1 AS x,
        hash(i, 2) % 1000 / 500 - 1 AS z, hash(i, 3) % 1000 / 1000 < 1 / (1 + exp(-x)) AS y
        FROM range(30000) t(i)"""
    )
    return sharded.shards(con, folder, 20_000)


@pytest.mark.sample(1)
@pytest.mark.usefixtures("slow_machine")
@pytest.mark.parametrize("approach", list(SIZES))
def test_each_approach_wins_where_its_groups_are(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, approach: str
) -> None:
    """The models are those of the placement that was chosen, and what it took stands beside.

    Groups that are explained are trained in one place, and equal ones are estimated only then.
    """
    files = sized(con, tmp_path / "s", SIZES[approach])
    given = PLACED | {"source": files, "executor": "threads"}
    found = tuskml.train(con, "logistic", placement="auto", explain=approach == "TP", **given)
    took = found.execution
    assert took is not None
    assert took.seconds is not None
    assert (took.chosen, took.ran) == (approach, approach)
    assert took.estimates[0].approach == approach
    assert f"placement 'auto' takes {approach}" in str(took)
    named = {"TP": "gtp", "GAP": "gap", "DP": "dp"}[approach]
    sharded.assert_same_bits(found, tuskml.train(con, "logistic", placement=named, **given))


@pytest.mark.sample(1)
@pytest.mark.usefixtures("slow_machine")
@pytest.mark.parametrize(
    ("task", "more"),
    [("logistic", {"deterministic": True}), ("gbdt", {"objective": "logistic", "trees": 2})],
)
def test_what_is_explained_runs_as_it_would(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, task: str, more: dict[str, Any]
) -> None:
    """Also of a task whose models have no explanation."""
    files = sized(con, tmp_path / "s", SIZES["GAP"])
    given = PLACED | more | {"source": files, "executor": "threads", "placement": "gap"}
    told, plain = (tuskml.train(con, task, **given, explain=one) for one in (True, False))
    sharded.assert_same_bits(told, plain)
    assert told.execution is not None
    assert (told.execution.ran, len(told.execution.estimates)) == ("GAP", 4)
    assert plain.execution is not None
    ran, expected = told.execution.work, plain.execution.work
    assert ran is not None
    assert expected is not None
    assert (ran.units, ran.parts, ran.groups) == (expected.units, expected.parts, 1)
    options = json.dumps({"cluster": "threads", "explain": True} | more)
    call = f"train('rows', '{task}', 'y', ['x'], '{options}', group_by := 'g')"
    plans = con.execute(f"SELECT model.plan FROM {call}").fetchall()
    assert all("placement 'auto' takes" in plan for (plan,) in plans)


@pytest.mark.sample(1)
@pytest.mark.parametrize("groups", ["i % 24", SIZES["GAP"]])
def test_a_pilot_runs_only_where_it_may_change_the_choice(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str
) -> None:
    """24 equal groups keep four workers busy, and others gain nothing, whatever a row costs."""
    ran = []
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: 4)
    monkeypatch.setattr(
        estimating, "train_pilot", lambda units: ran.append(units) or train_pilot(units)
    )
    given = PLACED | {"source": sized(con, tmp_path / "s", groups), "executor": "threads"}
    found = tuskml.train(con, "logistic", placement="auto", **given)
    assert len(ran) == (groups != "i % 24")
    assert found.execution is not None
    assert (found.execution.pilot is None) == (not ran)
    tuskml.train(con, "logistic", placement="auto", explain=True, **given)
    assert len(ran) == 1 + (groups != "i % 24")


@pytest.mark.parametrize("seed", range(20))
def test_no_approach_gains_more_than_balanced_groups_leave_idle(seed: int) -> None:
    """Whatever rows, reading, passes and exchanges cost."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 100_000, rng.integers(1, 60))
    workers = int(rng.integers(1, 9))
    groups = [SimpleNamespace(rows=int(rows)) for rows in sizes]
    base = estimating.ON_RAY
    costs = dataclasses.replace(
        base, row=10 ** rng.uniform(-9, -5), byte=10 ** rng.uniform(-9, -5)
    )
    model = 10 ** rng.uniform(0, 7)
    work = Workload(sizes, int(rng.integers(1, 13)), int(rng.integers(1, 100)), 1.0, model)
    found = estimates(work, workers, costs)
    seconds = {one.approach: one.seconds for one in found}
    if estimating.is_balanced(groups, workers):
        assert seconds["TP"] <= (1 + estimating.NEGLIGIBLE) * found[0].seconds


@pytest.mark.usefixtures("slow_machine")
def test_steps_that_depend_on_each_other_gain_no_time_by_parts(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    given = PLACED | {"source": sized(con, tmp_path / "s", SIZES["GAP"]), "executor": "threads"}
    by_steps = tuskml.train(con, "logistic", placement="auto", algorithm="sgd", **given)
    assert by_steps.execution is not None
    seconds = {one.approach: one.seconds for one in by_steps.execution.estimates}
    assert by_steps.execution.chosen == "TP"
    assert seconds["TP"] <= seconds["GAP"] < seconds["DP"]


@pytest.mark.usefixtures("slow_machine")
@pytest.mark.parametrize(
    ("task", "more"),
    [("elastic_net", {"lambda": 0.1, "unpenalized": [1]}), ("random_forest", {"trees": 2})],
)
def test_what_cannot_be_cut_is_not_chosen(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, task: str, more: dict[str, Any]
) -> None:
    """The branches of forests can, but they grow one after the other."""
    given = PLACED | {"source": sized(con, tmp_path / "s", SIZES["DP"]), "executor": "threads"}
    found = tuskml.train(con, task, placement="auto", **given | more)
    assert found.execution is not None
    assert (found.execution.chosen, found.execution.ran) == ("TP", "TP")


@pytest.mark.usefixtures("slow_machine")
def test_a_choice_by_seconds_is_not_deterministic(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    given = PLACED | {"source": sized(con, tmp_path / "s", "i % 3"), "executor": "threads"}
    with pytest.raises(tuskml.OptionError, match="'deterministic' is given: expected one of"):
        tuskml.train(con, "logistic", placement="auto", deterministic=True, **given)
