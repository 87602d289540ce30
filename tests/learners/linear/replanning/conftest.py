"""Plans are judged at once in these tests, so that a switch comes at the same iteration each time;
test_judged_beside.py is about the thread that does so otherwise. Nor does a plan that takes over
wait: test_waiting.py is about that."""

import sys
from pathlib import Path

import pytest

from tuskml.learners.linear.planner import replanning

sys.path.append(str(Path(__file__).parent))  # for the helper of this folder

N, D = 40_000, 24
ROWS = f"""
CREATE TABLE rows AS
SELECT (hash(i, 99) % 1000 / 1000 < 1 / (1 + exp(-3 * x[1] + 2 * x[2])))::INT AS y, x
FROM (SELECT i, [(hash(i, j) % 1000 + 5 * (hash(i) % 1000)) / 3000 - 1
                 FOR j IN range({D})]::FLOAT[] AS x
      FROM range({N}) r(i))
"""
"""Correlated features, so that plans which follow gradients take a while."""


@pytest.fixture(autouse=True)
def judged_at_once(request, monkeypatch):
    if "beside" not in request.node.fspath.basename:
        monkeypatch.setattr(replanning.Beside, "answer", lambda self, key, ask: ask())


@pytest.fixture(autouse=True)
def nothing_to_be_paid(request, monkeypatch):
    if "waiting" not in request.node.fspath.basename:
        monkeypatch.setattr(replanning, "PAID", 0.0)


@pytest.fixture
def correlated(con):
    """A table `rows` with labels y and features x, which trainings read by two threads."""
    con.execute("SET threads = 2")
    con.execute(ROWS)
    return con
