"""What all executors share: units of work that are named by a key, and their outcomes.

An executor knows nothing of tables, groups or models. A unit's payload and its answer are bytes,
so nothing of ours is pickled between processes. A key names the same work wherever it runs: an
executor may run a unit again after a worker died, and yields one outcome per key.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tuskml.errors import TuskError

if TYPE_CHECKING:
    from tuskml.groups.execution.leading import Leaders

Work = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Unit:
    """key: its identity; size: how much work it is, in rows; payload: what the work reads; name:
    what a person calls it.

    pin: what should stay on the worker that runs it, for the next unit with the same pin, such as
    a shard in memory; None: nothing. Any worker can run it all the same. work: `module:function`
    in the place of the run's.
    """

    key: str
    size: float
    payload: bytes
    name: str = ""
    pin: str | None = None
    work: str | None = None


@dataclass(frozen=True)
class Outcome:
    """Of the unit with this key: its answer, or one sentence that says why there is none."""

    key: str
    answer: bytes | None
    error: str | None = None


class Executor(Protocol):
    """A place where units run.

    notes: one sentence about each event that did not change the outcomes, such as a lost worker.
    remote: whether units run in other processes, whose events nobody here hears. workers: how many
    there are, 0 before the first run.
    """

    notes: list[str]
    remote: bool
    workers: int

    def run(
        self, work: str, units: Sequence[Unit], leaders: "Leaders | None" = None
    ) -> Iterator[Outcome]:
        """The outcomes in the order in which units finish, the largest units first.

        work: `module:function` of tuskml, which takes a payload and returns an answer; leaders:
        trainings that ask for units of their own, whose outcomes come too. A unit that fails is an
        outcome; ClusterError is raised where nothing can run, and Interrupted after
        `tuskml.cancel()`.
        """
        ...


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
    """What became of one unit. A failure of its own is an outcome and not an exception."""
    try:
        return Outcome(unit.key, work_named(unit.work or work)(unit.payload))
    except TuskError as error:
        return Outcome(unit.key, None, str(error))
    except Exception as error:
        return Outcome(unit.key, None, f"{type(error).__name__}: {' '.join(str(error).split())}")
