"""A stochastic epoch that hops over parts, against the epoch over the same rows in one place."""

from dataclasses import replace

import numpy as np
import pytest
from rows import block, rows_pass

from tuskml.kernels.epochs import Epoch
from tuskml.kernels.parts import hopping
from tuskml.kernels.parts.answering import answer_message
from tuskml.kernels.parts.keeping import PartRows
from tuskml.kernels.parts.sharded import ShardedPass, of_parts
from tuskml.kernels.softmax import Softmax, Steps

pytestmark = pytest.mark.native
SIZES = (1_024, 512, 2_048)
"""Rows of the parts: as many as whole batches of all sizes that are tested."""
D = 4


class Parts:
    """Parts in this process; asked: the places that were asked by themselves."""

    def __init__(self, blocks):
        self.blocks, self.n_rows, self.asked = blocks, sum(SIZES), []
        self.folds = None

    def ask_one(self, place, message):
        self.asked.append(place)
        return answer_message(PartRows(self.blocks[place]), message, 1)

    def ask(self, message):
        return [answer_message(PartRows(one), message, 1) for one in self.blocks]

    def keep(self, places):
        self.blocks = [self.blocks[place] for place in places]


def made(kind, weighted=False, classes=2):
    rng = np.random.default_rng(5)
    n = sum(SIZES)
    x = rng.normal(size=(n, D)) * (1 if kind.startswith("dense") else rng.random((n, D)) < 0.5)
    y = rng.integers(0, classes, n).astype(float)
    weight = rng.random(n) + 0.5 if weighted else None
    ends = np.cumsum(SIZES)
    cut = [slice(end - size, end) for end, size in zip(ends, SIZES, strict=True)]
    own = [None if weight is None else weight[one] for one in cut]
    parts = Parts([block(x[c], y[c], kind, weight=w) for c, w in zip(cut, own, strict=True)])
    return block(x, y, kind, segment_rows=n, weight=weight), parts


def passes(task, kind, **given):
    whole, parts = made(kind, **given)
    one = rows_pass(whole, task)
    fields = (one.loss, one.positive, None, True, 1)
    return one, ShardedPass(of_parts(parts), *fields, parts=parts, classifies=True)


def epoch(batch_size, **given):
    rng = np.random.default_rng(8)
    plain = np.zeros((1, D)), np.ones((1, D)), np.full((1, D), 0.5)
    mine = Epoch(batch_size, 1, 3.0, 1e-4, 1e-3, np.array([0.05]), *plain)
    return replace(mine, **given), rng.normal(size=(1, D + 1))


@pytest.mark.parametrize("kind", ["dense float64", "dense float32", "sparse float64"])
@pytest.mark.parametrize("batch_size", [1, 32])
@pytest.mark.parametrize("task", ["logistic", "linear", "svm"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_steps_are_those_of_rows_in_one_place(task, batch_size, kind, weighted) -> None:
    """The schedule goes on where the part before has ended, and so does the mean."""
    one, cut = passes(task, kind, weighted=weighted)
    given, start = epoch(batch_size)
    v, w = start.copy(), start.copy()
    mean, other = np.empty_like(v), np.empty_like(v)
    loss, its = one.sgd(given, v, mean, False), cut.sgd(given, w, other, False)
    rel = 1e-5 if kind.startswith("sparse") else 1e-11  # sparse models are single precision
    assert w == pytest.approx(v, rel=rel)
    assert other == pytest.approx(mean, rel=rel)
    assert its == pytest.approx(loss, rel=rel)
    assert not np.allclose(v, start)
    assert cut.parts.asked == [0, 1, 2]


def test_a_part_that_begins_anew_would_take_other_steps(monkeypatch) -> None:
    """What travels beside the weights is needed."""
    one, cut = passes("logistic", "dense float64")
    given, start = epoch(1, power=4, epochs_done=0.0)
    v, w = start.copy(), start.copy()
    one.sgd(given, v, None, False)
    monkeypatch.setattr(hopping, "replace", lambda epoch, **_: epoch)
    cut.sgd(replace(given, rows_of_all=sum(SIZES)), w, None, False)
    assert w != pytest.approx(v, rel=1e-3)


@pytest.mark.parametrize("kind", ["dense float64", "sparse float64"])
@pytest.mark.parametrize("reference", [False, True])
def test_several_classes(kind, reference) -> None:
    one, cut = passes("logistic", kind, classes=3)
    classes = Softmax(np.array([[0.0, 1.0, 2.0]]))
    given, _ = epoch(32, l1=0.0)
    v = np.random.default_rng(1).normal(size=(1, 3 * (D + 1)))
    w, mean, other = v.copy(), np.empty_like(v), np.empty_like(v)
    loss = Steps(classes, one, reference).sgd(given, v, mean, False)
    its = Steps(classes, cut, reference).sgd(given, w, other, False)
    rel = 1e-4 if kind.startswith("sparse") else 1e-11
    assert w == pytest.approx(v, rel=rel)
    assert other == pytest.approx(mean, rel=rel)
    assert its == pytest.approx(loss, rel=rel)


def test_random_order_of_parts_is_of_the_seed_and_the_epoch() -> None:
    _, cut = passes("logistic", "dense float64")
    orders = set()
    for done in range(8):
        given, start = epoch(1, shuffle=True, epochs_done=float(done), seed=3)
        cut.parts.asked.clear()
        cut.sgd(given, start, None, False)
        assert sorted(cut.parts.asked) == [0, 1, 2]
        orders.add(tuple(cut.parts.asked))
    assert len(orders) > 2
