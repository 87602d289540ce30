"""Trees by their definition: all splits by brute force, sums of leaves, what changes no bit."""

import numpy as np
import pytest
from forests import best_gain, derivatives, grown, leaves, margins, trees_of
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss

from tuskml.kernels.trees.boosting import LOGISTIC, QUANTILE, SOFTMAX, SQUARED

pytestmark = pytest.mark.native


@given(
    st.integers(0, 2**32 - 1),
    st.integers(8, 60),
    st.integers(1, 4),
    st.sampled_from([SQUARED, LOGISTIC]),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([0.0, 2.0]),
    st.sampled_from([0.0, 0.3, 0.9]),
)
def test_the_first_split_is_the_best_of_all(seed, n, d, objective, least, l1, l2, gaps) -> None:
    """At most 20 values of a feature, so that each has a bin of its own or shares none."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((n, d)) < gaps, np.nan, rng.integers(0, 20, (n, d)).astype(float))
    x = np.repeat(x, 3, axis=0)
    y = rng.normal(size=3 * n) if objective == SQUARED else rng.integers(0, 2, 3 * n) * 1.0
    if len(np.unique(y)) < 2:
        return
    given = {"l1": l1, "l2": l2, "objective": objective, "min_child_rows": least}
    forest = grown(x, y, trees=1, num_leaves=2, learning_rate=1.0, **given)
    base = np.full(3 * n, forest.base[0])
    g, h = derivatives(y, base, objective)
    best = best_gain(x, g, h, least, l1, l2)
    if best <= 1e-9:
        return
    assert forest.gain[0] == pytest.approx(best, rel=1e-5)
    at = leaves(forest.nodes, x)
    for leaf in (1, 2):
        total = g[at == leaf].sum()
        value = -np.sign(total) * max(abs(total) - l1, 0) / (h[at == leaf].sum() + l2)
        assert forest.nodes["value"][leaf] == pytest.approx(value, rel=1e-5, abs=1e-9)
        assert forest.rows[leaf] == (at == leaf).sum()


@given(st.integers(0, 2**32 - 1), st.integers(40, 400), st.integers(1, 5), st.booleans())
def test_losses_are_those_of_the_trees(seed, n, d, classes) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)).astype(np.float32)
    y = x[:, 0] * x[:, -1] + rng.normal(size=n)
    y = (y > np.median(y)) * 1.0 if classes else y
    forest = grown(x, y, objective=LOGISTIC if classes else SQUARED)
    m = margins(forest, x)
    told = log_loss(y, 1 / (1 + np.exp(-m))) if classes else ((m - y) ** 2).mean() / 2
    expected = forest.loss[-1] if forest.trees else forest.base_loss
    assert expected == pytest.approx(told, rel=1e-9)
    assert (np.diff(forest.loss) <= 1e-12).all()


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 7]))
def test_order_and_threads_change_no_bit(seed, threads) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(700, 3))
    y = (x[:, 0] + rng.normal(size=700) > 0) * 1.0
    order = rng.permutation(700)
    one = grown(x, y, objective=LOGISTIC)
    other = grown(x[order], y[order], threads, objective=LOGISTIC)
    assert one.nodes.tobytes() == other.nodes.tobytes()
    assert one.rows.tobytes() == other.rows.tobytes()


@pytest.mark.nightly
def test_large_groups_are_the_same_for_any_number_of_threads() -> None:
    """The group is large enough for several threads, and for bins from a sample. Its leaves have
    their rows divided by one thread or by several, in any mixture."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(230_000, 10)).astype(np.float32)
    y = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2])
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 9] = rng.integers(0, 40, len(x))
    how = {"trees": 5, "categorical": [9]}
    one = grown(x, y, 1, **how)
    assert one.loss[-1] == pytest.approx(((margins(one, x) - y) ** 2).mean() / 2, rel=1e-9)
    for threads in (2, 3, 7):
        order = rng.permutation(len(x))
        other = grown(x[order], y[order], threads, **how)
        assert one.nodes.tobytes() == other.nodes.tobytes()
        assert one.rows.tobytes() == other.rows.tobytes()


