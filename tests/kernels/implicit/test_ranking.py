"""Bayesian personalised ranking: a step by NumPy, the area under the curve, and the same bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import block, rows_pass
from sklearn.metrics import roc_auc_score

from tuskml.kernels.factorization import Interactions, Shape


def made(user, item, shape, threads=2, seed=9):
    pairs = np.stack([user, item], 1).astype(float)
    rows = rows_pass(
        block(pairs, np.ones(len(user)), segment_rows=701), "matrix_factorization", threads=threads
    )
    return Interactions(rows, 0, shape, 1.0, seed)


@pytest.mark.parametrize("rank", [1, 3, 15, 16, 40])
def test_a_step_is_that_of_numpy(rank):
    """A user with one of two items has one triple."""
    shape, step = Shape(1, 2, rank, True, 0.3), 0.2
    rows = block(np.array([[0.0, 0.0], [0.0, 1.0]]), np.array([1.0, 0.0]))
    found = rows_pass(rows, "matrix_factorization", threads=1)
    with Interactions(found, 0, shape, 1.0, 4) as model:
        for epoch in range(3):
            x, yi, yj = before = model.vectors()
            loss = model.rank(epoch, step)
            one = np.append(1, x[1:])
            s = one @ (yi - yj)
            z = 1 / (1 + np.exp(s))
            assert loss == pytest.approx(np.log1p(np.exp(-s)) + 0.15 * (before**2).sum(), rel=1e-5)
            moved = [
                x + step * (z * np.append(0, (yi - yj)[1:]) - 0.3 * x),
                yi + step * (z * one - 0.3 * yi),
                yj + step * (-z * one - 0.3 * yj),
            ]
            np.testing.assert_allclose(model.vectors(), moved, rtol=1e-4, atol=1e-6)


def planted(n_users, n_items, rng):
    """Pairs to train on, and per user the items held out: users like items of their own kind."""
    kind = rng.integers(0, 4, n_users)
    likes = (np.arange(n_items) % 4 == kind[:, None]) & (rng.random((n_users, n_items)) < 0.5)
    held = likes & (rng.random(likes.shape) < 0.3)
    return likes & ~held, held


def held_out_auc(coef, train, held):
    """The mean over users of the area under the curve, of items that were not trained on."""
    x, y = coef[: len(train)], coef[len(train) :]
    score = y[:, 0] + x[:, 1:] @ y[:, 1:].T
    return np.mean([
        roc_auc_score(held[u][~train[u]], score[u][~train[u]])
        for u in range(len(train)) if held[u].any()
    ])  # fmt: skip


@pytest.mark.nightly
def test_items_that_users_like_come_first():
    """In blocks: 400 users and 200 items make several."""
    train, held = planted(400, 200, np.random.default_rng(5))
    with made(*np.nonzero(train), Shape(400, 200, 8, True, 0.002)) as model:
        before = held_out_auc(model.vectors(), train, held)
        losses = [model.rank(epoch, 0.1) for epoch in range(40)]
        after = held_out_auc(model.vectors(), train, held)
    assert abs(before - 0.5) < 0.05
    assert after > 0.9
    assert losses[-1] < 0.5 * losses[0]


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_neither_threads_nor_the_order_of_rows_change_a_bit(seed, threads):
    train, _ = planted(300, 150, np.random.default_rng(6))
    user, item = np.nonzero(train)
    order = np.random.default_rng(seed).permutation(len(user))
    shape = Shape(300, 150, 5, True, 0.01)
    mixed = user[order], item[order], shape, threads
    with made(user, item, shape, 1) as one, made(*mixed) as other:
        for epoch in range(2):
            assert one.rank(epoch, 0.1) == other.rank(epoch, 0.1)
        assert (one.vectors() == other.vectors()).all()


def test_a_user_with_all_items_has_no_triples():
    with made([0, 0, 0], [0, 1, 2], Shape(1, 3, 2, True, 0.1)) as model:
        before = model.vectors()
        assert model.rank(0, 0.1) == 0
        assert (model.vectors() == before).all()
