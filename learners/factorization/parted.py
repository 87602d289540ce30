"""Matrix factorization of a group in parts: blocks of items rotate over the parts.

Each user belongs to the part that has most of its ratings, which gets the others' ratings once.
The vectors of a block of items are at one part at a time, so no two parts take steps with the same
vector (Gemulla, Nijkamp, Haas and Sismanis, KDD 2011), and an epoch is a rotation of the blocks
(Kim et al., SMPFRAME, 2015, section 4.2). Its order, and so the bits, depend on how rows lie in
parts and on the seed alone.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes, structures
from tuskml.kernels.factorization import Shape
from tuskml.kernels.library import library, pointer
from tuskml.kernels.parts.message import Array
from tuskml.kernels.parts.sharded import Parts, ShardedPass, of_parts
from tuskml.kernels.passes import Floats
from tuskml.kernels.structures import WEIGHTS
from tuskml.learners.factorization import training
from tuskml.learners.factorization.epochs import Factors, Run
from tuskml.learners.factorization.options import Place, Request
from tuskml.learners.factorization.settings import Settings
from tuskml.learners.learner import refuse_offsets
from tuskml.learners.models import Models, Strings
from tuskml.learners.rotation import Rotation

Singles = NDArray[np.float32]
Ints = NDArray[np.int32]


class Step(NamedTuple):
    """The number of an epoch, and its step size; 0: it changes nothing."""

    epoch: int
    size: float


class RotatingFactors(Rotation):
    """Vectors of a group in parts, with the methods of `Factorization` that make steps.

    items: of each block the items with ratings; steps: of each rotation so far.
    """

    def __init__(self, rows: ShardedPass, shape: Shape, seed: int) -> None:
        super().__init__(rows, "factors")
        self.shape, self.seed = shape, seed
        self.n = int(rows.groups["n_rows"][0])
        labels = rows.labels()[0]
        self.mean = float(labels["mean"]) if shape.biases else 0.0
        square = float(labels["variance"]) + (float(labels["mean"]) - self.mean) ** 2
        self.deviation = math.sqrt(square) or 1.0
        weighted = bool(rows.groups["extras"][0] & WEIGHTS)
        self.scale = self.n / float(labels["weight"]) if weighted else 1.0
        users, items, weights = zip(
            *rows.ask("count_ratings", users=shape.n_users, items=shape.n_items), strict=True
        )
        self.owner = deal_users(users)
        self.items = deal_items(np.sum(items, axis=0), self.n_blocks)
        self.weight_of = np.sum(weights, axis=0) * self.scale
        self.load = [float(np.sum(items, axis=0)[one].sum()) for one in self.items]
        self.steps: list[Step] = []
        self.squares: list[float] = []
        super().start()

    @property
    def spec(self) -> list[Any]:
        """The arguments of `FactorSpec`."""
        shape = self.shape
        sizes = shape.n_users, shape.n_items, shape.rank, shape.biases
        return [*sizes, shape.l2, shape.l2_factors, self.seed & (2**64 - 1), 0]

    def open(self, states: Sequence[Array | None], saved: Any) -> Sequence[Singles]:
        block = np.zeros(self.shape.n_items, np.int32)
        place = np.zeros(self.shape.n_items, np.int32)
        for number, items in enumerate(self.items):
            block[items], place[items] = number, np.arange(len(items))
        every = range(self.n_parts)
        self.rows.ask_each("deal_users", dict.fromkeys(every, (self.owner,)))
        given = {
            "scale": self.scale, "blocks": self.n_blocks, "mean": self.mean,
            "deviation": self.deviation, "spec": self.spec, "stride": self.shape.stride,
        }  # fmt: skip
        for p in every:
            found = self.ratings_for(p)
            arrays = block, place, *found, states[p]
            self.ask_each("open", {p: arrays}, part=p, **given)
        return saved if saved is not None else [self.first_of(items) for items in self.items]

    def ratings_for(self, p: int) -> list[Array | None]:
        """The ratings of the users of a part that the others have."""
        others: Mapping[int, Sequence[Array]] = {q: () for q in range(self.n_parts) if q != p}
        replies = self.ask_each("ratings", others, to=p)
        columns = [list(column) for column in zip(*replies, strict=True)]
        if not columns:
            columns = [[np.zeros(0, kind)] for kind in (np.int32, np.int32, float, float)]
        return [None if one[0] is None else np.concatenate(one) for one in columns]

    def first_of(self, items: Ints) -> Singles:
        """The initial vectors of items."""
        out = np.empty((len(items), self.shape.stride), np.float32)
        spec = structures.FactorSpec(*self.spec)
        library().tk_factor_start(spec, pointer(items), len(items), pointer(out))
        return out

    def part(self, S_p: int, A: Sequence[Singles]) -> Singles:
        return A[S_p]

    def weight(self, S_p: int) -> float:
        return self.load[S_p]

    def schedule(self, A: Sequence[Singles], D: Any) -> Sequence[int]:
        self.squares = [0.0] * self.n_parts
        return super().schedule(A, D)

    def update(self, p: int, S_p: int, D_p: Any, A: Singles) -> Singles:
        step = self.steps[self.done]
        about = {"block": S_p, "epoch": step.epoch, "step": step.size}
        vectors: Singles
        vectors, squares = self.visit(p, A, **about)
        self.squares[p] += float(squares[0])
        return vectors

    def aggregate(self, R: Sequence[Singles], A: Sequence[Singles]) -> Sequence[Singles]:
        return R

    def start(self) -> None:
        """As `Factorization.start`."""
        self.model, self.saved, self.states = None, None, [None] * self.n_parts
        self.done = self.saved_at = 0
        self.steps = []
        super().start()

    def epoch(self, number: int, step: float, lock_free: bool = False) -> float:
        """As `Factorization.epoch`."""
        self.steps.append(Step(number, step))
        self.advance(1)
        loss = 0.5 * sum(self.squares) * self.deviation**2
        return (loss + self.penalty()) / self.n

    def objective(self) -> float:
        """As `Factorization.objective`."""
        return self.epoch(0, 0.0)

    def penalty(self) -> float:
        """The sum of the ratings' penalties."""
        shape, total = self.shape, 0.0
        if not shape.l2:
            return 0.0
        bias = shape.l2 * self.deviation if shape.biases else shape.l2_factors
        for items, vectors in zip(self.items, self.model, strict=True):
            first = vectors[:, 0].astype(float) ** 2
            rest = (vectors.astype(float) ** 2).sum(axis=1) - first
            each = shape.l2_factors * rest + bias * first
            total += float(0.5 * self.deviation * each @ self.weight_of[items])
        users = self.steady(lambda: self.ask_all("penalty"))
        return total + sum(float(one[0][0]) for one in users)

    def vectors(self) -> tuple[float, Floats]:
        """As `Factorization.vectors`."""
        shape = self.shape
        coef = np.zeros((shape.n_users + shape.n_items, shape.width))
        for ids, found in self.steady(lambda: self.ask_all("users")):
            coef[ids] = found
        for items, found in zip(self.items, self.model, strict=True):
            coef[shape.n_users + items] = found[:, : shape.width] * math.sqrt(self.deviation)
            if shape.biases:
                coef[shape.n_users + items, 0] = found[:, 0] * self.deviation
        return self.mean, coef


