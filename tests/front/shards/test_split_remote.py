"""`tuskml.split` to a file system of fsspec, and trainings on what it wrote there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tuskml
from tuskml.cluster.shards import catalogue
from tuskml.cluster.shards.manifest import NAME

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: pip install fsspec")

ROWS = """
SELECT 'g' || i % 7 AS g, x, hash(i, 2) % 1000 / 1000 < 1 / (1 + exp(-x)) AS y
FROM (SELECT i, hash(i)::DOUBLE / 1e19 AS x FROM range(40000) t(i))
"""
GIVEN: dict[str, Any] = {
    "label": "y", "features": ["x"], "group_by": "g", "deterministic": True, "executor": "threads",
}  # fmt: skip


@pytest.fixture
def files() -> Iterator[Any]:
    """A storage in memory, empty."""
    found = fsspec.filesystem("memory")
    found.store.clear()
    yield found
    found.store.clear()


@pytest.fixture
def con(files: Any) -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect() as connection:
        connection.register_filesystem(files)
        yield connection


def split(con: object, into: object, **more: Any) -> Any:
    return tuskml.split(con, source=ROWS, group_by="g", into=into, shard_bytes=100_000, **more)


def test_shards_and_models_are_those_of_a_local_folder(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest says which groups there are, so no column of keys is read."""
    here, there = split(con, tmp_path / "s"), split(con, "memory://bucket/s/")
    assert there.source == "memory://bucket/s/*.parquet"
    assert len(there.shards) > 2
    assert there.move_to(here.folder) == here
    expected = tuskml.train(con, "logistic", source=here.source, **GIVEN)
    monkeypatch.delattr(catalogue, "of_files")
    found = tuskml.train(con, "logistic", source=there.source, **GIVEN)
    assert {key: one.payload for key, one in found.items()} == {
        key: one.payload for key, one in expected.items()
    }


def test_a_place_that_is_taken_is_kept(con: duckdb.DuckDBPyConnection, files: Any) -> None:
    """Replaced shards leave nothing of the earlier ones, and a failed query leaves these."""
    first = split(con, "memory://bucket/s")
    with pytest.raises(tuskml.DataError, match=r"'memory://bucket/s' already exists: give into"):
        split(con, "memory://bucket/s")
    with pytest.raises(tuskml.DataError):
        tuskml.split(con, source="SELECT error('no') AS g", group_by="g",
                     into="memory://bucket/s", replace=True)  # fmt: skip
    assert len(files.ls("/bucket/s")) == len(first.shards) + 1
    small = tuskml.split(con, source=f"SELECT * FROM ({ROWS}) LIMIT 9", group_by="g",
                         into="memory://bucket/s", replace=True)  # fmt: skip
    names = sorted(path.rsplit("/", 1)[-1] for path in files.ls("/bucket/s", detail=False))
    assert names == [NAME, *(shard.file for shard in small.shards)]
    files.pipe("/bucket/other/notes.txt", b"mine")
    with pytest.raises(tuskml.DataError, match="exists and is not a folder of shards"):
        split(con, "memory://bucket/other", replace=True)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda files, shard: files.rm(shard), "is missing, which the manifest lists"),
        (lambda files, shard: files.pipe(shard, b"PAR1"), "is damaged"),
        (lambda files, shard: files.copy(shard, "/bucket/s/more.parquet"), "has 'more.parquet'"),
        (lambda files, shard: files.pipe(f"/bucket/s/{NAME}", b"{}"), "json is damaged"),
    ],
)
def test_what_is_not_as_it_was_written_is_a_sentence(
    con: duckdb.DuckDBPyConnection, files: Any, change: Any, sentence: str
) -> None:
    manifest = split(con, "memory://bucket/s")
    change(files, f"/bucket/s/{manifest.shards[1].file}")
    with pytest.raises(tuskml.DataError, match=sentence):
        tuskml.train(con, "logistic", source=manifest.source, **GIVEN)


def test_a_failed_write_is_a_sentence_and_leaves_no_manifest(
    con: duckdb.DuckDBPyConnection, files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []

    def put_file(here: str, there: str) -> None:
        if sent:
            raise PermissionError("quota of the bucket")
        sent.append(there)

    monkeypatch.setattr(files, "put_file", put_file)
    with pytest.raises(tuskml.DataError, match="bucket/s cannot be written: quota of the bucket"):
        split(con, "memory://bucket/s")
    assert not files.exists("/bucket/s/manifest.json")


def test_a_file_system_that_is_not_there_is_a_sentence(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(tuskml.DataError, match="'none-such', which this process cannot open"):
        split(con, "none-such://bucket/s")
