"""The library that spoils calls on files (tests/kvstore/faults.c), to preload into a process."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

SOURCES = Path(__file__).parents[1] / "kvstore"


def compiled(folder: Path) -> Path:
    """The library, or the test is skipped."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler or sys.platform != "linux":
        pytest.skip("needs a C compiler and Linux")
    path = folder / "faults.so"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    command = [compiler, *flags, "-o", str(path), str(SOURCES / "faults.c"), "-ldl"]
    subprocess.run(command, check=True)
    return path


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder in memory where there is one: what counts is which calls are made."""
    memory = Path("/dev/shm")
    where = str(memory) if os.access(memory, os.W_OK) else None
    with TemporaryDirectory(prefix="tuskml-sweep-", dir=where) as name:
        yield Path(name)
