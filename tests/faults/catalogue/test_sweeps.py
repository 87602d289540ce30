"""Each call on DuckDB's file, and on the one that rows spill to, fails or ends the process."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from preloaded import compiled, in_memory
from tried import WHOLE, Tally

HERE = Path(__file__).parent
STRIDE = 20
FAILING = {"eio": 1, "broken": 2, "full": 3, "tight": 4, "short": 5}


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library to preload."""
    return compiled(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as path:
        yield path


def swept(program: str, shim: Path, folder: Path, mode: str, first: int) -> dict[str, Any]:
    """first: 0 spoils each call, though the catalogue is not tried whole."""
    first, step = (1, 1) if WHOLE or not first else (first, STRIDE)
    done = subprocess.run(
        [sys.executable, str(HERE / program), folder, mode, str(first), str(step)],
        env=os.environ | {"LD_PRELOAD": str(shim)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.sample(1)
@pytest.mark.fault(family="kills and power loss")
@pytest.mark.parametrize(("mode", "first"), [("kill", 1), ("power", 4)])
def test_models_in_a_database_when_its_process_ends(
    shim: Path, folder: Path, tally: Tally, mode: str, first: int
) -> None:
    found = swept("database_sweep.py", shim, folder, mode, first)
    tally.tried, tally.lost = found["cases"], len(found["broken"])
    assert found["broken"] == []
    assert found["calls"] > 15


@pytest.mark.nightly
@pytest.mark.fault(family="failing I/O")
@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", FAILING)
def test_models_in_a_database_when_io_fails(
    shim: Path, folder: Path, tally: Tally, mode: str
) -> None:
    found = swept("database_sweep.py", shim, folder, mode, FAILING[mode])
    tally.tried, tally.lost = found["cases"], len(found["broken"])
    assert found["broken"] == []
    assert found["calls"] > 15


@pytest.mark.fault(family="failing I/O")
@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", [mode for mode in FAILING if mode != "short"])
def test_rows_that_spill(shim: Path, folder: Path, tally: Tally, mode: str) -> None:
    found = swept("spill_sweep.py", shim, folder, mode, 0)
    tally.tried, tally.wrong = found["cases"], len(found["broken"])
    assert found["broken"] == []
    assert found["cases"] > 2
