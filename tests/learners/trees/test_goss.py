"""Gradient-based one-side sampling: sums that are right on average, and LightGBM's loss."""

import numpy as np
import pytest
from forests import grown, margins
from hypothesis import given, settings
from hypothesis import strategies as st

from tuskml.kernels.trees.boosting import LOGISTIC, SOFTMAX, SQUARED

pytestmark = pytest.mark.native
HALF = {"top_rate": 0.3, "other_rate": 0.2, "learning_rate": 0.5}


def rows(n: int = 600, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    return x, x[:, 0] + np.sin(3 * x[:, 1]) + rng.normal(size=n)


def test_leaves_are_right_on_average() -> None:
    """The third tree is the first that draws. Its two leaves, which rows of one binary feature
    reach, have the values of all rows on average.
    """
    rng = np.random.default_rng(2)
    x = (np.arange(400)[:, None] % 2).astype(float)
    y = rng.normal(size=400) + 3 * x[:, 0]
    how = {"num_leaves": 2, "min_child_rows": 5, "trees": 3, "learning_rate": 0.5}
    whole = grown(x, y, **how)
    found = [grown(x, y, **how, top_rate=0.1, other_rate=0.1, seed=s) for s in range(400)]
    values = np.array([forest.nodes["value"][7:9] for forest in found])
    error = values.std(axis=0) / np.sqrt(len(found))
    assert (error > 0).all()
    assert (np.abs(values.mean(axis=0) - whole.nodes["value"][7:9]) < 4 * error).all()
    for forest in found:
        assert forest.nodes["value"][:6] == pytest.approx(whole.nodes["value"][:6], rel=1e-9)


@pytest.mark.parametrize("objective", [SQUARED, LOGISTIC, SOFTMAX])
def test_all_rows_are_the_trees_of_no_drawing(objective: int) -> None:
    """Where the shares add up to 1 each row counts once."""
    x, y = rows()
    label = {SQUARED: y, LOGISTIC: (y > 0) * 1.0, SOFTMAX: np.digitize(y, [-0.5, 0.5]) * 1.0}
    how = {"objective": objective, "trees": 12, "learning_rate": 0.5}
    drawn = grown(x, label[objective], **how, top_rate=0.75, other_rate=0.25)
    whole = grown(x, label[objective], **how)
    assert (drawn.nodes["feature"] == whole.nodes["feature"]).mean() > 0.99
    assert drawn.loss == pytest.approx(whole.loss, rel=1e-4)


def test_fewer_rows_reach_later_trees() -> None:
    x, y = rows()
    forest = grown(x, y, **HALF, trees=5)
    assert [int(forest.rows[at]) for at in forest.start[:-1]] == [600, 600, 300, 300, 300]
    assert grown(x, y, **HALF, trees=5, seed=1).loss[2] != forest.loss[2]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([1, 2]))
def test_neither_order_nor_threads_change_a_bit(seed: int, weighted: bool, threads: int) -> None:
    """Equal rows and equal gradients among them."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, size=(150, 3)).astype(float)
    y = x[:, 0] * x[:, 1] + rng.integers(0, 3, size=150)
    order = rng.permutation(150)
    weight = rng.integers(1, 5, size=150).astype(float)
    given = {"weight": weight} if weighted else {}
    other = {"weight": weight[order]} if weighted else {}
    how = HALF | {"min_child_rows": 1, "trees": 6, "seed": seed % 100}
    one = grown(x, y, **how, **given)
    two = grown(x[order], y[order], threads, **how, **other)
    np.testing.assert_array_equal(one.nodes, two.nodes)
    assert one.loss == pytest.approx(two.loss, rel=1e-12)


def test_large_weights_overflow_nothing() -> None:
    """A row that outweighs all others, and stands for many where it is drawn."""
    x, y = rows()
    weight = np.where(np.arange(600) == 300, 1e6, 1.0)
    y[300] = y.mean()
    for seed in range(5):
        how = {"weight": weight, "seed": seed, "learning_rate": 1.0, "trees": 8}
        forest = grown(x, y, **how, top_rate=0.1, other_rate=0.01)
        assert np.isfinite(forest.loss).all()
        assert all(forest.loss[-1:] <= forest.base_loss * (1 + 1e-12))  # none: no draw has a split


def test_lightgbm_reaches_the_same_loss() -> None:
    """Within 0.1 %. 1,800 rows with small gradients are all alike, so chance decides nothing.

    LightGBM estimates a leaf's rows by its sum of second derivatives, also where rows count
    several times. So a least sum takes the place of the least rows.
    """
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(4)
    x = np.full((3000, 3), 60.0)
    x[:1200] = rng.integers(1, 40, size=(1200, 3))
    side = rng.choice([-6.0, 6.0], size=1200) * np.where(x[:1200, 1] > 20, 1, 2)
    y = np.zeros(3000)
    y[:1200] = side + (x[:1200, 2] > 10) * 3
    y[1200:] = y[:1200].mean()
    rates = {"top_rate": 0.4, "other_rate": 0.1, "learning_rate": 0.2, "num_leaves": 15}
    exact = {"verbose": -1, "num_threads": 1, "min_data_in_bin": 1}
    given = rates | exact | {"data_sample_strategy": "goss", "objective": "regression"}
    given |= {"min_data_in_leaf": 0, "min_sum_hessian_in_leaf": 20.0}
    peer = lightgbm.train(given, lightgbm.Dataset(x, y, params=exact), 30).predict(x)
    how = rates | {"min_child_rows": 1, "min_child_hessian": 20.0, "trees": 30}
    losses = [((margins(grown(x, y, **how, seed=s), x) - y) ** 2).mean() for s in range(3)]
    assert losses == pytest.approx([((peer - y) ** 2).mean()] * 3, rel=1e-3)
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
