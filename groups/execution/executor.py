"""Shared by all executors: units of work that are named by a key, and their outcomes.

An executor knows nothing of tables, groups or models. A unit's payload and its answer are bytes,
so nothing of ours is pickled between processes. A key names the same work wherever it runs: an
executor may run a unit again after a worker died, and yields one outcome per key.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuskml.errors import ExtensionError, RowsError, TuskError

Work = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Unit:
    """key: its identity; size: the amount of work, in rows; payload: the input; name: for people.

    pin: data that should stay on the worker, for the next unit with the same pin, such as a shard
    in memory; None: nothing. Any worker can run it all the same. work: `module:function` that
    replaces the run's. copied: whether another worker may run it too, if its own is slow.
    together: the work that answers several such units of one ask, whose number is `ask`; members:
    these units, of a unit that stands for them.
    """

    key: str
    size: float
    payload: bytes
    name: str = ""
    pin: str | None = None
    work: str | None = None
    together: str | None = None
    copied: bool = True
    ask: int = 0
    members: tuple["Unit", ...] = ()

    @property
    def each(self) -> tuple["Unit", ...]:
        """The units that it stands for, or itself."""
        return self.members or (self,)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a unit: its answer, or one sentence on why there is none."""

    key: str
    answer: bytes | None
    error: str | None = None


ANSWERED, FAILED = b"+", b"-"
ROWS = "invalid rows: "
"""The start of a unit's sentence about its rows."""
LENGTH = 8


def encode_outcome(outcome: Outcome) -> bytes:
    """The answer after ANSWERED, or a sentence after FAILED."""
    if outcome.answer is None:
        return FAILED + (outcome.error or "").encode(errors="replace")
    return ANSWERED + outcome.answer


def decode_outcome(key: str, data: bytes) -> Outcome:
    """The outcome of the unit with this key."""
    if data[:1] == ANSWERED:
        return Outcome(key, data[1:])
    return Outcome(key, None, data[1:].decode())


def several(parts: Sequence[bytes]) -> bytes:
    """Packs several payloads or answers into one."""
    lengths = [len(one).to_bytes(LENGTH, "little") for one in parts]
    return b"".join(piece for pair in zip(lengths, parts, strict=True) for piece in pair)


def each_of(data: bytes) -> list[bytes]:
    """Unpacks the parts of `several`."""
    found, at = [], 0
    while at < len(data):
        end = at + LENGTH + int.from_bytes(data[at : at + LENGTH], "little")
        found.append(data[at + LENGTH : end])
        at = end
    return found


def bundle(units: Sequence[Unit]) -> Unit:
    """A unit that stands for several, which one worker runs one after another."""
    first = units[0]
    if len(units) == 1:
        return first
    return replace(
        first,
        key=" ".join(one.key for one in units),
        size=sum(one.size for one in units),
        payload=several([one.payload for one in units]),
        work=first.together,
        members=tuple(units),
    )


def outcomes_of(unit: Unit, data: bytes) -> list[Outcome]:
    """Splits the answer of a worker into the outcomes of the units that one unit stands for."""
    whole = decode_outcome(unit.key, data)
    if not unit.members:
        return [whole]
    if whole.answer is None:
        return [replace(whole, key=one.key) for one in unit.members]
    answers = each_of(whole.answer)
    return [decode_outcome(one.key, its) for one, its in zip(unit.members, answers, strict=True)]


def largest_first(units: Sequence[Unit]) -> list[Unit]:
    """The order that keeps workers busy to the end: the longest processing time first."""
    return sorted(units, key=lambda unit: (-unit.size, unit.key))


def work_named(name: str) -> Work:
    """The function of tuskml that `module:function` names."""
    module, _, function = name.partition(":")
    if not module.startswith("tuskml."):
        raise ValueError(f"{name!r} is not a function of tuskml")
    found: Any = getattr(importlib.import_module(module), function)
    return found  # type: ignore[no-any-return]


def attempt(work: str, unit: Unit) -> Outcome:
    """Runs one unit. A failure of the unit is an outcome and not an exception."""
    try:
        return Outcome(unit.key, work_named(unit.work or work)(unit.payload))
    except RowsError as error:
        return Outcome(unit.key, None, f"{ROWS}{error}")
    except TuskError as error:
        return Outcome(unit.key, None, str(error))
    except Exception as error:
        return Outcome(unit.key, None, f"{type(error).__name__}: {' '.join(str(error).split())}")


def import_package(name: str, executor: str, install: str) -> Any:
    """Imports the package. Raises ExtensionError if it is missing; install: the advice in the
    sentence.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ExtensionError(
            f"executor={executor!r} needs the package {error.name or name}, which is not "
            f"installed: {install}"
        ) from error
