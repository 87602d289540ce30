"""File systems of fsspec that DuckDB reads shards from, on this machine and on workers.

A caller registers one with DuckDB, as `con.register_filesystem(fsspec.filesystem("s3"))`. Workers
register the one of the same name, with the settings that fsspec finds there: its configuration
files, and environment variables. So no key and no secret of a storage travels or is logged.
"""

from collections.abc import Iterable

import duckdb

from tuskml.errors import ExtensionError


def storages(connection: duckdb.DuckDBPyConnection, paths: Iterable[str]) -> list[str]:
    """Names of the file systems of fsspec that a connection has registered for shards' paths.

    DuckDB lists those of its own extensions too, such as `HTTPFileSystem` of httpfs, which workers
    load by themselves.
    """
    registered = connection.list_filesystems()
    if not registered or not any("://" in path for path in paths):
        return []
    try:
        import fsspec
    except ImportError:  # then all are DuckDB's
        return []
    known = {*fsspec.available_protocols(), *fsspec.registry}  # and the program's own classes
    return sorted(known.intersection(registered))


def register(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Registers missing file systems with a connection. Raises ExtensionError for one that
    cannot be made.
    """
    there = set(connection.list_filesystems())
    for name in names:
        if name in there:
            continue
        try:
            import fsspec

            connection.register_filesystem(fsspec.filesystem(name))
        except (ImportError, ValueError) as error:
            raise ExtensionError(
                f"the shards lie on the file system '{name}', which this worker cannot open: "
                f"install it there as on this machine ({' '.join(str(error).split())})"
            ) from error
