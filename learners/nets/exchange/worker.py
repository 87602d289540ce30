"""A worker that trains a net together with others.

All have the layers. Each has the vectors of some levels, and in each batch the rows of some
pieces. A step is: ids of vectors to their owners, vectors back, losses and gradients of the rows,
gradients of vectors to their owners, and the sum of the gradients by the layers over all workers.
Ids travel an iteration early. Between two passes over rows are two iterations without any, after
which all workers know the same losses, and decide the same.

Source: M. Naumov et al., Deep Learning Recommendation Model for Personalization and Recommendation
Systems, 2019, section 4; its exchanges as in K. Mahajan, PhD thesis, 2021, figure 4.14.

Vectors of tables are divided over workers. All vectors have a number, table by table. The worker
of rank r has those whose number is r modulo the number of workers, so the levels of each table are
on all of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.nets.pieces import (
    PAD,
    Batch,
    Numbers,
    Places,
    Room,
    Single,
    Vectors,
    concatenate_runs,
    pad_length,
    places_of,
    scatter,
    step_layers,
)
from tuskml.kernels.nets.training import DIVERGED, DONE, LATE, PATIENCE, Rules
from tuskml.kernels.nets.visits import initial_state
from tuskml.kernels.parts.message import pack_message, unpack_message
from tuskml.kernels.passes import Floats
from tuskml.learners.nets.exchange.rows import (
    AT_ONCE,
    BatchRows,
    Division,
    OwnRows,
    nothing,
    pieces_of,
    read,
)
from tuskml.schedule.exchange.plan import Dag, Operation
from tuskml.schedule.exchange.workers.crew import Member
from tuskml.schedule.exchange.workers.session import Session

Tables = Sequence[tuple[int, int, int]]


@dataclass(frozen=True)
class VectorRequest:
    """The vectors of tables that the rows of a batch read.

    levels: of each table, the vectors that the rows read, a level of several pieces repeated;
    floats: of all of them, table by table, padded; at, length: the position of each in that array,
    and its length; owners: of each worker, the indices of its vectors among these; ids: their
    numbers there.
    """

    levels: list[int]
    floats: int
    at: Places
    length: Numbers
    owners: list[NDArray[np.intp]]
    ids: list[Numbers]

    def put(self, vectors: Single, came: Sequence[Single]) -> None:
        """Stores the vectors that each worker has sent where the kernel reads them."""
        for some, given in zip(self.owners, came, strict=True):
            scatter(vectors, self.at[some], self.length[some], given)

    def take_gradients(self, by_vectors: Single) -> list[Single]:
        """The gradients by the vectors of each worker."""
        return [
            concatenate_runs(by_vectors, self.at[some], self.length[some]) for some in self.owners
        ]


def request_vectors(
    levels: NDArray[np.float32], pieces: NDArray[np.intp], tables: Tables, workers: int
) -> tuple[VectorRequest, NDArray[np.float32]]:
    """Collects the vectors that rows read, and the levels by which they read them.

    levels: (n, tables), the number of the level in each table or -1; pieces: (n,), of each row.
    The vectors come table by table, of each table piece by piece, in the order of the levels.
    """
    count = np.array([each for _, each, _ in tables], np.int64)
    size = np.array([each for _, _, each in tables], np.int32)
    base = np.cumsum(count) - count
    most, n_pieces = int(count.max(initial=1)), int(pieces.max(initial=0)) + 1
    there = levels >= 0
    blocks = np.arange(len(tables)) * n_pieces + pieces[:, None]
    keys = (blocks * most + levels.astype(np.int64))[there]
    found, place = np.unique(keys, return_inverse=True)
    table, level = found // (n_pieces * most), found % most
    each = np.bincount(table, minlength=len(tables))
    inside = np.arange(len(found)) - (np.cumsum(each) - each)[table]
    floats = -(-each * size // PAD) * PAD
    own = levels.copy()
    own[there] = inside[place.reshape(-1)]
    number = base[table] + level
    owners = [np.flatnonzero(number % workers == rank) for rank in range(workers)]
    ids = [(number[some] // workers).astype(np.int32) for some in owners]
    at = (np.cumsum(floats) - floats)[table] + inside * size[table]
    made = VectorRequest(each.tolist(), int(floats.sum()), at, size[table], owners, ids)
    return made, own


TRAINING, HELD_OUT = "training", "held out"


@dataclass
class Visit:
    """A batch. rows: this worker's; epoch: of the step that follows, None: of no step; step: its
    number in the epoch; of: which loss it adds to."""

    rows: BatchRows
    epoch: int | None = None
    step: int = 0
    of: str = ""
    asked: VectorRequest = field(init=False)

    @property
    def steps(self) -> bool:
        """Returns whether a step follows."""
        return self.epoch is not None


@dataclass
class TrainingFacts:
    """The facts about the training that all workers know. loss: of the result; steps: number of
    steps made.
    """

    epochs: int = 0
    kept: int = 0
    ending: int = DONE
    held_loss: float | None = None
    loss: float = math.nan
    steps: int = 0
    history: list[float] = field(default_factory=list)


class Training:
    """A worker's share of a net, and its steps."""

    def __init__(self, member: Member, header: dict[str, Any], arrays: list[Any]) -> None:
        self.member, self.rules = member, Rules.read(header["rules"])
        self.mark = passes.cancel_mark()
        self.until = math.inf
        if header["seconds"] is not None:
            self.until = time.monotonic() + header["seconds"]
        units, start, own, held = arrays
        self.plain, self.tables = (len(units) - 3) // 2, self.rules.tables
        self.pieces = pieces_of(self.rules.batch)
        self.own = range(0)
        self.sets = {TRAINING: self.rows(own.tobytes(), header["counts"], self.rules.batch)}
        self.loss_rows = self.rows_again()
        if held is not None and sum(header["held"]):
            most = max(self.rules.batch, AT_ONCE)
            self.sets[HELD_OUT] = self.rows(held.tobytes(), header["held"], most)
            self.sets[HELD_OUT].arrange(0, None)
        self.room = Room(self.rules, self.plain, len(self.own), member.threads, self.mark)
        self.take_weights(units, start)
        self.told, self.late = TrainingFacts(), False
        self.sums = {of: np.zeros(2) for of in (TRAINING, HELD_OUT)}
        self.waiting: Visit | None = None
        self.best: tuple[Single, Single] | None = None

    def rows(self, message: bytes, counts: list[int], batch: int) -> OwnRows:
        """Reads this worker's rows of a set."""
        division = Division(sum(counts), batch, self.pieces)
        self.own = division.own(self.member.rank, self.member.count)
        low, high = division.begin[self.own.start], division.begin[self.own.stop]
        stride = self.stride()
        found = read(self.member.ask, message, counts, int(low), int(high), stride)
        return OwnRows(found, division, self.own)

    def rows_again(self) -> OwnRows:
        """The training rows in larger batches and as they lie, for the loss of the result."""
        mine = self.sets[TRAINING]
        most = max(self.rules.batch, AT_ONCE)
        same = OwnRows(mine.rows, Division(mine.division.n, most, self.pieces), self.own)
        same.arrange(0, None)
        return same

    def stride(self) -> int:
        """Floats of a row."""
        return pad_length(self.plain + len(self.tables))

    def take_weights(self, units: Floats, start: Floats | None) -> None:
        """Stores the initial layers, and this worker's vectors."""
        flat, n = initial_state(self.rules, units, start)[0], self.room.layers
        at, length = places_of(n, self.tables)
        some = slice(self.member.rank, None, self.member.count)
        at, length = at[some], length[some]
        self.layers = np.zeros((3, n), np.float32)
        self.layers[0] = flat[:n]
        begin = np.concatenate([[0], np.cumsum(length, dtype=np.int64)]).astype(np.int64)
        numbers = np.zeros((3, int(begin[-1])), np.float32)
        numbers[0] = concatenate_runs(flat, at, length)
        self.vectors = Vectors(begin, numbers)
        self.flat = flat[:n].copy()  # and the vectors of a batch behind

    def visits(self) -> Iterator[Visit]:
        """Yields all batches; a batch is requested once all except the last two are finished."""
        rules, told = self.rules, self.told
        for epoch in range(rules.epochs):
            self.sets[TRAINING].arrange(rules.seed, epoch if rules.shuffle else None)
            yield from self.over(self.sets[TRAINING], TRAINING, epoch)
            yield from (self.idle(), self.idle())
            loss, _ = self.take_losses(TRAINING)
            finite = bool(np.isfinite(self.layers[0]).all())
            if not self.late:
                told.history.append(loss / self.sets[TRAINING].division.n)
                told.epochs += 1
            if finite and math.isfinite(loss):
                yield from self.judge()
            elif not self.late:
                told.ending = DIVERGED
            told.ending = LATE if self.late else told.ending
            if told.ending != DONE:
                break
        if self.best is not None:
            self.layers[0], self.vectors.numbers[0] = self.best
        self.late = False
        yield from self.over(self.loss_rows, TRAINING, None)

    def over(self, rows: OwnRows, of: str, epoch: int | None) -> Iterator[Visit]:
        """A pass over rows, until the time is over."""
        for step in range(rows.division.steps):
            if self.late:
                return
            yield Visit(rows.batch(step), epoch, step, of)

    def idle(self) -> Visit:
        """An iteration without rows."""
        return Visit(nothing(len(self.own), self.stride()))

    def take_losses(self, of: str) -> tuple[float, float]:
        """Returns the sums of losses and of the weights of their rows, and resets them."""
        loss, weight = self.sums[of].tolist()
        self.sums[of] = np.zeros(2)
        return loss, weight

    def judge(self) -> Iterator[Visit]:
        """Looks at the rows held out, if there are any."""
        told, rows = self.told, self.sets.get(HELD_OUT)
        if rows is None:
            told.kept = told.epochs
            return
        late, self.late = self.late, False
        yield from self.over(rows, HELD_OUT, None)
        yield from (self.idle(), self.idle())
        self.late = late or self.late
        loss, weight = self.take_losses(HELD_OUT)
        loss /= weight
        if told.held_loss is None or loss < told.held_loss:
            told.held_loss, told.kept = loss, told.epochs
            self.best = self.layers[0].copy(), self.vectors.numbers[0].copy()
        elif told.epochs - told.kept >= self.rules.patience:
            told.ending = PATIENCE

    def run(self, session: Session) -> None:
        """Runs all iterations."""
        visits, k = self.visits(), 0
        now: Visit | None = next(visits)
        while now is not None:
            after = next(visits, None)
            session.begin(after is not None)
            if k == 0:
                self.ask(session, now, 0)
            self.iterate(session, k, now, after)
            now, k = after, k + 1
        self.end(session, k - 1)
        session.finish()
        loss, weight = self.take_losses(TRAINING)
        self.told.loss = loss / weight

    def ask(self, session: Session, visit: Visit, iteration: int) -> None:
        """Sends the ids of a batch to those who have the vectors."""
        rows = visit.rows
        inside = slice(self.plain, self.plain + len(self.tables))
        with session.computing("ask"):
            visit.asked, own = request_vectors(
                rows.rows.x[:, inside], rows.pieces, self.tables, self.member.count
            )
            rows.rows.x[:, inside] = own
        session.submit("data_prep", visit.asked.ids, iteration)

    def iterate(self, session: Session, k: int, now: Visit, after: Visit | None) -> None:
        """Runs an iteration, in the order in which `operations` names its parts."""
        came = session.result("data_prep")
        with session.computing("look_up"):
            session.submit("emb_fwd", [self.vectors.read(ids) for ids in came])
        if after is not None:
            self.ask(session, after, k + 1)
        vectors = session.result("emb_fwd")
        self.end(session, k - 1)
        self.waiting = now
        with session.computing("layers"):
            self.compute(session, now, vectors)
        by_vectors = session.result("emb_bwd")
        with session.computing("step_vectors"):
            if now.epoch is not None:
                which, gradient = np.concatenate(came), np.concatenate(by_vectors)
                self.vectors.step(self.rules, which, gradient, now.epoch, self.told.steps + 1)

    def compute(self, session: Session, now: Visit, vectors: list[Single]) -> None:
        """Losses and gradients of this worker's rows."""
        n = self.room.layers
        self.flat.resize(n + now.asked.floats, refcheck=False)
        self.flat[:n] = self.layers[0]
        now.asked.put(self.flat[n:], vectors)
        rows = now.rows
        batch = Batch(rows.rows, rows.begin, self.own.start, rows.total, now.epoch or 0, now.step)
        loss, gradient, by_vectors = self.room.run_pass(
            self.flat, now.asked.levels, batch, now.steps
        )
        words = np.zeros((3, self.pieces))
        words[0, self.own.start : self.own.stop] = loss
        words[1, self.own.start : self.own.stop] = weights_of(rows)
        words[2, 0] = time.monotonic() >= self.until
        session.submit("told", words)
        session.submit("all_layers", gradient)
        nothing_to_say = [np.empty(0, np.float32)] * self.member.count
        session.submit(
            "emb_bwd", now.asked.take_gradients(by_vectors) if now.steps else nothing_to_say
        )

    def end(self, session: Session, k: int) -> None:
        """Finishes an iteration: the losses, and the step of the layers."""
        visit, self.waiting = self.waiting, None
        if visit is None:
            return
        words, gradient = session.result("told", k), session.result("all_layers", k)
        if visit.of:
            self.sums[visit.of] += words[:2].sum(axis=1)
        if visit.epoch is not None:
            self.late = self.late or bool(words[2, 0])
            self.told.steps += 1
            given = self.layers, gradient, visit.epoch, self.told.steps
            step_layers(self.rules, self.plain, *given)


