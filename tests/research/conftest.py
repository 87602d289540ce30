"""Tests of what reproduces the papers run at night."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/research/"):
            item.add_marker(pytest.mark.nightly)
