"""Training of stored models against the same updates in NumPy, and against scikit-learn."""

import numpy as np
import pytest
from rows import block, rows_pass
from sklearn.linear_model import LogisticRegression
from stored_reference import Reference, dense, sparse_rows

from tuskml.kernels.stored.chunks import Chunks
from tuskml.kernels.stored.training import Model, ScratchFrames, Training
from tuskml.partitioner.index_map import Blocks, IndexMap

D = 120
MOST = 1 << 30


def partitions():
    """Three partitions of frequent features, all others in blocks of two sizes."""
    features = np.arange(0, 40, 2)
    return IndexMap(features, np.arange(20) * 7 % 3, Blocks((0, 6), (4, 9)))


MAPS = {
    "a key a feature": lambda: IndexMap.by_rule(1),
    "blocks": lambda: IndexMap.by_rule(16),
    "one block": lambda: IndexMap.by_rule(1000),
    "partitions": partitions,
}


class Setup:
    """Rows in chunks, with payloads in scratch memory."""

    def __init__(self, rows, y, index, task="linear", weight_size=8, kind="sparse float64", **how):
        self.index = index
        cut = {
            key: how.pop(key) for key in ("rows_per_chunk", "most_bytes", "shift") if key in how
        }
        self.groups = block(rows, y, kind, how.pop("segment_rows", 23), D)
        self.rows = rows_pass(self.groups, task, **how)
        cut = {"rows_per_chunk": 64, "most_bytes": MOST, "weight_size": weight_size} | cut
        self.chunks = Chunks.map(self.rows, index.locate, index.sizes, **cut)
        self.keys, self.widths = self.chunks.keys()
        self.frames = ScratchFrames(self.keys, self.widths, weight_size)

    def training(self, **options):
        return Training(self.chunks, self.frames.access, **{"shuffle": False} | options)

    def weights(self, model):
        """The weights of all features, shape (D,)."""
        keys, slots = self.index.locate(np.arange(D))
        out = np.zeros(D)
        for i, key in enumerate(self.keys):
            mine = keys == key
            out[mine] = model.scale * self.frames.weights(i)[slots[mine]]
        return out

    def chunk_list(self):
        """Rows and keys of each chunk, for the reference."""
        return [(c.row, c.row + c.rows, [int(k) for k in c.keys]) for c in self.chunks]

    def reference(self, task, rows, y, **options):
        keys = self.index.locate(np.arange(D))[0]
        return Reference(task, dense(rows, D), y, keys, self.chunk_list(), **options)


def compare(setup, reference, training, epochs=3, tolerance=1e-12):
    """Trains both and compares losses and weights."""
    model = Model()
    for done in range(epochs):
        result = training.epoch(model, done)
        model = result.model
        assert result.loss == pytest.approx(reference.epoch(done), rel=tolerance)
        assert result.rows == len(reference.y)
    reference.settle(set(reference.key_of.tolist()))
    assert model.time == pytest.approx(reference.time, rel=1e-12)
    model, sums = training.settle(model, setup.keys, setup.widths, 1000)
    assert model.intercept == pytest.approx(reference.b, rel=tolerance, abs=tolerance)
    scale = np.abs(reference.w).max()
    np.testing.assert_allclose(setup.weights(model), reference.w, rtol=0, atol=tolerance * scale)
    assert sums.squares == pytest.approx(np.sum(reference.w**2), rel=10 * tolerance)
    assert sums.absolute == pytest.approx(np.sum(np.abs(reference.w)), rel=10 * tolerance)
    return model, sums


PENALTIES = {
    "none": {},
    "l1": {"l1": 0.02},
    "l2": {"l2": 0.1},
    "both": {"l1": 0.01, "l2": 0.2},
}


@pytest.mark.sample(11)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("batch_size", [1, 32])
@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
@pytest.mark.parametrize("index", MAPS)
def test_same_updates_as_numpy(index, task, batch_size, penalty):
    rng = np.random.default_rng(7)
    rows, y = sparse_rows(rng, 300, D, task=task)
    setup = Setup(rows, y, MAPS[index](), task)
    options = {"batch_size": batch_size, "step": 0.05} | PENALTIES[penalty]
    reference = setup.reference(task, rows, y, **options)
    _, sums = compare(setup, reference, setup.training(**options))
    assert sums.nonzeros == np.count_nonzero(reference.w)


@pytest.mark.parametrize("kind", ["sparse float32", "sparse float64"])
@pytest.mark.parametrize("weight_size", [4, 8])
@pytest.mark.parametrize("power", [0, 2])
def test_types_and_schedules(kind, weight_size, power):
    rng = np.random.default_rng(8)
    rows, y = sparse_rows(rng, 300, D, task="logistic")
    rows = [(ids, np.float32(values).astype(float)) for ids, values in rows]
    setup = Setup(rows, y, partitions(), "logistic", weight_size, kind)
    options = {"step": 0.05, "power": power, "l1": 0.01, "l2": 0.1}
    reference = setup.reference("logistic", rows, y, **options)
    compare(setup, reference, setup.training(**options), 3, 1e-12 if weight_size == 8 else 1e-5)


@pytest.mark.parametrize("batch_size", [1, 32])
def test_class_weights(batch_size):
    rng = np.random.default_rng(9)
    rows, y = sparse_rows(rng, 200, D, task="svm")
    setup = Setup(rows, y, partitions(), "svm", class_weight=(0.5, 3))
    options = {"batch_size": batch_size}
    reference = setup.reference("svm", rows, y, class_weight=(0.5, 3), **options)
    compare(setup, reference, setup.training(**options))


