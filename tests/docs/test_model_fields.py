"""A model's fields are said once: what follows from the schema is not stale."""

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import tuskml
from tuskml.learners.models import Models
from tuskml.udas.model_fields import MODEL_FIELDS


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "scripts" / "build" / "model_fields.py"
    spec = importlib.util.spec_from_file_location("write_model_fields", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_follows_from_the_schema_is_not_stale(generator: ModuleType) -> None:
    for path, text in generator.contents().items():
        assert path.read_text() == text, f"{path} is stale: run scripts/build/model_fields.py"


def test_a_change_of_the_schema_is_seen(
    generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = generator.SCHEMA.read_text().replace(
        "FIELD(LOSS, loss, NUMBER,", "FIELD(LOSS, loss, COUNT,"
    )
    (tmp_path / "model_fields.h").write_text(changed)
    monkeypatch.setattr(generator, "SCHEMA", tmp_path / "model_fields.h")
    stale = [path.name for path, text in generator.contents().items() if path.read_text() != text]
    assert stale == ["model_fields.py", "registry.sql", "macros.sql", "10_types.sql", "model.md"]
    (tmp_path / "model_fields.h").write_text(
        changed.replace("FIELD(LOSS, loss,", "FIELD(LOSS loss,")
    )
    with pytest.raises(ValueError, match="a line that is no FIELD"):
        generator.fields()


def test_python_has_the_fields_of_the_schema() -> None:
    names = {field.name for field in MODEL_FIELDS}
    trained = set(inspect.signature(Models).parameters)
    assert trained - names == {"group", "covariance", "ratios"}  # models do not keep these
    assert names - trained == {"payload"}
    assert set(inspect.signature(tuskml.Model).parameters) - names == {"label"}


def test_duckdb_has_the_fields_of_the_schema() -> None:
    with tuskml.connect() as con:
        (kind,) = con.execute("SELECT typeof(train_model('linear', 1, [1.0]))").fetchone()
    fields = ", ".join(f"{field.name} {field.duckdb}" for field in MODEL_FIELDS)
    assert kind.replace('"', "") == f"STRUCT({fields})"
