"""Alternating least squares: each vector against NumPy's solution, and the default's objective."""

import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from test_factorization import made, objective, ratings

from tuskml.errors import Interrupted
from tuskml.kernels.passes import cancel, cancel_count

LINE = 16


def solved(mean, coef, biases, l2, user, item, rating, relax=1.0):
    """One pass over users and items in doubles, by lines of 16 numbers of a vector."""
    coef, n_users = coef.copy(), user.max() + 1
    rows = (user, n_users + item)
    for mine, theirs in (rows, rows[::-1]):
        for place in np.unique(mine):
            met = mine == place
            x, target = coef[theirs[met]].copy(), rating[met] - mean
            if biases:
                target = target - x[:, 0]
                x[:, 0] = 1
            for at in range(0, coef.shape[1], LINE):
                line = slice(at, at + LINE)
                rest = target - x @ coef[place] + x[:, line] @ coef[place, line]
                matrix = x[:, line].T @ x[:, line] + l2 * met.sum() * np.eye(x[:, line].shape[1])
                best = np.linalg.solve(matrix, x[:, line].T @ rest)
                coef[place, line] += relax * (best - coef[place, line])
    return coef


@pytest.mark.parametrize("relax", [1.0, 1.6])
@pytest.mark.parametrize("rank", [1, 3, 15, 16, 40])
@pytest.mark.parametrize("biases", [True, False])
def test_a_pass_is_that_of_numpy(rank, biases, relax):
    user, item, rating = ratings(60, 50, 2500)
    spec = {"rank": rank, "biases": biases, "l2": 0.05}
    with made(user, item, rating, threads=2, **spec) as model:
        for k in range(3):
            model.epoch(k, 0.1)
        mean, before = model.vectors()
        reached = model.solve(relax)
        _, after = model.vectors()
    data = (user, item, rating)
    expected = solved(mean, before, biases, 0.05, *data, relax)
    np.testing.assert_allclose(after, expected, rtol=2e-3, atol=2e-4)
    assert reached == pytest.approx(objective(mean, after, biases, 0.05, *data), rel=1e-5)


def test_an_item_with_thousands_of_ratings():
    """Its lines are more than lie side by side at a time."""
    rng = np.random.default_rng(3)
    user, item = np.repeat(np.arange(1500), 2), np.tile([0, 1], 1500)
    rating = rng.normal(size=3000) + item
    with made(user, item, rating, rank=20) as model:
        model.epoch(0, 0.1)
        mean, before = model.vectors()
        reached = model.solve()
        _, after = model.vectors()
    expected = solved(mean, before, True, 0.05, user, item, rating)
    np.testing.assert_allclose(after, expected, rtol=5e-3, atol=5e-4)
    data = (user, item, rating)
    assert reached == pytest.approx(objective(mean, after, True, 0.05, *data), rel=1e-5)


@pytest.mark.parametrize("relax", [1.0, 1.5, 1.9])
@pytest.mark.parametrize("l2", [0.0, 1e-6, 0.05, 10.0])
def test_no_pass_raises_the_objective(l2, relax):
    user, item, rating = ratings(200, 150, 6000, noise=0.5)
    with made(user, item, rating, rank=6, l2=l2) as model:
        found = [model.objective(), *(model.solve(relax) for _ in range(15))]
        assert np.isfinite(model.vectors()[1]).all()
    for before, after in pairwise(found):
        assert after <= before * (1 + 1e-5) + 1e-9


def test_same_bits_whatever_the_order_and_the_threads():
    user, item, rating = ratings(200, 150, 20_000)
    shuffled = np.random.default_rng(1).permutation(len(user))
    found = []
    for order, threads in ((slice(None), 1), (shuffled, 1), (shuffled, 4), (slice(None), 3)):
        with made(user[order], item[order], rating[order], rank=7, threads=threads) as model:
            model.epoch(0, 0.1)
            found.append((model.solve(1.6), model.solve(), model.vectors()[1].tobytes()))
    assert len(set(found)) == 1


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_what_ratings_do_not_determine_stands_still(l2):
    """One rating and eleven unknowns; a pair that was rated often has its mean."""
    with made(np.array([3]), np.array([1]), np.array([4.5]), rank=10, l2=l2) as model:
        assert model.solve() == pytest.approx(0, abs=1e-3)
        assert np.isfinite(model.vectors()[1]).all()
    rating, same = np.random.default_rng(0).normal(3, 1, 2000), np.zeros(2000, int)
    with made(same, same, rating, rank=10, l2=l2) as model:
        assert model.solve() == pytest.approx(np.var(rating) / 2, rel=0.01)


def test_a_cancelled_pass_says_so():
    user, item, rating = ratings()
    with made(user, item, rating) as model:
        model.cancel_mark = cancel_count()
        cancel()
        with pytest.raises(Interrupted):
            model.solve()


def planted(n_users, n_items, n, rank, noise, skew, seed):
    """Ratings of a low-rank model with biases; skew: of how often users and items occur."""
    rng = np.random.default_rng(seed)
    share = [(np.arange(k) + 10.0) ** -skew for k in (n_users, n_items)]
    user, item = (rng.choice(len(s), n, p=rng.permutation(s / s.sum())) for s in share)
    pair = np.unique(user * n_items + item)
    user, item = pair // n_items, pair % n_items
    biases = rng.normal(0, 0.5, n_users)[user] + rng.normal(0, 0.5, n_items)[item]
    p, q = (rng.normal(0, 0.8 / rank**0.25, (k, rank)) for k in (n_users, n_items))
    both = np.einsum("nk,nk->n", p[user], q[item])
    return user, item, 3.5 + biases + both + rng.normal(0, noise, len(pair))


@pytest.mark.parametrize(("rank", "biases"), [(2, False), (10, True), (10, False)])
@pytest.mark.parametrize(
    "data", [(130, 90, 5000, 4, 0.6, 0.0, 1), (160, 100, 6000, 6, 0.3, 0.9, 2)]
)
def test_the_default_ends_near_the_least_objective(con, data, rank, biases):
    """Within 2 % of what NumPy's alternating least squares converges to from the same numbers of
    unknowns; 20 epochs of steps alone ended 4 to 40 % above it.
    """
    user, item, rating = planted(*data)
    frame = pd.DataFrame({"y": rating, "x": list(np.stack([user, item], 1).astype(float))})
    con.register("frame", frame)
    options = json.dumps({"rank": rank, "biases": biases, "l2": 0.07})
    sql = f"SELECT train_model('matrix_factorization', y, x, '{options}') FROM frame"
    model = con.execute(sql).fetchall()[0][0]
    assert json.loads(model["options"])["algorithm"] == "als"
    rng = np.random.default_rng(0)
    coef = rng.normal(0, 0.3, (user.max() + 1 + item.max() + 1, rank + biases))
    mean = rating.mean() if biases else 0.0
    least = np.inf
    for _ in range(40):
        coef = solved(mean, coef, biases, 0.07, user, item, rating, 1.4)
        now = objective(mean, coef, biases, 0.07, user, item, rating)
        done, least = least - now < 1e-5 * now, min(now, least)
        if done:
            break
    assert model["loss"] <= 1.02 * least
