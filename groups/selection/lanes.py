"""Candidates side by side: each thread trains some of them on all groups.

What one thread alone does between the passes over rows, of one candidate, then costs others no
time. Neighbours, which start from each other, stay together. What candidates start from and end at
does not depend on how fast threads are.
"""

import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np

from tuskml.groups.selection.asked import Search
from tuskml.groups.selection.candidates import Candidate
from tuskml.groups.selection.prepared import Prepared
from tuskml.kernels import passes
from tuskml.kvstore import hosting
from tuskml.schedule import budget

LEAST = 3
"""Candidates of a lane, the first of which starts from nowhere."""
MOST = 4
"""Lanes, each of which keeps what its next candidate starts from."""


def threads_of(search: Search) -> int:
    """The threads that a search uses, which all its candidates have in common."""
    return search.candidates[0].options.threads or budget.threads()


def lanes_of(part: Prepared, stays: bool, threads: int) -> list[Prepared]:
    """The candidates, cut into lanes of neighbours; one lane where all are to train in turn.

    stays: whether rows remain as they are linked. In turn where the same bits are asked for, which
    must not depend on the number of threads, and where a server has the thread that trains, which
    alone looks whether to stop.
    """
    count = lanes_for(len(part.numbers), threads)
    alone = any(in_turn(part.search.candidates[number]) for number in part.numbers)
    if not stays or alone or count < 2 or hosting.host is not None:
        return [part]
    return [part.lane(numbers.tolist()) for numbers in np.array_split(part.numbers, count)]


def in_turn(one: Candidate) -> bool:
    """Whether no other candidate may train beside this one: its loss is asked in Python too."""
    own = getattr(one.task, "own", None) is not None
    return own or one.options.ordered or one.options.device == "gpu"


def lanes_for(candidates: int, threads: int) -> int:
    """How many lanes so many candidates have, so that each has as many threads as any other."""
    most = min(MOST, threads, candidates // LEAST)
    return max((n for n in range(1, most + 1) if threads % n == 0), default=1)


def side_by_side(
    train: Callable[[Prepared], None], lanes: Sequence[Prepared], threads: int, ended: Event
) -> None:
    """train(lane) of all lanes at the same time, each with its share of the threads.

    ended: is set where one fails, so that the others end too.
    """
    if len(lanes) == 1:
        train(lanes[0])
        return
    mark = passes.cancel_mark()

    def run(lane: Prepared) -> None:
        with passes.begun_at(mark), budget.within(threads // len(lanes)):
            try:
                train(lane)
            except BaseException:
                ended.set()
                raise

    with ThreadPoolExecutor(len(lanes), thread_name_prefix="tuskml lane") as pool:
        running = [pool.submit(contextvars.copy_context().run, run, lane) for lane in lanes]
        for one in running:
            one.result()
