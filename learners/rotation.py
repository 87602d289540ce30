"""Trainings of a group in parts by blocks of parameters that rotate over the parts.

The engine is `schedule.programs.program.Static`. Each of its workers is a thread of this process
that asks one part, and sends the block that it gets back to the next part. A part keeps what is
its own, such as the topics of its tokens. If that is lost with its worker, all parts go back to
the last checkpoint, and the rotations since then are repeated, with the same numbers.

Source: J. K. Kim et al., SMPFRAME, CMU-PDL-15-103, 2015, sections 3.3.1, 3.4 and 4.2.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tuskml.errors import ClusterError
from tuskml.kernels.parts.message import Array
from tuskml.kernels.parts.sharded import ShardedPass
from tuskml.schedule.programs.program import After, Program, Static, threads

MOST_BLOCKS = 32
"""Blocks at most: each visits each part in a rotation, which takes a message."""
EVERY = 10
"""Rotations between checkpoints."""
ATTEMPTS = 3
"""Losses after which a training is given up, unless there was a checkpoint in between."""
T = TypeVar("T")


class LostStateError(Exception):
    """A part does not have the state that a message needs."""


class Rotation(Program):
    """A program whose data are the parts of a group, and its run.

    method: of the parts' answers (`kernels/parts/answering.py`); model: the blocks and what all
    parts know; done: rotations so far, and rotations: with those that were repeated; states: what
    each part has kept at the last checkpoint, which `saved` was the model of, None: how it begins.
    """

    def __init__(self, rows: ShardedPass, method: str) -> None:
        assert rows.parts is not None
        self.rows, self.method = rows, method
        self.n_parts = len(rows.parts.counts)
        self.n_blocks = min(self.n_parts, MOST_BLOCKS)
        self.visits, self.sent = [0] * self.n_parts, [0] * self.n_parts
        self.model: Any = None
        self.states: Sequence[Array | None] = [None] * self.n_parts
        self.saved: Any = None
        self.done = self.saved_at = self.losses = self.rotations = 0

    @abstractmethod
    def open(self, states: Sequence[Array | None], saved: Any) -> Any:
        """Brings the parts into these states; returns the model, which `saved` was then."""

    def start(self) -> None:
        """Opens the parts."""
        self.steady(lambda: None)

    def advance(self, rotations: int, late: Callable[[], bool] = lambda: False) -> None:
        """Makes further rotations, and from time to time a checkpoint. late: says after each
        whether to end.
        """
        self.steady(lambda: None, self.done + rotations, late)
        if self.done - self.saved_at >= EVERY:
            self.save()

    def save(self) -> None:
        """Makes a checkpoint."""
        self.states = self.steady(lambda: [one[0] for one in self.ask_all("state")])
        self.saved, self.saved_at, self.losses = self.model, self.done, 0

    def steady(
        self,
        step: Callable[[], T],
        goal: int | None = None,
        late: Callable[[], bool] = lambda: False,
    ) -> T:
        """The result of a function after `goal` rotations, by default after those that are done;
        where parts lose their states, rotations are repeated.
        """
        goal = self.done if goal is None else goal

        def after(_: int, model: Any) -> bool:
            self.model = model
            self.done += 1
            self.rotations += 1
            return late()

        while True:
            try:
                if self.model is None:
                    self.visits, self.done = [0] * self.n_parts, self.saved_at
                    self.model = self.open(self.states, self.saved)
                if self.done < goal:
                    self.run(goal - self.done, self.model, after)
                return step()
            except LostStateError:
                self.model, self.losses = None, self.losses + 1
                if self.losses > ATTEMPTS:
                    raise ClusterError(
                        f"parts of a group were lost {self.losses} times within {EVERY} "
                        "rotations: workers ended, or have too little memory for their rows; "
                        "placement 'gtp' trains the group on one worker"
                    ) from None

    def run(self, rotations: int, model: Any, after: After | None = None) -> Any:
        """The model after rotations of the static engine."""
        with threads(self, range(self.n_parts)) as workers:
            engine = Static(rotations, after)
            return engine.run(self, model, range(self.n_parts), workers).model

    def ask_all(self, what: str, *arrays: Array | None, **given: Any) -> list[list[Any]]:
        """Reply of each part to the same message."""
        return self.ask_each(what, dict.fromkeys(range(self.n_parts), arrays), **given)

    def ask_each(
        self, what: str, arrays: Mapping[int, Sequence[Array | None]], **given: Any
    ) -> list[list[Any]]:
        """Reply of each part, between rotations. Raises LostStateError."""
        given |= {"what": what, "visits": self.visits[0]}
        replies = self.rows.ask_each(self.method, arrays, **given)
        if not all(replies):
            raise LostStateError
        return replies

    def visit(self, p: int, *arrays: Array | None, **given: Any) -> list[Any]:
        """The block as a part has changed it. Raises LostStateError."""
        about = {"what": "visit", "visits": self.visits[p], **given}
        reply = self.rows.ask_part(p, self.method, *arrays, **about)
        if not reply:
            raise LostStateError
        self.visits[p] += 1
        self.sent[p] += sum(one.nbytes for one in reply)
        return reply

    def schedule(self, A: Any, D: Any) -> Sequence[int]:
        return range(self.n_blocks)

    def describe(self, of: str) -> str:
        """What ran, for the model's plan; of: what the blocks have."""
        return (
            f"{self.rotations:,} rotations of {self.n_blocks} blocks of {of} over "
            f"{self.n_parts} parts, {sum(self.sent):,} bytes of blocks"
        )
