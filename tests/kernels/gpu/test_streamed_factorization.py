"""Ratings of which not all fit on the device train there by pieces, as if they did."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standin import StandIn
from test_device_factorization import epochs, placed, rows_of
from test_factorization import made, predictions, ratings, rmse
from test_factorization_training import RATINGS, call, one

from tuskml.kernels.factorization import Shape
from tuskml.kernels.gpu.factorization import training as factorization
from tuskml.kernels.gpu.factorization.records import OnHost
from tuskml.kernels.gpu.factorization.sort import Runs
from tuskml.kernels.gpu.factorization.training import piece_rows, too_large


def tables(model, device):
    """All records on the host."""
    return np.concatenate(
        [device.to_host(table).copy() for table in model.ratings.records.tables()]
    )


@pytest.mark.parametrize("lock_free", [False, True])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("at_once", [300, 777])
def test_records_are_those_that_the_device_sorts_at_once(device, lock_free, biases, at_once):
    data = ratings(n_users=60, n_items=50, n=2500)
    how = {"lock_free": lock_free, "biases": biases, "seed": 3}
    with placed(device, *data, **how) as whole, placed(
        device, *data, at_once=at_once, **how
    ) as parts:  # fmt: skip
        assert isinstance(parts.ratings.records, OnHost)
        ours, theirs = tables(parts, device), tables(whole, device)
        assert np.array_equal(ours[:, :2], theirs[:, :2])
        values = [table[:, 2].copy().view(np.float32) for table in (ours, theirs)]
        assert np.allclose(*values, rtol=1e-6, atol=1e-6)
        starts = [device.to_host(model.ratings.schedule.start) for model in (parts, whole)]
        assert np.array_equal(*starts)
        assert parts.ratings.mean == pytest.approx(whole.ratings.mean, rel=1e-13)
        assert parts.ratings.deviation == pytest.approx(whole.ratings.deviation, rel=1e-12)


def test_ordered_steps_are_the_same(device):
    """Strata come in the same order, whatever the size of a piece: the error is the same."""
    data = ratings(n_users=60, n_items=50, n=2500)
    others = rows_of(*(column[:700] for column in data))
    found = []
    for at_once in (None, 2000, 333):
        with placed(device, *data, rank=8, at_once=at_once) as model:
            assert model.ratings.schedule.grid == 3
            objectives = epochs(model, 4)
            found.append((objectives, model.objective(), model.loss(others), model.vectors()))
            if at_once is not None:
                records = model.ratings.records
                assert records.copies > 4 * 3
    for ours in found[1:]:
        assert ours[0] == pytest.approx(found[0][0], rel=1e-6)
        assert ours[1:3] == pytest.approx(found[0][1:3], rel=1e-6)
        assert np.allclose(ours[3][1], found[0][3][1], atol=1e-5)


def test_lock_free_visits_each_rating_once_in_another_order_each_time(device):
    data = ratings(n_users=400, n_items=130, n=6000)
    with placed(device, *data, lock_free=True, at_once=1000) as model:
        schedule = model.ratings.schedule
        visited = []
        for epoch in range(2):
            seen = []
            for some in model.ratings.records.rounds(schedule, 5, epoch):
                table, start, order = (
                    device.to_host(a).copy() for a in (some.table, some.start, some.order)
                )
                assert start[0] == 0
                assert start[-1] == some.n == len(table)
                assert np.array_equal(np.sort(order), np.arange(len(start) - 1))
                seen += [table[start[c] : start[c + 1]] for c in order]
            visited.append(np.concatenate(seen))
        assert not np.array_equal(*visited)
        ours, theirs = (a[np.lexsort(a.T)] for a in (visited[0], tables(model, device)))
        assert np.array_equal(ours, theirs)


def test_the_order_of_rows_does_not_matter():
    user, item, rating = ratings(n_users=40, n_items=30, n=1150)
    found = []
    for order in (slice(None), np.random.default_rng(1).permutation(len(user))):
        data = user[order], item[order], rating[order]
        with placed(StandIn(2), *data, rank=9, at_once=400) as model:
            found.append((*epochs(model, 2), model.vectors()[1].tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("lock_free", [False, True])
def test_held_out_error_on_movielens_is_the_cpu_s(data, lock_free):
    """MovieLens 100K, a tenth held out, a fifth of the rest on the device at a time."""
    u, i, r = np.loadtxt(
        data / "movielens-100k.psv", delimiter="|", skiprows=1, usecols=(0, 1, 2)
    ).T
    user, item = u.astype(int), i.astype(int)
    held = np.random.default_rng(0).permutation(len(r)) % 10 == 0
    train, test = ([a[rows] for a in (user, item, r)] for rows in (~held, held))
    train[0], train[1] = (np.append(a, b.max()) for a, b in zip(train, (user, item), strict=False))
    train[2] = np.append(train[2], 3.0)  # so that both know all ids
    spec = {"rank": 10, "l2": 0.07, "seed": 1}
    gpu = placed(StandIn(), *train, lock_free=lock_free, at_once=18_000, **spec)
    with gpu, made(*train, **spec) as cpu:
        epochs(gpu, 8, lock_free=lock_free)
        epochs(cpu, 8)
        found = [
            rmse(predictions(mean, coef, True, user.max() + 1, test[0], test[1]), test[2])
            for mean, coef in (gpu.vectors(), cpu.vectors())
        ]
    assert found[0] == pytest.approx(found[1], rel=0.01)


def test_what_fits_is_by_the_device_s_memory():
    shape = Shape(1000, 500, 10, True, 0.1)
    device = StandIn(free=1 << 30)
    assert piece_rows(device, 100_000, shape, True) == 100_000
    some = piece_rows(device, 20_000_000, shape, True)
    assert factorization.LEAST_PIECE < some < 20_000_000
    assert too_large(device, 20_000_000, shape, True) is None
    wide = Shape(3_000_000, 500_000, 100, True, 0.1)
    assert piece_rows(device, 20_000_000, wide, True) == 0
    assert too_large(device, 20_000_000, wide, True) == (
        "the vectors of 3,000,000 users and 500,000 items take about 2.85 GiB of its memory, of "
        "which 1.00 GiB are free"
    )


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=40), most=st.integers(9, 30))
def test_runs_of_buckets_hold_all_and_not_too_much(sizes, most):
    runs = Runs.of_sizes(np.array(sizes), most)
    held = np.bincount(runs.of, weights=sizes, minlength=len(runs.first) - 1)
    assert np.array_equal(np.diff(runs.first), held)
    assert held.max() <= most
    assert np.all(np.diff(runs.of) >= 0)


def test_a_bucket_that_does_not_fit_is_refused_in_words():
    with pytest.raises(MemoryError, match="70 ratings of few users or items do not fit"):
        Runs.of_sizes(np.array([5, 70, 3]), 50)


@pytest.fixture
def little(con, standing_in, monkeypatch):
    """A device that takes some 500 of 3,000 ratings at a time, and the ratings."""
    monkeypatch.setattr(factorization, "LEAST_PIECE", 200)
    standing_in.free = 310_000
    con.execute(RATINGS)
    return con


@pytest.mark.parametrize("more", [{}, {"deterministic": True}])
def test_through_sql(little, standing_in, more):
    """The same objective as with room for all of them."""
    assert 200 < piece_rows(standing_in, 3000, Shape(61, 47, 5, True, 0.07), False) < 3000
    streamed = one(little, call(device="gpu", rank=5, **more))
    standing_in.free = 1 << 40
    whole = one(little, call(device="gpu", rank=5, **more))
    assert streamed["status"] == "ok"
    assert streamed["plan"] == whole["plan"]
    assert streamed["plan"].endswith("on NumPy")
    tolerance = 1e-6 if more else 0.01
    assert streamed["loss"] == pytest.approx(whole["loss"], rel=tolerance)


@pytest.mark.nightly
def test_early_stopping(little):
    stopped = one(little, call(device="gpu", validation=0.2, l2=0.0, rank=30, max_iter=200))
    assert stopped["status"] == "early stop"
    assert stopped["iterations"] < 200


@pytest.mark.usefixtures("cancelling")
def test_cancelling_ends_it(little):
    with pytest.raises(Exception, match="interrupted"):
        one(little, call(device="gpu"))
    assert json.loads(one(little, call(device="cpu"))["options"])["rank"]
