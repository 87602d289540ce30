"""Which versions live: a group's model is a lineage of its own, and the collector keeps it."""

import json
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from tuskml.commands.cli import main
from tuskml.errors import StoreError
from tuskml.kvstore import Rules, StoreRoot, access, collect, versions
from tuskml.kvstore.files import read_record, write_record


def publish(root: StoreRoot, training: str, value: float, continues: str | None = None) -> str:
    part = StoreRoot(root.path, training)
    pairs = [(np.arange(3), np.full(3, value))]
    folder = root.path / "m"
    if continues is None:
        return part.publish_pairs("m", pairs, "float64").reference
    return part._seal(folder, pairs, "float64", None, b"", None, continues).reference


def grouped(root: StoreRoot, training: str, groups: int = 5) -> list[str]:
    values = [float(crc32(f"{training} {i}".encode())) for i in range(groups)]
    return [publish(root, training, value) for value in values]


def test_models_of_groups_are_no_predecessors(stores: StoreRoot) -> None:
    models = grouped(stores, "first")
    assert collect(stores, rules=Rules(keep=0, older_than=-9)) == []
    assert collect(stores, rules=Rules(keep=1, older_than=-9)) == []
    for reference in models:
        stores.open(reference).verify()


def test_later_trainings_of_some_groups_leave_the_others(stores: StoreRoot) -> None:
    models = (
        grouped(stores, "first") + grouped(stores, "second", 2) + [publish(stores, "third", 7)]
    )
    assert collect(stores, rules=Rules(keep=0, older_than=-9)) == []
    for reference in models:
        stores.open(reference).verify()


def test_a_warm_start_continues_its_lineage(stores: StoreRoot) -> None:
    first = grouped(stores, "first", 3)
    second = [publish(stores, "second", 10.0 + i, first[i]) for i in range(2)]
    third = publish(stores, "third", 20.0, second[0])
    origins = [stores.version(f"m@{n}").origin for n in range(1, 7)]
    assert [each.lineage for each in origins] == [1, 2, 3, 1, 2, 1]
    assert [each.ordinal for each in origins] == [1, 2, 3, 1, 2, 1]
    removed = collect(stores, rules=Rules(keep=1, older_than=-9))
    assert {each.path.name for each in removed if each.path.parent.name == "versions"} == {"1"}
    collect(stores, rules=Rules(keep=0, older_than=-9))
    assert stores.versions("m") == [3, 5, 6]
    for reference in (first[2], second[1], third):
        stores.open(reference).verify()
    with pytest.raises(StoreError, match="has no version 1"):
        stores.open(first[0])


def test_a_name_that_is_one_model_keeps_its_newest(stores: StoreRoot) -> None:
    for value in range(5):
        stores.publish_weights("m", np.full(3, float(value)))
    stores.make_current("m@2")
    collect(stores, rules=Rules(keep=1, older_than=-9))
    assert stores.versions("m") == [2, 5]


def test_the_newest_trainings(stores: StoreRoot) -> None:
    """For who knows that a statement trains all the groups again."""
    grouped(stores, "first")
    second = grouped(stores, "second")
    assert collect(stores, rules=Rules(trainings=2, older_than=-9)) == []
    removed = collect(stores, rules=Rules(trainings=1, older_than=-9))
    assert stores.versions("m") == [6, 7, 8, 9, 10]
    assert len(removed) == 10
    for reference in second:
        stores.open(reference).verify()
    with pytest.raises(StoreError, match="trainings must be at least 1"):
        collect(stores, rules=Rules(trainings=0))


def test_what_a_model_names_stays(stores: StoreRoot) -> None:
    """Its version and its file; a version that is dropped leaves the file that is named."""
    old = [stores.publish_weights("m", np.full(3, float(value))).reference for value in range(4)]
    stores.drop(old[1])
    collect(stores, rules=Rules(keep=0, older_than=-9, spare=[old[0], old[1]]))
    assert stores.versions("m") == [1, 4]
    assert len(list((stores.path / "m" / "sealed").iterdir())) == 3
    stores.open(old[0]).verify()


def test_listing_is_what_is_removed_and_no_more(stores: StoreRoot) -> None:
    for value in range(3):
        stores.publish_weights("m", np.full(3, float(value)))
    listed = collect(stores, rules=Rules(keep=0, older_than=-9), dry_run=True)
    assert stores.versions("m") == [1, 2, 3]
    stores.publish_weights("m", np.full(3, 9.0))
    only = {each.path for each in listed}
    assert {
        each.path for each in collect(stores, rules=Rules(keep=0, older_than=-9, only=only))
    } == only
    assert stores.versions("m") == [3, 4], "3 was the current version when it was listed"
    stores.open("m@3").verify()


# --- records ---


