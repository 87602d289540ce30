"""A part of users, visited by a block of all items, makes the steps of the training in memory."""

import numpy as np
import pytest
from rows import block

from tuskml.kernels.factorization import Factorization, Shape
from tuskml.kernels.parts import factors
from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.passes import Pass
from tuskml.learners.factorization.parted import deal_items, deal_users

pytestmark = pytest.mark.native


@pytest.mark.parametrize("biases", [True, False])
def test_one_part_and_one_block_have_the_numbers_of_memory(biases):
    """So few ratings are one block there too, whose order depends on the pairs alone."""
    rng = np.random.default_rng(2)
    pairs = np.stack(np.divmod(rng.permutation(600)[:500], 20), axis=1)
    y = rng.normal(size=500) + pairs[:, 0] / 10
    rows = Pass(block(pairs.astype(float), y, "dense float64"), fit_intercept=biases)
    shape, seed = Shape(30, 20, 3, biases, 0.02, 0.03), 5
    with Factorization(rows, 0, shape, seed) as memory:
        for epoch in range(6):
            loss = memory.epoch(epoch, 0.1)
        mean, coef = memory.vectors()
    beside, owner = Beside(), np.zeros(30, np.int32)
    factors.deal(rows, [owner], {}, beside)
    (items,) = deal_items(np.bincount(pairs[:, 1], minlength=20), 1)
    place = np.zeros(20, np.int32)
    place[items] = np.arange(len(items))
    nothing = [np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), None]
    square = y.var() if biases else np.mean(y**2)
    given = {
        "scale": 1.0, "blocks": 1, "mean": y.mean() if biases else 0.0,
        "deviation": float(np.sqrt(square)), "part": 0, "stride": shape.stride,
        "spec": [30, 20, 3, biases, shape.l2, shape.l2_factors, seed, 0],
    }  # fmt: skip
    arrays = [np.zeros(20, np.int32), place, *nothing, None]

    def ask(what, *sent, visits=0, **more):
        return factors.answer(rows, list(sent), {"what": what, "visits": visits, **more}, beside)

    ask("open", *arrays, **given)
    from tuskml.kernels import structures
    from tuskml.kernels.library import library, pointer

    vectors = np.empty((len(items), shape.stride), np.float32)
    spec = structures.FactorSpec(*given["spec"])
    library().tk_factor_start(spec, pointer(items), len(items), pointer(vectors))
    for epoch in range(6):
        step = {"block": 0, "epoch": epoch, "step": 0.1, "visits": epoch}
        vectors, squares = ask("visit", vectors, **step)
    ids, users = ask("users", visits=6)
    assert users == pytest.approx(coef[:30][ids], rel=1e-3, abs=1e-4)
    assert mean == pytest.approx(given["mean"], abs=1e-6)
    (penalty,) = ask("penalty", visits=6)[0]
    width, weights = shape.width, np.bincount(pairs[:, 1])[items]
    own = vectors[:, :width] * np.sqrt(given["deviation"])
    if biases:
        own[:, 0] = vectors[:, 0] * given["deviation"]
    assert own == pytest.approx(coef[30:][items], rel=1e-3, abs=1e-4)
    l2 = np.full(width, shape.l2_factors)
    l2[0] = shape.l2 if biases else shape.l2_factors
    rest = float(0.5 * weights @ (own**2 @ l2))
    whole = 0.5 * squares[0] * square + penalty + rest
    assert whole / 500 == pytest.approx(loss, rel=1e-4)
    assert ask("visit", vectors, **step) == [], "it came before"


def test_users_belong_to_a_part_with_most_of_their_ratings():
    counts = np.array([[3, 0, 1, 1, 1, 0], [1, 2, 1, 1, 1, 0], [0, 1, 1, 1, 1, 0]], np.uint32)
    owner = deal_users(list(counts))
    assert owner[:2].tolist() == [0, 1]
    assert len(set(owner[2:5].tolist())) == 3, "of users with as many in each, each part has some"


def test_blocks_of_items_are_balanced():
    counts = (1000 / np.arange(1, 300)).astype(np.int64)
    counts[7] = 0
    found = deal_items(counts, 4)
    assert sorted(np.concatenate(found).tolist()) == np.flatnonzero(counts).tolist()
    loads = [int(counts[one].sum()) for one in found]
    assert max(loads) == loads[0]
    assert max(loads) - counts[0] < min(loads)
