"""A worker's part of a group: it keeps its rows, and answers with sums over them.

The rows are packed once, with `deterministic` in the order of a hash of their content, and charged
to the account of the worker's database: beyond its limit they are on disk. If there is no room for
more, the most recently used part is dropped, and read again when it is needed: a pass visits one
part after the other, so that part will be needed last.
"""

import json
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.api.call import parse_task
from tuskml.cluster.worker import TASK, cursor, verify
from tuskml.databases.duckdb import DuckDB
from tuskml.errors import DataError, RowsError, TuskError
from tuskml.groups.contract.attachment import library
from tuskml.groups.execution.executor import Unit, attempt, each_of, encode_outcome, several
from tuskml.groups.execution.worker import share
from tuskml.groups.preparation import rows_at_fault, usable_by_all, without_parts
from tuskml.groups.selection.parted import judgement, judges
from tuskml.kernels import passes
from tuskml.kernels.library import memory_use
from tuskml.kernels.parts.answering import answer_message as answer_of
from tuskml.kernels.parts.dealing import dealt
from tuskml.kernels.parts.keeping import PartRows, copy_rows
from tuskml.kernels.parts.together import add_replies, adds, answers, bundle, unbundle
from tuskml.kernels.passes import Pass
from tuskml.kernels.rows import words
from tuskml.kernels.rows.census import PreparationTexts, count_columns, from_json, in_parts
from tuskml.learners.receiving import Receiver, receiving
from tuskml.learners.remarks import FAULT, Place, Remarks, receive_remarks
from tuskml.schedule import budget

WORK = "tuskml.cluster.parts.part_rows:run_unit"
TOGETHER = "tuskml.cluster.parts.part_rows:run_joint_unit"
LENGTH = 8
OF_GROUP = " of the group"
"""The end of a sentence about a row, whose number is one among those of a part."""
NO_ROOM = re.compile("memory_limit|[Oo]ut of [Mm]emory|no memory")


