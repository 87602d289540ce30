"""What the comparison says that tuskml has is registered and tested, and the rest is refused."""

import sys
from pathlib import Path
from types import ModuleType

import duckdb
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def rivals() -> ModuleType:
    """scripts/docs/rivals.py"""
    sys.path.append(str(ROOT / "scripts" / "docs"))
    try:
        import rivals
    finally:
        sys.path.pop()
    return rivals


@pytest.fixture(scope="module")
def functions() -> set[str]:
    """The functions of both databases, by their scripts' own catalogues."""
    sys.path.append(str(ROOT / "scripts" / "docs"))
    try:
        from catalogue import duckdb_functions, postgres_functions
    finally:
        sys.path.pop()
    return set(duckdb_functions().keys() & postgres_functions().keys())


def test_each_feature_is_tested_or_lacking(rivals: ModuleType, functions: set[str]) -> None:
    for feature in rivals.FEATURES:
        if not rivals.has(feature, functions):
            assert not feature.test, f"{feature.name} is lacking, and has a test"
            continue
        assert feature.test, f"tuskml has {feature.name} now: name a test of it"
        file, _, name = feature.test.partition("::")
        text = (ROOT / "tests" / file).read_text()
        assert f"def {name}(" in text, feature.test
    assert sum(rivals.has(one, functions) for one in rivals.FEATURES) > 20


def test_others_are_known_systems(rivals: ModuleType) -> None:
    page = (ROOT / "docs" / "comparison.md").read_text()
    for feature in rivals.FEATURES:
        named = [name.removesuffix("*") for name in feature.others.split(", ")]
        assert len(set(named)) == len(named), feature.name
        assert set(named) <= set(rivals.SYSTEMS), feature.name
    assert all(name in page for name in rivals.SYSTEMS)


def test_what_is_lacking_is_refused(
    rivals: ModuleType, functions: set[str], con: duckdb.DuckDBPyConnection
) -> None:
    lacking = [one for one in rivals.FEATURES if not rivals.has(one, functions)]
    assert lacking
    for need in (need for one in lacking for need in one.needs):
        kind, name = need.split()
        call = f"train_model('{name}', 1.0, [1.0])" if kind == "task" else f"{name}(1.0)"
        wanted = f"task is '{name}'" if kind == "task" else "does not exist"
        with pytest.raises(duckdb.Error, match=wanted):
            con.execute(f"SELECT {call}")


def test_a_new_task_is_in_the_table(
    rivals: ModuleType, functions: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    survival = next(one for one in rivals.FEATURES if one.needs == ("task cox",))
    assert rivals.own_cell(survival, functions) == "–"
    monkeypatch.setattr(rivals, "TASKS", {"x": Named("cox")})
    assert rivals.own_cell(survival, functions) == "`cox`"


class Named:
    """A task of a name."""

    def __init__(self, name: str) -> None:
        self.name, self.also = name, ()
