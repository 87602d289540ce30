"""The interface of user programs: which parameters are updated, how, and how results are merged.

Source: J. K. Kim, Q. Ho, S. Lee, X. Zheng, W. Dai, G. Gibson and E. Xing, SMPFRAME: A Distributed
Framework for Scheduled Model Parallel Machine Learning, CMU-PDL-15-103, 2015, section 3.1 and
table 1. The names of the arguments are the paper's: A is the model, D the data, S_p the job of
worker p, D_p its part of the data and R the results.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tuskml.errors import OperatorError

After = Callable[[int, Any], object]
"""Called with the number of iterations so far, from 1 on, and the model; a true result ends the
run.
"""


class Program(ABC):
    """The functions of a program. `schedule` and `aggregate` run in the caller's process, one at
    a time; `update` runs on workers, at the same time for different p.
    """

    @abstractmethod
    def schedule(self, A: Any, D: Any) -> Sequence[Any]:
        """Returns the jobs of an iteration: which parameters each updates.

        The dynamic engine expects one per worker, or none if there is nothing to do before the
        results of other iterations. The static engine takes any number of jobs, whose parameters
        must be disjoint.
        """

    @abstractmethod
    def update(self, p: int, S_p: Any, D_p: Any, A: Any) -> Any:
        """Returns the result of one job on the data of one worker; A: what `part` returned.

        It may change D_p, which stays on its worker. In the static engine the result is the new
        state of the job's parameters: the next worker of the ring gets it as A.
        """

    @abstractmethod
    def aggregate(self, R: Sequence[Any], A: Any) -> Any:
        """Returns the new model; R: the results in the order of the jobs.

        It must return a new object and leave A as it is, as workers may still read it.
        """

    def part(self, S_p: Any, A: Any) -> Any:
        """Returns the part of the model that `update` needs for a job; by default all of it."""
        return A

    def weight(self, S_p: Any) -> float:
        """Returns the work of a job of the static engine, in any unit."""
        return 1.0

    def local(self, p: int, D_p: Any) -> Any:
        """Returns a worker's own result at the end of the run; by default None."""
        return None


@dataclass(frozen=True)
class ProgramResult:
    """Result of a run: the model, what `Program.local` returned on each worker, and the number of
    iterations, or rotations.
    """

    model: Any
    local: list[Any]
    iterations: int


def check_jobs(jobs: Any, allowed: Callable[[int], bool], expected: str) -> list[Any]:
    """The result of `schedule` as a list. Raises OperatorError if it is not one, or has a wrong
    length.
    """
    try:
        checked = list(jobs)
    except TypeError:
        raise OperatorError(
            f"schedule returned an object of type {type(jobs).__name__}, expected a list of jobs"
        ) from None
    if not allowed(len(checked)):
        raise OperatorError(f"schedule returned {len(checked)} jobs, expected {expected}")
    return checked
