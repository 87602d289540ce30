"""The schedule of a search's trainings on threads: estimated before it, measured after it.

C* V s / n bounds the makespan of schedules that train each group on one worker at a time, where s
configurations train on n rows of all groups, and one takes V seconds of one worker ("Kingpin", S.
Li, A. Kumar, PVLDB 2021, equation 2). Learners that share the rows of a large group over threads
may be below it where one group has more than its share.
"""

import contextvars
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.selection.candidates import Candidate
from tuskml.groups.selection.folds import Preparation
from tuskml.groups.selection.search import Search
from tuskml.kernels import library, passes
from tuskml.kvstore import access
from tuskml.schedule import budget, shares
from tuskml.schedule.placement import (
    Sizes,
    constrained_wrap_around,
    heaviest_first,
    least_makespan,
    rows_by_worker,
)

LEAST_CANDIDATES = 3
"""Candidates of a lane, the first of which starts from nowhere."""
MOST_LANES = 4
"""Lanes, each of which keeps the start of its next candidate."""


def in_order(sizes: Sizes, places: NDArray[np.intp]) -> NDArray[np.intp]:
    """Some indices of groups with these sizes, in the order in which threads are to claim them."""
    return places[heaviest_first(sizes[places])]


@dataclass(frozen=True)
class Load:
    """The work of groups with these rows, (G,), on threads, for `passes` trainings on all rows of
    each.

    A training on a part of the rows counts as this part of one.
    """

    sizes: Sizes
    threads: int
    passes: float

    @property
    def least(self) -> int:
        """C*, in rows of one training."""
        return least_makespan(self.sizes, self.threads)

    @property
    def busiest_rows(self) -> int:
        """Rows of the thread that has the most, where threads share the large groups."""
        shards = constrained_wrap_around(self.sizes, self.threads)
        return int(rows_by_worker(shards, self.threads).max(initial=0))

    def seconds(self, rows: int, work: float) -> float:
        """Seconds of a thread with `rows` of the rows of each training.

        work: seconds of one thread with all rows of all trainings, V s.
        """
        return rows / max(int(self.sizes.sum()), 1) * work

    def estimate(self, one: float) -> dict[str, object]:
        """The load as JSON; one: estimated seconds of a training of all groups on all threads."""
        work = one * self.threads * self.passes
        return self._rows() | {
            "seconds": self.seconds(self.busiest_rows, work),
            "least_seconds": self.seconds(self.least, work),
        }

    def _rows(self) -> dict[str, object]:
        return {
            "groups": len(self.sizes),
            "threads": self.threads,
            "rows": int(self.sizes.sum()),
            "makespan_rows": self.busiest_rows,
            "least_makespan_rows": self.least,
        }

    def measure(self, seconds: float, work: float) -> dict[str, object]:
        """The schedule after the search; work: processor seconds of all trainings."""
        return self._rows() | {
            "seconds": seconds,
            "processor_seconds": work,
            "least_seconds": self.seconds(self.least, work),
        }


class Watch:
    """Seconds, and processor seconds of the process, of work within `running`."""

    def __init__(self) -> None:
        self.seconds = self.work = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Adds the time until it is left."""
        began, used = time.monotonic(), time.process_time()
        try:
            yield
        finally:
            self.seconds += time.monotonic() - began
            self.work += time.process_time() - used


def sentences(about: dict[str, float]) -> list[str]:
    """An estimated load in words, one line each."""
    share = about["makespan_rows"] / max(about["rows"], 1)
    return [
        f"schedule: {about['groups']} groups of {about['rows']:,} rows on {about['threads']} "
        f"threads, {share:.3g} of the rows on the fullest one",
        f"makespan: about {about['seconds']:.2g} s, at least {about['least_seconds']:.2g} s where "
        "one thread at a time trains a group",
    ]


def threads_of(search: Search) -> int:
    """The threads that a search uses, which all its candidates have in common."""
    return search.candidates[0].options.threads or budget.threads()


def lanes_of(part: Preparation, stays: bool, threads: int) -> list[Preparation]:
    """The candidates, cut into lanes of neighbours; one lane if all are to train in turn.

    stays: whether rows remain as they are linked. In turn if bits must be reproducible, and so
    must not depend on the number of threads, and if a server owns the thread that trains, which
    alone checks for cancellation.
    """
    count = lanes_for(len(part.numbers), threads)
    alone = any(in_turn(part.search.candidates[number]) for number in part.numbers)
    if not stays or alone or count < 2 or access.is_served():
        return [part]
    return [part.lane(numbers.tolist()) for numbers in np.array_split(part.numbers, count)]


def in_turn(one: Candidate) -> bool:
    """Returns whether no other candidate may train concurrently: its loss runs in Python."""
    own = getattr(one.task, "own", None) is not None
    return own or one.options.keeps_order or one.options.device == "gpu"


def lanes_for(candidates: int, threads: int) -> int:
    """The number of lanes of `candidates` candidates, so that each has equally many threads."""
    most = min(MOST_LANES, threads, candidates // LEAST_CANDIDATES)
    return max((n for n in range(1, most + 1) if threads % n == 0), default=1)


def side_by_side(
    train: Callable[[Preparation], None], lanes: Sequence[Preparation], threads: int, ended: Event
) -> None:
    """train(lane) of all lanes at the same time, each with its share of the threads.

    Their memory and cores count as those of the calling thread's training.

    ended: is set where one fails, so that the others end too.
    """
    if len(lanes) == 1:
        train(lanes[0])
        return
    mark, counting = passes.cancel_mark(), library.here()

    def run(lane: Preparation, training: int | None) -> None:
        with (
            passes.mark_begin(mark),
            budget.within(threads // len(lanes)),
            shares.within(training),
            library.count_as(counting),
        ):
            try:
                train(lane)
            except BaseException:
                ended.set()
                raise

    with (
        shares.split(len(lanes)) as training,
        ThreadPoolExecutor(len(lanes), thread_name_prefix="tuskml lane") as pool,
    ):
        running = [
            pool.submit(contextvars.copy_context().run, run, lane, training) for lane in lanes
        ]
        for one in running:
            one.result()
