"""What is estimated of a training by group on workers, and what is said after it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import sharded

import tuskml
from tuskml.commands.cli import main
from tuskml.databases.duckdb import DuckDB
from tuskml.schedule.simulation.calibrating import Measured, calibrated, line
from tuskml.shards.catalogue import catalogue_of
from tuskml.training.asked import asked_for
from tuskml.training.estimating import execution, piloted, share_of
from tuskml.training.training import resolve
from tuskml.training.units import Batch, Units

N_ROWS = 30_000


@pytest.fixture
def con() -> Any:
    with tuskml.connect() as connection:
        sharded.table(connection, N_ROWS)
        yield connection


def units_of(con: duckdb.DuckDBPyConnection, source: str, options: str = "{}") -> Units:
    """The units of a training."""
    database = DuckDB(con)
    asked = asked_for("logistic", options)
    training = resolve(database, asked, source, "y", ["x", "z"], "g")
    found = catalogue_of(database, training.source.files, training.source.sql, training.keys)
    return Units(database, training, found)


def test_the_pilot_is_a_unit_of_the_training(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    units = units_of(con, sharded.shards(con, tmp_path / "s"))
    pilot = piloted(units)
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
    assert tuskml.train(con, "logistic", **given).execution is None


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
