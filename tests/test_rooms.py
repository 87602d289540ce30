"""The rooms are one package: one import name each, arrows one way, every tool knows all."""

import ast
import importlib
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.smoke

# A room may import those that come after it. `front/errors` is for all, `sql` holds no code.
ORDER = ["front", "groups", "schedule", "optimizer", "udas", "kvstore", "partitioner", "sql"]
FOR_ALL = "tuskml.errors"


@pytest.fixture(scope="module")
def config(root: Path) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text())["tool"]


def test_every_room_is_imported_by_its_name_only(root: Path, rooms: dict[str, str]) -> None:
    for name in rooms.values():
        importlib.import_module(name)
    files = {room: getattr(sys.modules.get(room), "__file__", None) for room in rooms}
    twins = [room for room, file in files.items() if file and root in Path(file).parents]
    assert twins == []


def test_every_room_is_a_package_in_the_order(root: Path, rooms: dict[str, str]) -> None:
    assert set(rooms) <= set(ORDER)
    assert [room for room in rooms if not (root / room / "__init__.py").is_file()] == []
    assert (root / "front" / "py.typed").is_file()
    existing = {room for room in ORDER if (root / room / "__init__.py").is_file()}
    assert existing == set(rooms)


def test_dbt_is_not_a_package(root: Path) -> None:
    assert not (root / "dbt" / "__init__.py").exists()


def test_coverage_lists_every_room(config: dict, rooms: dict[str, str]) -> None:
    run, paths = config["coverage"]["run"], config["coverage"]["paths"]
    assert sorted(run["source"]) == sorted(rooms)
    assert {room: places[0] for room, places in paths.items()} == {room: room for room in rooms}
    assert list(paths)[-1] == "front", "its pattern matches every other room's files"


def test_folder_names_are_banned_as_imports(config: dict, rooms: dict[str, str]) -> None:
    banned = config["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert {room: ban["msg"] for room, ban in banned.items()} == {
        room: f"import {name}" for room, name in rooms.items()
    }


def test_arrows_between_rooms_go_one_way(root: Path, rooms: dict[str, str]) -> None:
    wrong = [
        f"{path.relative_to(root)} imports {name}"
        for room in rooms
        for path in sorted((root / room).rglob("*.py"))
        for name in imported_names(path.read_text())
        if not may_import(room, name)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        ("from tuskml.udas import kernels", True),
        ("import tuskml.udas.native", True),
        ("from tuskml import errors", True),
        ("from tuskml.errors import TuskmlError", True),
        ("import numpy", True),
        ("from tuskml.groups import trainer", False),
        ("from tuskml import groups", False),
        ("from tuskml import connect", False),
        ("import tuskml", False),
        ("def late():\n    import tuskml.cli", False),
        ("from . import plan", False),
    ],
)
def test_the_arrow_check_itself(source: str, allowed: bool) -> None:
    assert all(may_import("optimizer", name) for name in imported_names(source)) is allowed


def imported_names(source: str) -> Iterator[str]:
    """Full names that a module imports, inside functions too; relative ones start with a dot."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def may_import(room: str, name: str) -> bool:
    """Whether a module of this room may import this name."""
    package, *rest = name.split(".")
    if package != "tuskml":
        return package != ""
    if name == FOR_ALL or name.startswith(FOR_ALL + "."):
        return True
    target = rest[0] if rest and rest[0] in ORDER[1:] else "front"
    return ORDER.index(target) >= ORDER.index(room)
