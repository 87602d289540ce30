"""Matrix factorizations in a store: the model of a training in memory, exact counts, no remains."""

# ruff: noqa: E501, sentences are read better on one line

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import block

from tuskml.errors import DataError, Interrupted, OptionError, StoreError
from tuskml.groups import events, factorization, stored_factorization
from tuskml.groups.planning import Request
from tuskml.groups.stored import train_stored
from tuskml.kvstore import Frames, StoreRoot
from tuskml.udas import kernels
from tuskml.udas.options import parse
from tuskml.udas.tasks import task_named


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    return StoreRoot(tmp_path / "stores")


def ratings(users=61, items=47, n=3000, seed=0):
    """user, item, rating: two factors, biases and noise; at least one rating of each id."""
    random = np.random.default_rng(seed)
    u = np.concatenate([np.arange(users), random.integers(0, users, n - users)])
    i = np.concatenate([np.arange(items), random.integers(0, items, n - items)])
    p, q = random.standard_normal((users, 3)), random.standard_normal((items, 3))
    y = 3 + p[u, 0] / 2 + q[i, 0] / 2 + (p[u, 1:] * q[i, 1:]).sum(1)
    return u, i, y + random.standard_normal(n) / 4


def groups(arrays):
    user, item, rating = arrays
    return block(np.stack([user, item], 1).astype(float), rating)


def in_memory(arrays, **options):
    (models,) = factorization.train(groups(arrays), parse(json.dumps(options)), 0)
    return models


def in_store(root, arrays, name="films", **options):
    request = Request(
        task_named("matrix_factorization"), parse(json.dumps(options | {"store": name}))
    )
    (models,) = train_stored(groups(arrays), request, 0, str(root.path))
    return models


def vectors(root, models):
    """All vectors of a stored model, by way of its sealed file."""
    users, items, width = map(int, models.classes.values)
    with root.open(models.store.pool[0]) as sealed:
        assert sealed.dimension == (users + items) * width
        return sealed.weights(np.arange(sealed.dimension)).reshape(users + items, width)


def counted(models):
    return json.loads(models.options.pool[0])["counters"]


def per_key(models):
    """Vectors that share a key; 0: a key a weight."""
    (layout,) = re.findall("KV.*", models.plan.pool[0])
    named = {"KV: a key a weight": 0, "KV-VP: a key a vector": 1}
    return named[layout] if layout in named else int(re.findall("VP: ([0-9]+) v", layout)[0])


def error(models, coef, arrays):
    """Root mean squared error over ratings, in NumPy."""
    user, item, rating = arrays
    n_users, _, width = map(int, models.classes.values)
    coef = np.asarray(coef, float).reshape(-1, width)
    p, q = coef[user], coef[n_users + item]
    margin = models.intercept[0] + p[:, 0] + q[:, 0] + (p[:, 1:] * q[:, 1:]).sum(1)
    return np.sqrt(np.mean((margin - rating) ** 2))


def nothing_left(root, name="films", versions=()):
    assert root.working(name) == []
    assert root.versions(name) == list(versions)


# --- the model ---


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("partition", [0, 1000])
@pytest.mark.parametrize("biases", [True, False])
def test_the_model_is_that_of_memory(root, threads, partition, biases):
    arrays, given = ratings(), {"rank": 4, "seed": 5, "biases": biases, "threads": threads}
    wanted = in_memory(arrays, **given)
    found = in_store(root, arrays, partition=partition, **given)
    coef = wanted.coef.values.reshape(-1, 4 + biases)
    np.testing.assert_allclose(vectors(root, found), coef, rtol=1e-4, atol=1e-5)
    assert found.coef.values.size == 0
    assert found.classes.values.tolist() == wanted.classes.values.tolist()
    assert found.intercept[0] == wanted.intercept[0]
    assert found.loss[0] == pytest.approx(wanted.loss[0], rel=1e-5)
    assert found.history.values == pytest.approx(wanted.history.values, rel=1e-4)
    assert (found.n_rows[0], found.iterations[0], found.status.pool[0]) == (3000, 20, "ok")
    nothing_left(root, versions=[1])


