"""What every test may ask for."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def rooms() -> dict[str, str]:
    """Each room's folder and the name it is imported by, as setup.py has them."""
    link_tree = runpy.run_path(str(ROOT / "scripts" / "link_tree.py"))
    return link_tree["read_rooms"]()
