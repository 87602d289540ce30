"""What tests of shares have in common."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from sharing_work import CORES

from tuskml.schedule import shares


@pytest.fixture
def own_table(tmp_path, monkeypatch):
    """A table that no other process has, of a host with eight cores."""
    monkeypatch.setenv(shares.SETTING, str(tmp_path / "table"))
    monkeypatch.setattr(shares.budget, "processors", lambda: CORES)
