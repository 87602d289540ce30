"""Numbers for the texts of rows of many groups, whose tables no account counts."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
COMPILER = shutil.which(os.environ.get("CC", "cc"))
FLAGS = ["-std=gnu11", "-O1", "-Wall", "-Werror", f"-I{ROOT / 'udas'}"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("numbering") / "numbering"
    sources = [HERE / "numbering.c", ROOT / "udas/scalars/named/numbering.c"]
    subprocess.run([COMPILER, *FLAGS, *sources, "-o", made, "-lm"], check=True)
    return made


@pytest.mark.parametrize(("columns", "said"), [(1, "0 1 0"), (64, "0 1 0"), (65, "none")])
def test_at_most_64_columns_have_numbers(program: Path, columns: int, said: str) -> None:
    """Each takes a table of 24 KiB per thread."""
    done = subprocess.run([program, str(columns)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == said
