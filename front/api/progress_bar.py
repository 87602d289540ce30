"""Progress bars for queries that train."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.auto import tqdm

from tuskml.databases.connection import rows_read
from tuskml.learners.events import Event, listening

LOOK_SECONDS = 0.2


@contextmanager
def progress(groups: int | None = None, label: str = "training") -> Iterator[None]:
    """Shows how many rows have been read and models trained while the queries inside run.

    groups: how many there will be, if known; label: the text before the bar.

    >>> import tuskml
    >>> con = tuskml.connect()
    >>> with progress(groups=3):
    ...     con.execute(
    ...         "SELECT x % 3, train_model('linear', x, [x]) FROM range(9) t(x) GROUP BY ALL"
    ...     ).fetchall()  # doctest: +SKIP
    training: 100%|██████████| 3/3 [00:00<00:00, 410.52model/s]
    """
    with tqdm(total=groups, desc=label, unit="model", ncols=columns()) as bar:

        def show(event: Event) -> None:
            if event.groups:
                bar.update(event.groups)
            elif groups == 1:
                bar.set_postfix(iteration=event.iteration, objective=f"{event.objective:.5g}")
            else:  # batches train side by side: one objective would say little
                bar.set_postfix(iteration=event.iteration, refresh=False)

        with listening(show), reading(bar):
            yield
        bar.set_postfix()


@contextmanager
def reading(bar: Any) -> Iterator[None]:
    """Shows the number of rows read in the bar, from a thread of its own.

    Rows of all trainings of the process: they cannot be separated by query.
    """
    over = threading.Event()
    first = shown = rows_read()

    def look() -> None:
        nonlocal shown
        while not over.wait(LOOK_SECONDS):
            now = rows_read()
            if now != shown:
                shown = now
                bar.set_postfix(rows=f"{now - first:,}")

    thread = threading.Thread(target=look, name="tuskml progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def columns() -> int | None:
    """Returns 80, for a terminal; None in a notebook, where a number would mean pixels."""
    in_notebook = any(kind.__module__ == "tqdm.notebook" for kind in tqdm.__mro__)
    return None if in_notebook else 80
