"""Holds CONTRIBUTING's limits for Python: lines of functions and files, parameters, folders.

    python scripts/lint/limits.py [FOLDER]

A line of code is neither blank, nor a comment, nor part of a docstring. `self` and `cls` are no
parameters, `*args` and `**options` are one each. In tests, parameters are fixtures and are not
counted. Each finding is a line; the exit status is 1 if there is one. C, C++ and CUDA are checked
by `limits_c.py`.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

FUNCTION_LINES = 40
FILE_LINES = 400
PARAMETERS = 7
FILES_PER_FOLDER = 15
SOURCES = {".py", ".c", ".h", ".cpp", ".hpp", ".cu", ".cuh"}
SKIPPED = {"build", "dist", "__pycache__"}

MANY_PARAMETERS = {
    "front/training/training.py:train": "a public call, whose arguments users type by name",
    "front/prediction/prediction.py:predict": "a public call, whose arguments users type by name",
    "front/prediction/prediction.py:evaluate": "a public call, whose arguments users type by name",
    "front/estimators/linear.py:__init__": "scikit-learn reads settings from the signature",
    "front/estimators/machines.py:__init__": "scikit-learn reads settings from the signature",
    "front/estimators/nets.py:__init__": "scikit-learn reads settings from the signature",
    "front/estimators/trees.py:__init__": "scikit-learn reads settings from the signature",
    "learners/linear/own/tasks.py:register_task": "a public call, typed by name",
    "scripts/bench/factorization/plain_sgd.py:epoch": "numba compiles no dataclass",
    "scripts/bench/linear/sparse_sgd.py:epochs": "numba compiles no dataclass",
}
"""Functions that may have more parameters, and why."""
LARGE_FOLDERS: dict[str, str] = {}
"""Folders that may hold more files, and why."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> None:
    """Prints what is over a limit in a folder, by default this checkout."""
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]
    found = list(violations(given.resolve()))
    for finding in found:
        print(finding)
    sys.exit(bool(found))


def violations(root: Path) -> Iterator[str]:
    """One sentence for each limit that a file or folder below root breaks."""
    files = sorted(sources(root))
    yield from in_folders(root, files)
    for path in files:
        if path.suffix == ".py":
            yield from in_file(path.relative_to(root).as_posix(), path.read_text())


def sources(root: Path) -> Iterator[Path]:
    """Source files, but for those that are built or hidden."""
    for path in root.iterdir():
        if path.name.startswith(".") or path.name in SKIPPED or path.is_symlink():
            continue
        if path.is_dir():
            yield from sources(path)
        elif path.suffix in SOURCES:
            yield path


def in_folders(root: Path, files: Iterable[Path]) -> Iterator[str]:
    """Folders with too many source files, those of their subfolders not among them."""
    counts = Counter(path.parent.relative_to(root).as_posix() for path in files)
    for folder, count in sorted(counts.items()):
        if count > FILES_PER_FOLDER and folder not in LARGE_FOLDERS:
            yield f"{folder}: {count} source files, expected at most {FILES_PER_FOLDER}"


def in_file(name: str, text: str) -> Iterator[str]:
    """What is over a limit in a Python file of this name, relative to the checkout."""
    lines = text.splitlines()
    if len(lines) > FILE_LINES:
        yield f"{name}: {len(lines)} lines, expected at most {FILE_LINES}"
    tree = ast.parse(text)
    code = lines_of_code(tree, lines)
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield from in_function(name, node, code)


def in_function(name: str, function: Function, code: set[int]) -> Iterator[str]:
    """What is over a limit in a function; code: the numbers of the file's lines of code."""
    where = f"{name}:{function.lineno}: {function.name}"
    length = sum(line in code for line in range(function.lineno, (function.end_lineno or 0) + 1))
    if length > FUNCTION_LINES:
        yield f"{where} has {length} lines of code, expected at most {FUNCTION_LINES}"
    count = parameters(function)
    excepted = name.startswith("tests/") or f"{name}:{function.name}" in MANY_PARAMETERS
    if count > PARAMETERS and not excepted:
        yield f"{where} has {count} parameters, expected at most {PARAMETERS}"


def parameters(function: Function) -> int:
    """How many a call may give."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    methods = names[:1] in (["self"], ["cls"])
    others = [*given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return len(names) - methods + len(others)


def lines_of_code(tree: ast.AST, lines: list[str]) -> set[int]:
    """Numbers, from 1, of lines that are neither blank nor comments nor docstrings."""
    code = {
        number
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            code -= set(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return code


if __name__ == "__main__":
    main()
