"""Modules that a command or a connection imports only when they are needed: a start is fast."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tuskml.version import VERSION

HEAVY = (
    "fsspec",
    "IPython",
    "matplotlib",
    "pandas",
    "psycopg",
    "pyarrow",
    "ray",
    "scipy",
    "sklearn",
)
"""Packages that only some statements or commands need."""
LEARNERS = (
    "tuskml.learners.factorization",
    "tuskml.learners.fm",
    "tuskml.learners.linear",
    "tuskml.learners.nets",
    "tuskml.learners.paths",
    "tuskml.learners.topics",
    "tuskml.learners.trees",
)
STARTS = {
    "help": (
        "from tuskml.commands.cli import main; main(['--help'])",
        (*HEAVY, "duckdb", "numpy", "shtab", "tuskml.databases", "tuskml.groups"),
    ),
    "connection": (
        "import tuskml; tuskml.connect()",
        (*HEAVY, *LEARNERS, "tuskml.groups.contract.trainer", "tuskml.partitioner"),
    ),
    "training": (
        "import tuskml; tuskml.connect().sql("
        "\"SELECT train_model('linear', 2 * x, [x]) FROM range(9) t(x)\").fetchall()",
        (*HEAVY, *(set(LEARNERS) - {"tuskml.learners.linear"}), "tuskml.partitioner"),
    ),
    "backend": (
        "import tuskml.groups.contract.backend",
        (*HEAVY, *LEARNERS, "duckdb", "tuskml.partitioner", "tuskml.databases"),
    ),
}
"""By name, what starts, and modules that it does not import, with all below them."""
SHOW = "; import sys; print(*sys.modules, file=sys.stderr)"


@pytest.mark.parametrize("name", STARTS)
def test_a_start_imports_only_what_it_needs(name: str) -> None:
    statement, without = STARTS[name]
    done = subprocess.run(
        [sys.executable, "-c", statement + SHOW],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found = done.stderr.split()
    assert "tuskml" in found
    for module in without:
        assert [one for one in found if one == module or one.startswith(f"{module}.")] == []


def test_the_version_is_that_of_the_project(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
