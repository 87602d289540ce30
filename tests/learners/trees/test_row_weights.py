"""Rows with weights: as many of the same row, and what LightGBM grows of them."""

from typing import Any

import numpy as np
import pytest
from forests import grown, margins
from hypothesis import given
from hypothesis import strategies as st

from tuskml.kernels.trees.boosting import (
    GAMMA,
    HUBER,
    LOGISTIC,
    POISSON,
    QUANTILE,
    SOFTMAX,
    SQUARED,
    TWEEDIE,
)

pytestmark = pytest.mark.native

OBJECTIVES = {
    "squared": SQUARED,
    "logistic": LOGISTIC,
    "poisson": POISSON,
    "gamma": GAMMA,
    "tweedie": TWEEDIE,
    "huber": HUBER,
    "quantile": QUANTILE,
    "softmax": SOFTMAX,
}
LOOSE = {"min_child_rows": 1, "min_child_hessian": 10.0, "trees": 10}
"""Leaves are bounded by their weights, not by their rows."""
SHAPES = {TWEEDIE: 1.7}
"""The parameters of losses, if they are not 0.7."""


def labels(x: np.ndarray, objective: int, rng: np.random.Generator) -> np.ndarray:
    m = np.sin(x[:, 0] / 5) + x[:, 1] / 20
    noisy = m + rng.normal(scale=0.5, size=len(m))
    if objective == LOGISTIC:
        return (noisy > 0.5) * 1.0
    if objective in (POISSON, TWEEDIE):
        return rng.poisson(np.exp(m)) * 1.0
    if objective == GAMMA:
        return np.exp(noisy)
    return np.digitize(noisy, [0.2, 1.0]) * 1.0 if objective == SOFTMAX else noisy


def drawn(objective: int, n: int = 2000, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 25, (n, 3)) * 1.0
    return x, labels(x, objective, rng)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_weight_is_the_row_as_many_times(name: str) -> None:
    """Whole numbers of few values have the same bins, repeated or not."""
    objective = OBJECTIVES[name]
    x, y = drawn(objective)
    times = np.random.default_rng(3).integers(1, 4, len(y))
    rules = LOOSE | {"objective": objective, "shape": SHAPES.get(objective, 0.7)}
    weighted = grown(x, y, weight=times * 1.0, **rules)
    again = np.repeat(x, times, axis=0), np.repeat(y, times)
    repeated = grown(*again, weight=np.ones(times.sum()), **rules)
    plain = grown(x, y, **rules)
    assert weighted.trees == repeated.trees
    assert margins(weighted, x) == pytest.approx(margins(repeated, x), abs=1e-5)
    assert weighted.loss == pytest.approx(repeated.loss, abs=1e-6)
    assert np.abs(margins(weighted, x) - margins(plain, x)).max() > 1e-3


