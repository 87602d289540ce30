"""Stores in folders of their own."""

from pathlib import Path

import pytest

from tuskml.kvstore import StoreRoot


@pytest.fixture
def stores(tmp_path: Path) -> StoreRoot:
    """A root without stores."""
    return StoreRoot(tmp_path / "stores")
