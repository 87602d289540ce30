"""The check of CONTRIBUTING's limits reports what is over them, and counts as it says."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LONG = "def long():\n" + "    x = 1\n" * 40
JUST_SHORT_ENOUGH = 'def short():\n    """What it does.\n\n    And more.\n    """\n' + (
    "    x = 1\n\n    # why\n" * 39
)
NAMES = "abcdefgh"
MANY = f"def many({', '.join(NAMES)}): ...\n"


@pytest.fixture(scope="module")
def limits(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "scripts" / "lint" / "limits.py"))


@pytest.fixture
def found(limits: dict[str, Any], tmp_path: Path) -> Callable[..., list[str]]:
    """The findings in a folder of these files."""

    def check(**files: str) -> list[str]:
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".py").write_text(text)
        return list(limits["violations"](tmp_path))

    return check


def test_a_function_is_counted_by_its_lines_of_code(found: Callable[..., list[str]]) -> None:
    assert found(a=LONG, b=JUST_SHORT_ENOUGH) == [
        "a.py:1: long has 41 lines of code, expected at most 40"
    ]


def test_methods_count_without_self(found: Callable[..., list[str]]) -> None:
    method = f"class C:\n    def m(self, {', '.join(NAMES[:7])}): ...\n"
    assert found(a=MANY, b=method, c="def f(*, a, b, c, d, e, f, g, **rest): ...\n") == [
        "a.py:1: many has 8 parameters, expected at most 7",
        "c.py:1: f has 8 parameters, expected at most 7",
    ]


def test_parameters_of_tests_are_fixtures(found: Callable[..., list[str]]) -> None:
    assert found(tests__a=MANY) == []


def test_files_have_at_most_400_lines(found: Callable[..., list[str]]) -> None:
    assert found(a="x = 1\n" * 401, b="x = 1\n" * 400) == ["a.py: 401 lines, expected at most 400"]


def test_folders_have_at_most_15_sources(found: Callable[..., list[str]]) -> None:
    files = {f"large__f{number}": "" for number in range(16)}
    few = {f"small__f{number}": "" for number in range(15)}
    assert found(**files, **few) == ["large: 16 source files, expected at most 15"]


def test_what_is_built_or_hidden_is_not_read(found: Callable[..., list[str]]) -> None:
    assert found(build__a=LONG, **{".venv__a": LONG}) == []


def test_each_exception_is_one(limits: dict[str, Any], root: Path) -> None:
    """An exception that nothing needs any more goes."""
    for place in limits["MANY_PARAMETERS"]:
        file, function = place.split(":")
        text = (root / file).read_text()
        assert f"def {function}(" in text, place
    large = limits["LARGE_FOLDERS"]
    assert all((root / folder).is_dir() for folder in large)