@pytest.mark.parametrize("name", sorted(set(OBJECTIVES) - {"quantile"}))
def test_weights_of_one_change_no_bit(name: str) -> None:
    """Without weights, the quantile of a leaf lies between two rows; with weights, on one."""
    x, y = drawn(OBJECTIVES[name])
    objective = OBJECTIVES[name]
    rules = LOOSE | {"objective": objective, "shape": SHAPES.get(objective, 0.7)}
    one, other = grown(x, y, **rules), grown(x, y, weight=np.ones(len(y)), **rules)
    assert one.nodes.tobytes() == other.nodes.tobytes()
    assert one.loss.tobytes() == other.loss.tobytes()


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 7]), st.sampled_from([0.6, 1.0]))
def test_order_and_threads_change_no_bit(seed: int, threads: int, share: float) -> None:
    """Labels are whole numbers, so the mean before the first tree is exact in any order."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 6, (700, 3)) * 1.0
    y, weight = (x[:, 0] > rng.integers(0, 6, 700)) * 1.0, rng.integers(1, 9, 700) / 4
    order = rng.permutation(700)
    rules = {"objective": LOGISTIC, "row_fraction": share, "min_child_rows": 1}
    one = grown(x, y, weight=weight, **rules)
    other = grown(x[order], y[order], threads, weight=weight[order], **rules)
    assert one.nodes.tobytes() == other.nodes.tobytes()
    assert one.rows.tobytes() == other.rows.tobytes()


def test_leaves_count_rows_and_sum_weights() -> None:
    x, y = drawn(SQUARED)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    rules = {"trees": 1, "num_leaves": 2, "learning_rate": 1.0, "min_child_rows": 5, "l2": 3.0}
    forest = grown(x, y, weight=weight, **rules)
    assert forest.base[0] == pytest.approx(np.average(y, weights=weight))
    assert forest.rows[0] == len(y)
    left = x[:, forest.nodes["feature"][0]] <= forest.nodes["value"][0]
    for node, rows in ((1, left), (2, ~left)):
        lack = (weight * (y - forest.base[0]))[rows].sum() / (weight[rows].sum() + 3)
        assert forest.nodes["value"][node] == pytest.approx(lack, rel=1e-5)
        assert forest.rows[node] == rows.sum()


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1e9])
def test_the_unit_of_weights_does_not_matter(size: float) -> None:
    """Where nothing else is compared with sums of weights."""
    x, y = drawn(LOGISTIC)
    weight = np.random.default_rng(1).integers(1, 5, len(y)) * 1.0
    rules = {"objective": LOGISTIC, "min_child_hessian": 0.0, "min_child_rows": 30}
    one, other = (grown(x, y, weight=w, **rules) for w in (weight, size * weight))
    assert margins(one, x) == pytest.approx(margins(other, x), abs=1e-4)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("size", [7.0, 1e-12, 1 / 3, 1e9])
def test_units_decide_between_no_equal_gains(name: str, size: float) -> None:
    """Few rows of few values, so that many splits gain the same: weights and labels in another
    unit have the same trees, bit for bit but for the values of leaves."""
    objective = OBJECTIVES[name]
    for seed in (0, 1, 8, 10, 39, 58):  # of these some differed by the rounding of the mean
        x, y = drawn(objective, 60, seed)
        y = np.round(4 * y) / 4 if objective in (SQUARED, HUBER, QUANTILE) else y
        weight = np.random.default_rng(seed).integers(1, 5, len(y)) / 4
        rules = LOOSE | {"objective": objective, "shape": SHAPES.get(objective, 0.5)}
        rules |= {"trees": 20, "min_child_hessian": 0.0}
        first = grown(x, y, weight=weight, **rules)
        assert len(first.nodes) > 100
        variants = [(y, weight * size, 1.0)]
        if objective == SQUARED and size > 1:  # whose labels are as exact
            variants.append((y * size, weight, size))
        for label, other, unit in variants:
            found = grown(x, label, weight=other, **rules)
            assert found.nodes["feature"].tolist() == first.nodes["feature"].tolist()
            np.testing.assert_allclose(margins(found, x), unit * margins(first, x), rtol=1e-9)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("size", [3.7, 0.1, 1 / 3, 2.0**-30, 2.0**40, 1e-306, 1e300])
def test_units_of_weights_change_no_bit_of_trees(name: str, size: float) -> None:
    """A leaf may have just the least curvature, which the unit's rounding must not decide."""
    objective = OBJECTIVES[name]
    rules = {"objective": objective, "shape": SHAPES.get(objective, 0.5), "trees": 2}
    rules |= {"min_child_rows": 1, "num_leaves": 60}
    for seed in range(24):
        x, y = drawn(objective, 60, seed)
        weight = np.random.default_rng(seed).integers(1, 5, len(y)) / 4
        weight = weight if seed % 3 else np.ones(len(y))
        for least in (-1.0, -2.0, -3.0, -5.0):  # of as many rows by their curvature at the mean
            first, other = (
                grown(x, y, weight=unit * weight, min_child_hessian=least, **rules)
                for unit in (1.0, size)
            )
            assert first.nodes.tobytes() == other.nodes.tobytes(), (seed, least)
            assert first.base.tobytes() == other.base.tobytes()


def test_weights_without_a_finite_sum_train_nothing() -> None:
    x, y = drawn(SQUARED, 100)
    forest = grown(x, y, weight=np.full(100, 1e308))
    assert forest.trees == 0
    assert not np.isfinite(forest.base_loss)


PEERS = {
    "squared": "regression",
    "logistic": "binary",
    "poisson": "poisson",
    "gamma": "gamma",
    "tweedie": "tweedie",
    "huber": "huber",
    "softmax": "multiclass",
}


@pytest.mark.parametrize("name", PEERS)
def test_lightgbm_grows_the_same_trees(name: str) -> None:
    """The same margins of each row, up to LightGBM's float32 derivatives."""
    lightgbm = pytest.importorskip("lightgbm")
    x, y = drawn(OBJECTIVES[name], 3000)
    weight = np.random.default_rng(5).integers(1, 9, len(y)) / 4
    exact: dict[str, Any] = {"min_data_in_bin": 1, "feature_pre_filter": False, "verbose": -1}
    told = exact | {
        "objective": PEERS[name], "min_data_in_leaf": 0, "min_sum_hessian_in_leaf": 20.0,
        "num_leaves": 15, "num_threads": 1, "deterministic": True, "alpha": 0.7,
        "tweedie_variance_power": 1.7,
    }  # fmt: skip
    told |= {"num_class": 3} if name == "softmax" else {}
    booster = lightgbm.train(told, lightgbm.Dataset(x, y, weight=weight, params=exact), 20)
    rules = {"objective": OBJECTIVES[name], "min_child_rows": 1, "min_child_hessian": 20.0}
    shape = SHAPES.get(OBJECTIVES[name], 0.7)
    forest = grown(x, y, weight=weight, trees=20, shape=shape, **rules)
    assert forest.iterations == 20
    assert margins(forest, x) == pytest.approx(booster.predict(x, raw_score=True), abs=1e-5)
