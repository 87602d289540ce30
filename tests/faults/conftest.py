"""What the tests of faults share."""

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

LONGEST = 240
"""Seconds that a child may live: none can keep the tests from ending."""


@contextmanager
def child(command: list[Any]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    timer = threading.Timer(LONGEST, process.kill)
    timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def started() -> Callable[[list[Any]], AbstractContextManager[subprocess.Popen[str]]]:
    """Starts a process that is gone when the context ends, or sooner."""
    return child


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 8 MB."""
    folder = Path(tempfile.mkdtemp())
    mount: list[Any] = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder]
    mounted = shutil.which("mount") and not subprocess.run(
        mount, capture_output=True, check=False
    ).returncode  # fmt: skip
    if not mounted:
        folder.rmdir()
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)
    folder.rmdir()


@pytest.fixture
def con(new_con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A new database, since faults may stay in it."""
    return new_con