@pytest.mark.parametrize("step", [0.5, 5])
@pytest.mark.parametrize("batch_size", [1, 7])
def test_l2_so_strong_that_one_scale_would_underflow(step, batch_size):
    rng = np.random.default_rng(10)
    rows, y = sparse_rows(rng, 300, D, task="logistic")
    setup = Setup(rows, y, partitions(), "logistic")
    options = {"step": step, "l2": 10.0, "power": 0, "batch_size": batch_size}
    reference = setup.reference("logistic", rows, y, **options)
    model, _ = compare(setup, reference, setup.training(**options))
    assert model.time * 10 > 150
    assert model.scale > 1e-15


@pytest.mark.parametrize("penalty", PENALTIES)
def test_fold_leaves_plain_weights(penalty):
    rng = np.random.default_rng(11)
    rows, y = sparse_rows(rng, 300, D)
    setup = Setup(rows, y, partitions())
    training = setup.training(step=0.05, **PENALTIES[penalty])
    model = training.epoch(Model()).model
    settled, sums = training.settle(model, setup.keys, setup.widths, MOST)
    weights = setup.weights(settled)
    folded, again = training.settle(model, setup.keys, setup.widths, MOST, fold=True)
    assert (folded.time, folded.scale) == (0, 1)
    assert again == sums
    np.testing.assert_array_equal(setup.weights(folded), weights)
    assert {setup.frames.stamp(i) for i in range(len(setup.keys))} == {0.0}
    assert training.loss(folded).loss == pytest.approx(training.loss(folded).loss)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_loss_is_of_settled_weights(penalty):
    rng = np.random.default_rng(12)
    rows, y = sparse_rows(rng, 300, D)
    setup = Setup(rows, y, partitions(), class_weight=None)
    training = setup.training(step=0.05, **PENALTIES[penalty])
    model = training.epoch(Model()).model
    before = training.loss(model)
    model, _ = training.settle(model, setup.keys, setup.widths, MOST)
    margins = dense(rows, D) @ setup.weights(model) + model.intercept
    assert before.loss == pytest.approx(np.sum((margins - y) ** 2) / 2, rel=1e-12)
    assert before.rows == len(y)


def test_reaches_the_optimum_of_scikit_learn():
    rng = np.random.default_rng(13)
    rows, y = sparse_rows(rng, 400, D, task="logistic")
    l2 = 0.05
    x = dense(rows, D)
    sk = LogisticRegression(C=1 / (l2 * len(y)), tol=1e-10, max_iter=10_000).fit(x, y)

    def objective(w, b):
        sign = np.where(y == 1, 1, -1)
        return np.mean(np.logaddexp(0, -sign * (x @ w + b))) + l2 / 2 * w @ w

    best = objective(sk.coef_[0], sk.intercept_[0])
    setup = Setup(rows, y, partitions(), "logistic", 4)
    training = setup.training(step=1.0, power=2, l2=l2, shuffle=True, seed=3)
    model = Model()
    for done in range(60):
        model = training.epoch(model, done).model
    model, sums = training.settle(model, setup.keys, setup.widths, MOST)
    reached = objective(setup.weights(model), model.intercept)
    assert best <= reached <= best * 1.002
    ours = training.loss(model).loss / len(y) + l2 / 2 * sums.squares
    assert ours == pytest.approx(reached, rel=1e-5)


@pytest.mark.parametrize("batch_size", [1, 8])
def test_four_threads_reach_the_loss_of_one(batch_size):
    rng = np.random.default_rng(14)
    rows, y = sparse_rows(rng, 4000, D, task="logistic")
    found = []
    for threads in (1, 4):
        setup = Setup(rows, y, partitions(), "logistic", 4, threads=threads, segment_rows=500)
        training = setup.training(step=0.1, l2=1e-3, shuffle=True, batch_size=batch_size)
        model = Model()
        for done in range(10):
            result = training.epoch(model, done)
            model = result.model
            assert result.rows == len(y)
        model, sums = training.settle(model, setup.keys, setup.widths, 1000)
        found.append(training.loss(model).loss / len(y) + 1e-3 / 2 * sums.squares)
    assert found[1] == pytest.approx(found[0], rel=0.01)


def test_shuffled_epochs_visit_every_row_once_in_another_order():
    rng = np.random.default_rng(15)
    rows, y = sparse_rows(rng, 300, D)
    setup = Setup(rows, y, partitions())
    still = setup.training(step=0.0, shuffle=True).epoch(Model())
    assert still.loss == pytest.approx(np.sum(y**2) / 2, rel=1e-12)
    weights = []
    for shuffle, seed, done in ((False, 0, 0), (True, 0, 0), (True, 0, 1), (True, 1, 0)):
        setup.frames.reset()
        training = setup.training(shuffle=shuffle, seed=seed, power=0)
        weights.append(setup.weights(training.epoch(Model(), done).model))
    for i, one in enumerate(weights):
        assert all(np.abs(one - other).max() > 1e-9 for other in weights[i + 1 :])


def test_a_trial_of_some_chunks_elsewhere():
    rng = np.random.default_rng(16)
    rows, y = sparse_rows(rng, 300, D)
    setup = Setup(rows, y, partitions())
    which = np.array([3, 1])
    keys, widths = setup.chunks.keys(which)
    assert set(keys) == set(setup.chunks[1].keys) | set(setup.chunks[3].keys)
    with ScratchFrames(keys, widths, 8) as frames:
        result = setup.training().of(which, frames.access, 0.1).epoch(Model())
        assert any(frames.weights(i).any() for i in range(len(keys)))
    assert result.rows == setup.chunks[1].rows + setup.chunks[3].rows
    assert result.keys == len(setup.chunks[1].keys) + len(setup.chunks[3].keys)
    assert not any(setup.frames.weights(i).any() for i in range(len(setup.keys)))
