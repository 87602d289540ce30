"""`tuskml postgres`: installs, checks, upgrades and removes the extension.

Each command yields its results as name and value, and raises a TuskError whose sentence gives the
remedy.
"""

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString

from tuskml.databases.extension import pgxs
from tuskml.databases.postgres_connection import conninfo, open_connection
from tuskml.errors import ExtensionError, TuskError
from tuskml.version import VERSION

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

Facts = Iterator[tuple[str, str]]
VERSIONS = """
SELECT (SELECT default_version FROM pg_catalog.pg_available_extensions WHERE name = %(name)s),
       (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = %(name)s)
"""
UNSPLIT = """
SELECT 1 FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON d.refobjid = e.oid
    JOIN pg_catalog.pg_proc p ON d.objid = p.oid
WHERE e.extname = 'tuskml' AND p.proname = 'train_model' AND d.deptype = 'e'
"""
SCORING = "SELECT tuskml.rmse(y, p) FROM (VALUES (1.0, 4.0), (2.0, 5.0)) AS t (y, p)"
TRAINING = """
SELECT (model).coef[1], (model).intercept, (model).status
FROM (SELECT tuskml.train_model('linear', 2 * x + 1, ARRAY[x]) AS model
      FROM generate_series(0, {}) AS x) AS trained
"""
DATABASES = "SELECT datname FROM pg_catalog.pg_database WHERE datallowconn ORDER BY datname"
PRELOADED = """
SELECT coalesce('database ' || d.datname, 'role ' || s.setrole::regrole::text)
FROM pg_catalog.pg_db_role_setting AS s
    LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.setdatabase, unnest(s.setconfig) AS given
WHERE given ~ '^(session|shared|local)_preload_libraries=.*\\mtuskml\\M' ORDER BY 1
"""
SCHEMA = """
SELECT nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n
    ON n.oid = e.extnamespace WHERE extname = 'tuskml'
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


@dataclass(frozen=True)
class Request:
    """The target of a command: a server, a database, the part of the extension, and the schema."""

    pg_config: Path | None = None
    database: str | None = None
    schema: str | None = None
    scorer: bool = False
    force: bool = False

    @property
    def extensions(self) -> tuple[str, ...]:
        """The extensions to install: predictions and metrics alone, or training too."""
        return pgxs.EXTENSIONS[:1] if self.scorer else pgxs.EXTENSIONS


def run(action: str, request: Request) -> Facts:
    """Runs one of the commands and returns its results."""
    if action == "check":
        return check(request.database)
    return {"install": install, "upgrade": upgrade, "uninstall": uninstall}[action](request)


def install(request: Request) -> Facts:
    """Builds the extensions for a server, installs them, and creates them in a database."""
    server = yield from install_files(request)
    if request.database is None:
        last = request.extensions[-1]
        who = "the owner of a database" if request.scorer else "a superuser"
        yield "next", f"CREATE EXTENSION {last} CASCADE; by {who}, in each database to use it"
        return
    with open_connection(request.database) as connection:
        check_same(connection, server)
        for name in request.extensions:
            before = versions(connection, name)[1]
            refuse_other(connection, name, before, request.database)
            if before is None:
                create(connection, name, request.schema)
            done = f"{connection.info.dbname}, {'has it' if before else 'created'}"
            yield ("database" if name == pgxs.SCORING else "training"), done


def create(connection: "psycopg.Connection", name: str, schema: str | None) -> None:
    """Creates an extension, and the schema for its types and documented functions."""
    from psycopg import sql

    where: sql.Composable = sql.SQL("")
    with connection.transaction():
        if schema is not None:
            found = "SELECT pg_catalog.to_regnamespace(pg_catalog.quote_ident(%s)) IS NULL"
            ((missing,),) = connection.execute(found, [schema]).fetchall()
            if missing:
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
            where = sql.SQL(" SCHEMA {}").format(sql.Identifier(schema))
        elif name == pgxs.TRAINING:
            where = sql.SQL(" SCHEMA {}").format(sql.Identifier(schema_of(connection)))
        extension = sql.Identifier(name)
        connection.execute(sql.SQL("CREATE EXTENSION {}{} CASCADE").format(extension, where))


def schema_of(connection: "psycopg.Connection") -> str:
    """The schema of the extension's types."""
    row = connection.execute(SCHEMA).fetchone()
    return str(row[0]) if row else "public"


