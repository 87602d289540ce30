"""Matrix factorization on a device: the kernels' own text, against NumPy and the CPU's kernels."""

import numpy as np
import pytest
from rows import block, rows_pass
from standin import MISSING, StandIn
from test_factorization import made, objective, predictions, ratings, reference, rmse

from tuskml.kernels.factorization import Shape
from tuskml.kernels.gpu.factorization.ratings import side_of
from tuskml.kernels.gpu.factorization.training import DeviceFactorization
from tuskml.kernels.gpu.nets.orders import permutation


def rows_of(user, item, rating, kind="dense float64"):
    features = np.stack([user, item], 1).astype(float)
    return rows_pass(block(features, rating, kind, 1000), "matrix_factorization", threads=1)


def placed(
    device, user, item, rating, *, lock_free=False, seed=0, kind="dense float64", at_once=None,
    **given,
):  # fmt: skip
    """The ratings on the device, or at_once of them."""
    spec = {"rank": 4, "biases": True, "l2": 0.05} | given
    shape = Shape(int(user.max()) + 1, int(item.max()) + 1, **spec)
    rows = rows_of(user, item, rating, kind)
    return DeviceFactorization.of_rows(
        rows, device, shape, seed, lock_free=lock_free, at_once=at_once
    )


def epochs(model, n, step=0.05, lock_free=False):
    """Objectives on the way, the step falling to 0."""
    return [model.epoch(k, step * (1 - k / n), lock_free) for k in range(n)]


@pytest.mark.parametrize(("rank", "biases"), [(1, False), (4, True), (15, True), (100, True)])
def test_one_worker_makes_the_steps_of_the_reference(device, rank, biases):
    """So few ratings that they are one block; the order is the hash of each, on 64 bits here and
    on 32 there, which no two of these share."""
    data = ratings(n_users=12, n_items=10, n=110)
    steps = [0.05, 0.03, 0.02]
    with placed(device, *data, rank=rank, biases=biases, seed=5) as model:
        assert model.ratings.schedule.n_chunks == 1
        for k, step in enumerate(steps):
            model.epoch(k, step)
        mean, coef = model.vectors()
    wanted, vectors = reference(*data, rank, biases, 0.05, 5, steps)
    assert mean == pytest.approx(wanted, rel=1e-12)
    assert np.allclose(coef, vectors, atol=2e-5)


@pytest.mark.parametrize("rank", [1, 10, 33, 300, 1500])
def test_vectors_start_where_the_cpu_s_do(device, rank):
    """Ids without ratings have zeros."""
    user, item, rating = ratings(n_users=9, n_items=8, n=40)
    user = user * 3
    with placed(device, user, item, rating, rank=rank, seed=7) as model:
        mean, coef = model.vectors()
        assert model.objective() == pytest.approx(
            objective(mean, coef, True, 0.05, user, item, rating), rel=1e-6
        )
    with made(user, item, rating, rank=rank, seed=7) as cpu:
        assert mean == cpu.vectors()[0]
        assert np.array_equal(coef, cpu.vectors()[1])
    assert not coef[1].any()


@pytest.mark.parametrize("lock_free", [False, True])
@pytest.mark.parametrize("biases", [False, True])
def test_the_objective_is_the_docstring_s(device, lock_free, biases):
    data = ratings(n_users=50, n_items=40, n=900)
    with placed(device, *data, lock_free=lock_free, biases=biases, rank=6) as model:
        found = epochs(model, 4, lock_free=lock_free)
        mean, coef = model.vectors()
        wanted = objective(mean, coef, biases, 0.05, *data)
        assert model.objective() == pytest.approx(wanted, rel=1e-6)
        error = predictions(mean, coef, biases, 50, *data[:2]) - data[2]
        assert model.loss(rows_of(*data)) == pytest.approx(np.mean(error**2) / 2, rel=1e-5)
    assert found == sorted(found, reverse=True)


def test_other_rows_may_have_ids_that_were_never_seen(device):
    user, item, rating = ratings(n_users=30, n_items=20, n=300)
    known = (user != 3) & (item != 5)
    train = [a[known] for a in (user, item, rating)]
    with placed(device, *train) as model, made(*train) as cpu:
        others = rows_of(user, item, rating)
        assert model.loss(others) == pytest.approx(cpu.loss(others), rel=1e-6)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_order_of_rows_and_of_threads_does_not_matter(order):
    if MISSING:
        pytest.skip(MISSING)
    user, item, rating = ratings(n_users=40, n_items=30, n=1150)
    shuffle = np.random.default_rng(order).permutation(len(user))
    found = []
    for device, rows in ((StandIn(0), slice(None)), (StandIn(order), shuffle)):
        with placed(device, user[rows], item[rows], rating[rows], rank=9) as model:
            assert model.ratings.schedule.grid > 1
            found.append((*epochs(model, 3), model.vectors()[1].tobytes()))
    assert found[0] == found[1]