def test_threads_and_layout_change_no_bit(root):
    """The digest in the reference is that of the file."""
    arrays = ratings()
    found = [
        vectors(root, in_store(root, arrays, f"m{k}", threads=threads, partition=partition))
        for k, (threads, partition) in enumerate([(1, 1), (2, 1), (4, 1), (1, 0), (4, 0)])
    ]
    for other in found[1:]:
        assert np.array_equal(found[0], other)


def test_the_objective_is_that_of_the_sealed_vectors(root):
    user, item, rating = arrays = ratings()
    found = in_store(root, arrays, rank=3, l2=0.1)
    coef = vectors(root, found).astype(float)
    square = (coef**2).sum(1)
    penalty = 0.1 / 2 * np.mean(square[user] + square[61 + item])
    assert found.loss[0] == pytest.approx(error(found, coef, arrays) ** 2 / 2 + penalty, rel=1e-5)
    with root.open("films") as sealed:
        about = sealed.metadata
    assert about["classes"] == [61, 47, 4]
    assert (about["task"], about["biases"], about["rank"]) == ("matrix_factorization", True, 3)
    assert about["intercept"] == found.intercept[0] == pytest.approx(rating.mean(), abs=1e-6)


def test_ids_without_ratings_are_zeros(root):
    user, item, rating = ratings()
    found = in_store(root, (user * 7 + 3, item * 5, rating), rank=3)
    coef = vectors(root, found)
    n_users = 60 * 7 + 4
    assert found.classes.values.tolist() == [n_users, 46 * 5 + 1, 4]
    seen = np.zeros(len(coef), bool)
    seen[user * 7 + 3] = seen[n_users + item * 5] = True
    assert (coef[seen] != 0).any(axis=1).all()
    assert not coef[~seen].any()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_model_larger_than_its_cache(root, threads):
    """19 MB in 16: the blocks are others than in memory, what they learn is not."""
    user, item, rating = ratings(24_000, 18_000, 120_000)
    held = np.arange(len(user)) % 10 == 9
    held &= np.arange(len(user)) >= 24_000
    kept = user[~held], item[~held], rating[~held]
    given = {"rank": 100, "max_iter": 3, "threads": threads}
    wanted = in_memory(kept, **given)
    found = in_store(root, kept, cache="16MB", **given)
    counts = counted(found)
    assert counts["found"] > 0, "vectors left memory, and came back"
    assert counts["bytes_read"] > 17e6
    check_sums(counts)
    test = user[held], item[held], rating[held]
    in_files = error(found, vectors(root, found), test)
    assert in_files == pytest.approx(error(wanted, wanted.coef.values, test), rel=0.01)
    assert in_files < 0.99 * rating[held].std()
    assert found.loss[0] == pytest.approx(wanted.loss[0], rel=0.01)


def test_groups_and_tasks_share_a_root(root):
    """Each training is a version of its own; the older one stays."""
    one, other = ratings(seed=1), ratings(seed=2)
    first = in_store(root, one, rank=3)
    before = vectors(root, first)
    second = in_store(root, other, rank=3)
    nothing_left(root, versions=[1, 2])
    assert np.array_equal(vectors(root, first), before)
    assert not np.array_equal(vectors(root, second), before)


BOUNDED = """
import json, sys, threading
from pathlib import Path
import tuskml

def anonymous():
    text = Path("/proc/self/status").read_text()
    return int(text.split("RssAnon:")[1].split()[0])

def train(rank):
    options = json.dumps({"rank": rank, "max_iter": 1, "store": "films", "cache": "16MB"})
    con.execute(f"SELECT train_model('matrix_factorization', y, [u, f], '{options}').loss FROM r").fetchall()

con = tuskml.connect(store_root=sys.argv[1], threads=2)
con.execute("CREATE TABLE r AS SELECT i AS u, i * 7919 % 80000 AS f, i % 5 AS y FROM range(80000) t(i)")
train(1)
before = peak = anonymous()
done = threading.Event()

def watch():
    global peak
    while not done.wait(0.01):
        peak = max(peak, anonymous())

thread = threading.Thread(target=watch)
thread.start()
train(150)
done.set()
thread.join()
print(peak - before)
"""


