"""Searches that end early: by a time limit, a cancelled statement, or trials that fail."""

# ruff: noqa: E501, SQL is read better on one line

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from tuskml.groups.selection.folds import Preparation
from tuskml.groups.selection.searching import Running

ROWS = "CREATE TABLE t AS SELECT i % 4 AS g, 1.0 * (i % 17) AS a, 1.0 * (i * 7 % 23) AS b, (i * 31 % 17) > i % 9 AS y FROM {series} AS r(i)"


@pytest.fixture
def ask(session: tuple[str, Any]) -> Any:
    """Runs SQL on a table of four groups, in which {x} stands for the features."""
    name, connection = session
    series = "range(240)" if name == "duck" else "generate_series(0, 239)"
    connection.execute(ROWS.format(series=series))
    features = "[a, b]" if name == "duck" else "ARRAY[a, b]::float8[]"
    return lambda sql: connection.execute(sql.replace("{x}", features)).fetchall()


def searched(ask: Any, options: dict[str, Any], y: str = "y") -> Iterator[tuple[str, Any]]:
    """Status and trials of each group."""
    sql = f"SELECT (m).status, (m).trials FROM (SELECT g, train_model('logistic', {y}, {{x}}, '{json.dumps(options)}') AS m FROM t GROUP BY g) AS f ORDER BY g"
    return ((status, json.loads(trials)) for status, trials in ask(sql))


@pytest.mark.parametrize("session", ["duck"], indirect=True)
@pytest.mark.parametrize("strategy", ["grid", "random", "halving", "tpe"])
@pytest.mark.parametrize("rounds", [0, 3, 9])
@pytest.mark.parametrize("folds", [2, 3])
def test_when_the_time_is_over_the_best_so_far_wins_and_the_status_says_so(
    ask: Any, monkeypatch: pytest.MonkeyPatch, strategy: str, rounds: int, folds: int
) -> None:
    """The time ends when `over` has been asked so often."""
    asked = iter(range(10_000))
    monkeypatch.setattr(Running, "over", property(lambda _: next(asked) >= rounds))
    how = {"strategy": strategy} | ({"trials": 6} if strategy in ("random", "tpe") else {})
    options = {"l2": [10, 1, 0.1, 0.01, 0.001, 0.0001, 0], "folds": folds, "search": how}
    if rounds == 9 and (strategy != "halving" or folds == 2):
        return  # these are done by then, or not begun with the next rows
    for status, trials in searched(ask, options):
        assert status == "time limit"
        metrics = [one["metric"] for one in trials["trials"]]
        judged = [
            sum(fold["metric"] is not None for fold in one["folds"]) for one in trials["trials"]
        ]
        known = [one for one, n in zip(metrics, judged, strict=True) if 0 < n == max(judged)]
        assert (len(known) > 0) == (rounds > 0)
        assert not known or metrics[trials["chosen"]] == min(known)


@pytest.mark.parametrize("strategy", ["grid", "random", "halving", "tpe"])
def test_a_search_with_time_enough_has_the_status_of_its_winner(ask: Any, strategy: str) -> None:
    how = {"strategy": strategy, "time": "1h"}
    how |= {"trials": 4} if strategy in ("random", "tpe") else {}
    options = {"l2": [1, 0.1, 0.01, 0.001], "folds": 2, "search": how}
    assert {status for status, _ in searched(ask, options)} == {"ok"}


def test_a_short_time_is_said_by_the_status(ask: Any) -> None:
    options = {"l2": [1, 0.1], "search": {"time": "0.000001s"}}
    for status, trials in searched(ask, options):
        assert status == "time limit"
        statuses = {fold["status"] for one in trials["trials"] for fold in one["folds"]}
        assert statuses == {"not tried"}


def test_a_status_that_matters_more_stays(ask: Any) -> None:
    options = {"l2": [1, 0.1], "search": {"time": "0.000001s"}}
    for status, _ in searched(ask, options, y="(a >= 0)"):
        assert status == "one class"


def test_a_trial_that_fails_is_a_row_of_its_trials(ask: Any) -> None:
    """In group 0 one row is of the second class, so that a fold has none to learn from."""
    options = {"l2": [1, 0.1], "folds": 3, "metric": "auc"}
    found = list(searched(ask, options, y="CASE WHEN g = 0 THEN a + b = 0 ELSE y END"))
    for one in found[0][1]["trials"]:
        statuses = [fold["status"] for fold in one["folds"]]
        assert statuses.count("one class") == 1
        assert [fold["metric"] is None for fold in one["folds"]].count(True) >= 1
    for _, trials in found[1:]:
        assert all(fold["status"] == "ok" for one in trials["trials"] for fold in one["folds"])


def test_a_search_is_cancelled_between_and_within_its_trials(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement is cancelled while the fifth of its thousands of trainings begins."""
    columns = ", ".join(f"random() AS x{k}" for k in range(20))
    con.execute(f"CREATE TABLE wide AS SELECT random() < 0.5 AS y, {columns} FROM range(60000)")
    listed = ", ".join(f"x{k}" for k in range(20))
    options = {"l2": {"log_uniform": [1e-9, 1.0]}, "search": {"trials": 500}, "folds": 10}
    sql = f"SELECT train_model('logistic', y, [{listed}], '{json.dumps(options)}') FROM wide"
    calls: list[float] = []
    usual, fifth = Preparation.train, threading.Event()

    def trained(*given: Any, **more: Any) -> Any:
        calls.append(time.monotonic())
        if len(calls) == 5:
            fifth.set()
        return usual(*given, **more)

    monkeypatch.setattr(Preparation, "train", trained)
    ended: list[tuple[float, str]] = []

    def run() -> None:
        try:
            con.execute(sql).fetchall()
        except duckdb.Error as error:
            ended.append((time.monotonic(), str(error)))

    thread = threading.Thread(target=run)
    thread.start()
    assert fifth.wait(60)
    asked = time.monotonic()
    con.interrupt()
    thread.join(60)
    ((at, error),) = ended
    assert "interrupt" in error.lower()
    assert len(calls) < 20
    print(f"ended {at - asked:.3f} s after it was cancelled")