def weights_of(rows: BatchRows) -> Floats:
    """The sum of the weights of the rows of each piece."""
    if rows.rows.weight is None:
        return np.diff(rows.begin).astype(np.float64)
    n = len(rows.begin) - 1
    return np.bincount(rows.pieces, rows.rows.weight, n).astype(np.float64)


def operations(training: Training) -> Dag:
    """An iteration, with the bytes that this worker brings to each exchange."""
    rows = training.sets[TRAINING]
    rows.arrange(training.rules.seed, None)
    first = rows.batch(0)
    inside = slice(training.plain, training.plain + len(training.tables))
    asked, _ = request_vectors(
        first.rows.x[:, inside], first.pieces, training.tables, training.member.count
    )
    ids, vectors = 4.0 * len(asked.at), 4.0 * float(asked.length.sum())
    layers, words = 4.0 * training.room.layers, 24.0 * training.pieces
    a, b = "all_to_all", "all_reduce"
    return Dag(
        [
            Operation(
                "data_prep",
                kind=a,
                size=ids,
                submitted=("step_vectors",),
                after_previous=("look_up",),
            ),
            Operation("look_up", after=("data_prep",), after_previous=("step_vectors",)),
            Operation("emb_fwd", kind=a, size=vectors, after=("look_up",)),
            Operation("ask", after=("look_up",)),
            Operation("layers", after=("emb_fwd", "ask"), after_previous=("told", "all_layers")),
            Operation("told", kind=b, size=words, after=("layers",)),
            Operation("all_layers", kind=b, size=layers, after=("layers",)),
            Operation("emb_bwd", kind=a, size=vectors, after=("layers",)),
            Operation("step_vectors", after=("emb_bwd",)),
        ]
    )


def train_member(member: Member, message: bytes) -> bytes:
    """This worker's vectors; the first worker adds the layers and its report."""
    training = Training(member, *unpack_message(message))
    with member.session(operations(training)) as session:
        training.run(session)
    own = training.vectors.numbers[0]
    if member.rank:
        return pack_message({}, [own, None])
    return pack_message(vars(training.told), [own, training.layers[0]])
