"""`tuskml postgres`: installs, checks, upgrades and removes the extension.

Each command yields what it has done or found as name and value, and raises a TuskError whose
sentence says what mends it.
"""

import json
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString

from tuskml.databases.extension import pgxs
from tuskml.databases.postgres_connection import connected, sentence
from tuskml.errors import ExtensionError, TuskError
from tuskml.version import VERSION

if TYPE_CHECKING:
    import psycopg

Facts = Iterator[tuple[str, str]]
EXTENSION = """
SELECT (SELECT default_version FROM pg_catalog.pg_available_extensions WHERE name = 'tuskml'),
       (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'tuskml')
"""
SCHEMA = """
SELECT nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n
    ON n.oid = e.extnamespace WHERE extname = 'tuskml'
"""
TRAINING = """
SELECT (model).coef[1], (model).intercept, (model).status
FROM (SELECT {}.train_model('linear', 2 * x + 1, ARRAY[x]) AS model
      FROM generate_series(0, {}) AS x) AS trained
"""
PYTHON_VERSION = """
DO LANGUAGE plpython3u $$
    import platform
    found = plpy.prepare("SELECT pg_catalog.set_config('tusk_check.python', $1, false)", ["text"])
    plpy.execute(found, [platform.python_version()])
$$
"""


def show(facts: Facts, as_json: bool) -> None:
    """Prints facts as they come, or all of them as one JSON object, the error in it too."""
    found: dict[str, str] = {}
    try:
        for name, value in facts:
            found[name] = value
            if not as_json:
                print(f"{name:<12}{value}", flush=True)
    except TuskError as error:
        found["error"] = str(error)
        raise
    finally:
        if as_json:
            print(json.dumps(found))


# --- the commands ---


def run(action: str, pg_config: Path | None, database: str | None) -> Facts:
    """What one of the commands does or finds."""
    if action == "check":
        return check(database)
    return {"install": install, "upgrade": upgrade, "uninstall": uninstall}[action](
        pg_config, database
    )


def install(pg_config: Path | None, database: str | None) -> Facts:
    """Builds the extension for a server, installs it, and creates it in a database."""
    server = yield from install_files(pg_config)
    if database is None:
        yield "next", "CREATE EXTENSION tuskml CASCADE; as superuser, in each database to use it"
        return
    with connected(database) as connection:
        check_same(connection, server)
        before = version_in(connection)
        if before not in (None, VERSION):
            raise ExtensionError(
                f"the database has version {before} of the extension, and {VERSION} is installed: "
                f"tuskml postgres upgrade --database {database}"
            )
        if before is None:
            connection.execute("CREATE EXTENSION tuskml CASCADE")
        yield "database", f"{connection.info.dbname}, {'has it' if before else 'created'}"


def upgrade(pg_config: Path | None, database: str | None) -> Facts:
    """Installs this version's files, and brings a database's extension to this version."""
    server = yield from install_files(pg_config)
    if database is None:
        yield "next", "ALTER EXTENSION tuskml UPDATE; in each database that has it"
        return
    with connected(database) as connection:
        check_same(connection, server)
        before = version_in(connection)
        if before is None:
            raise ExtensionError(
                f"the database {connection.info.dbname} has no tuskml to upgrade: "
                f"tuskml postgres install --database {database}"
            )
        connection.execute("ALTER EXTENSION tuskml UPDATE")
        yield "database", f"{connection.info.dbname}, from {before} to {version_in(connection)}"


def uninstall(pg_config: Path | None, database: str | None) -> Facts:
    """Drops the extension in a database, and removes its files from the server."""
    if database is not None:
        with connected(database) as connection:
            dropped = version_in(connection) is not None
            connection.execute("DROP EXTENSION IF EXISTS tuskml")
            yield "database", f"{connection.info.dbname}, {'dropped' if dropped else 'had none'}"
    server = pgxs.find(pg_config)
    yield "server", f"PostgreSQL {server.version}"
    removed = pgxs.uninstall(server)
    yield "removed", " ".join(map(str, removed)) or "nothing, no file of tuskml was there"


def check(database: str | None) -> Facts:
    """Versions and paths as a database's server sees them, and a training with a known answer."""
    yield "package", VERSION
    with connected(database or "") as connection:
        yield "server", f"PostgreSQL {setting(connection, 'server_version')}"
        yield "database", connection.info.dbname
        yield "extension", check_extension(connection)
        yield "plpython3u", python_of(connection)
        load(connection)
        path = setting(connection, "tuskml.python_path")
        yield "python path", path
        yield "training", check_training(connection, path)