class Part:
    """The rows of a part, read or to be read.

    given: how they are read: ordered, whether they are in an order by content, as with the option
    deterministic; seed. dealing: how they are dealt to folds (`parts/dealing.py`), empty if they
    are not. stack: frees them, None before they are read. room: bytes of the account for their
    packed rows and copies; 0: not known. All fields are guarded by the lock, which is held while
    the rows are in use.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stack: ExitStack | None = None
        self.rows = PartRows(None)
        self.given: Mapping[str, Any] = {}
        self.dealing = b""
        self.room = 0

    def read(self, given: Mapping[str, Any]) -> None:
        """Packs the rows. Raises DataError for a shard that is missing or damaged."""
        self.given = given
        query(given, partial(self.keep, in_use()))
        self.stack = self.stack or ExitStack()

    def keep(self, before: int, groups: NDArray[np.void], memory: int) -> None:
        """Copies the rows, where it matters in an order that depends on their content alone.

        before: bytes of the account that were in use before they were packed.
        """
        with ExitStack() as stack:
            if groups["n_rows"].all():
                self.rows = rows_of(stack, groups, memory, self.given)
                self.rows.remarks = receive_remarks().as_json()
            self.stack = stack.pop_all()
        _account[:] = [memory]
        took = in_use() - before  # more, where another thread packed too
        self.room = min(self.room or took, took)

    def deal(self, dealing: bytes) -> None:
        """Deals the rows, which were not dealt before."""
        groups, told = self.rows.groups, self.rows.told
        self.rows.beside.close()
        if groups is not None:
            memory = self.rows.beside.memory
            with ExitStack() as stack:
                cells = stack.enter_context(dealt(copying_pass(groups), dealing, memory))
                before, self.stack = self.stack, stack.pop_all()
            self.rows = PartRows(None, cells, memory)
            self.rows.told = told
            if before is not None:
                before.close()
        self.dealing = dealing

    @property
    def fits(self) -> bool:
        """Returns whether there is as much memory as reading the rows took the last time."""
        use = memory_use(_account[0])
        return self.stack is not None or use.budget - use.resident >= self.room

    def free(self) -> bool:
        """Frees the rows; whether there were any."""
        with self.lock:
            self.rows.beside.close()
            stack, self.stack, self.rows = self.stack, None, PartRows(None)
            self.dealing = b""
        if stack is not None:
            stack.close()
        return stack is not None


def in_use() -> int:
    """Bytes of rows of this process."""
    use = memory_use(_account[0])
    return use.resident + use.spilled


def query(given: Mapping[str, Any], receive: Receiver) -> None:
    """Reads the rows of a part. Raises DataError for a shard that is missing or damaged;
    RowsError, which names the file, for rows that no model can be trained on.
    """
    for shard in given["shards"]:
        verify(shard)
    place = given["settings"], given["storages"]
    failed: list[RowsError] = []

    def take(groups: NDArray[np.void], memory: int) -> None:
        try:
            receive(groups, memory)
        except RowsError as error:  # comes back as a database's error, without its type
            failed.append(error)
            raise

    try:
        with receiving(take) as handle, cursor(*place) as connection:
            text = given["query"].replace(TASK, handle)
            DuckDB(connection).attempt(lambda session: session.execute(text).fetchall())
    except Exception as error:
        bad = failed[0] if failed else error
        if not isinstance(bad, DataError) or OF_GROUP not in str(bad):
            raise bad from error
        where = f"{OF_GROUP} in '{given['shards'][0]['path']}'"
        raise type(bad)(str(bad).replace(OF_GROUP, where)) from error


def rows_of(
    stack: ExitStack, groups: NDArray[np.void], memory: int, given: Mapping[str, Any]
) -> PartRows:
    """A copy of the rows until the stack is closed."""
    if words.has_words(groups):
        with words.number_words(groups, memory, passes.cancel_mark()) as found:
            rows = rows_of(stack, without_parts(groups), memory, given)
            rows.beside.words = found.texts(0)
        return rows
    if "preparing" not in given:
        sound = usable_of(stack, groups, memory, given)
        return (
            PartRows(None)
            if sound is None
            else copy_in_order(stack, copying_pass(sound), memory, given)
        )
    how = from_json(given["preparing"], threads(), passes.cancel_mark())
    with rows_at_fault():
        prepared = stack.enter_context(in_parts(groups, how, memory, given["census"]))
    sound = usable_of(stack, prepared.groups, memory, given)
    if sound is None or not given["ordered"]:
        rows = PartRows(sound, memory=memory)
    else:
        with ExitStack() as own:
            rows = copy_in_order(own, copying_pass(sound), memory, given)
            stack.push(own.pop_all())
    rows.told = PreparationTexts.arrays(prepared)
    return rows


def usable_of(
    stack: ExitStack, groups: NDArray[np.void], memory: int, given: Mapping[str, Any]
) -> NDArray[np.void] | None:
    """The rows that all trainings of the call can use, until the stack is closed; None where
    there are none. Raises RowsError for others, unless option `invalid` skips these.
    """
    if "usable" not in given:
        return groups
    requests = parse_task(*given["usable"]).requests
    try:
        found = usable_by_all(stack, [(groups, requests)], memory)[0]
    except RowsError:
        if requests[0].options.invalid != "skip":
            raise
        return None
    skipped = int(groups["n_rows"].sum() - found["n_rows"].sum())
    if skipped:
        receive_remarks().add(Remarks({Place(FAULT, None): skipped}))
    return found


def copying_pass(groups: NDArray[np.void]) -> Pass:
    """A pass over rows that copies them."""
    return Pass(groups, threads=threads(), cancel_mark=passes.cancel_mark())


def copy_in_order(stack: ExitStack, seen: Pass, memory: int, given: Mapping[str, Any]) -> PartRows:
    """A copy of the rows in the order in which they lie, or in one of their content."""
    if not given["ordered"]:
        return PartRows(stack.enter_context(copy_rows(seen, memory)), memory=memory)
    own, held = seen.shuffle(memory, given["seed"], np.zeros(1, np.int64))
    stack.enter_context(held)
    return PartRows(stack.enter_context(own), memory=memory)


def pin_of(before: bytes) -> str:
    """The pin of the part that precedes a message."""
    (text, *_), __ = cut_sections(before)
    pin: str = json.loads(text)["pin"]
    return pin


def counts_of(given: Mapping[str, Any], known: bytes) -> bytes:
    """The counts of the columns of a part, which is read for them alone."""
    found: list[bytes] = []

    def receive(groups: NDArray[np.void], memory: int) -> None:
        how = from_json(given["counting"], threads(), passes.cancel_mark())
        found.append(count_columns(groups, how, known))

    query(given, receive)
    return found[0] if found else b""


_account = [0]
"""The account of the process's database, once rows have come from it."""
_held: dict[str, Part] = {}
"""Parts by pin, the most recently used one last."""
_lock = threading.Lock()
_short = threading.Lock()
"""Taken before a part's lock if there is no room for rows; never taken while holding one."""


