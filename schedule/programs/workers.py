"""The job executors: workers that hold the data, and answers that are handed on before they are
there."""

from collections.abc import Sequence
from typing import Any, Protocol

from tuskml.schedule.programs.program import Program


class Place:
    """One worker: its number, its part of the data, and the program.

    data: the part itself, or a function that makes it of the worker's number.
    """

    def __init__(self, program: Program, p: int, data: Any) -> None:
        self.program, self.p = program, p
        self.data = data(p) if callable(data) else data

    def update(self, job: Any, part: Any) -> Any:
        """As `Program.update`."""
        return self.program.update(self.p, job, self.data, part)

    def local(self) -> Any:
        """As `Program.local`."""
        return self.program.local(self.p, self.data)


class Workers(Protocol):
    """The workers of a run, by their numbers from 0 to `count` - 1.

    A handle stands for a value that some worker has or will have. Each worker does what it is
    asked in the order in which it was asked.
    """

    count: int

    def put(self, value: Any) -> Any:
        """A handle of a value that several workers will read."""
        ...

    def update(self, p: int, job: Any, part: Any) -> Any:
        """Asks worker p, and returns the answer's handle at once; part: a value or a handle,
        which may be that of an answer of another worker."""
        ...

    def local(self, p: int) -> Any:
        """The same for `Program.local`."""
        ...

    def get(self, handles: Sequence[Any]) -> list[Any]:
        """Waits for the values. Raises what a function of the program raised, ClusterError where
        a worker was lost, and Interrupted after `tuskml.cancel()`."""
        ...
