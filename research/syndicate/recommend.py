"""A recommendation model (DLRM) over workers: layers on all of them, embedding tables divided.

min over w of (1 / n) sum_i log(1 + exp(-y_i z(x_i; w))), y_i in {-1, 1}, by steps of gradient
descent on batches. z is what the top layers make of the bottom layers' vector of the dense
features, and of the dot products of all pairs of that vector and the vectors of categories.

Source: M. Naumov et al., Deep Learning Recommendation Model for Personalization and Recommendation
Systems, 2019; its exchanges as in K. Mahajan, PhD thesis, 2021, figure 4.14.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.schedule.exchange.plan import Dag, Operation
from tuskml.schedule.exchange.workers.session import Session

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Shape:
    """dense: features that are numbers; levels: of each category; dim: length of a vector; bottom,
    top: width of the hidden layer below and above the dot products; batch: rows of a worker."""

    dense: int
    levels: tuple[int, ...]
    dim: int
    bottom: int
    top: int
    batch: int

    @property
    def pairs(self) -> int:
        """Pairs of the vectors of a row."""
        return (len(self.levels) + 1) * len(self.levels) // 2

    def owned(self, rank: int, workers: int) -> list[int]:
        """The categories whose tables a worker has."""
        return list(range(rank, len(self.levels), workers))


@dataclass
class Batch:
    """dense: (n, dense); ids: (n, categories); labels: (n,), -1 or 1."""

    dense: Floats
    ids: Ints
    labels: Floats


class Layers:
    """Two layers with a rectifier between them, and their gradients. flat: all parameters."""

    def __init__(self, inputs: int, hidden: int, outputs: int, draw: np.random.Generator) -> None:
        shapes = [(inputs, hidden), (hidden,), (hidden, outputs), (outputs,)]
        sizes = [int(np.prod(shape)) for shape in shapes]
        self.cuts = np.cumsum(sizes)[:-1]
        self.shapes = shapes
        self.flat = np.zeros(sum(sizes), np.float32)
        for part, fan in ((0, inputs), (2, hidden)):
            some = self.parts(self.flat)[part]
            some[...] = draw.standard_normal(some.shape) / np.sqrt(fan)

    def parts(self, flat: Floats) -> list[Floats]:
        """Weights and biases as views."""
        some = np.split(flat, self.cuts)
        return [part.reshape(shape) for part, shape in zip(some, self.shapes, strict=True)]

    def forward(self, x: Floats) -> tuple[Floats, Floats]:
        """The hidden layer and the output."""
        w1, b1, w2, b2 = self.parts(self.flat)
        hidden = np.maximum(x @ w1 + b1, 0)
        return hidden, hidden @ w2 + b2

    def backward(self, x: Floats, hidden: Floats, by: Floats) -> tuple[Floats, Floats]:
        """Gradients by the parameters, flat, and by the input."""
        w1, _, w2, _ = self.parts(self.flat)
        found = np.empty_like(self.flat)
        g1, c1, g2, c2 = self.parts(found)
        g2[...], c2[...] = hidden.T @ by, by.sum(axis=0)
        below = (by @ w2.T) * (hidden > 0)
        g1[...], c1[...] = x.T @ below, below.sum(axis=0)
        return found, np.asarray(below @ w1.T, self.flat.dtype)


class Worker:
    """A worker's share of the model and its steps. losses: means over all workers' batches."""

    def __init__(self, session: Session, shape: Shape, step: float, seed: int = 0) -> None:
        self.session, self.shape, self.step = session, shape, step
        self.rank, self.count = session.links.rank, session.workers.count
        self.owned = [shape.owned(rank, self.count) for rank in range(self.count)]
        # All workers draw all parameters, so that they have the same layers.
        draw = np.random.default_rng(seed)
        self.bottom = Layers(shape.dense, shape.bottom, shape.dim, draw)
        self.top = Layers(shape.dim + shape.pairs, shape.top, 1, draw)
        made = [
            (draw.standard_normal((levels, shape.dim)) / np.sqrt(shape.dim)).astype(np.float32)
            for levels in shape.levels
        ]
        self.tables = {one: made[one] for one in self.owned[self.rank]}
        self.losses: list[float] = []

    def train(self, batches: Callable[[int], Batch], iterations: int) -> None:
        """Trains for `iterations` steps; batches: this worker's rows of an iteration."""
        now = batches(0)
        for k in range(iterations):
            more = k + 1 < iterations
            self.session.begin(more)
            if k == 0:
                self.ask(now, 0)
            after = batches(k + 1) if more else None
            self.iterate(k, now, after)
            if after is not None:
                now = after
        self.step_bottom(iterations - 1)
        self.step_top(iterations - 1)
        self.session.finish()

    def ask(self, batch: Batch, iteration: int) -> None:
        """Sends the ids of a batch to those who have the tables."""
        ids = [np.ascontiguousarray(batch.ids[:, some]) for some in self.owned]
        self.session.submit("data_prep", ids, iteration)

    def iterate(self, k: int, batch: Batch, after: Batch | None) -> None:
        """An iteration, in the order in which figure 4.14 names its operations."""
        session = self.session
        if k:
            self.step_bottom(k - 1)
        with session.computing("fwd_bottom"):
            hidden, dense = self.bottom.forward(batch.dense)
        asked = session.result("data_prep")
        with session.computing("fwd_emb"):
            session.submit("emb_fwd", [self.looked_up(ids) for ids in asked])
        if after is not None:
            self.ask(after, k + 1)
        vectors = self.sorted_out(session.result("emb_fwd"), dense)
        if k:
            self.step_top(k - 1)
        by_vectors = self.above(vectors, batch.labels)
        with session.computing("bwd_bottom"):
            found, _ = self.bottom.backward(batch.dense, hidden, by_vectors[:, 0])
            session.submit("ar_bottom", found)
        came = session.result("emb_bwd")
        with session.computing("bwd_emb"):
            self.step_tables(asked, came)

    def looked_up(self, ids: Ints) -> Floats:
        """The vectors of ids (n, owned), (n, owned, dim)."""
        some = [self.tables[one][ids[:, k]] for k, one in enumerate(self.owned[self.rank])]
        if not some:
            return np.empty((len(ids), 0, self.shape.dim), np.float32)
        return np.stack(some, axis=1)

    def sorted_out(self, came: Sequence[Floats], dense: Floats) -> Floats:
        """The vectors of this worker's rows, (n, categories + 1, dim), that of `dense` first."""
        made = np.empty((len(dense), len(self.shape.levels) + 1, self.shape.dim), np.float32)
        made[:, 0] = dense
        for some, vectors in zip(self.owned, came, strict=True):
            made[:, [1 + one for one in some]] = vectors
        return made

    def above(self, vectors: Floats, labels: Floats) -> Floats:
        """The top layers forwards and backwards: gradients by the vectors."""
        session, (left, right) = self.session, np.tril_indices(vectors.shape[1], -1)
        with session.computing("fwd_top"):
            products = vectors @ vectors.transpose(0, 2, 1)
            x = np.concatenate([vectors[:, 0], products[:, left, right]], axis=1)
            hidden, z = self.top.forward(x)
            margin = labels * z[:, 0]
        with session.computing("bwd_top"):
            loss = np.logaddexp(0, -margin).sum(dtype=np.float64)
            share = np.float32(1 / (self.shape.batch * self.count))
            by = -labels * share / (1 + np.exp(margin))
            found, by_x = self.top.backward(x, hidden, by[:, None].astype(np.float32))
            session.submit("ar_top", np.append(found, np.float32(loss * share)))
            by_products = np.zeros_like(products)
            by_products[:, left, right] = by_products[:, right, left] = by_x[:, self.shape.dim :]
            by_vectors = by_products @ vectors
            by_vectors[:, 0] += by_x[:, : self.shape.dim]
            session.submit(
                "emb_bwd",
                [np.ascontiguousarray(by_vectors[:, [1 + k for k in one]]) for one in self.owned],
            )
        return by_vectors

    def step_tables(self, asked: Sequence[Ints], came: Sequence[Floats]) -> None:
        """Worker after worker, so the additions have one order."""
        for ids, by in zip(asked, came, strict=True):
            for k, one in enumerate(self.owned[self.rank]):
                np.subtract.at(self.tables[one], ids[:, k], np.float32(self.step) * by[:, k])

    def step_bottom(self, iteration: int) -> None:
        """With the gradient of all workers."""
        self.bottom.flat -= np.float32(self.step) * self.session.result("ar_bottom", iteration)

    def step_top(self, iteration: int) -> None:
        """With the gradient of all workers, whose last number is the loss."""
        found = self.session.result("ar_top", iteration)
        self.top.flat -= np.float32(self.step) * found[:-1]
        self.losses.append(float(found[-1]))


