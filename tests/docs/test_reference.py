"""The reference is what the code's own tables say."""

import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import duckdb
import pytest


@pytest.fixture(scope="module")
def reference(root: Path) -> Iterator[ModuleType]:
    """scripts/docs/reference.py"""
    folder = root / "scripts" / "docs"
    sys.path.append(str(folder))  # for the modules beside it
    described = spec_from_file_location("docs_reference", folder / "reference.py")
    assert described is not None
    assert described.loader is not None
    module = module_from_spec(described)
    described.loader.exec_module(module)
    yield module
    sys.path.remove(str(folder))


def test_the_pages_are_as_the_generator_writes_them(reference: ModuleType) -> None:
    assert sorted(reference.stale()) == [], "run make docs"


@pytest.mark.nightly
def test_a_changed_option_is_noticed(reference: ModuleType, monkeypatch) -> None:
    from dataclasses import replace

    changed = reference.SHARED | {"seed": replace(reference.SHARED["seed"], meaning="another")}
    monkeypatch.setattr(reference, "SHARED", changed)
    assert list(reference.stale()) == ["options.md"]


def test_parts_of_other_pages_are_as_the_generator_writes_them(
    reference: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    import capabilities

    for name in ("duckdb_functions", "postgres_functions"):  # parts of both pages ask for them
        monkeypatch.setattr(capabilities, name, cache(getattr(capabilities, name)))
    assert sorted(capabilities.stale()) == [], "run make docs"
    tasks = dict(capabilities.TASKS)
    del tasks["fm"]
    monkeypatch.setattr(capabilities, "TASKS", tasks)
    assert sorted(capabilities.stale()) == ["comparison.md", "limits.md"]


def test_a_function_without_a_sentence_is_refused(reference: ModuleType) -> None:
    function = reference.Function("f", "scalar", [(("x",), ("DOUBLE",), "DOUBLE")])
    with pytest.raises(LookupError, match="f has no sentence"):
        reference.sentence_of("f", function, None)


def test_the_fields_of_a_model_are_in_the_manual(
    root: Path, con: duckdb.DuckDBPyConnection
) -> None:
    (kind,) = con.execute("DESCRIBE SELECT train_model('linear', 1, [2.0]) AS m").fetchone()[1:2]
    fields = re.findall(r'"?(\w+)"? ([A-Z]+(?:\[\])?)(?:, |\))', kind.removeprefix("STRUCT("))
    text = (root / "docs" / "sql" / "model.md").read_text()
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([A-Z]+(?:\[\])?) \|", text, re.MULTILINE)
    shown = [(name, kind) for names, kind in rows for name in re.findall(r"`(\w+)`", names)]
    assert shown == fields
    composite = (root / "sql" / "postgres" / "tuskml" / "10_types.sql").read_text()
    created = composite.split("tuskml_model AS (")[1].split(");")[0]
    assert re.findall(r"(\w+) [\w\[\]]+", created) == [name for name, _ in fields]


def test_settings_are_in_the_page_of_postgresql(root: Path) -> None:
    page = (root / "docs" / "postgres.md").read_text()
    source = (root / "udas" / "postgres" / "tuskml.c").read_text()
    defined = re.findall(r"DefineCustom\w+Variable\(\s*\"(tuskml\.\w+)\"", source)
    shown = re.findall(r"^\| `(tuskml\.\w+)` \|", page, re.MULTILINE)
    assert len(defined) >= 5
    assert sorted(shown) == sorted(defined)