def test_blocks_of_a_stratum_share_no_vector(device):
    user, item, rating = ratings(n_users=60, n_items=50, n=2500)
    with placed(device, user, item, rating) as model:
        schedule, host = model.ratings.schedule, device.to_host
        start, table = host(schedule.start), host(model.ratings.records.table)
        order = device.to_host(schedule.order(device.xp, 3, 1)).reshape(schedule.grid, -1)
        assert np.array_equal(np.sort(order, axis=None), np.arange(schedule.n_chunks))
        other = device.to_host(schedule.order(device.xp, 3, 2))
        assert not np.array_equal(order, other.reshape(order.shape))
        for stratum in order:
            for column in (0, 1):
                ids = [set(table[start[b] : start[b + 1], column]) for b in stratum]
                assert len(set().union(*ids)) == sum(map(len, ids))


def test_lock_free_workers_are_few_beside_users_and_items(device):
    user, item, rating = ratings(n_users=400, n_items=130, n=6000)
    with placed(device, user, item, rating, lock_free=True) as model:
        assert model.ratings.schedule.workers == 130 // 20
        order = device.to_host(model.ratings.schedule.order(device.xp, 0, 0))
        assert np.array_equal(np.sort(order), np.arange(model.ratings.schedule.n_chunks))
        with pytest.raises(ValueError, match="lock_free"):
            model.epoch(0, 0.1)


def test_keep_and_restore(device):
    with placed(device, *ratings()) as model:
        first = model.vectors()[1]
        model.epoch(0, 0.05)
        model.keep()
        kept = model.vectors()[1]
        model.epoch(1, 0.05)
        model.keep()
        model.epoch(2, 0.05)
        assert not np.array_equal(model.vectors()[1], kept)
        model.restore()
        again = model.vectors()[1]
        assert not np.array_equal(again, kept)
        model.start()
        assert np.array_equal(model.vectors()[1], first)


def test_one_constant_rating(device):
    one = np.array([2]), np.array([1]), np.array([3.0])
    with placed(device, *one) as model:
        assert model.ratings.mean == 3.0
        assert model.ratings.deviation == 1.0
        assert np.isfinite(model.epoch(0, 0.05))


@pytest.mark.parametrize("lock_free", [False, True])
def test_held_out_error_on_movielens_is_the_cpu_s(device, data, lock_free):
    """MovieLens 100K, a tenth held out: within 1 % of the CPU's error. GroupLens, F. M. Harper and
    J. A. Konstan, The MovieLens Datasets, 2015."""
    u, i, r = np.loadtxt(
        data / "movielens-100k.psv", delimiter="|", skiprows=1, usecols=(0, 1, 2)
    ).T
    user, item = u.astype(int), i.astype(int)
    held = np.random.default_rng(0).permutation(len(r)) % 10 == 0
    train, test = ([a[rows] for a in (user, item, r)] for rows in (~held, held))
    spec = {"rank": 10, "l2": 0.07, "seed": 1}
    train[0], train[1] = (np.append(a, b.max()) for a, b in zip(train, (user, item), strict=False))
    train[2] = np.append(train[2], 3.0)  # so that both know all ids
    with placed(device, *train, lock_free=lock_free, **spec) as gpu, made(*train, **spec) as cpu:
        epochs(gpu, 8, lock_free=lock_free)
        epochs(cpu, 8)
        found = [
            rmse(predictions(mean, coef, True, user.max() + 1, test[0], test[1]), test[2])
            for mean, coef in (gpu.vectors(), cpu.vectors())
        ]
    assert found[0] == pytest.approx(found[1], rel=0.01)
    assert found[1] < 0.96


def test_places_and_permutations():
    side = side_of(np, np.array([5, 2, 5, 0]), 7)
    assert side.ids.tolist() == [0, 2, 5]
    assert side.count.tolist() == [1, 1, 2]
    assert side.place.tolist() == [0, -1, 1, -1, -1, 2, -1]
    assert sorted(permutation(50, 3)) == list(range(50))
    assert not np.array_equal(permutation(50, 3), permutation(50, 4))
