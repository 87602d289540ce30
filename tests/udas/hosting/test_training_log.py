"""Lines of JSON about trainings: what they say, when, and that there are none by default."""

import json
import logging
import os
import subprocess
import sys

import pytest

import tuskml
from tuskml.groups import records
from tuskml.learners import events

PROGRAM = """
import tuskml
db = tuskml.connect()
db.execute("SET enable_progress_bar = false")
db.execute("CREATE TABLE r AS SELECT i % 3 AS g, sin(i) AS y, [cos(i), cos(7 * i)] AS x FROM range(300) t(i)")
db.execute("SELECT g, train_model('linear', y, x) FROM r GROUP BY g").fetchall()
db.execute("SELECT train_model('gbdt', y, x, '{\\"trees\\": 2}') FROM r WHERE g = 0").fetchall()
try:
    db.execute("SELECT train_model('linear', y, x, '{\\"max_iter\\": -1}') FROM r").fetchall()
except Exception:
    pass
"""  # noqa: E501


def lines(level: str | None) -> list[dict]:
    """What a program writes whose environment has this level."""
    given = {k: v for k, v in os.environ.items() if k != records.VARIABLE}
    if level is not None:
        given[records.VARIABLE] = level
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, env=given, check=True)
    assert not done.stdout
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_each_training_is_a_line_on_standard_error():
    linear, trees, failed = lines("info")
    assert [linear["task"], linear["groups"], linear["rows"]] == ["linear", 3, 300]
    assert [trees["task"], trees["groups"], trees["rows"]] == ["gbdt", 1, 100]
    assert linear["statuses"] == {"ok": 3}
    assert sum(linear["plans"].values()) == 3
    assert "gbdt" in next(iter(trees["plans"])) or "tree" in next(iter(trees["plans"]))
    assert set(linear["seconds"]) == {"reading", "planning", "training", "emitting"}
    assert all(seconds >= 0 for seconds in linear["seconds"].values())
    assert linear["seconds"]["planning"] > 0
    assert linear["seconds"]["emitting"] > 0
    assert linear["statement"] < trees["statement"]
    assert linear["database"] == "duckdb"
    assert failed["event"] == "training failed"
    assert failed["level"] == "error"
    assert "max_iter" in failed["error"]


@pytest.mark.nightly
def test_at_level_error_only_failures_are():
    assert [line["event"] for line in lines("error")] == ["training failed"]


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("level", [None, "off"])
def test_nothing_is_logged_by_default(level):
    assert lines(level) == []


def test_programs_choose_the_level_by_pythons_logging(caplog):
    logger = logging.getLogger("tuskml.training")
    before = logger.level
    try:
        logger.setLevel(logging.INFO)
        database = tuskml.connect()
        query = "SELECT train_model('linear', i, [sin(i)]) FROM range(9) t(i)"
        database.execute(query).fetchall()
        logger.setLevel(before)
        database.execute(query).fetchall()
    finally:
        logger.setLevel(before)
    (record,) = [one for one in caplog.records if one.name == "tuskml.training"]
    assert json.loads(record.getMessage())["rows"] == 9


def test_an_unknown_level_is_an_error(monkeypatch):
    monkeypatch.setenv(records.VARIABLE, "loud")
    with pytest.raises(tuskml.OptionError, match="TUSKML_LOG_LEVEL is 'loud', expected off, erro"):
        records.to_standard_error()


def test_a_phase_within_another_counts_once():
    seconds: dict[str, float] = {}
    inner = events.is_phase("planning")(lambda: sum(range(1000)))
    with events.measure_phases(seconds), events.phase("planning"):
        inner()
        with events.phase("emitting"):
            pass
    inner()
    assert list(seconds) == ["planning"]
