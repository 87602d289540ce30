"""Stored factorizations that were ended go on from their last checkpoint."""

import numpy as np
import pytest
from stored_fits import at_epoch
from stored_ratings import in_memory, in_store, ratings, vectors

from tuskml.errors import Interrupted, OptionError, StoreError
from tuskml.kernels import passes
from tuskml.learners.factorization import stored as stored_factorization

pytestmark = pytest.mark.native
EPOCHS = 7


@pytest.fixture(autouse=True)
def often(monkeypatch) -> None:
    """A checkpoint after each epoch."""
    monkeypatch.setattr(stored_factorization, "CHECKPOINT_SECONDS", 0)


def fail() -> None:
    raise StoreError("the disk fails")


def ended(root, how=fail, error=StoreError, **options):
    """A training that ends behind its third epoch."""
    with at_epoch(3, how), pytest.raises(error):
        in_store(root, ratings(), **{"rank": 3, "max_iter": EPOCHS} | options)
    assert len(root.working("films")) == 1


@pytest.mark.parametrize("options", [
    {}, {"threads": 4}, {"method": "kv"}, {"biases": False, "schedule": "constant"},
])  # fmt: skip
@pytest.mark.parametrize("how", ["fails", "is cancelled"])
def test_to_the_bit(root, options, how):
    options = {"rank": 3, "max_iter": EPOCHS} | options
    whole = in_store(root, ratings(), name="whole", **options)
    if how == "fails":
        ended(root, **options)
    else:
        ended(root, passes.cancel, Interrupted, **options)
    model = in_store(root, ratings(), resume=True, **options)
    assert root.working("films") == []
    assert model.iterations.tolist() == [EPOCHS]
    assert model.history.values.tolist() == pytest.approx(whole.history.values.tolist(), rel=1e-12)
    assert np.array_equal(vectors(root, model), vectors(root, whole))
    assert model.loss[0] == pytest.approx(whole.loss[0], rel=1e-12)


def test_twice_ended(root):
    whole = in_store(root, ratings(), name="whole", rank=3, max_iter=EPOCHS)
    ended(root)
    with at_epoch(5, fail), pytest.raises(StoreError, match="the disk fails"):
        in_store(root, ratings(), rank=3, max_iter=EPOCHS, resume=True)
    model = in_store(root, ratings(), rank=3, max_iter=EPOCHS, resume=True)
    assert np.array_equal(vectors(root, model), vectors(root, whole))


def test_more_epochs_or_none(root):
    ended(root)
    assert 2 <= in_store(root, ratings(), rank=3, max_iter=2, resume=True).iterations[0] <= 3
    ended(root)
    assert in_store(root, ratings(), rank=3, max_iter=11, resume=True).iterations[0] == 11


@pytest.mark.parametrize("change", [{"rank": 4}, {"biases": False}, {"n": 2900}, {"seed": 1}])
def test_something_else_is_not_resumed(root, change):
    ended(root)
    options = {"rank": 3} | {k: v for k, v in change.items() if k in ("rank", "biases")}
    rows = ratings(**{k: v for k, v in change.items() if k in ("n", "seed")})
    with pytest.raises(StoreError, match="give it the rows and the task it had"):
        in_store(root, rows, max_iter=EPOCHS, resume=True, **options)
    assert len(root.working("films")) == 1, "it can be resumed still"
    done = in_store(root, ratings(), rank=3, max_iter=EPOCHS, resume=True)
    assert done.iterations.tolist() == [EPOCHS]


def test_nothing_to_resume(root):
    with pytest.raises(StoreError, match="films"):
        in_store(root, ratings(), resume=True)
    in_store(root, ratings(), rank=3, max_iter=2)
    with pytest.raises(
        StoreError, match="the store 'films' has no interrupted training: leave out 'resume'"
    ):
        in_store(root, ratings(), resume=True)


def test_resume_needs_a_store():
    with pytest.raises(OptionError, match="option 'resume'"):
        in_memory(ratings(), resume=True)