@pytest.mark.parametrize("limit", ["num_leaves", "max_depth", "min_child_rows", "min_gain"])
def test_limits_hold(limit) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(500, 4))
    y = x[:, 0] * x[:, 1] + rng.normal(size=500)
    value = {"num_leaves": 4, "max_depth": 2, "min_child_rows": 60, "min_gain": 8.0}[limit]
    forest, free = grown(x, y, **{limit: value}), grown(x, y, num_leaves=64)
    seen = {
        "num_leaves": lambda f: max((t["feature"] < 0).sum() for t in trees_of(f)) <= 4,
        "max_depth": lambda f: max(depth(t) for t in trees_of(f)) <= 2,
        "min_child_rows": lambda f: f.rows.min() >= 60,
        "min_gain": lambda f: f.gain[f.nodes["feature"] >= 0].min() > 8,
    }[limit]
    assert seen(forest)
    assert not seen(free)


def depth(tree: np.ndarray, at: int = 0) -> int:
    if tree["feature"][at] < 0:
        return 0
    return 1 + max(depth(tree, at + 1), depth(tree, tree["right"][at]))


def test_each_tree_draws_its_features() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 10))
    forest = grown(x, x.sum(axis=1), feature_fraction=0.3)
    used = [set(tree["feature"]) - {-1} for tree in trees_of(forest)]
    assert all(len(features) <= 3 for features in used)
    assert set.union(*used) == set(range(10))
    other = grown(x, x.sum(axis=1), feature_fraction=0.3, seed=1)
    assert forest.nodes.tobytes() != other.nodes.tobytes()


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 0.4, 0.9]))
def test_drawn_rows_do_not_depend_on_their_order(seed, share) -> None:
    """Many rows are the same."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, (300, 2)) * 1.0
    y = x[:, 0] * x[:, 1] + rng.integers(0, 2, 300)
    order = rng.permutation(300)
    one = grown(x, y, row_fraction=share, seed=seed % 1000, min_child_rows=1)
    other = grown(x[order], y[order], row_fraction=share, seed=seed % 1000, min_child_rows=1)
    assert one.nodes.tobytes() == other.nodes.tobytes()
    m = margins(one, x)
    assert one.loss[-1] == pytest.approx(((m - y) ** 2).mean() / 2, rel=1e-9)


def test_a_share_of_the_rows_is_drawn_for_each_tree() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2000, 3))
    forest = grown(x, x.sum(axis=1), row_fraction=0.3)
    roots = [int(forest.rows[start]) for start in forest.start[:-1]]
    assert len(set(roots)) > 10
    assert np.mean(roots) == pytest.approx(600, rel=0.05)


@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from([-1, 0, 1]), min_size=2, max_size=2))
def test_monotone_features_rise_or_fall(seed, signs) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, 2))
    y = np.sin(3 * x[:, 0]) * x[:, 1] + rng.normal(size=300)
    forest = grown(x, y, monotone=signs, num_leaves=31, learning_rate=0.5)
    line = np.linspace(-3, 3, 60)
    for f, sign in enumerate(signs):
        for other in (-1.0, 0.0, 1.0):
            points = np.full((60, 2), other)
            points[:, f] = line
            assert (sign * np.diff(margins(forest, points)) >= -1e-12).all()


def test_classes_have_a_tree_each() -> None:
    x, y = load_wine(return_X_y=True)
    forest = grown(x, y * 2.0, objective=SOFTMAX)
    m = margins(forest, x)
    assert forest.trees == 3 * forest.iterations
    p = np.exp(m) / np.exp(m).sum(axis=1, keepdims=True)
    assert forest.loss[-1] == pytest.approx(log_loss(y, p), rel=1e-9)
    assert np.exp(forest.base) == pytest.approx(np.bincount(y) / len(y))


SETS = {
    "diabetes": (load_diabetes, SQUARED),
    "breast_cancer": (load_breast_cancer, LOGISTIC),
    "wine": (load_wine, LOGISTIC),
}


@pytest.mark.parametrize("name", SETS)
def test_scikit_learn_grows_as_good_trees(name) -> None:
    """The same algorithm, whose bins differ a little."""
    load, objective = SETS[name]
    x, y = load(return_X_y=True)
    y = y if objective == SQUARED else (y == 0) * 1.0
    shared = {"learning_rate": 0.1, "min_samples_leaf": 5, "max_leaf_nodes": 15, "max_iter": 30}
    peers = {SQUARED: HistGradientBoostingRegressor, LOGISTIC: HistGradientBoostingClassifier}
    fitted = peers[objective](early_stopping=False, **shared).fit(x, y)
    forest = grown(x, y, objective=objective)
    if objective == SQUARED:
        theirs = ((fitted.predict(x) - y) ** 2).mean() / 2
    else:
        theirs = log_loss(y, fitted.predict_proba(x)[:, 1])
    assert forest.loss[-1] == pytest.approx(theirs, rel=0.05)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.25, 0.5, 0.75]), st.integers(2, 5))
def test_quantiles_of_negative_labels_are_the_negative_ones(seed, level, values) -> None:
    """The labels have few values, so that many rows are at the quantile itself."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 8, (80, 2)) * 1.0, rng.integers(0, values, 80) * 1.0
    given = {"objective": QUANTILE, "trees": 2}
    forest = grown(x, y, shape=level, **given)
    mirrored = grown(x, -y, shape=1 - level, **given)
    assert margins(mirrored, x) == pytest.approx(-margins(forest, x), abs=1e-9)


