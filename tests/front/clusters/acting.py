"""What tests do to a training while it runs, and what must be true of its workers afterwards."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb

import tuskml
from tuskml.learners.events import Event, listening


@contextmanager
def when_the_first_unit_is_done(act: Any) -> Iterator[list[Event]]:
    """Calls act once, between two outcomes, while other workers train."""
    heard: list[Event] = []

    def hear(event: Event) -> None:
        heard.append(event)
        if len(heard) == 1:
            act()

    with listening(hear):
        yield heard


def assert_no_worker_is_left(local_ray: Any) -> None:
    """After a while."""
    until = time.monotonic() + 60
    while local_ray.workers() and time.monotonic() < until:
        time.sleep(0.1)
    assert local_ray.workers() == []


@contextmanager
def interrupted_at_work(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Interrupts a connection once a worker trains."""

    def interrupt() -> None:
        until = time.monotonic() + 60
        while not tuskml.activity() and time.monotonic() < until:
            time.sleep(0.01)
        con.interrupt()

    caller = threading.Thread(target=interrupt)
    caller.start()
    try:
        yield
    finally:
        caller.join()
