"""Candidates of a search side by side, beside the same in turn."""

import json
import threading
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tuskml
from tuskml.groups.selection import lanes, searching
from tuskml.groups.selection.folds import Preparation
from tuskml.kvstore import access

L2 = [1.0, 0.1, 0.01, 0.001]
GRID = {"l2": L2, "class_weight": ["balanced", [1, 1]], "folds": 4, "epsilon": 1e-8}
GROUPS = 7


@pytest.fixture
def rows(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(
        f"""CREATE TABLE t AS SELECT i % {GROUPS} AS g, [sin(i), cos(3 * i), sin(i * i)] AS x,
        2 * sin(i) + cos(3 * i) * (i % {GROUPS}) / 3 + 3 * sin(7 * i) > 0.7 AS y
        FROM range(3000) r(i)"""
    )
    return con


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the threads that trained a candidate."""
    found: set[str] = set()
    trained = Preparation.train

    def noted(self: Preparation, *given: Any, **more: Any) -> Any:
        if not more.get("winner"):
            found.add(threading.current_thread().name)
        return trained(self, *given, **more)

    monkeypatch.setattr(Preparation, "train", noted)
    return found


def trials(con: Any, options: dict[str, Any]) -> dict[int, Any]:
    """By group, what was tried."""
    call = f"train_model('logistic', y, x, '{json.dumps(options)}')"
    found = con.execute(f"SELECT g, ({call}).trials FROM t GROUP BY g").fetchall()
    return {g: json.loads(text) for g, text in found}


def flat(found: dict[int, Any]) -> list[float]:
    """The metrics of all folds."""
    every = (one for g in range(GROUPS) for one in found[g]["trials"])
    return [fold["metric"] for one in every for fold in one["folds"]]


def test_candidates_side_by_side_are_judged_as_in_turn(
    rows: Any, threads: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = trials(rows, GRID | {"threads": 2})
    assert {name.split("_")[0] for name in threads} == {"tuskml lane"}
    assert len(threads) == 2
    threads.clear()
    monkeypatch.setattr(searching, "lanes_of", lambda part, *_: [part])
    alone = trials(rows, GRID | {"threads": 2})
    assert len(threads) == 1
    assert flat(beside) == pytest.approx(flat(alone), rel=1e-6)
    assert [beside[g]["chosen"] for g in beside] == [alone[g]["chosen"] for g in beside]


def test_groups_end_where_other_runs_end(rows: Any) -> None:
    """What candidates start from does not depend on which lane is faster."""
    first, *others = (flat(trials(rows, GRID | {"threads": 2})) for _ in range(4))
    for other in others:
        assert other == pytest.approx(first, rel=1e-12)


@pytest.mark.parametrize("option", [{"deterministic": True}, {"threads": 1}])
def test_what_is_reproducible_trains_in_turn(
    rows: Any, threads: set[str], option: dict[str, Any]
) -> None:
    trials(rows, {"threads": 2} | GRID | option)
    assert len(threads) == 1
    assert "lane" not in threads.pop()


def test_a_server_trains_in_turn(
    rows: Any, threads: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own thread alone looks whether to stop."""
    monkeypatch.setattr(access, "_host", object())
    trials(rows, GRID | {"threads": 2})
    assert len(threads) == 1
    assert "lane" not in threads.pop()


def test_a_lane_that_fails_ends_the_others(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried, failed = [], threading.Event()
    judged = searching.judge

    def fails(*given: Any) -> Any:
        if threading.current_thread().name.endswith("_1"):
            failed.set()
            raise MemoryError("no memory for a test")
        failed.wait(10)
        tried.append(1)
        return judged(*given)

    monkeypatch.setattr(searching, "judge", fails)
    with pytest.raises(Exception, match="no memory for a test"):
        trials(rows, GRID | {"threads": 2})
    assert len(tried) <= 2  # of four


def test_a_search_is_cancelled_in_all_lanes(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    judged = searching.judge

    def cancels(*given: Any) -> Any:
        tried.append(1)
        if len(tried) == 2:
            tuskml.cancel()
        return judged(*given)

    monkeypatch.setattr(searching, "judge", cancels)
    with pytest.raises(Exception, match=r"(?i)interrupt|cancel"):
        trials(rows, GRID | {"threads": 2})
    assert len(tried) <= 4  # of eight


@given(st.integers(1, 200), st.integers(1, 64))
def test_lanes_share_the_threads_evenly(candidates: int, threads: int) -> None:
    count = lanes.lanes_for(candidates, threads)
    assert 1 <= count <= lanes.MOST_LANES
    assert threads % count == 0
    assert count == 1 or candidates // count >= lanes.LEAST_CANDIDATES