def refuse_other(
    connection: "psycopg.Connection", name: str, before: str | None, database: str
) -> None:
    """Another version, or one from when a single extension did all, has to be changed first."""
    if before not in (None, VERSION):
        raise ExtensionError(
            f"the database has version {before} of the extension {name}, and {VERSION} is "
            f"installed: tuskml postgres upgrade --database {database}"
        )
    if connection.execute(UNSPLIT).fetchone():
        shop = connection.info.dbname
        raise ExtensionError(
            f"the database {shop} has training in the extension tuskml, as it was before the "
            f"split: pg_dump -Fc {shop} and pg_restore bring its models into a new database, "
            "where CREATE EXTENSION tuskml_train CASCADE was said first"
        )


def upgrade(request: Request) -> Facts:
    """Installs this version's files, and brings a database's extensions to this version."""
    server = yield from install_files(request)
    if request.database is None:
        updates = " ".join(f"ALTER EXTENSION {name} UPDATE;" for name in request.extensions)
        yield "next", f"{updates} in each database that has it"
        return
    with open_connection(request.database) as connection:
        check_same(connection, server)
        dbname = connection.info.dbname
        if versions(connection, pgxs.SCORING)[1] is None:
            raise ExtensionError(
                f"the database {dbname} has no tuskml to upgrade: "
                f"tuskml postgres install --database {request.database}"
            )
        for name in request.extensions:
            before = versions(connection, name)[1]
            if before is None:
                yield "training", f"{dbname}, had none"
                continue
            if before == VERSION:
                refuse_other(connection, name, before, request.database)
            update = "ALTER EXTENSION {} UPDATE"
            connection.execute(extension_statement(update, name))
            after = versions(connection, name)[1]
            key = "database" if name == pgxs.SCORING else "training"
            yield key, f"{dbname}, from {before} to {after}"


def uninstall(request: Request) -> Facts:
    """Drops the extensions in a database, and removes their files, which no other one may need."""
    server = pgxs.find(request.pg_config)
    yield "server", f"PostgreSQL {server.version}"
    if server.files() and not request.force:
        refuse_in_use(server, request.database)
    if request.database is not None:
        with open_connection(request.database) as connection, connection.transaction():
            dropped = versions(connection, pgxs.SCORING)[1] is not None
            for name in reversed(pgxs.EXTENSIONS):
                connection.execute(extension_statement("DROP EXTENSION IF EXISTS {}", name))
            yield "database", f"{connection.info.dbname}, {'dropped' if dropped else 'had none'}"
    removed = pgxs.uninstall(server)
    yield "removed", " ".join(map(str, removed)) or "nothing, no file of tuskml was there"


def extension_statement(statement: LiteralString, name: str) -> "sql.Composed":
    """A statement about an extension."""
    from psycopg import sql

    return sql.SQL(statement).format(sql.Identifier(name))


def refuse_in_use(server: pgxs.Server, database: str | None) -> None:
    """Databases that have the extension, and sessions that load it, fail without its files.

    database: the one in which the extension is going to be dropped.
    """
    from psycopg.conninfo import make_conninfo

    try:
        with open_connection(database or "postgres") as connection:
            here = connection.info.dbname if database else None
            check_same(connection, server, files=False)
            names = [name for (name,) in connection.execute(DATABASES).fetchall()]
            loading = [who for (who,) in connection.execute(PRELOADED).fetchall()]
    except ExtensionError as error:
        raise ExtensionError(
            f"no look into the server's databases, which may use the files: {error}; expected "
            "--database URL, or --force, which removes the files whoever uses them"
        ) from error
    target = conninfo(database or "postgres")
    users = []
    for name in names:
        if name == here:
            continue
        with open_connection(make_conninfo(target, dbname=name)) as other:
            if any(versions(other, extension)[1] for extension in pgxs.EXTENSIONS):
                users.append(name)
    if users:
        raise ExtensionError(
            f"the files of tuskml are in use by the extension in the database {', '.join(users)}: "
            "DROP EXTENSION tuskml_train, tuskml there first; in one database alone the same "
            "statement drops it and leaves the files"
        )
    if loading:
        raise ExtensionError(
            f"sessions of {', '.join(loading)} load the library of tuskml and would end without "
            "it: ALTER DATABASE or ALTER ROLE ... RESET session_preload_libraries first"
        )


