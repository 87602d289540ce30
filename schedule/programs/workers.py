"""Job executors: workers that hold the data, and handles of results that can be passed on
early.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from tuskml.schedule.programs.program import Program


class Place:
    """One worker: its index, its part of the data, and the program.

    data: the part itself, or a function from the worker's index to it.
    """

    def __init__(self, program: Program, p: int, data: Any) -> None:
        self.program, self.p = program, p
        self.data = data(p) if callable(data) else data

    def update(self, job: Any, part: Any) -> Any:
        """Calls `Program.update`."""
        return self.program.update(self.p, job, self.data, part)

    def local(self) -> Any:
        """Calls `Program.local`."""
        return self.program.local(self.p, self.data)


class Workers(Protocol):
    """The workers of a run, by their indices from 0 to `count` - 1.

    A handle stands for a value that some worker has or will have. Each worker executes its jobs in
    the order of submission.
    """

    count: int

    def put(self, value: Any) -> Any:
        """Returns a handle of a value that several workers will read."""

    def update(self, p: int, job: Any, part: Any) -> Any:
        """Submits a job to worker p, and returns the result's handle at once.

        part: a value or a handle, also that of a result of another worker.
        """

    def local(self, p: int) -> Any:
        """Submits a call of `Program.local` to worker p; returns the result's handle."""

    def get(self, handles: Sequence[Any]) -> list[Any]:
        """Waits for the values. Raises what a function of the program raised, ClusterError where
        a worker was lost, and Interrupted after `tuskml.cancel()`."""