# --- their parts ---


def install_files(pg_config: Path | None) -> Generator[tuple[str, str], None, pgxs.Server]:
    """The files of the extension, into the server that pg_config describes."""
    server = pgxs.find(pg_config)
    yield "server", f"PostgreSQL {server.version}, by {server.pg_config}"
    pgxs.check_server(server)
    pgxs.check_python(server)
    path = pgxs.python_path()
    user = pgxs.server_user(server)
    if user:
        pgxs.check_readable(path, user)
    yield "python path", path
    yield "installed", " ".join(map(str, pgxs.install(server, path)))
    return server


def check_same(connection: "psycopg.Connection", server: pgxs.Server) -> None:
    """The files were installed for this database's server, which sees them."""
    running = connection.info.server_version // 10000
    if running != server.major:
        raise ExtensionError(
            f"the database's server is PostgreSQL {running}, and {server.pg_config} is of "
            f"PostgreSQL {server.major}, expected the same: give --pg-config "
            f"{pgxs.DEBIAN}/{running}/bin/pg_config"
        )
    row = connection.execute(EXTENSION).fetchone()
    if row is None or row[0] is None:
        raise ExtensionError(
            f"the database's server does not see the files that were installed by "
            f"{server.pg_config}: it is another installation, or on another machine, expected "
            "--pg-config to be the server's own, run where the server runs"
        )


def version_in(connection: "psycopg.Connection") -> str | None:
    """Returns the version of the extension that the database has."""
    row = connection.execute(EXTENSION).fetchone()
    return row[1] if row else None


def check_extension(connection: "psycopg.Connection") -> str:
    """The extension's version, if it is there and the package's."""
    row = connection.execute(EXTENSION).fetchone()
    files, created = row or (None, None)
    name = connection.info.dbname
    if files is None:
        raise ExtensionError(
            f"the server of database {name} has no files of tuskml: "
            f"tuskml postgres install --database {name}"
        )
    if created is None:
        raise ExtensionError(
            f"the database {name} has no extension tuskml: "
            "a superuser creates it by CREATE EXTENSION tuskml CASCADE"
        )
    if created != VERSION:
        raise ExtensionError(
            f"the database {name} has version {created} of the extension, and the package is "
            f"version {VERSION}, expected the same: tuskml postgres upgrade --database {name}"
        )
    return str(created)


def python_of(connection: "psycopg.Connection") -> str:
    """The version of Python in the server, which shows to superusers only."""
    if connection.info.parameter_status("is_superuser") != "on":
        return "installed; superusers see its version"
    connection.execute(PYTHON_VERSION)
    return f"Python {setting(connection, 'tusk_check.python')}"


def setting(connection: "psycopg.Connection", name: LiteralString) -> str:
    """A setting of the server."""
    row = connection.execute("SELECT pg_catalog.current_setting(%s)", [name]).fetchone()
    return str(row[0]) if row else ""


def train(
    connection: "psycopg.Connection", last_row: int
) -> tuple[float | None, float | None, str | None]:
    """Coefficient, intercept and status of y = 2x + 1 for x from 0 to last_row."""
    from psycopg import sql

    row = connection.execute(SCHEMA).fetchone()
    schema = sql.Identifier(row[0] if row else "public")
    answer = connection.execute(sql.SQL(TRAINING).format(schema, last_row)).fetchone()
    return answer or (None, None, None)


def load(connection: "psycopg.Connection") -> None:
    """Has the server load the extension's library, by a training of no rows, with its settings."""
    from psycopg.errors import InsufficientPrivilege

    try:
        train(connection, last_row=-1)
    except InsufficientPrivilege as error:
        user = connection.info.user
        raise ExtensionError(
            f"the user {user} may not train: a superuser says GRANT tuskml_user TO {user}"
        ) from error


def check_training(connection: "psycopg.Connection", path: str) -> str:
    """What a training with a known answer found."""
    from psycopg.errors import UndefinedFile

    try:
        slope, intercept, status = train(connection, last_row=9)
    except UndefinedFile as error:
        raise ExtensionError(
            f"{sentence(error)}, from tuskml.python_path, which is '{path}': "
            "tuskml postgres install sets it to this environment, for new sessions"
        ) from error
    found = f"y = 2x + 1 has coefficient {slope or 0:.6g} and intercept {intercept or 0:.6g}"
    if found != "y = 2x + 1 has coefficient 2 and intercept 1" or status != "ok":
        raise ExtensionError(
            f"a training found that {found}, with status '{status}': tuskml postgres install"
        )
    return found
