"""Plans are judged at once in these tests, so that a switch comes at the same iteration each time;
test_judged_beside.py is about the thread that does so otherwise. Nor does a plan that takes over
wait: test_waiting.py is about that."""

import pytest

from tuskml.learners.linear.guard import beside, replanning


@pytest.fixture(autouse=True)
def judged_at_once(request, monkeypatch):
    if "beside" not in request.node.fspath.basename:
        monkeypatch.setattr(beside.Beside, "answer", lambda self, key, ask: ask())


@pytest.fixture(autouse=True)
def nothing_to_be_paid(request, monkeypatch):
    if "waiting" not in request.node.fspath.basename:
        monkeypatch.setattr(replanning, "PAID", 0.0)