def operations(shape: Shape, workers: int) -> Dag:
    """An iteration, with the bytes that a worker brings to each exchange."""
    ids = 4.0 * shape.batch * len(shape.levels)
    vectors = ids * shape.dim
    bottom = (shape.dense + 1) * shape.bottom + (shape.bottom + 1) * shape.dim
    top = (shape.dim + shape.pairs + 1) * shape.top + shape.top + 2
    a, b = "all_to_all", "all_reduce"
    return Dag(
        [
            Operation(
                "data_prep", kind=a, size=ids, submitted=("bwd_emb",), after_previous=("fwd_emb",)
            ),
            Operation("fwd_bottom", after_previous=("ar_bottom",)),
            Operation("fwd_emb", after=("data_prep", "fwd_bottom"), after_previous=("bwd_emb",)),
            Operation("emb_fwd", kind=a, size=vectors, after=("fwd_emb",)),
            Operation("fwd_top", after=("emb_fwd",), after_previous=("ar_top",)),
            Operation("bwd_top", after=("fwd_top",)),
            Operation("ar_top", kind=b, size=4.0 * top, after=("bwd_top",)),
            Operation("emb_bwd", kind=a, size=vectors, after=("bwd_top",)),
            Operation("bwd_bottom", after=("bwd_top",)),
            Operation("ar_bottom", kind=b, size=4.0 * bottom, after=("bwd_bottom",)),
            Operation("bwd_emb", after=("emb_bwd", "bwd_bottom")),
        ]
    )


def planted(shape: Shape, seed: int, rank: int) -> Callable[[int], Batch]:
    """Batches whose labels follow dot products of hidden vectors; seed: of these."""
    draw = np.random.default_rng(seed)
    hidden = [draw.standard_normal((levels, 4)) for levels in shape.levels]
    weights = draw.standard_normal(shape.dense) / np.sqrt(shape.dense)

    def made(iteration: int) -> Batch:
        own = np.random.default_rng([seed, rank, iteration])
        dense = own.standard_normal((shape.batch, shape.dense)).astype(np.float32)
        ids = np.stack(
            [own.integers(0, levels, shape.batch) for levels in shape.levels], axis=1
        ).astype(np.int32)
        z: Any = dense @ weights
        for k in range(1, len(hidden)):
            z = z + (hidden[k - 1][ids[:, k - 1]] * hidden[k][ids[:, k]]).sum(axis=1)
        labels = np.where(own.logistic(size=shape.batch) < z, 1, -1).astype(np.float32)
        return Batch(dense, ids, labels)

    return made
