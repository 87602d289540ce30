"""Weights of ratings: steps and solutions by NumPy, and ratings repeated."""

import numpy as np
import pytest
from rows import block, rows_pass

from tuskml.kernels.factorization import Factorization, Shape, rating_ids

RANDOM = np.random.default_rng(51)
USER, ITEM = (one.ravel() for one in np.indices((40, 30)))
SEEN = RANDOM.random(len(USER)) < 0.6
USER, ITEM = USER[SEEN], ITEM[SEEN]
RATING = 3 + RANDOM.normal(size=40)[USER] * RANDOM.normal(size=30)[ITEM] + USER % 3
WEIGHT = RANDOM.integers(1, 6, len(USER)).astype(float)
OFTEN = np.repeat(np.arange(len(USER)), WEIGHT.astype(int))


def made(user, item, rating, weight=None, threads=2, kind="dense float64", **given):
    """A factorization of ratings with weights; None: they have none."""
    pairs = np.stack([user, item], 1).astype(float)
    groups = block(pairs, rating, kind, segment_rows=111, weight=weight)
    rows = rows_pass(groups, "matrix_factorization", threads=threads)
    ids, spec = rating_ids(rows), {"rank": 3, "biases": True, "l2": 0.05} | given
    return Factorization(rows, 0, Shape(ids.n_users, ids.n_items, **spec), 5)


def objective(mean, coef, biases, l2, n_users):
    """The weighted mean of losses and penalties, in doubles, and its gradient by the vectors."""
    p, q = coef[USER].copy(), coef[n_users + ITEM].copy()
    first = int(biases)
    m = mean + (p[:, 0] + q[:, 0] if biases else 0)
    error = m + np.einsum("nk,nk->n", p[:, first:], q[:, first:]) - RATING
    each = error**2 / 2 + l2 / 2 * ((p**2).sum(axis=1) + (q**2).sum(axis=1))
    gradient = np.zeros_like(coef)
    by_p, by_q = q.copy(), p.copy()
    by_p[:, :first] = by_q[:, :first] = 1
    share = (WEIGHT / WEIGHT.sum())[:, None]
    np.add.at(gradient, USER, share * (error[:, None] * by_p + l2 * p))
    np.add.at(gradient, n_users + ITEM, share * (error[:, None] * by_q + l2 * q))
    return np.average(each, weights=WEIGHT), gradient


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("kind", ["dense float64", "dense float32"])
def test_solutions_are_those_of_ratings_repeated(biases, kind):
    """From the same first vectors, since only the sums of a vector's ratings matter."""
    found = []
    repeated = USER[OFTEN], ITEM[OFTEN], RATING[OFTEN], None
    for ratings in ((USER, ITEM, RATING, 4.5 * WEIGHT), repeated):
        with made(*ratings, biases=biases, kind=kind) as model:
            steps = [model.solve(), model.solve(1.6), model.objective()]
            found.append((steps, *model.vectors()))
    (steps, mean, coef), (steps_often, mean_often, coef_often) = found
    assert mean == pytest.approx(mean_often, rel=1e-6)
    np.testing.assert_allclose(steps, steps_often, rtol=1e-4)
    np.testing.assert_allclose(coef, coef_often, rtol=5e-3, atol=5e-3)
    assert steps[2] == pytest.approx(objective(mean, coef, biases, 0.05, 40)[0], rel=1e-5)


@pytest.mark.parametrize("biases", [True, False])
def test_the_end_is_an_optimum_of_the_weighted_objective(biases):
    with made(USER, ITEM, RATING, WEIGHT, biases=biases) as model:
        for k in range(5):
            model.epoch(k, 0.05)
        for _ in range(400):
            reached = model.solve()
        mean, coef = model.vectors()
    expected, gradient = objective(mean, coef, biases, 0.05, 40)
    assert reached == pytest.approx(expected, rel=1e-5)
    assert np.abs(gradient).max() < 2e-5
    if biases:
        assert mean == pytest.approx(np.average(RATING, weights=WEIGHT), rel=1e-6)


@pytest.mark.parametrize("rank", [3, 40])
@pytest.mark.parametrize("biases", [True, False])
def test_a_step_is_that_of_numpy(rank, biases):
    """Where no two ratings share a user or an item, their order makes no difference."""
    ids, step, l2 = np.arange(50), 0.07, 0.03
    rating, weight = RANDOM.normal(size=50), RANDOM.gamma(1.0, size=50) + 0.1
    with made(ids, ids, rating, weight, rank=rank, biases=biases, l2=l2) as model:
        mean, before = model.vectors()
        told = model.epoch(0, step)
        _, after = model.vectors()
    weight /= weight.mean()
    assert mean == pytest.approx(np.average(rating, weights=weight) if biases else 0, abs=1e-6)
    deviation = np.sqrt(np.average((rating - mean) ** 2, weights=weight))
    unit = np.full(before.shape[1], np.sqrt(deviation))
    penalty, first = np.full(before.shape[1], l2 / deviation), int(biases)
    unit[:first], penalty[:first] = deviation, l2
    p, q = before[:50] / unit, before[50:] / unit
    by_p, by_q = q.copy(), p.copy()
    by_p[:, :first] = by_q[:, :first] = 1
    m = (p[:, 0] + q[:, 0] if biases else 0) + np.einsum("nk,nk->n", p[:, first:], q[:, first:])
    error, by = (rating - mean) / deviation - m, (step * weight)[:, None]
    moved = [
        p + by * (error[:, None] * by_p - penalty * p),
        q + by * (error[:, None] * by_q - penalty * q),
    ]
    np.testing.assert_allclose(after, np.concatenate(moved) * unit, rtol=1e-4, atol=1e-6)
    squares = ((np.concatenate(moved) * unit) ** 2).sum(axis=1).reshape(2, 50)
    losses = deviation**2 * error**2 / 2 + l2 / 2 * squares.sum(axis=0)
    assert told == pytest.approx(np.average(losses, weights=weight), rel=1e-5)


def test_equal_weights_change_no_bit_of_a_solution():
    ends = []
    for weight in (None, np.full(len(USER), 0.125)):
        with made(USER, ITEM, RATING, weight) as model:
            model.solve()
            ends.append(model.vectors()[1].tobytes())
    assert ends[0] == ends[1]


@pytest.mark.parametrize("solve", [True, False])
def test_neither_the_order_of_rows_nor_threads_change_a_bit(solve):
    ends = []
    for threads, order in ((1, np.arange(len(USER))), (2, RANDOM.permutation(len(USER)))):
        given = USER[order], ITEM[order], RATING[order], WEIGHT[order]
        with made(*given, threads=threads) as model:
            model.solve() if solve else model.epoch(0, 0.05)
            ends.append(model.vectors()[1].tobytes())
    assert ends[0] == ends[1]


def test_other_rows_are_weighted_too():
    with made(USER, ITEM, RATING, WEIGHT) as model:
        model.solve()
        told = []
        for user, item, rating, weight in (
            (USER, ITEM, RATING, WEIGHT),
            (USER[OFTEN], ITEM[OFTEN], RATING[OFTEN], None),
        ):
            pairs = np.stack([user, item], 1).astype(float)
            groups = block(pairs, rating, weight=weight)
            told.append(model.loss(rows_pass(groups, "matrix_factorization")))
    assert told[0] == pytest.approx(told[1], rel=1e-9)