@pytest.mark.parametrize("share", [0.4, 0.6])
def test_a_median_of_two_values_is_split_by_what_tells_them_apart(share: float) -> None:
    x = np.arange(100.0)[:, None]
    y = (x[:, 0] < 100 * share) * 1.0
    forest = grown(x, y, objective=QUANTILE, shape=0.5, trees=100)
    assert margins(forest, x) == pytest.approx(y, abs=1e-3)


def test_rows_alike_are_one_leaf() -> None:
    """Rounding gives no gain to a split of rows with the same label."""
    x = np.tile(np.arange(10.0), 30)[:, None]
    y = (np.repeat(np.arange(3), 100) == 1) * 1.0
    x = np.hstack([x, np.repeat(np.arange(3.0), 100)[:, None]])
    forest = grown(x, y, objective=LOGISTIC, trees=1)
    assert len(forest.nodes) == 5
    assert set(forest.nodes["feature"]) == {-1, 1}


def test_gaps_go_to_the_side_that_suits_them() -> None:
    """A feature without missing values sends later ones to the larger child."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1000, 1))
    y = (x[:, 0] > 1.5) * 4.0
    plain = grown(x, y, trees=1, num_leaves=2, learning_rate=1.0)
    assert margins(plain, np.array([[np.nan]]))[0] == pytest.approx(0, abs=0.1)
    for label in (0.0, 4.0):
        x[:200], y[:200] = np.nan, label
        forest = grown(x, y, trees=1, num_leaves=2, learning_rate=1.0)
        assert margins(forest, np.array([[np.nan]]))[0] == pytest.approx(label, abs=0.1)


def test_with_its_bins_scikit_learn_grows_the_same_trees() -> None:
    """Whole numbers of few values have the same bins in both."""
    rng = np.random.default_rng(8)
    x = rng.integers(0, 30, (900, 5)).astype(float)
    y = np.sin(x[:, 0] / 4) * x[:, 1] + rng.normal(size=900)
    shared = {"learning_rate": 0.1, "min_samples_leaf": 5, "max_leaf_nodes": 15, "max_iter": 30}
    x[rng.random(x.shape) < 0.1] = np.nan
    peer = HistGradientBoostingRegressor(early_stopping=False, **shared).fit(x, y)
    assert margins(grown(x, y), x) == pytest.approx(peer.predict(x), rel=1e-5, abs=1e-5)
