"""The groups, their numbers of rows, and the files that hold them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from tuskml.cluster.shards.manifest import NAME, Manifest, parse_manifest, read_manifest
from tuskml.cluster.shards.remote import is_remote
from tuskml.databases.duckdb import DuckDB
from tuskml.errors import DataError, TuskError
from tuskml.text.expressions import quote_name

Key = tuple[str | None, ...]
"""The values of a group's keys as DuckDB's text of them; None is NULL."""
FILE = "tusk_file"


@dataclass(frozen=True)
class Shard:
    """A file of rows. checksum: SHA-256 as hexadecimal digits; if it is not known, modified is
    the time of the file's last change, in nanoseconds; for a remote file, footer is a digest
    of the Parquet footer's facts on each column of each row group.
    """

    path: str
    bytes: int
    checksum: str | None = None
    modified: int = 0
    footer: str | None = None


@dataclass(frozen=True)
class Group:
    """A group: its key, its number of rows, and the shards that hold them, by index.

    ranges: of each shard the first of these rows and the end, which only a manifest tells.
    """

    key: Key
    rows: int
    shards: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Catalogue:
    """All groups in the order of their keys, NULL last. key_types: DuckDB's types of the keys."""

    key_types: tuple[str, ...]
    shards: tuple[Shard, ...]
    groups: tuple[Group, ...]


def catalogue_of(
    database: DuckDB, files: Sequence[str], source: str, keys: Sequence[tuple[str, str]]
) -> Catalogue:
    """Reads the catalogue from the manifest next to the files, or from the columns of the keys.

    files: the caller's; source: the SQL after FROM; keys: names and SQL; without any, all rows are
    one group, whose key is (). Raises DataError if a shard of the manifest is missing.
    """
    manifest = manifest_beside(database, files, [sql for _, sql in keys])
    if manifest is not None:
        found = of_manifest(database, manifest)
        return found if keys else as_one_group(found, [one.rows for one in manifest.shards])
    return of_files(database, files, source, [sql for _, sql in keys])


def manifest_beside(
    database: DuckDB, files: Sequence[str], keys: Sequence[str]
) -> Manifest | None:
    """The manifest of a folder of shards, if the files are all of it and the keys are its keys, or
    there are no keys."""
    if len(files) != 1 or Path(files[0]).name != "*.parquet":
        return None
    if is_remote(files[0]):
        manifest = remote_manifest(database, files[0].removesuffix("/*.parquet"))
    else:
        manifest = read_manifest(Path(files[0]).parent)
    if manifest is None:
        return None
    same = [quote_name(name) for name in manifest.group_by] == list(keys)
    return manifest if same or not keys else None


def remote_manifest(database: DuckDB, folder: str) -> Manifest | None:
    """The manifest of a folder that DuckDB reads; None if it has none or cannot read it."""
    file = database.text(f"{folder}/{NAME}")
    try:
        found = database.fetch(f"SELECT content FROM read_text({file})")
    except TuskError:  # the look at the shards says why, if they cannot be read either
        return None
    return parse_manifest(folder, found[0][0]) if found else None


def as_one_group(found: Catalogue, rows: Sequence[int]) -> Catalogue:
    """The same rows as one group without a key; rows: of each shard."""
    ranges = tuple((0, n) for n in rows)
    return Catalogue((), found.shards, (Group((), sum(rows), tuple(range(len(rows))), ranges),))


def of_manifest(database: DuckDB, manifest: Manifest) -> Catalogue:
    """The catalogue of a manifest. Raises DataError for a shard that is missing or has another
    size.
    """
    there = sizes_of(database, manifest)
    more = sorted(set(there) - {shard.file for shard in manifest.shards})
    if more:
        raise DataError(
            f"the folder {manifest.folder} has {more[0]!r}, which its manifest does not list: "
            "remove it, or write the shards again with tuskml split"
        )
    shards = []
    for shard in manifest.shards:
        path = f"{manifest.folder}/{shard.file}"
        if shard.file not in there:
            raise DataError(
                f"the shard {path} is missing, which the manifest lists: restore it, or write the "
                "shards again with tuskml split"
            )
        if there[shard.file] not in {shard.bytes, None}:
            raise DataError(damage_error(path))
        shards.append(Shard(path, shard.bytes, shard.sha256))
    return Catalogue(manifest.key_types, tuple(shards), tuple(groups_of(manifest)))


