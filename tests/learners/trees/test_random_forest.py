"""Random forests beside scikit-learn's, and what holds for every one of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from forests import grown, margins, trees_of
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split

from tuskml.kernels.trees.boosting import GINI, SQUARED

pytestmark = pytest.mark.native
TREES = 60
BAGGED = {
    "averaged": 1,
    "trees": TREES,
    "learning_rate": 1 / TREES,
    "num_leaves": 2**31 - 1,
    "min_child_rows": 1,
    "min_child_hessian": 0.0,
}


def forest(x: np.ndarray, y: np.ndarray, threads: int = 1, **more: Any) -> Any:
    return grown(x, y, threads, **(BAGGED | more))


@pytest.mark.sample(1)
@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_digits])
def test_accuracy_is_that_of_scikit_learn(load: Callable[..., Any]) -> None:
    """Means over seeds of held-out accuracy."""
    x, y = load(return_X_y=True)
    ours, theirs = [], []
    for seed in range(4):
        parts = train_test_split(x, y, test_size=0.4, random_state=seed)
        train_x, test_x, train_y, test_y = parts
        how = {"objective": GINI, "seed": seed, "node_fraction": x.shape[1] ** -0.5}
        m = margins(forest(train_x, train_y.astype(float), **how), test_x)
        guess = m.argmax(axis=1) if m.ndim == 2 else (m > 0) * 1
        ours.append(np.mean(guess == test_y))
        peer = RandomForestClassifier(TREES, random_state=seed).fit(train_x, train_y)
        theirs.append(peer.score(test_x, test_y))
    assert np.mean(ours) > np.mean(theirs) - 0.012
    assert np.mean(ours) > 0.93


def test_errors_of_numbers_are_those_of_scikit_learn() -> None:
    x, y = load_diabetes(return_X_y=True)
    ours, theirs, told = [], [], []
    for seed in range(5):
        train_x, test_x, train_y, test_y = train_test_split(x, y, random_state=seed)
        grew = forest(train_x, train_y, objective=SQUARED, seed=seed, node_fraction=1 / 3)
        ours.append(np.mean((margins(grew, test_x) - test_y) ** 2))
        told.append(2 * grew.loss[-1])
        peer = RandomForestRegressor(TREES, random_state=seed, max_features=1 / 3)
        theirs.append(np.mean((peer.fit(train_x, train_y).predict(test_x) - test_y) ** 2))
    assert np.mean(ours) < 1.03 * np.mean(theirs)
    assert np.mean(told) == pytest.approx(np.mean(ours), rel=0.1)  # out of bag


def test_a_tree_without_chance_is_the_rows() -> None:
    """Each leaf of a full tree is the mean of its drawn rows, so values lie between labels."""
    rng = np.random.default_rng(0)
    x, y = np.arange(300.0)[:, None], rng.normal(size=300)
    m = margins(forest(x, y, objective=SQUARED, max_bins=255), x)
    assert y.min() <= m.min() < m.max() <= y.max()
    assert np.corrcoef(m, y)[0, 1] > 0.6


def test_shares_are_between_0_and_1() -> None:
    x, y = load_wine(return_X_y=True)
    m = margins(forest(x, y.astype(float), objective=GINI), x)
    assert m.min() > -1e-9
    assert m.max() < 1 + 1e-9
    assert m.sum(axis=1).mean() == pytest.approx(1, abs=0.02)
    two = margins(forest(x, (y == 1) * 1.0, objective=GINI), x)
    assert two.min() > -0.5 - 1e-9
    assert two.max() < 0.5 + 1e-9


@pytest.mark.sample(1)
@pytest.mark.parametrize("objective", [SQUARED, GINI])
def test_order_of_rows_and_threads_change_no_bit(objective: int) -> None:
    rng = np.random.default_rng(3)
    n = 9000
    x = np.round(rng.normal(size=(n, 300)), 2)  # more than one thread works on it
    y = (x[:, 0] + x[:, 1] > 0) * 1.0
    how = {"objective": objective, "trees": 2, "node_fraction": 0.05, "min_child_rows": 50}
    one, two = (forest(x, y, threads, **how) for threads in (1, 2))
    order = rng.permutation(n)
    three = forest(x[order], y[order], 2, **how)
    assert one.nodes.tobytes() == two.nodes.tobytes() == three.nodes.tobytes()
    assert one.loss[-1] == pytest.approx(three.loss[-1], rel=1e-12)
    other = forest(x, y, **(how | {"seed": 1}))
    assert other.nodes.tobytes() != one.nodes.tobytes()


def test_trees_draw_as_many_rows_as_asked() -> None:
    x, y = load_diabetes(return_X_y=True)
    for share, rows in ((1.0, 442), (0.25, 111)):
        grew = forest(x, y, objective=SQUARED, row_fraction=share)
        assert {int(grew.rows[start]) for start in grew.start[:-1]} == {rows}


def test_the_limit_of_leaves_and_of_depth() -> None:
    x, y = load_diabetes(return_X_y=True)
    few = forest(x, y, objective=SQUARED, num_leaves=5)
    assert all((tree["feature"] < 0).sum() == 5 for tree in trees_of(few))
    stump = forest(x, y, objective=SQUARED, max_depth=1)
    assert all(len(tree) == 3 for tree in trees_of(stump))
    whole = forest(x, y, objective=SQUARED)
    assert min((tree["feature"] < 0).sum() for tree in trees_of(whole)) > 100


def test_the_best_first_tree_is_the_whole_tree() -> None:
    """Where leaves are no limit, the order of splits changes nothing."""
    x, y = load_diabetes(return_X_y=True)
    whole = forest(x, y, objective=SQUARED, trees=3)
    best = forest(x, y, objective=SQUARED, trees=3, num_leaves=441)
    assert whole.nodes.tobytes() == best.nodes.tobytes()


def test_weights_are_rows_that_repeat_in_the_sums() -> None:
    """A row of almost no weight says almost nothing."""
    x, y = load_diabetes(return_X_y=True)
    y = y.copy()
    y[:40] = 1e6
    weight = np.where(np.arange(len(y)) < 40, 1e-5, 1.0)
    m = margins(forest(x, y, objective=SQUARED, weight=weight, min_child_rows=20), x)
    assert m[40:].max() < 1000


@pytest.mark.parametrize("objective", [SQUARED, GINI])
@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_few_rows_are_split_as_by_the_sums_of_all_bins(objective: int, gaps: float) -> None:
    """Leaves that are searched by their rows have the splits of those that are searched by
    histograms, as all are where a feature is a category. Leaves of eight rows have no two
    splits that are as good."""
    for n, d in ((40, 3), (250, 3), (250, 40)):
        rng = np.random.default_rng([n, d])
        x = np.where(rng.random((n, d)) < gaps, np.nan, rng.normal(size=(n, d)))
        y = np.nan_to_num(x[:, 0]) + rng.normal(size=n)
        y = y if objective == SQUARED else (y > 0) * 1.0
        how = {"objective": objective, "trees": 8, "learning_rate": 1 / 8, "min_child_rows": 8}
        x = np.c_[x, np.zeros(n)]
        by_rows, by_bins = forest(x, y, **how), forest(x, y, categorical=[d], **how)
        for a, b in zip(by_rows.start[:-1], by_rows.start[1:], strict=True):
            assert sorted(by_rows.rows[a:b]) == sorted(by_bins.rows[a:b])
            gains = (np.sort(one.gain[a:b]) for one in (by_rows, by_bins))
            assert next(gains) == pytest.approx(next(gains), rel=1e-5)


@pytest.mark.parametrize("signs", [None, [1]])
def test_bounds_lie_in_the_middle_between_drawn_rows(signs: list[int] | None) -> None:
    """Each tree lacks some of the rows beside the step, and as often on one side as on the
    other, so bounds scatter around it. The first bounds of the gaps would lie half a row lower."""
    x = np.arange(100.0)[:, None]
    trees = trees_of(forest(x, (x[:, 0] > 49) * 1.0, monotone=signs, trees=1000))
    roots = np.array([tree["value"][0] for tree in trees])
    assert abs(roots.mean() - 49.5) < 0.1
    assert roots.std() > 0.5


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("objective", [SQUARED, GINI])
@given(seed=st.integers(0, 2**32 - 1))
def test_monotone_features_rise_or_fall(seed: int, objective: int, threads: int) -> None:
    """Where the labels do not, trees without signs rise and fall."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 12, (160, 3)) * 1.0
    m = np.sin(x[:, 0]) - np.cos(x[:, 1]) + rng.normal(scale=0.5, size=160)
    y = (m > 0) * 1.0 if objective == GINI else m
    how = {"objective": objective, "trees": 10, "learning_rate": 0.1, "node_fraction": 0.6}
    signed = forest(x, y, threads, monotone=[1, -1, 0], **how)
    free = forest(x, y, threads, **how)
    along = np.tile(x[:30], (12, 1))
    for feature, sign in ((0, 1), (1, -1)):
        rows = along.copy()
        rows[:, feature] = np.repeat(np.arange(12.0), 30)
        steps = sign * np.diff(margins(signed, rows).reshape(12, 30), axis=0)
        assert steps.min() >= -1e-12
        assert steps.max() > 0
        assert (sign * np.diff(margins(free, rows).reshape(12, 30), axis=0)).min() < -1e-3


def test_monotone_forests_are_as_good_as_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(8)
    x = rng.uniform(size=(600, 3))
    truth = 3 * x[:, 0] - 2 * x[:, 1] ** 2 + np.sin(9 * x[:, 2])
    y = truth + rng.normal(size=600)
    grew = forest(x[:300], y[:300], node_fraction=1 / 3, monotone=[1, -1, 0])
    peer = RandomForestRegressor(
        TREES, max_features=1 / 3, monotonic_cst=[1, -1, 0], random_state=0
    )
    theirs = np.mean((peer.fit(x[:300], y[:300]).predict(x[300:]) - truth[300:]) ** 2)
    ours = np.mean((margins(grew, x[300:]) - truth[300:]) ** 2)
    assert ours < 1.1 * theirs
