"""The command line's progress bar: on standard error, and only where that is a terminal."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tqdm.auto import tqdm

from tuskml.api.progress_bar import progress
from tuskml.databases.database import Database
from tuskml.databases.postgres import Postgres

if TYPE_CHECKING:
    import psycopg

TOLD = re.compile(r"train_model: (?:.*, )?iteration (\d+), objective (\S+)")
READ = re.compile(r"train_model: (\d+) rows read")


@contextmanager
def bar(groups: int | None = None, label: str = "training") -> Iterator[None]:
    """Shows the progress of trainings inside."""
    if not sys.stderr.isatty():
        yield
        return
    with progress(groups, label):
        yield


@contextmanager
def training_bar(database: Database, groups: int | None = None) -> Iterator[None]:
    """Shows the progress of a training in either database; PostgreSQL does not report groups."""
    if not isinstance(database, Postgres):
        with bar(groups):
            yield
    elif not sys.stderr.isatty():
        yield
    else:
        with notices(database.connection):
            yield


@contextmanager
def notices(connection: "psycopg.Connection") -> Iterator[None]:
    """Shows the server's latest report, rows or an iteration, about once a second."""
    with tqdm(desc="training", bar_format="{desc}: {elapsed}{postfix}", ncols=80) as shown:

        def show(notice: "psycopg.errors.Diagnostic") -> None:
            text = notice.message_primary or ""
            found, read = TOLD.match(text), READ.match(text)
            if found:
                shown.set_postfix(iteration=found[1], objective=found[2])
            elif read:
                shown.set_postfix(rows=f"{int(read[1]):,}")

        connection.add_notice_handler(show)
        try:
            yield
        finally:
            connection.remove_notice_handler(show)
