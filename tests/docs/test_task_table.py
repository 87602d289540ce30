"""Tasks are said once: what follows from their table is not stale."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tuskml.learners.registry import TASKS
from tuskml.udas.tasks import TASK_TABLE


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "scripts" / "build" / "tasks.py"
    spec = importlib.util.spec_from_file_location("write_tasks", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_follows_from_the_table_is_not_stale(generator: ModuleType) -> None:
    for path, text in generator.contents().items():
        assert path.read_text() == text, f"{path} is stale: run scripts/build/tasks.py"


def test_every_row_is_a_task_of_a_learner() -> None:
    assert list(TASK_TABLE) == list(TASKS)


def test_a_change_of_the_table_is_seen(
    generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = generator.TABLE.read_text().replace(
        "TASK(gamma, linear, LINEAR,", "TASK(gamma, linear, NET,"
    )
    (tmp_path / "tasks.h").write_text(changed.replace("NUMBERS, STUDENT", "TWO, STUDENT"))
    monkeypatch.setattr(generator, "TABLE", tmp_path / "tasks.h")
    stale = [path.name for path, text in generator.contents().items() if path.read_text() != text]
    assert stale == ["tasks.py", "tasks.sql", "macros.sql", "10_types.sql"]
    (tmp_path / "tasks.h").write_text(
        changed.replace("TASK(gamma, linear, NET,", "TASK(gamma linear, NET,")
    )
    with pytest.raises(ValueError, match="is not TASK"):
        generator.rows()
