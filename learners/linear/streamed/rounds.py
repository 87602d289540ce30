"""Trainings by row group whose rows come in rounds that were laid out before the first one.

One SQL statement cannot ask for rows as it goes. So its text has the reads of all rounds, in the
order in which a training would ask for them, and each runs only if the one before it said `MORE`
(`front/databases/duckdb_rounds.py`). How many rows must be held out shows when the first ones are
there; they are read for a class that is as rare as RARE. Where rounds end before the training
does, or the first ones show that it is not for a sample, the answer is `ALL`: all rows train.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import RowsError
from tuskml.kernels import passes
from tuskml.kernels.passes import KINDS
from tuskml.kernels.segments import chunks
from tuskml.learners.classes import check_classes
from tuskml.learners.learner import ALL, DONE, MORE
from tuskml.learners.linear.planner.calibration import groups_of
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.streamed import skipping
from tuskml.learners.linear.streamed import training as by_row_group
from tuskml.learners.linear.streamed.choosing import StreamedChoice, choose
from tuskml.learners.linear.streamed.skipping import may_skip, most_chunks
from tuskml.learners.linear.streamed.training import (
    SLACK,
    Run,
    Training,
    count_held_rows,
    in_force,
    rarer_share,
    refuse_options,
    usable,
)
from tuskml.learners.models import Models
from tuskml.learners.row_groups import (
    FIRST_ROW_GROUPS,
    Groups,
    Layout,
    Piece,
    Reader,
    Sizes,
    Storage,
)

RARE = 0.1
"""Share of the rarer class for which rows are held out, if that many fit."""
MOST_ROUNDS, MOST_PIECES, MOST_CHUNKS = 16, 24, 4
"""Limits of a statement: rounds, ranges of rows, and chunks of a round. DuckDB plans each range
separately, which takes 5 ms if a Parquet file has 200 row groups.
"""
SINGLE = 4
"""Rounds of one chunk, before they grow."""


@dataclass(eq=False)
class Rounds:
    """The reads of one training, and its state.

    tried: no option requires to read a part; confirm: whether other rows have to confirm the
    result.
    """

    chosen: StreamedChoice
    layout: Layout
    rounds: tuple[tuple[Piece, ...], ...]
    tried: bool
    confirm: bool
    run: Run | None = None
    next_round: int = 0
    models: Models | None = None
    kept: list[NDArray[np.uint64]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    reader: Reader = field(init=False)

    @property
    def request(self) -> Request:
        """The request with the plan's algorithm and sampler."""
        return self.chosen.request

    def take(self, number: int, groups: Groups, memory: int) -> str:
        """Trains on the rows of a round: MORE, DONE, or ALL where all rows have to train.

        groups: of shape (1,), good during the call; memory: address of their account. A statement
        that runs again starts with round 0.
        """
        with self.lock:
            if number == 0:
                self.forget()
                enter(self)
            elif self.run is None or number != self.next_round:
                return ALL
            self.next_round = number + 1
            try:
                with passes.watching_sigint():
                    answer = self._take(number, groups, memory)
            except RowsError:
                answer = ALL  # the training on all rows says which, or leaves them out
            except BaseException:
                self.forget()
                raise
            if answer != MORE:
                self.forget(answer == DONE)
            return answer

    def forget(self, done: bool = False) -> None:
        """Lets the rows go that were held out, and the model unless it is done."""
        if self.run is not None:
            self.run.close()
        self.run, self.kept = None, []
        if not done:
            self.models = None

    def _take(self, number: int, groups: Groups, memory: int) -> str:
        if number == 0:
            return self._begin(groups, memory)
        assert self.run is not None
        try:
            with self.reader.receive(self.rounds[number], groups, memory) as chunk:
                self.run.send(chunk)
        except StopIteration as end:
            return self._discard_unconverged(end.value)
        return MORE if number + 1 < len(self.rounds) else ALL

    def _begin(self, groups: Groups, memory: int) -> str:
        began, options, mark = time.monotonic(), self.request.options, passes.cancel_mark()
        self.reader = Reader(
            Sizes(self.chosen.storage), self.request.task, options.seed, options.threads or 1, mark
        )
        room = int(groups["n_rows"][0]) - self.layout.chunk_rows // 2
        held = HeldOut(self.request, int(groups["dim"][0]), room)
        with self.reader.receive(self.rounds[0], groups, memory, held) as chunk:
            if held.too_many or not usable(chunk, self.request):
                return ALL
            check_classes(self.request.task, options, chunk.labels)
            first = replace(chunk, held=self._own(chunk.held))
            most_iter = len(self.rounds) if self.tried else None
            training = Training(
                self.chosen, self.layout, self.reader, began, mark, most_iter, self.confirm
            )
            self.run = training.run(first, self._request_pieces())
            try:
                next(self.run)
            except StopIteration as end:
                return self._discard_unconverged(end.value)
        return MORE if len(self.rounds) > 1 else ALL

    def _request_pieces(self) -> Iterator[list[Piece]]:
        """Yields the pieces that the training requests, and receives their chunks."""
        while True:
            yield list(self.layout.rest[:1])

    def _discard_unconverged(self, models: Models | None) -> str:
        """Discards a training that no option required to read a part, if it did not converge."""
        void = models is None or (self.tried and not models.converged.all())
        self.models = None if void else models
        return ALL if void else DONE

    def _own(self, held: Groups) -> Groups:
        """Copies the held-out rows: the memory of the statement may be freed before them."""
        group = held[0]
        parts = list(chunks(group))
        labels = np.concatenate([part[2] for part in parts])
        values = np.concatenate([part[1] for part in parts])
        kind = KINDS[int(group["kind"])]
        segment, groups = groups_of(labels, [values], 0, kind, int(group["dim"]))
        self.kept = [segment]
        return groups


