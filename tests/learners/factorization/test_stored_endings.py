"""How trainings of stored factorizations end, what they leave behind, and what they refuse."""

# ruff: noqa: E501, sentences are read better on one line

import numpy as np
import pytest
from stored_ratings import in_memory, in_store, nothing_left, ratings, vectors

from tuskml.errors import DataError, Interrupted, OptionError, StoreError
from tuskml.kernels import passes
from tuskml.kvstore import Frames, StoreRoot
from tuskml.learners import events
from tuskml.learners.factorization import stored as stored_factorization
from tuskml.learners.registry import options_of, task_named


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


def status(found):
    return found.status.pool[found.status.code[0]]


def test_vectors_worse_than_a_constant_are_that_constant(root):
    """In a store as in memory; the ratings are noise, which a penalty keeps from being learned."""
    user, item, _ = ratings()
    arrays = user, item, np.random.default_rng(1).uniform(-0.5, 0.5, len(user))
    given = {"step": 3, "schedule": "constant", "l2": 0.6, "max_iter": 3}
    found, wanted = in_store(root, arrays, **given), in_memory(arrays, **given)
    assert status(found) == status(wanted) == "diverged"
    assert found.loss[0] == pytest.approx(wanted.loss[0])
    assert found.intercept[0] == pytest.approx(wanted.intercept[0], abs=1e-7)
    assert not vectors(root, found).any()


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("biases", [True, False])
def test_ratings_far_from_zero_need_biases(root, stored, biases):
    user, item, rating = ratings()
    fit = (lambda a, **o: in_store(root, a, **o)) if stored else in_memory
    for offset, told in ((0.0, "ok"), (1e9, "ok" if biases else "rounded feature")):
        assert status(fit((user, item, rating + offset), biases=biases, rank=3)) == told


@pytest.mark.parametrize("unit", [2.0**-200, 2.0**200])
@pytest.mark.parametrize("biases", [True, False])
def test_stored_vectors_follow_the_unit_of_ratings(root, unit, biases):
    """Beyond the range of 32 bits, too; a penalty on vectors is in units of the ratings."""
    user, item, rating = ratings()
    l2 = 0.0 if biases else 0.02
    given = {"biases": biases, "rank": 3, "threads": 1}
    plain = vectors(root, in_store(root, (user, item, rating), l2=l2, **given))
    found = vectors(root, in_store(root, (user, item, rating * unit), l2=l2 * unit, **given))
    width = np.full(found.shape[1], np.sqrt(unit))
    width[: int(biases)] = unit
    np.testing.assert_allclose(found / width, plain, rtol=1e-5, atol=1e-6)


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
            passes.cancel()

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
    ({"validation": 0.1}, "option 'validation' is not available with option 'store': leave one of them out"),
    ({"warm_start": {"coef": [1]}}, "option 'warm_start' is not available with task 'matrix_factorization', which has"),
    ({"batch_size": 4}, "option 'batch_size' is not available with task 'matrix_factorization', which has"),
])  # fmt: skip
def test_refused(root, options, sentence):
    with pytest.raises(OptionError) as caught:
        in_store(root, ratings(), **options)
    assert sentence in str(caught.value)
    assert root.names() == []


@pytest.mark.parametrize("name", ["cache", "method"])
def test_options_of_stores_need_one(name):
    with pytest.raises(OptionError, match=f"option '{name}' needs option 'store' beside it"):
        in_memory(ratings(), **{name: {"cache": "16MB", "method": "kv"}[name]})


def test_ranks_are_of_this_task_alone():
    with pytest.raises(OptionError, match="option 'rank' is not available with task 'svm'"):
        options_of(task_named("svm"), '{"store": "ads", "rank": 3}')
