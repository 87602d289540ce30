"""A wheel in an empty environment, with programs of this machine but no compiler."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.slow]
MOST_MB = 15


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For this machine's instruction set, of the objects that are compiled already."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "setup.py", "--quiet", "bdist_wheel", "--dist-dir", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (found,) = folder.glob("tuskml-*.whl")
    return found


def test_it_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < MOST_MB * 1e6


def test_a_newcomer_trains_without_a_compiler(wheel: Path, root: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"
    pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", str(wheel)]
    alone = {name: text for name, text in os.environ.items() if not name.startswith("TUSKML")}
    alone |= {"PATH": str(programs)}
    subprocess.run(pip, check=True, env=alone, capture_output=True)
    script = root / "scripts" / "tests" / "fresh_wheel.py"
    command = [str(programs / "python"), str(script)]
    done = subprocess.run(
        command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "tuskml trains on Python" in done.stdout
