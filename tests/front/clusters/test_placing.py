"""Placement 'auto': the approach that the cost model estimates to take least."""

from pathlib import Path
from typing import Any

import duckdb
import pytest
import sharded

import tuskml
from tuskml.groups.execution import threads
from tuskml.training import estimating, units
from tuskml.training.estimating import Pilot

GIVEN: dict[str, Any] = {"label": "y", "features": ["x", "z"], "group_by": "g", "threads": 1}
SIZES = {
    "TP": "i % 24",  # as many groups as keep all workers busy
    "GAP": "CASE WHEN i % 10 < 7 THEN 0 ELSE 1 + i % 7 END",  # one has most of the rows
    "DP": "0",  # there is one, on all workers
}


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four workers, whose rows take long, and units of few rows."""
    monkeypatch.setattr(units, "BATCH_ROWS", 5_000)
    monkeypatch.setattr(threads.budget, "threads", lambda asked=None: 4)
    pilot = Pilot(rows=1_000, seconds=1.0, reading=0.0, passes=10, coefficients=2)
    monkeypatch.setattr(estimating, "piloted", lambda units: pilot)


@pytest.fixture
def con() -> Any:
    with tuskml.connect() as connection:
        yield connection


def source(con: duckdb.DuckDBPyConnection, folder: Path, group: str) -> str:
    con.execute(
        f"""CREATE TABLE rows AS SELECT {group} AS g, hash(i, 1) % 1000 / 500 - 1 AS x,
        hash(i, 2) % 1000 / 500 - 1 AS z, hash(i, 3) % 1000 / 1000 < 1 / (1 + exp(-x)) AS y
        FROM range(60000) t(i)"""
    )
    return sharded.shards(con, folder, 40_000)


@pytest.mark.parametrize("approach", list(SIZES))
def test_each_approach_wins_where_its_groups_are(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, approach: str
) -> None:
    """The models are those of the placement that was chosen, and what it took stands beside."""
    files = source(con, tmp_path / "s", SIZES[approach])
    given = GIVEN | {"source": files, "executor": "threads"}
    found = tuskml.train(con, "logistic", placement="auto", **given)
    took = found.execution
    assert took is not None
    assert took.seconds is not None
    assert (took.chosen, took.ran) == (approach, approach)
    assert took.estimates[0].approach == approach
    assert f"placement 'auto' takes {approach}" in str(took)
    named = {"TP": "gtp", "GAP": "gap", "DP": "dp"}[approach]
    sharded.assert_same_bits(found, tuskml.train(con, "logistic", placement=named, **given))


def test_steps_that_depend_on_each_other_gain_no_time_by_parts(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    given = GIVEN | {"source": source(con, tmp_path / "s", SIZES["GAP"]), "executor": "threads"}
    by_steps = tuskml.train(con, "logistic", placement="auto", algorithm="sgd", **given)
    assert by_steps.execution is not None
    seconds = {one.approach: one.seconds for one in by_steps.execution.estimates}
    assert by_steps.execution.chosen == "TP"
    assert seconds["TP"] <= seconds["GAP"] < seconds["DP"]


def test_what_cannot_be_cut_is_not_chosen(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    given = GIVEN | {"source": source(con, tmp_path / "s", SIZES["DP"]), "executor": "threads"}
    found = tuskml.train(con, "gbdt", placement="auto", trees=2, **given)
    assert found.execution is not None
    assert (found.execution.chosen, found.execution.ran) == ("TP", "TP")


def test_a_choice_by_seconds_is_not_deterministic(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    given = GIVEN | {"source": source(con, tmp_path / "s", "i % 3"), "executor": "threads"}
    with pytest.raises(tuskml.OptionError, match="'deterministic' is given: expected one of"):
        tuskml.train(con, "logistic", placement="auto", deterministic=True, **given)