def test_memory_is_bounded_whatever_the_models_size(root):
    """Of 97 MB of vectors; what is mapped from files is the page cache's."""
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, str(root.path)],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    with root.open("films") as sealed:
        assert sealed.nonzero * 4 > 96e6
    assert int(done.stdout.split()[-1]) < 50_000


# --- counters ---


def check_sums(counts):
    saved = counts["saved_by_partitioning"] + counts["saved_by_pushing"]
    assert counts["features"] == saved + counts["cache_hits"] + counts["requests"]


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    shape=st.tuples(st.integers(1, 60), st.integers(1, 60), st.integers(60, 400)),
    rank=st.integers(1, 20), epochs=st.integers(1, 4), threads=st.integers(1, 4),
    partition=st.sampled_from([0, 1, 1000]), biases=st.booleans(),
)  # fmt: skip
def test_counters_are_exact(root, shape, rank, epochs, threads, partition, biases):
    """One block, which each epoch and the objective acquire once; all of users' vectors fit into a key, or a few."""
    given = {"rank": rank, "max_iter": epochs, "threads": threads, "biases": biases}
    found = in_store(root, ratings(*shape), partition=partition, **given)
    counts, size = counted(found), per_key(found)
    n_vectors, width = shape[0] + shape[1], rank + biases
    check_sums(counts)
    assert counts["features"] == n_vectors * width * (epochs + 1)
    assert (size > 0) == (partition > 0)
    keys = -(-shape[0] // size) + -(-shape[1] // size) if size else n_vectors * width
    assert counts["saved_by_partitioning"] == counts["features"] - keys * (epochs + 1)
    pushed = keys * epochs if threads > 1 else 0  # had others taken turns, they had taken them
    assert counts["saved_by_pushing"] == pushed
    assert (counts["requests"], counts["found"]) == (keys, 0)
    assert counts["writes"] == keys
    assert set(counts["seconds"]) >= {"map", "acquire", "train", "release", "seal"}


# --- how it ends ---


def test_stops_when_the_objective_rests(root):
    given = {"rank": 2, "max_iter": 1000, "schedule": "1/i", "epsilon": 1e-3}
    found = in_store(root, ratings(), **given)
    assert found.converged[0]
    assert found.iterations[0] < 1000
    before, last = found.history.values[-2:]
    assert abs(before - last) <= 1e-3 * before
    found = in_store(root, ratings(), **given | {"max_iter": 2})
    assert (found.converged[0], found.status.pool[0]) == (0, "not converged")


def test_time_limit(root):
    found = in_store(root, ratings(), max_iter=2**31 - 1, time="0.05s")
    assert found.status.pool[0] == "time limit"
    assert 0 < found.iterations[0] < 2**31 - 1
    nothing_left(root, versions=[1])


def test_a_step_too_large_is_taken_back(root):
    """As in memory, with the same model in the end, from one new store after another."""
    arrays, made = ratings(), []
    create = StoreRoot.create
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoreRoot, "create", lambda *a, **k: made.append(1) or create(*a, **k))
        found = in_store(root, arrays, rank=3, step=50, threads=1)
    wanted = in_memory(arrays, rank=3, step=50, threads=1)
    assert len(made) > 1
    np.testing.assert_allclose(
        vectors(root, found).ravel(), wanted.coef.values, rtol=1e-2, atol=1e-3
    )
    nothing_left(root, versions=[1])


def test_what_diverged_is_not_sealed(root):
    with pytest.raises(DataError, match="training of 'films' diverged with steps down to"):
        in_store(root, ratings(), step=1e30)
    nothing_left(root)


@pytest.mark.parametrize("where", ["epoch", "loss"])
@pytest.mark.parametrize(
    "what", [StoreError("the disk is full"), KeyboardInterrupt(), MemoryError()]
)
def test_nothing_is_left_of_a_failed_training(root, monkeypatch, where, what):
    kept = in_store(root, ratings(), rank=3)
    before = vectors(root, kept)

    def fail(*_):
        raise what

    monkeypatch.setattr(stored_factorization.StoredFactorization, where, fail)
    with pytest.raises(type(what)):
        in_store(root, ratings(seed=1), rank=3)
    nothing_left(root, versions=[1])
    assert np.array_equal(vectors(root, kept), before)


