"""The scorer of nets under AddressSanitizer, on forged coefficients of exactly their size."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
COMPILER = shutil.which(os.environ.get("CC", "cc"))
FLAGS = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("fuzz") / "fuzz_nets"
    sources = [HERE / "fuzz_nets.c", *sorted((ROOT / "udas/scalars/nets").glob("*.c"))]
    command = [COMPILER, *FLAGS, f"-I{ROOT / 'udas'}", *map(str, sources), "-o", str(made), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot find" in done.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize("seed", range(3))
def test_forged_nets_are_never_read_beyond_their_end(program: Path, seed: int) -> None:
    """Some pass the check, since weights may be any number."""
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [program, str(seed), "40000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    assert done.returncode == 0, done.stderr[-3000:]
    assert 1000 < int(done.stdout) < 39000
