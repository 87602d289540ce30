"""The community extension: its tree is whole, and its tests pass with the extension built here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuskml.udas.duckdb import extension_path
from tuskml.version import VERSION

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "packaging" / "duckdb-community" / "test" / "sql"
RUNNER = ROOT / "scripts" / "tests" / "sqllogic.py"


def run(*files: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUNNER), str(extension_path()), *map(str, files)]
    off = os.environ | {"TUSKML_PYTHON": "off"}
    return subprocess.run(command, capture_output=True, text=True, env=off, check=False)


def test_its_tests_pass() -> None:
    files = sorted(TESTS.glob("*.test"))
    done = run(*files)
    assert done.returncode == 0, done.stderr
    assert f"{len(files)} files, 0 failures" in done.stdout


FAULTS = (
    ("query I\nSELECT 1\n----\n2\n", "answered: 1"),
    ("query II\nSELECT 1\n----\n1\n", "1 columns, expected II"),
    ("query I\nSELECT 1 WHERE false\n----\n1\n", "answered: "),
    ("statement ok\nSELECT nonsense\n", "nonsense"),
    ("statement error\nSELECT 1\n----\nnonsense\n", "no error"),
    ("statement error\nSELECT nonsense\n----\nother words\n", "nonsense"),
    ("loop i 0 10\n", "'loop', expected require"),
)


def test_the_runner_finds_faults(tmp_path: Path) -> None:
    """One in each file, and the step after it passes."""
    files = [tmp_path / f"wrong{number}.test" for number in range(len(FAULTS))]
    for file, (text, _) in zip(files, FAULTS, strict=True):
        file.write_text(f"# name: wrong\n\nrequire tuskml\n\n{text}\nquery I\nSELECT 5\n----\n5\n")
    done = run(*files)
    assert done.returncode == 1
    assert f"{len(files)} files, {len(files)} failures" in done.stdout
    answers = done.stderr.split("wrong")[1:]
    for file, (_, said) in zip(files, FAULTS, strict=True):
        (answer,) = [one for one in answers if one.startswith(f"{file.stem[5:]}.test:5: ")]
        assert said in answer


def test_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every source that includes another finds it in the tree; what went is removed there."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "build"))
    import community

    headers = tmp_path / "headers"
    headers.mkdir()
    for name in community.duckdb_headers.HEADERS:
        (headers / name).write_text("")
    monkeypatch.setenv("TUSKML_DUCKDB_INCLUDE", str(headers))
    tree = tmp_path / "tree"
    stale = tree / "udas" / "duckdb" / "gone.c"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    community.write(tree)
    assert not stale.exists()
    assert (tree / "VERSION").read_text() == f"{VERSION}\n"
    named = f"version: {VERSION}\n"
    assert named in (tree / "description.yml").read_text()
    sources = [path for path in tree.rglob("*") if path.suffix in (".c", ".cpp", ".h")]
    assert len(sources) > 100
    for path in sources:
        for line in path.read_text(errors="replace").splitlines():
            if line.startswith('#include "'):
                name = line.split('"')[1]
                here = [path.parent / name, tree / "udas" / name, tree / "duckdb_capi" / name]
                assert any(map(Path.exists, here)) or name == "macros.h", (path, name)
