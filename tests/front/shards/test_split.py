"""`tuskml.split`: sorted shards of bounded size, and a manifest that says what is in them."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tuskml
from tuskml.cluster.shards.manifest import NAME, read_manifest

ROWS = """
SELECT CASE WHEN i % 13 = 12 THEN NULL ELSE 'g' || i % 13 END AS g, hash(i)::DOUBLE / 7 AS x,
       DATE '2024-01-01' + (i % 500)::INTEGER AS day
FROM range(40000) t(i) UNION ALL SELECT 'large', hash(i)::DOUBLE, NULL FROM range(60000) t(i)
"""


@pytest.fixture(scope="module")
def opened() -> Iterator[duckdb.DuckDBPyConnection]:
    """One connection for all examples of a property."""
    with tuskml.connect() as connection:
        yield connection


def test_all_rows_are_there_in_shards_below_the_limit(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    manifest = tuskml.split(
        con, source=ROWS, group_by="g", into=tmp_path / "s", shard_bytes=200_000
    )
    files = sorted((tmp_path / "s").glob("*.parquet"))
    assert [file.name for file in files] == [shard.file for shard in manifest.shards]
    assert len(files) > 2
    assert [file.stat().st_size for file in files] == [shard.bytes for shard in manifest.shards]
    assert max(shard.bytes for shard in manifest.shards) <= 200_000
    difference = f"SELECT count(*) FROM (({ROWS}) EXCEPT ALL FROM '{manifest.source}')"
    assert con.execute(difference).fetchall() == [(0,)]
    assert manifest.rows == 100_000


def test_the_usual_order_of_the_database_does_not_matter(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    con.execute("SET default_order = 'DESC'")
    manifest = tuskml.split(con, source=ROWS, group_by="g", into=tmp_path / "s")
    assert [group.key[0] for group in manifest.groups][-2:] == ["large", None]
    difference = f"SELECT count(*) FROM (({ROWS}) EXCEPT ALL FROM '{manifest.source}')"
    assert con.execute(difference).fetchall() == [(0,)]


def test_the_manifest_says_what_the_shards_hold(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    manifest = tuskml.split(
        con, source=ROWS, group_by="g", into=tmp_path / "s", shard_bytes=200_000
    )
    held = [
        dict(con.execute(f"SELECT g, count(*) FROM '{tmp_path}/s/{s.file}' GROUP BY g").fetchall())
        for s in manifest.shards
    ]
    assert [sum(found.values()) for found in held] == [shard.rows for shard in manifest.shards]
    for group in manifest.groups:
        (key,) = group.key
        places = tuple(place for place, found in enumerate(held) if key in found)
        assert group.shards == places
        assert group.rows == sum(held[place][key] for place in places)
    assert [group.key[0] for group in manifest.groups][-2:] == ["large", None]
    for shard in manifest.shards:
        data = (tmp_path / "s" / shard.file).read_bytes()
        assert hashlib.sha256(data).hexdigest() == shard.sha256
        least, most = con.execute(
            f"SELECT min(x), max(x) FROM '{tmp_path}/s/{shard.file}'"
        ).fetchall()[0]
        assert (shard.statistics["x"]["min"], shard.statistics["x"]["max"]) == (least, most)
    assert json.loads((tmp_path / "s" / NAME).read_text())["rows"] == 100_000
    assert read_manifest(tmp_path / "s") == manifest


@pytest.mark.nightly
@settings(max_examples=12)
@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=12),
    limit=st.integers(2_000, 20_000),
)
def test_only_groups_larger_than_a_shard_have_several(
    opened: duckdb.DuckDBPyConnection, sizes: list[int], limit: int
) -> None:
    from tempfile import TemporaryDirectory

    parts = " UNION ALL ".join(
        f"SELECT {place} AS g, hash(i, {place}) AS x FROM range({n}) t(i)"
        for place, n in enumerate(sizes)
    )
    with TemporaryDirectory() as folder:
        manifest = tuskml.split(
            opened, source=parts, group_by="g", into=f"{folder}/s", shard_bytes=limit
        )
    assert [group.rows for group in manifest.groups] == sizes
    assert sum(shard.rows for shard in manifest.shards) == sum(sizes)
    assert all(shard.bytes <= limit or shard.rows == 1 for shard in manifest.shards)
    for group in manifest.groups:
        for place in group.shards[:-1] if len(group.shards) > 1 else ():
            others = [one for one in manifest.groups if one != group and place in one.shards]
            assert others == [], "a shard of a large group holds another group's rows"


def test_a_key_may_be_an_expression(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    manifest = tuskml.split(con, source=ROWS, group_by="month(day) AS month", into=tmp_path / "s")
    assert manifest.group_by == ("month",)
    assert [group.key for group in manifest.groups] == [
        *((str(m),) for m in range(1, 13)),
        (None,),
    ]


def test_rows_keep_their_place_where_the_session_does_not_care_for_it(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    con.execute("SET preserve_insertion_order = false")
    manifest = tuskml.split(
        con, source=ROWS, group_by="g", into=tmp_path / "s", shard_bytes=99_999
    )
    assert manifest.rows == sum(group.rows for group in manifest.groups) == 100_000
    assert con.execute("SELECT current_setting('preserve_insertion_order')").fetchall() == [
        (False,)
    ]
    assert con.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"group_by": "gg"}, "neither a column of the query nor an SQL expression|did you mean"),
        ({"group_by": "month(day) AS x"}, "names a key 'x', which is a column of the query"),
        ({"source": "SELECT 1 AS g WHERE false"}, "source has no rows, expected some to split"),
        ({"shard_bytes": 0}, "shard_bytes is 0, expected a whole number of bytes"),
        ({"into": "/nowhere/at/all"}, "in a folder that does not exist"),
    ],
)
def test_what_cannot_be_split_is_said_in_a_sentence(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, given: dict[str, Any], sentence: str
) -> None:
    usual = {"source": ROWS, "group_by": "g", "into": tmp_path / "s"}
    with pytest.raises(tuskml.TuskError, match=sentence):
        tuskml.split(con, **usual | given)
    assert list(tmp_path.iterdir()) == []


def test_without_keys_the_order_of_rows_does_not_matter(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """Nor does a transaction, in which the rows of a new table have other numbers. Each shard has
    early and late rows."""
    one = tuskml.split(con, source=ROWS, into=tmp_path / "a", shard_bytes=99_999)
    con.execute("BEGIN")
    rows = f"SELECT * FROM ({ROWS}) ORDER BY hash(x, 1)"
    other = tuskml.split(con, source=rows, into=tmp_path / "b", shard_bytes=99_999)
    con.execute("ROLLBACK")
    ((key, n),) = ((group.key, group.rows) for group in one.groups)
    assert (key, n, one.group_by) == ((), 100_000, ())
    assert [shard.sha256 for shard in other.shards] == [shard.sha256 for shard in one.shards]
    assert len(one.shards) > 3
    files = f"read_parquet('{one.source}', filename = true)"
    kinds = con.execute(f"SELECT count(DISTINCT g = 'large') FROM {files} GROUP BY filename")
    assert set(kinds.fetchall()) == {(2,)}


def test_each_group_is_mixed(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """The first half of a group's rows is like the second one, whatever order they had."""
    rows = "SELECT i % 2 AS g, i // 1000 AS y FROM range(2000) t(i)"
    made = tuskml.split(con, source=rows, group_by="g", into=tmp_path / "s")
    halves = con.execute(
        f"SELECT g, avg(y) FROM (SELECT g, y, file_row_number // 500 AS half FROM "
        f"read_parquet('{made.source}')) GROUP BY g, half"
    ).fetchall()
    assert len(halves) == 4
    assert all(0.4 < share < 0.6 for _, share in halves)


def test_a_folder_is_replaced_only_when_asked(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    folder = tmp_path / "s"
    tuskml.split(con, source=ROWS, group_by="g", into=folder)
    with pytest.raises(tuskml.DataError, match="already exists: give into another name, or rep"):
        tuskml.split(con, source=ROWS, group_by="g", into=folder)
    less = tuskml.split(con, source=f"{ROWS} LIMIT 7", group_by="g", into=folder, replace=True)
    assert read_manifest(folder) == less
    assert less.rows == 7
    (folder / NAME).unlink()
    with pytest.raises(tuskml.DataError, match="exists and is not a folder of shards"):
        tuskml.split(con, source=ROWS, group_by="g", into=folder, replace=True)
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"rows": 100000', '"rows": 100001', "is damaged: restore it"),
        ('"format": 1', '"format": 2', "is damaged: restore it"),
        ("{", "", "is damaged: restore it"),
    ],
)
def test_a_damaged_manifest_is_refused(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    tuskml.split(con, source=ROWS, group_by="g", into=tmp_path / "s")
    path = tmp_path / "s" / NAME
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(tuskml.DataError, match=sentence):
        read_manifest(tmp_path / "s")