def with_message(given: Mapping[str, Any], census: bytes = b"") -> bytes:
    """The prefix of a message to a part: its location, for rows with names the counts of all
    parts (`kernels/rows/census.py`), and an empty dealing of rows.
    """
    return join_sections([json.dumps(given, ensure_ascii=False).encode(), census, b""])


def with_dealing(before: bytes, dealing: bytes) -> bytes:
    """Adds the dealing of rows to folds to a prefix."""
    (text, census, _), __ = cut_sections(before)
    return join_sections([text, census, dealing])


def join_sections(sections: Sequence[bytes]) -> bytes:
    """Sections with their lengths."""
    return b"".join(len(one).to_bytes(LENGTH, "little") + one for one in sections)


def cut_sections(payload: bytes) -> tuple[list[bytes], bytes]:
    """The three sections that precede a message, and the message."""
    found, at = [], 0
    for _ in range(3):
        begin = at + LENGTH
        at = begin + int.from_bytes(payload[at:begin], "little")
        found.append(payload[begin:at])
    return found, payload[at:]


def run_unit(payload: bytes) -> bytes:
    """The part's answer (`kernels/parts/answering.py`); no message: its rows are freed."""
    (text, census, dealing), message = cut_sections(payload)
    given = json.loads(text)
    if not message:
        forget({given["pin"]})
        return b""
    if "counting" in given:
        return counts_of(given, census)
    held = part_of(given["pin"])
    given = {**given, "census": census, "dealing": dealing}
    make_room(held)
    try:
        return answer(held, given, message)
    except (MemoryError, TuskError) as error:
        if not NO_ROOM.search(str(error)):
            raise
    with _short:
        free_another(held)  # or nothing, where another thread is short of room too
        while True:
            try:
                return answer(held, given, message)
            except (MemoryError, TuskError) as error:
                if not NO_ROOM.search(str(error)) or not free_another(held):
                    raise


def make_room(held: Part) -> None:
    """Frees other parts before a dropped part is read again, instead of after a failure."""
    if not held.fits:
        with _short:
            while not held.fits and free_another(held):
                pass


def run_joint_unit(payload: bytes) -> bytes:
    """The answers of several parts that lie here; those that may be added are, in the first."""
    payloads = each_of(payload)
    found = [attempt(WORK, Unit("", 0, one)) for one in payloads]
    _, message = cut_sections(payloads[0])
    if message and adds(message):
        there = [place for place, one in enumerate(found) if one.answer is not None]
        answers = add_replies([found[place].answer or b"" for place in there])
        for place, answer in zip(there, answers, strict=True):
            found[place] = replace(found[place], answer=answer)
    return several([encode_outcome(one) for one in found])


def part_of(pin: str) -> Part:
    """The part, which becomes the most recently used one."""
    with _lock:
        held = _held[pin] = _held.pop(pin) if pin in _held else Part()
    return held


def answer(held: Part, given: Mapping[str, Any], message: bytes) -> bytes:
    """The answer of a part, which is read where it is not there."""
    with held.lock:
        if held.dealing not in (b"", given["dealing"]):
            raise RuntimeError("rows of a part are dealt in two ways")
        if held.stack is None:
            held.read(given)
        if held.dealing != given["dealing"]:
            held.deal(given["dealing"])
        messages = unbundle(message)
        if messages is None:
            return answer_message(held, message)
        alone = partial(answer_message, held)
        return bundle(answers(held.rows, messages, threads(), alone))


def answer_message(held: Part, message: bytes) -> bytes:
    """The answer to one message."""
    if judges(message):
        return judgement(library(), held.rows, message)
    return answer_of(held.rows, message, threads())


def free_another(held: Part) -> bool:
    """Frees the rows of the most recently used other part; returns whether there were any."""
    with _lock:
        others = [one for one in reversed(_held.values()) if one is not held]
    return any(one.free() for one in others)


def threads() -> int:
    """Returns the number of threads for a part."""
    return share().threads or budget.threads()


def holds(pin: str) -> bool:
    """Returns whether the rows of a part are here."""
    with _lock:
        return pin in _held and _held[pin].stack is not None


def forget(pins: set[str]) -> None:
    """Frees the rows that this process holds of these pins."""
    with _lock:
        gone = [_held.pop(pin) for pin in pins if pin in _held]
    for one in gone:
        one.free()
