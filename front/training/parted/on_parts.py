"""What a worker does with a part of a group: it keeps its rows, and answers sums over them.

The rows are packed once, put in the order of a hash of their content, and charged to the account
of the worker's database: beyond its limit they lie on disk.
"""

import json
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.databases.duckdb import DuckDB
from tuskml.groups.execution.share import share
from tuskml.kernels import passes
from tuskml.kernels.parts.answering import answered as answer_of
from tuskml.kernels.passes import Pass
from tuskml.learners.receiving import receiving
from tuskml.schedule import budget
from tuskml.training.on_worker import TASK, cursor, verify

WORK = "tuskml.training.parted.on_parts:answered"
LENGTH = 8


class Held:
    """The rows of a part, or what will be; groups: one group, None where no row was usable."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stack: ExitStack | None = None
        self.groups: NDArray[np.void] | None = None

    def rows(self, given: Mapping[str, Any]) -> NDArray[np.void] | None:
        """They are read by the first who asks."""
        with self.lock:
            if self.stack is None:
                self.read(given)
            return self.groups

    def read(self, given: Mapping[str, Any]) -> None:
        """Packs them. DataError for a shard that is missing or damaged."""
        for shard in given["shards"]:
            verify(shard)
        with receiving(self.keep) as token, cursor(given["settings"]) as connection:
            query = given["query"].replace(TASK, token)
            DuckDB(connection).attempt(lambda session: session.execute(query).fetchall())
        self.stack = self.stack or ExitStack()

    def keep(self, groups: NDArray[np.void], memory: int) -> None:
        """Copies the rows, in an order that depends on their content alone."""
        seen = Pass(groups, 0, None, None, True, threads(), cancel_mark=passes.cancel_mark())
        kept, held = seen.shuffled(memory, 0, np.zeros(1, np.int64))
        stack = ExitStack()
        stack.enter_context(held)
        self.groups = stack.enter_context(kept)
        self.stack = stack

    def free(self) -> None:
        """Frees the rows."""
        with self.lock:
            if self.stack is not None:
                self.stack.close()
            self.stack = self.groups = None


_held: dict[str, Held] = {}
_lock = threading.Lock()


def with_message(given: Mapping[str, Any]) -> bytes:
    """What precedes a message to a part, which says where the part is."""
    text = json.dumps(given, ensure_ascii=False).encode()
    return len(text).to_bytes(LENGTH, "little") + text


def answered(payload: bytes) -> bytes:
    """The part's answer (`kernels/parts/answering.py`)."""
    at = LENGTH + int.from_bytes(payload[:LENGTH], "little")
    given = json.loads(payload[LENGTH:at])
    with _lock:
        held = _held.setdefault(given["pin"], Held())
    return answer_of(held.rows(given), payload[at:], threads())


def threads() -> int:
    """How many may compute for a part."""
    return share().threads or budget.threads()


def forget(pins: set[str]) -> None:
    """Frees the rows that this process holds of these pins."""
    with _lock:
        gone = [_held.pop(pin) for pin in pins if pin in _held]
    for one in gone:
        one.free()
