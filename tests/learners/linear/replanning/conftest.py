"""Plans are judged at once in these tests, so that a switch comes at the same iteration each time;
test_judged_beside.py is about the thread that does so otherwise."""

import pytest

from tuskml.learners.linear.guard import beside


@pytest.fixture(autouse=True)
def judged_at_once(request, monkeypatch):
    if "beside" not in request.node.fspath.basename:
        monkeypatch.setattr(beside.Beside, "answer", lambda self, key, ask: ask())