def check(database: str | None) -> Facts:
    """Versions and paths as a server sees them; a metric and a training with known answers."""
    yield "package", VERSION
    with open_connection(database or "") as connection:
        yield "server", f"PostgreSQL {setting(connection, 'server_version')}"
        yield "database", connection.info.dbname
        yield "extension", check_extension(connection, pgxs.SCORING)
        yield "scoring", check_scoring(connection)
        if versions(connection, pgxs.TRAINING)[1] is None:
            yield "training", "none, a superuser adds it by CREATE EXTENSION tuskml_train CASCADE"
            return
        check_extension(connection, pgxs.TRAINING)
        yield "plpython3u", python_of(connection)
        load(connection)
        path = setting(connection, "tuskml.python_path")
        yield "python path", path
        yield "training", check_training(connection, path)


# --- their parts ---


def install_files(request: Request) -> Generator[tuple[str, str], None, pgxs.Server]:
    """The files of the extensions, into the server that pg_config describes."""
    server = pgxs.find(request.pg_config)
    yield "server", f"PostgreSQL {server.version}, by {server.pg_config}"
    pgxs.check_server(server, request.extensions)
    path = ""
    if not request.scorer:
        pgxs.check_python(server)
        path = pgxs.python_path()
        user = pgxs.server_user(server)
        if user:
            pgxs.check_readable(path, user)
        yield "python path", path
    yield "installed", " ".join(map(str, pgxs.install(server, path, request.extensions)))
    return server


def check_same(connection: "psycopg.Connection", server: pgxs.Server, files: bool = True) -> None:
    """Checks that the database's server is that of pg_config and sees the installed files."""
    running = connection.info.server_version // 10000
    if running != server.major:
        raise ExtensionError(
            f"the database's server is PostgreSQL {running}, and {server.pg_config} is of "
            f"PostgreSQL {server.major}, expected the same: give --pg-config "
            f"{pgxs.DEBIAN}/{running}/bin/pg_config"
        )
    if files and versions(connection, pgxs.SCORING)[0] is None:
        raise ExtensionError(
            f"the database's server does not see the files that were installed by "
            f"{server.pg_config}: it is another installation, or on another machine, expected "
            "--pg-config to be the server's own, run where the server runs"
        )


def versions(connection: "psycopg.Connection", name: str) -> tuple[str | None, str | None]:
    """Returns the version of an extension that the server has files of, and the database's."""
    row = connection.execute(VERSIONS, {"name": name}).fetchone()
    return (row[0], row[1]) if row else (None, None)


def check_extension(connection: "psycopg.Connection", extension: str) -> str:
    """An extension's version, if it is there and the package's."""
    files, created = versions(connection, extension)
    name = connection.info.dbname
    if files is None:
        raise ExtensionError(
            f"the server of database {name} has no files of {extension}: "
            f"tuskml postgres install --database {name}"
        )
    if created is None:
        raise ExtensionError(
            f"the database {name} has no extension {extension}: its owner says CREATE EXTENSION "
            "tuskml, and a superuser CREATE EXTENSION tuskml_train CASCADE for training too"
        )
    if created != VERSION:
        raise ExtensionError(
            f"the database {name} has version {created} of the extension, and the package is "
            f"version {VERSION}, expected the same: tuskml postgres upgrade --database {name}"
        )
    return created


def check_scoring(connection: "psycopg.Connection") -> str:
    """Runs a metric with a known answer and reports the result."""
    ((found,),) = connection.execute(SCORING).fetchall()
    if found != 3:
        raise ExtensionError(
            f"the error of predictions that are 3 too high is {found}: tuskml postgres install"
        )
    return "predictions that are 3 too high have an rmse of 3"


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

    answer = connection.execute(sql.SQL(TRAINING).format(last_row)).fetchone()
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
    """Runs a training with a known answer and reports the result."""
    from psycopg.errors import UndefinedFile

    try:
        slope, intercept, status = train(connection, last_row=9)
    except UndefinedFile as error:
        message = (error.diag.message_primary or str(error)).removeprefix("tuskml: ")
        raise ExtensionError(
            f"{message}, from tuskml.python_path, which is '{path}': "
            "tuskml postgres install sets it to this environment, for new sessions"
        ) from error
    found = f"y = 2x + 1 has coefficient {slope or 0:.6g} and intercept {intercept or 0:.6g}"
    if found != "y = 2x + 1 has coefficient 2 and intercept 1" or status != "ok":
        raise ExtensionError(
            f"a training found that {found}, with status '{status}': tuskml postgres install"
        )
    return found
