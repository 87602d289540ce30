"""A name of an algorithm or a learner is in its own files, and in a few that are listed here."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuskml.learners.factorization.options import ALGORITHMS as OF_RATINGS
from tuskml.learners.linear.algorithms import ALGORITHMS

SOUGHT = re.compile(rf"\b({'|'.join([*ALGORITHMS, *OF_RATINGS, 'matrix_factorization'])})\b")
ROOMS = ("front", "groups", "kernels", "learners", "schedule", "udas")
OF_LINEAR, OF_FACTORIZATION = "learners/linear/algorithms", "learners/factorization/options.py"
OF_STEPS = f"{OF_LINEAR}/stochastic.py"
COSTS = "learners/linear/planner/cost.py"
"""Two kinds of steps have the names of algorithms in calibrations."""
OUTCOME = "learners/linear/inference/outcome.py"
"""Takes one more of an algorithm's passes."""
OF_NETS = "learners/nets/options.py"
"""Nets have an algorithm of the same name."""
DEMO = "front/commands/demo.py"
"""Shows some of the algorithms."""
ALLOWED = {
    "als": ("learners/options/other_names.py",),
    "newton": (
        f"{OF_LINEAR}/parts/fused.py",
        f"{OF_LINEAR}/parts/kept_curvature.py",
        f"{OF_LINEAR}/parts/small.py",
        "learners/linear/inference/outcome.py",
        COSTS,
        DEMO,
    ),
    "bgd": (f"{OF_LINEAR}/parts/epochs.py", "learners/linear/own/assembled.py", COSTS, DEMO),
    "lbfgs": (DEMO, "front/api/reading_seconds.py", "learners/linear/streamed/training.py"),
    "svrg": (OF_STEPS, DEMO),
    "mgd": (OF_STEPS, DEMO),
    "sgd": (
        "learners/options/other_names.py",
        OF_STEPS,
        f"{OF_LINEAR}/parts/epochs.py",
        "front/commands/train.py",
        OF_NETS,
        "learners/fm/options.py",
    ),
    "hogwild": (OF_STEPS,),
    "hogbatch": (OF_STEPS,),
}
"""By algorithm, files other than its own, its kernel and the registry that name it."""


def words(source: str) -> Iterator[str]:
    """Names, attributes, modules and strings of a file, without its documentation."""
    tree = ast.parse(source)
    documentation = {
        id(node.value) for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "").split(".")
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documentation
        ):
            yield from "".join(c if c.isalnum() or c == "_" else " " for c in node.value).split()


@pytest.fixture(scope="module")
def named(root: Path) -> dict[str, set[str]]:
    """The words of each Python file of the package that has one of those that are looked for."""
    paths = [path for room in ROOMS for path in (root / room).rglob("*.py")]
    texts = {str(path.relative_to(root)): path.read_text() for path in paths}
    return {
        path: set(words(text)) if SOUGHT.search(text) else set() for path, text in texts.items()
    }


@pytest.mark.parametrize("name", sorted({*ALGORITHMS, *OF_RATINGS}))
def test_an_algorithm_is_named_by_its_own_files(named: dict[str, set[str]], name: str) -> None:
    own = {f"{OF_LINEAR}/{name}.py", f"{OF_LINEAR}/__init__.py", OF_FACTORIZATION}
    elsewhere = {
        path for path, found in named.items()
        if name in found and not path.startswith("kernels/")
    } - own  # fmt: skip
    assert elsewhere <= set(ALLOWED.get(name, ()))


def test_a_learner_s_task_is_named_by_its_folder(named: dict[str, set[str]]) -> None:
    """The names that other packages use, and sentences, know it too."""
    elsewhere = {
        path for path, found in named.items()
        if "matrix_factorization" in found and not path.startswith("learners/factorization/")
    }  # fmt: skip
    assert elsewhere <= {
        "learners/options/other_names.py",
        "learners/models.py",
        "udas/tasks.py",
    }


def test_no_learner_imports_another(root: Path) -> None:
    for learner, other in (("linear", "factorization"), ("factorization", "linear")):
        for path in (root / "learners" / learner).rglob("*.py"):
            assert f"tuskml.learners.{other}" not in path.read_text(), path


def test_what_all_learners_share_knows_none(root: Path) -> None:
    learners = root / "learners"
    own = {learners / "linear", learners / "factorization"}
    for path in learners.rglob("*.py"):
        if path.name != "registry.py" and own.isdisjoint(path.parents):
            assert "tuskml.learners.linear" not in path.read_text(), path
            assert "tuskml.learners.factorization" not in path.read_text(), path


BY_FOLDER = ("front/__init__.py", "front/model/answers.py", "front/own/registering.py")
"""Give users what they register, and predict what that answers."""


def test_the_house_reaches_learners_through_the_registry(root: Path) -> None:
    for room in ROOMS:
        for path in (root / room).rglob("*.py"):
            if room != "learners" and str(path.relative_to(root)) not in BY_FOLDER:
                source = path.read_text()
                assert "tuskml.learners.linear" not in source, path
                assert "tuskml.learners.factorization" not in source, path