MOST_RUNNING = 4
_running: list[Rounds] = []


def enter(one: Rounds) -> None:
    """Registers a training among those that hold rows.

    A statement that failed between its rounds leaves its rows behind, without notice. So the
    oldest trainings release theirs; if one of them continues after all, all rows train.
    """
    if one not in _running:
        _running.append(one)
    while len(_running) > MOST_RUNNING:
        oldest = _running.pop(0)
        if oldest.lock.acquire(blocking=False):  # else it is at work
            oldest.forget()
            oldest.lock.release()


@dataclass
class HeldOut:
    """The number of first rows to hold out; too_many, if there is no room for them."""

    request: Request
    n_features: int
    room: int
    too_many: bool = False

    def __call__(self, labels: NDArray[np.void]) -> int:
        """labels: LABELS of these rows, of shape (1,)."""
        share = rarer_share(labels) if self.request.task.classifies else 0.5
        wanted = count_held_rows(self.request, self.n_features, share) if share else None
        self.too_many = wanted is None or wanted > SLACK * self.room
        return 0 if wanted is None or self.too_many else wanted


def lay_out_rounds(storage: Storage, request: Request, n_features: int) -> Rounds | None:
    """The rounds of a training; None where all rows are to be read. Raises OptionError."""
    refuse_options(request)
    tried, sizes = may_skip(request), storage.sizes
    forced = replace(request, options=in_force(request.options))
    held = count_held_rows(forced, n_features, RARE) or count_held_rows(forced, n_features)
    if held is None:
        return None
    rng = np.random.default_rng(forced.options.seed)
    least = skipping.first_row_groups(len(sizes)) if tried else FIRST_ROW_GROUPS
    layout = by_row_group.lay_out_chunks(sizes, held, n_features, rng, least)
    if layout is None:
        return None
    chosen = choose(storage, request, n_features, layout, forced.options)
    if chosen is None:
        return None
    if chosen.request.options.sampler == by_row_group.DRAWN:
        layout = replace(layout, drawn=True)
    most_iter = most_chunks(request, sizes, layout) if tried else None
    rounds = tuple(grown(layout, rng, most_iter))
    confirm = least == skipping.FEW_ROW_GROUPS and tried
    return Rounds(chosen, layout, rounds, tried, confirm)


def grown(
    layout: Layout, rng: "np.random.Generator", most_iter: int | None
) -> Iterator[tuple[Piece, ...]]:
    """The pieces of each round, later ones of several chunks; every piece once at most."""
    yield layout.first
    every = layout.chunks_in_a_pass()
    left = every if most_iter is None else min(every, most_iter - 1)
    chunks_of_rest, pieces, each = layout.chunks(rng), len(layout.first), 1
    for number in range(1, MOST_ROUNDS):
        merged = [piece for _ in range(min(each, left)) for piece in next(chunks_of_rest)]
        left, pieces = left - each, pieces + len(merged)
        if not merged or pieces > MOST_PIECES:
            return
        yield tuple(merged)
        if number >= SINGLE:
            each = min(MOST_CHUNKS, 2 * each)
