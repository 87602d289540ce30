"""The folders are one package: one import name each, arrows one way, every tool knows all."""

import ast
import importlib
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import tuskml
from tuskml.lazy import HOMES, lazy_function

pytestmark = pytest.mark.smoke

# A folder may import those that come after it. `front/errors`, the user's folders, the budget and
# the pool of threads are for all; `sql` holds no code.
ORDER = [
    "front",
    "groups",
    "learners",
    "schedule",
    "kernels",
    "udas",
    "kvstore",
    "partitioner",
    "sql",
]
FOR_ALL = (
    "tuskml.errors",
    "tuskml.user_folders",
    *(f"tuskml.schedule.{name}" for name in ("budget", "declared", "pool")),
)

FLOORS = [
    {"errors", "version", "lazy", "text", "user_folders"},
    {"model"},
    {"formats", "export_onnx", "export_mlflow", "own"},
    {"databases"},
    {"api", "registry"},
    {"cluster"},
    {"plots", "report", "commands", "estimators", "dbt"} | {"flights", "__main__"},
]
"""Of front, from the ground up: a floor may import itself and those before it."""


@pytest.fixture(scope="module")
def modules(root: Path, folders: dict[str, str]) -> dict[str, Path]:
    """Files by the names of modules without `tuskml.`; the package's own file is left out."""
    found = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            inner = path.relative_to(root / folder).with_suffix("").parts
            parts = inner if folder == "front" else (folder, *inner)
            found[".".join(parts).removesuffix(".__init__")] = path
    return {name: path for name, path in found.items() if name != "__init__"}


def targets(path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules that a file imports."""
    found = set()
    for name in imported_names(path.read_text()):
        inner = name.removeprefix("tuskml.")
        if inner not in modules:
            inner = inner.rpartition(".")[0]
        if inner in modules and modules[inner] != path:
            found.add(inner)
    return found


def floor_of(module: str) -> int | None:
    """The floor of a module of front; None for other folders."""
    first = module.partition(".")[0]
    if first in ORDER:
        return None
    return next(place for place, names in enumerate(FLOORS) if first in names)


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """The sets of several nodes that reach each other, each sorted."""
    reached = {}
    for start in arrows:
        seen, waiting = set(), [start]
        while waiting:
            new = arrows.get(waiting.pop(), set()) - seen
            seen |= new
            waiting += new
        reached[start] = seen
    around = [node for node in arrows if node in reached[node]]
    found = {
        tuple(sorted(b for b in around if b in reached[a] and a in reached[b])) for a in around
    }
    return [list(one) for one in sorted(found)]


@pytest.fixture(scope="module")
def config(root: Path) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text())["tool"]


def test_every_folder_is_imported_by_its_name_only(root: Path, folders: dict[str, str]) -> None:
    for name in folders.values():
        importlib.import_module(name)
    files = {folder: getattr(sys.modules.get(folder), "__file__", None) for folder in folders}
    twins = [folder for folder, file in files.items() if file and root in Path(file).parents]
    assert twins == []


@pytest.mark.parametrize("name", tuskml.__all__)
def test_every_public_name_is_found(name: str) -> None:
    """Most are imported only when they are used, from a module that is named in a text."""
    assert getattr(tuskml, name) is not None


def test_every_folder_is_a_package_in_the_order(root: Path, folders: dict[str, str]) -> None:
    assert set(folders) <= set(ORDER)
    assert [folder for folder in folders if not (root / folder / "__init__.py").is_file()] == []
    assert (root / "front" / "py.typed").is_file()
    existing = {folder for folder in ORDER if (root / folder / "__init__.py").is_file()}
    assert existing == set(folders)


def test_dbt_is_not_a_package(root: Path) -> None:
    assert not (root / "dbt" / "__init__.py").exists()


def test_coverage_lists_every_room(config: dict, folders: dict[str, str]) -> None:
    run, paths = config["coverage"]["run"], config["coverage"]["paths"]
    assert sorted(run["source"]) == sorted(folders)
    assert {folder: places[0] for folder, places in paths.items()} == {
        folder: folder for folder in folders
    }
    assert list(paths)[-1] == "front", "its pattern matches every other folder's files"


def test_folder_names_are_banned_as_imports(config: dict, folders: dict[str, str]) -> None:
    banned = config["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert {folder: ban["msg"] for folder, ban in banned.items()} == {
        folder: f"import {name}" for folder, name in folders.items()
    }


def test_arrows_between_folders_go_one_way(root: Path, folders: dict[str, str]) -> None:
    wrong = [
        f"{path.relative_to(root)} imports {name}"
        for folder in folders
        for path in sorted((root / folder).rglob("*.py"))
        for name in imported_names(path.read_text())
        if not may_import(folder, name)
    ]
    assert wrong == []


def test_floors_of_front_import_downwards(modules: dict[str, Path]) -> None:
    wrong = [
        f"{path} imports {name}"
        for module, path in modules.items()
        for name in targets(path, modules)
        if floor_of(module) is not None
        and floor_of(name) is not None
        and floor_of(name) > floor_of(module)
    ]
    assert wrong == []


def test_imports_make_no_circle(modules: dict[str, Path]) -> None:
    """Counts imports inside functions and those for type checkers alone."""
    arrows = {module: targets(path, modules) for module, path in modules.items()}
    assert circles(arrows) == []


def test_only_these_modules_of_front_import_by_text(root: Path) -> None:
    by_text = [
        path.relative_to(root / "front").as_posix()
        for path in sorted((root / "front").rglob("*.py"))
        if 'import_module(f"tuskml' in path.read_text()
    ]
    assert by_text == ["__init__.py", "commands/cli.py", "lazy.py"]


@pytest.mark.parametrize("name", HOMES)
def test_every_late_name_is_found(name: str) -> None:
    assert callable(lazy_function(name))


@pytest.mark.parametrize(
    ("arrows", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, [["a", "b", "c"]]),
        ({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c"}}, [["a", "b"], ["c", "d"]]),
    ],
)
def test_circles_of_a_graph(arrows: dict[str, set[str]], expected: list[list[str]]) -> None:
    assert circles(arrows) == expected


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        ("from tuskml.udas import kernels", True),
        ("import tuskml.kernels.native", True),
        ("from tuskml import errors", True),
        ("from tuskml.errors import TuskmlError", True),
        ("import numpy", True),
        ("from tuskml.schedule import budget", True),
        ("from tuskml.schedule import smp", False),
        ("from tuskml.groups import trainer", False),
        ("from tuskml import groups", False),
        ("from tuskml import connect", False),
        ("import tuskml", False),
        ("def late():\n    import tuskml.commands.cli", False),
        ("from . import plan", False),
        ("from research.themis import pieces", False),
    ],
)
def test_the_arrow_check_itself(source: str, allowed: bool) -> None:
    assert all(may_import("kernels", name) for name in imported_names(source)) is allowed


@cache  # three tests ask for the names of each file
def imported_names(source: str) -> tuple[str, ...]:
    """Full names that a module imports, inside functions too; relative ones start with a dot."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found += (f"{module}.{alias.name}" for alias in node.names)
    return tuple(found)


def may_import(folder: str, name: str) -> bool:
    """Whether a module of this folder may import this name."""
    package, *rest = name.split(".")
    if package != "tuskml":
        return package not in ("", "research")
    if any(name == one or name.startswith(one + ".") for one in FOR_ALL):
        return True
    target = rest[0] if rest and rest[0] in ORDER[1:] else "front"
    return ORDER.index(target) >= ORDER.index(folder)
