"""Connections to PostgreSQL by a URL or a database's name, and its errors in one sentence."""

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tuskml.errors import ExtensionError
from tuskml.text.type_errors import explain_message

if TYPE_CHECKING:
    import psycopg


@contextmanager
def open_connection(database: str) -> Iterator["psycopg.Connection"]:
    """A connection; errors of the server become one sentence."""
    try:
        import psycopg
    except ImportError as error:
        raise ExtensionError(
            "a connection to PostgreSQL needs psycopg: pip install 'tuskml[postgres]'"
        ) from error
    try:
        with as_local_user(target := conninfo(database)):
            connection = psycopg.connect(target, autocommit=True)
        with connection:
            try:
                yield connection
            except KeyboardInterrupt:  # psycopg cancels only statements that it waits for
                connection.cancel()
                raise
    except psycopg.Error as error:
        raise ExtensionError(sentence(error)) from error


def conninfo(database: str) -> str:
    """The connection string of libpq: a URL or its own notation unchanged, else a database's
    name.
    """
    from psycopg.conninfo import make_conninfo

    if not database or "=" in database or "://" in database:
        return database
    return make_conninfo("", dbname=database)


@contextmanager
def as_local_user(target: str) -> Iterator[None]:
    """Lets root connect as the system's user postgres, whom a new server knows, and root not."""
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(target)
    local = str(given.get("host") or os.environ.get("PGHOST") or "/").startswith("/")
    chosen = given.get("user") or os.environ.get("PGUSER")
    user = None if chosen or not local or os.geteuid() else account("postgres")
    if user is None:
        yield
        return
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)


def account(name: str) -> int | None:
    """The number of a user of this system."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def sentence(error: "psycopg.Error") -> str:
    """The server's message and its hint, on one line."""
    message = error.diag.message_primary or str(error)
    explanation = explain_message(message)
    if explanation != message:
        return explanation
    hint = error.diag.message_hint
    return " ".join((f"{message} ({hint})" if hint else message).split())