@pytest.mark.fault(family="upgrades")
def test_records_of_format_1_are_read_and_kept(stores: StoreRoot) -> None:
    """As version 0.1 wrote them: neither training nor owner."""
    for value in range(3):
        stores.publish_weights("m", np.full(3, float(value)))
    folder = stores.path / "m"
    for path in [*(folder / "versions").iterdir(), folder / "current"]:
        record, _ = read_record(path, "version")
        assert record.keys() == {"kind", "format", "version", "origin", "owner"}
        write_record(path, {"kind": "version", "version": record["version"]})
    found = stores.version("m@1")
    assert (found.number, found.origin, found.owner) == (1, None, None)
    assert collect(stores, rules=Rules(keep=0, trainings=1, older_than=-9)) == []
    assert stores.make_current("m@2").origin is None
    assert stores.publish_weights("m", np.ones(4)).number == 4
    collect(stores, rules=Rules(keep=0, older_than=-9))
    assert stores.versions("m") == [1, 2, 3, 4]


def test_records_of_a_later_format_are_refused_in_a_sentence(stores: StoreRoot) -> None:
    stores.publish_weights("m", np.ones(3))
    path = stores.path / "m" / "versions" / "1"
    record, _ = read_record(path, "version")
    write_record(path, record | {"format": versions.FORMAT + 1})
    with pytest.raises(StoreError, match="has format 3, this tuskml reads formats 1 to 2"):
        stores.version("m@1")
    write_record(path, {"kind": "version", "format": 2, "version": record["version"]})
    with pytest.raises(StoreError, match="it is no record of a version"):
        stores.version("m@1")


def test_who_trained_is_written_down(stores: StoreRoot) -> None:
    import os
    import pwd

    found = stores.publish_weights("m", np.ones(3)).owner
    assert (found.role, found.role_id) == (pwd.getpwuid(os.geteuid()).pw_name, os.geteuid())
    assert (found.database, found.database_id) == (None, None)
    assert str(access.Owner("ann", 16385, "shop", 5)) == "ann of database shop"


# --- the command ---


@pytest.fixture
def gc(stores: StoreRoot, capsys: pytest.CaptureFixture[str]):
    def run(*given: str) -> tuple[int, str, str]:
        code = main(["store", "gc", "--root", str(stores.path), "--older-than", "0s", *given])
        return (code, *capsys.readouterr())

    for value in range(3):
        stores.publish_weights("m", np.full(3, float(value)))
    return run


def test_gc_lists_first_and_asks(stores: StoreRoot, gc, monkeypatch) -> None:
    code, out, err = gc("--keep", "0")
    assert (code, stores.versions("m")) == (1, [1, 2, 3])
    assert "would remove" in out
    assert "there is no terminal to ask on, expected --yes" in err
    for answer, left in (("n", [1, 2, 3]), ("", [1, 2, 3]), ("yes", [3])):
        monkeypatch.setattr("tuskml.commands.store.ask_terminal", lambda _, answer=answer: answer)
        code, out, err = gc("--keep", "0")
        assert (code, stores.versions("m")) == (0, left)
    assert "removed " in out
    assert gc("--keep", "0") == (0, f"nothing in {stores.path} to remove\n", "")


def test_gc_without_a_question(stores: StoreRoot, gc) -> None:
    code, out, _ = gc("--keep", "0", "--dry-run", "--json")
    listed = json.loads(out)
    assert (code, stores.versions("m")) == (0, [1, 2, 3])
    code, out, _ = gc("--keep", "0", "--yes", "--json")
    assert (code, json.loads(out), stores.versions("m")) == (0, listed, [3])


def test_gc_spares_what_a_database_names(stores: StoreRoot, gc, tmp_path: Path) -> None:
    import tuskml

    first, second, _ = (stores.version(f"m@{n}").reference for n in (1, 2, 3))
    path = tmp_path / "app.duckdb"
    with tuskml.connect(path) as con:
        con.execute("CREATE TABLE plain AS SELECT 1 AS store")
        con.execute("CREATE SCHEMA s")
        con.execute(
            "CREATE TABLE s.models AS SELECT 'x' AS name, train_model('linear', i, [i]) AS model "
            "FROM range(9) t(i)"
        )
        con.execute("CREATE TABLE s.kept AS SELECT [model] AS several FROM s.models")
        update = "UPDATE s.models SET model = struct_update(model, store := ?)"
        con.execute(update, [first])
    assert gc("--keep", "0", "--yes", "--database", str(path))[0] == 0
    assert stores.versions("m") == [1, 3]
    with pytest.raises(StoreError):
        stores.open(second)
    code, _, err = gc("--keep", "0", "--yes", "--database", str(tmp_path / "none.duckdb"))
    assert code == 1
    assert "none.duckdb" in err
    assert stores.versions("m") == [1, 3]