def deal_users(counts: Sequence[NDArray[np.uint32]]) -> Ints:
    """The part of each user, (users,): one that has most of its ratings.

    counts: the ratings of each user in each part. Of parts with as many the first counts, from
    one on that differs from user to user.
    """
    n, users = len(counts), np.arange(len(counts[0]))
    owner, best = np.zeros(len(users), np.int32), np.full(len(users), -1, np.int64)
    for p, found in enumerate(counts):
        score = found.astype(np.int64) * n + (p - users) % n
        better = score > best
        owner[better], best[better] = p, score[better]
    return owner


def deal_items(counts: NDArray[np.int64], blocks: int) -> list[Ints]:
    """The items with ratings of each block: the most frequent first, to and fro."""
    seen = np.flatnonzero(counts)
    order = seen[np.lexsort((seen, -counts[seen]))].astype(np.int32)
    turn = np.concatenate([np.arange(blocks), np.arange(blocks)[::-1]])
    block = np.resize(turn, len(order))
    return [np.sort(order[block == b]) for b in range(blocks)]


def train_by_parts(parts: Parts, request: Request) -> Models | None:
    """The model of the group; None where it has no usable row."""
    groups = of_parts(parts)
    if groups is None:
        return None
    began = time.monotonic()
    refuse_offsets(groups, request.task.name)
    settings = Settings.of(request.options, Place.PARTS)
    with passes.watching_sigint():
        rows = ShardedPass(
            groups, fit_intercept=settings.biases, threads=settings.threads,
            cancel_mark=passes.cancel_mark(), parts=parts,
        )  # fmt: skip
        shape = training.shape_of(rows, settings)
        model = RotatingFactors(rows, shape, settings.seed)
        run = Run(cast("Factors", model), None, settings, began)  # no rows are held out
        fit = training.descend(run, rows, shape, began, groups)
    plan = settings.describe().rpartition(", ")[0]  # without threads, which are the workers'
    models = training.as_models(groups, [fit])
    return replace(models, plan=Strings.same(f"{plan}, {model.describe('items')}", 1))
