"""A root of stores."""

from pathlib import Path

import pytest

from tuskml.kvstore import StoreRoot


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    return StoreRoot(tmp_path / "stores")
