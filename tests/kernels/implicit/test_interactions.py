"""Implicit feedback: solutions of the normal equations, and the objective, by NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import block, rows_pass

from tuskml.kernels.factorization import Interactions, Shape, feedback_outside

RANDOM = np.random.default_rng(3)
N_USERS, N_ITEMS, ALPHA, L2 = 30, 23, 1.5, 0.4
PLAYS = np.where(RANDOM.random((N_USERS, N_ITEMS)) < 0.3, RANDOM.integers(0, 6, (30, 23)), 0)
PLAYS[np.arange(30), np.arange(30) % 23] += 1
"""Each user and each item has some."""


def made(user, item, plays, rank=4, threads=2, alpha=ALPHA, l2=L2, weight=None, seed=9, **given):
    """A factorization of feedback."""
    pairs = np.stack([user, item], 1).astype(float)
    groups = block(pairs, np.asarray(plays, float), segment_rows=71, weight=weight, **given)
    rows = rows_pass(groups, "matrix_factorization", threads=threads)
    shape = Shape(int(max(user)) + 1, int(max(item)) + 1, rank, False, l2)
    return Interactions(rows, 0, shape, alpha, seed)


def of_table(**given):
    user, item = np.nonzero(PLAYS)
    return made(user, item, PLAYS[user, item], **given)


def loss(coef, l2=L2, alpha=ALPHA):
    """The objective over all pairs, in doubles."""
    x, y = coef[:N_USERS], coef[N_USERS:]
    c = 1 + alpha * PLAYS
    squares = (c * ((PLAYS > 0) - x @ y.T) ** 2).sum()
    return (squares + l2 * ((x**2).sum() + (y**2).sum())) / (2 * c.sum())


def solved(plays, y):
    """Each row's best vector, by its normal equations."""
    found = []
    for row in plays:
        c = 1 + ALPHA * row
        left = (y * c[:, None]).T @ y + L2 * np.eye(y.shape[1])
        found.append(np.linalg.solve(left, y.T @ (c * (row > 0))))
    return np.array(found)


def stepped(plays, x, y, steps):
    """Steps of conjugate gradient from x, as Takacs and others have them."""
    found = []
    for row, one in zip(plays, x, strict=True):
        c = 1 + ALPHA * row
        left = (y * c[:, None]).T @ y + L2 * np.eye(y.shape[1])
        v = one.copy()
        p = r = y.T @ (c * (row > 0)) - left @ v
        for _ in range(steps):
            if r @ r < 1e-20:
                break
            a = r @ r / (p @ left @ p)
            v, after = v + a * p, r - a * left @ p
            p, r = after + after @ after / (r @ r) * p, after
        found.append(v)
    return np.array(found)


@pytest.mark.parametrize("rank", [1, 4, 17, 40])
@pytest.mark.parametrize("cg_steps", [0, 2])
def test_vectors_are_those_of_numpy(rank, cg_steps):
    with of_table(rank=rank) as model:
        coef = model.vectors()
        for _ in range(3):
            x, y = coef[:N_USERS], coef[N_USERS:]
            x = stepped(PLAYS, x, y, cg_steps) if cg_steps else solved(PLAYS, y)
            y = stepped(PLAYS.T, y, x, cg_steps) if cg_steps else solved(PLAYS.T, x)
            coef = np.concatenate([x, y])
            found = model.solve(cg_steps)
            np.testing.assert_allclose(model.vectors(), coef, rtol=1e-3, atol=1e-4)
            assert found == pytest.approx(loss(coef), rel=1e-5)
            assert model.objective() == pytest.approx(loss(model.vectors()), rel=1e-6)


@pytest.mark.parametrize("rank", [4, 150])
def test_many_steps_are_exact(rank):
    """Rank 150 takes the kernels for vectors of any length."""
    found = []
    for cg_steps in (0, 60):
        with of_table(rank=rank) as model:
            found.append([model.solve(cg_steps) for _ in range(4)])
            assert found[-1][-1] == pytest.approx(loss(model.vectors()), rel=1e-5)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


@pytest.mark.parametrize("cg_steps", [0, 3])
def test_each_iteration_lowers_the_objective(cg_steps):
    with of_table(l2=0) as model:
        found = [model.objective()] + [model.solve(cg_steps) for _ in range(8)]
    assert (np.diff(found) <= 1e-7).all()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([0, 3]))
def test_neither_threads_nor_the_order_of_rows_change_a_bit(seed, threads, cg_steps):
    user, item = np.nonzero(PLAYS)
    order = np.random.default_rng(seed).permutation(len(user))
    user, item = user[order], item[order]
    with of_table(threads=1) as one, made(user, item, PLAYS[user, item], threads=threads) as other:
        for _ in range(2):
            assert one.solve(cg_steps) == other.solve(cg_steps)
        assert (one.vectors() == other.vectors()).all()


def test_rows_of_a_pair_add_up():
    """Each play is a row, or a row has a weight; rows of no plays change nothing."""
    user, item = np.nonzero(PLAYS)
    plays = PLAYS[user, item]
    each = np.repeat(user, plays), np.repeat(item, plays), np.ones(plays.sum())
    none = np.append(user, 3), np.append(item, 5), np.append(plays, 0)
    with of_table() as whole:
        value = [whole.solve(3), whole.solve(3)]
        for given in (each, none):
            with made(*given) as model:
                assert [model.solve(3), model.solve(3)] == value
                assert (model.vectors() == whole.vectors()).all()
                assert model.n_pairs == whole.n_pairs == len(user)
        with made(user, item, np.ones(len(user)), weight=plays.astype(float)) as model:
            assert [model.solve(3), model.solve(3)] == value


def test_large_feedback_does_not_overflow():
    """The squares of products with it would, of single precision."""
    user, item = np.nonzero(PLAYS)
    found = []
    for by in (1e9, 1e12, 1e20):
        with made(user, item, PLAYS[user, item] * by) as model:
            found.append([model.solve(3) for _ in range(4)])
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-3)


def test_ids_without_rows_have_zeros_and_no_part():
    user, item = np.nonzero(PLAYS)
    with of_table() as whole, made(2 * user, 3 * item, PLAYS[user, item]) as model:
        model.start()
        whole.solve(3)
        model.solve(3)
        coef = model.vectors()
        assert model.confidence == whole.confidence
    assert (coef[1:59:2] == 0).all()
    assert coef[:59:2].any(axis=1).all()


def test_feedback_below_zero_is_found():
    pairs = np.ones((5, 2))
    for labels, found in (([1, 0, 2, -1, -2], (4, -1.0)), ([0, 1, 2, 3, 9], (5, 9.0))):
        rows = rows_pass(block(pairs, np.array(labels, float), segment_rows=2))
        assert feedback_outside(rows, 8) == found
        assert feedback_outside(rows, 9) == (found if found[1] < 0 else None)
