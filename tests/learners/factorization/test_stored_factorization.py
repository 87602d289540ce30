"""Matrix factorizations in a store: the model of a training in memory, and exact counts."""

# ruff: noqa: E501, sentences are read better on one line

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored_ratings import (
    check_sums,
    counted,
    error,
    in_memory,
    in_store,
    nothing_left,
    per_key,
    ratings,
    vectors,
)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("method", ["kv", "kv-vp"])
@pytest.mark.parametrize("biases", [True, False])
def test_the_model_is_that_of_memory(root, threads, method, biases):
    arrays, given = ratings(), {"rank": 4, "seed": 5, "biases": biases, "threads": threads}
    wanted = in_memory(arrays, **given)
    found = in_store(root, arrays, method=method, **given)
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
        vectors(root, in_store(root, arrays, f"m{k}", threads=threads, method=method))
        for k, (method, threads) in enumerate(
            [*(("kv-vp", n) for n in (1, 2, 4)), *(("kv", n) for n in (1, 4))]
        )
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


@pytest.mark.nightly
@pytest.mark.parametrize(
    "threads", [2, *(pytest.param(n, marks=pytest.mark.nightly) for n in (1, 4))]
)
def test_a_model_larger_than_its_cache(root, threads):
    """19 MB in 16: the blocks are others than in memory, what they learn is not."""
    user, item, rating = ratings(24_000, 18_000, 120_000)
    held = np.arange(len(user)) % 10 == 9
    held &= np.arange(len(user)) >= 24_000
    kept = user[~held], item[~held], rating[~held]
    given = {"rank": 100, "max_iter": 2, "threads": threads}
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


@pytest.mark.nightly
def test_memory_is_bounded_whatever_the_models_size(root):
    """Of 97 MB of vectors; what is mapped from files is the page cache's."""
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, str(root.path)],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    with root.open("films") as sealed:
        assert sealed.nonzero * 4 > 96e6
    assert int(done.stdout.split()[-1]) < 50_000


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    shape=st.tuples(st.integers(1, 60), st.integers(1, 60), st.integers(60, 400)),
    rank=st.integers(1, 20), epochs=st.integers(1, 4), threads=st.integers(1, 4),
    method=st.sampled_from(["kv", "kv-vp"]), biases=st.booleans(),
)  # fmt: skip
def test_counters_are_exact(root, shape, rank, epochs, threads, method, biases):
    """One block, which each epoch and the objective acquire once; all of users' vectors fit into a key, or a few."""
    given = {"rank": rank, "max_iter": epochs, "threads": threads, "biases": biases}
    found = in_store(root, ratings(*shape), method=method, **given)
    counts, size = counted(found), per_key(found)
    n_vectors, width = shape[0] + shape[1], rank + biases
    check_sums(counts)
    assert counts["features"] == n_vectors * width * (epochs + 1)
    assert (size > 0) == (method == "kv-vp")
    keys = -(-shape[0] // size) + -(-shape[1] // size) if size else n_vectors * width
    assert counts["saved_by_partitioning"] == counts["features"] - keys * (epochs + 1)
    assert counts["saved_by_pushing"] == 0, "workers share a cache, none is handed anything"
    assert (counts["requests"], counts["found"]) == (keys, 0)
    assert counts["writes"] == keys
    assert set(counts["seconds"]) >= {"map", "acquire", "train", "release", "seal"}