def groups_of(manifest: Manifest) -> Iterator[Group]:
    """The groups, whose rows follow each other over all shards."""
    ends = list(accumulate(shard.rows for shard in manifest.shards))
    begin = 0
    for group in manifest.groups:
        end = begin + group.rows
        starts = [ends[place] - manifest.shards[place].rows for place in group.shards]
        ranges = tuple(
            (max(begin - start, 0), min(end, ends[place]) - start)
            for place, start in zip(group.shards, starts, strict=True)
        )
        yield Group(group.key, group.rows, group.shards, ranges)
        begin = end


def sizes_of(database: DuckDB, manifest: Manifest) -> dict[str, int | None]:
    """Bytes of each Parquet file in the folder, by name; None where a storage does not know."""
    if isinstance(manifest.folder, Path):
        files = manifest.folder.glob("*.parquet")
        return {one.name: one.stat().st_size for one in files if one.exists()}
    query = f"SELECT filename, size FROM read_blob({database.text(manifest.source)})"
    return {str(path).rsplit("/", 1)[-1]: size for path, size in database.fetch(query)}


def damage_error(path: str) -> str:
    """The error for a shard that differs from the manifest."""
    return (
        f"the shard {path} is damaged, its checksum is not the manifest's: restore it, or write "
        "the shards again with tuskml split"
    )


def of_files(
    database: DuckDB, files: Sequence[str], source: str, keys: Sequence[str]
) -> Catalogue:
    """The catalogue from one query, which reads the columns of the keys."""
    listed = ", ".join(map(database.text, files))
    relation = f"read_parquet([{listed}], filename = '{FILE}') AS source"
    if not keys:
        counted = database.fetch(
            f"SELECT {FILE}, count(*) FROM {relation} GROUP BY ALL ORDER BY 1"
        )
        shards = tuple(shard_of(database, path) for path, _ in counted)
        everything = Group((), sum(n for _, n in counted), tuple(range(len(shards))))
        return Catalogue((), shards, (everything,) if counted else ())
    names = [f"tusk_key_{place}" for place in range(len(keys))]
    named = ", ".join(f"{sql} AS {name}" for sql, name in zip(keys, names, strict=True))
    texts = ", ".join(f"CAST({name} AS VARCHAR)" for name in names)
    order = ", ".join(f"{name} ASC NULLS LAST" for name in names)  # whatever order is usual
    rows = database.fetch(
        f"SELECT {texts}, sum(n)::BIGINT, list({FILE} ORDER BY {FILE}) FROM "
        f"(SELECT {named}, {FILE}, count(*) AS n FROM {relation} GROUP BY ALL) "
        f"GROUP BY {', '.join(names)} ORDER BY {order}"
    )
    paths = sorted({path for row in rows for path in row[-1]})
    place = {path: number for number, path in enumerate(paths)}
    types = tuple(kind for _, kind in database.columns(f"SELECT {named} FROM {source}"))
    groups = (Group(tuple(key), n, tuple(place[p] for p in held)) for *key, n, held in rows)
    return Catalogue(types, tuple(shard_of(database, path) for path in paths), tuple(groups))


def shard_of(database: DuckDB, path: str) -> Shard:
    """A file without a checksum."""
    try:
        found = Path(path).stat()
    except OSError:
        return remote_shard(database, path)
    return Shard(path, found.st_size, modified=found.st_mtime_ns)


FOOTER = """
SELECT md5(string_agg(
    concat_ws('|', row_group_id, row_group_num_rows, column_id, path_in_schema, type, num_values,
              stats_min_value, stats_max_value, stats_null_count, compression, encodings,
              data_page_offset, total_compressed_size, total_uncompressed_size),
    chr(10) ORDER BY row_group_id, column_id))
FROM parquet_metadata({file})
"""
LOOKED_AT = "SELECT size, epoch_ns(last_modified::TIMESTAMP_NS) FROM read_blob({file})"
"""Columns that need no look into the file; not every storage knows them."""


def remote_shard(database: DuckDB, path: str) -> Shard:
    """A remote file: its size and time if known, and the facts of its footer."""
    file = database.text(path)
    try:
        size, modified = database.fetch(LOOKED_AT.format(file=file))[0]
    except TuskError:
        size, modified = 0, 0
    footer = database.fetch(FOOTER.format(file=file))[0][0]
    return Shard(path, size or 0, modified=modified or 0, footer=footer)
