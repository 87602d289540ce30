"""A plugin of pytest that runs the files in reverse order, to find tests that lean on others.

PYTHONPATH=scripts/tests pytest -p reversed_files tests/learners
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The last file first; the tests of a file stay in their order."""
    files = list(dict.fromkeys(item.path for item in items))
    place = {path: -number for number, path in enumerate(files)}
    items.sort(key=lambda item: place[item.path])
