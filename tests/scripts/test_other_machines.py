"""What is built for other machines and systems: how Arm is compared, and Debian's recipe."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def scripts(root: Path) -> Iterator[tuple[ModuleType, ModuleType, ModuleType]]:
    """The modules arm_check, learners_answers and debian."""
    folders = [str(root / "scripts" / name) for name in ("tests", "build")]
    sys.path[:0] = folders
    try:
        import arm_check
        import debian
        import learners_answers

        yield arm_check, learners_answers, debian
    finally:
        for folder in folders:
            sys.path.remove(folder)


def test_every_task_is_compared(scripts: tuple[ModuleType, ...]) -> None:
    from tuskml.learners.registry import TASKS

    names = {name for task in TASKS.values() for name in (task.name, *task.also)}
    assert set(scripts[1].TASKS) == names


def test_numbers_that_differ_are_named(
    scripts: tuple[ModuleType, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    check = scripts[0]
    one = {"status": "ok", "coef": [1e-9, 4.0], "predictions": [2.0], "iterations": 3}
    here = dict.fromkeys(("linear", "mlp", "lda"), one)
    assert check.compare(here, here) == []
    far = {
        "linear": one | {"coef": [1e-9, 4.0 + 4e-11]},
        "mlp": one | {"predictions": [2.0 + 1e-8]},
        "lda": one | {"status": "not converged"},
    }
    linear, lda = check.compare(here, far)
    assert linear == "linear: coefficients 1.0e-11, predictions 0.0e+00"
    assert lda.endswith("ok and not converged, 3 and 3 iterations")
    assert check.distance([1.0], [1.0, 2.0]) == float("inf")
    assert capsys.readouterr().out.count("\n") == 6


def test_the_recipe_is_for_one_version_of_postgres(
    scripts: tuple[ModuleType, ...], tmp_path: Path
) -> None:
    scripts[2].write_recipe(tmp_path, "1.2.3", "17")
    texts = {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()}
    assert not [name for name, text in texts.items() if "PGVERSION" in text + name]
    assert "Package: postgresql-17-tuskml" in texts["control"]
    assert "/usr/lib/postgresql/17/bin/pg_config" in texts["rules"]
    assert texts["changelog"].startswith("tuskml (1.2.3-1) ")
    assert (tmp_path / "rules").stat().st_mode & 0o111