def test_nothing_is_left_of_a_failed_sealing(root, monkeypatch):
    def fail(*_):
        raise StoreError("the disk is full")

    monkeypatch.setattr(StoreRoot, "publish_pairs", fail)
    with pytest.raises(StoreError, match="the disk is full"):
        in_store(root, ratings(), rank=3)
    nothing_left(root)


def test_nothing_is_left_when_the_last_vectors_cannot_be_written(root, monkeypatch):
    """The frames are open still then."""

    def fail(*_):
        raise StoreError("the disk is full")

    monkeypatch.setattr(Frames, "write", fail)
    with pytest.raises(StoreError, match="the disk is full"):
        in_store(root, ratings(), rank=3)
    nothing_left(root)
    monkeypatch.undo()
    assert in_store(root, ratings(), rank=3).status.pool[0] == "ok"


def test_cancel(root, monkeypatch):
    told = []

    def cancel_after_three(event):
        told.append(event)
        if len(told) == 3:
            kernels.cancel()

    monkeypatch.setattr(events, "anyone", lambda: True)
    monkeypatch.setattr(events, "tell", cancel_after_three)
    with pytest.raises(Interrupted):
        in_store(root, ratings(), max_iter=10**9)
    assert len(told) == 3
    nothing_left(root)


def test_vectors_that_no_share_can_hold(root):
    """16 KiB each, 1024 workers in 8 MB."""
    with pytest.raises(MemoryError, match="raise option 'cache' or lower 'threads'"):
        in_store(root, ratings(), rank=4096, threads=1024, cache="16MB")
    assert root.names() == []


def test_ids_far_apart(root):
    arrays = np.array([0, 2**31 - 1]), np.array([0, 1]), np.array([1.0, 2.0])
    with pytest.raises(DataError, match="2,147,483,650 ids, expected at most 67,108,864"):
        in_store(root, arrays)
    assert root.names() == []


def test_more_numbers_than_a_value_may_have(root):
    """65 million, of which two vectors are there."""
    arrays = np.array([0, 1_000_000]), np.array([0, 1]), np.array([1.0, 2.0])
    with pytest.raises(DataError, match="or give option 'store'"):
        in_memory(arrays, rank=100)
    found = in_store(root, arrays, rank=100)
    with root.open(found.store.pool[0]) as sealed:
        assert sealed.dimension == 1_000_003 * 101
        assert sealed.size < 1 << 20
        assert sealed.weights(np.arange(10**6 * 101, 10**6 * 101 + 101)).all()


@pytest.mark.parametrize(("options", "sentence"), [
    ({"algorithm": "hogwild"}, "algorithm 'hogwild' is not available with task 'matrix_factorization' and option 'store', expected 'auto' or 'sgd'"),
    ({"validation": 0.1}, "option 'validation' is not available with task 'matrix_factorization' and option 'store', which has algorithm,"),
    ({"warm_start": {"coef": [1]}}, "option 'warm_start' is not available with task 'matrix_factorization' and"),
    ({"batch_size": 4}, "option 'batch_size' is not available with task 'matrix_factorization' and"),
])  # fmt: skip
def test_refused(root, options, sentence):
    with pytest.raises(OptionError) as caught:
        in_store(root, ratings(), **options)
    assert sentence in str(caught.value)
    assert root.names() == []


@pytest.mark.parametrize("name", ["cache", "partition"])
def test_options_of_stores_need_one(name):
    with pytest.raises(OptionError, match=f"option '{name}' is of a stored model, which needs"):
        in_memory(ratings(), **{name: {"cache": "16MB", "partition": 0}[name]})


def test_ranks_are_of_this_task_alone(root):
    request = Request(task_named("svm"), parse('{"store": "ads", "rank": 3}'))
    with pytest.raises(OptionError, match="option 'rank' is of the task 'matrix_factorization'"):
        list(train_stored(groups(ratings()), request, 0, str(root.path)))
