"""Trees of groups of up to 1,023 rows, whose splits are found by rounded sums."""

import numpy as np
import pytest
from forests import best_gain, derivatives, grown, leaves, margins, trees_of
from hypothesis import given
from hypothesis import strategies as st

from tuskml.kernels.trees.boosting import LOGISTIC, SQUARED

pytestmark = pytest.mark.native


def rows(seed: int, n: int, d: int = 5, gaps: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Features of up to 12 values, each of some rows, so that each has a bin of its own. Some are
    missing. The numbers depend on two of them.
    """
    rng = np.random.default_rng(seed)
    values = min(12, n // 20)
    x = rng.integers(0, values, (n, d)).astype(float)
    y = x[:, 0] * (x[:, 1] > values // 2) + rng.normal(size=n)
    return np.where(rng.random((n, d)) < gaps, np.nan, x), y


def nodes_of(tree: np.ndarray, x: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """The inner nodes, and which rows come to each."""
    at = leaves(tree, x)
    found = []
    for node in np.flatnonzero(tree["feature"] >= 0):
        end = node + 1
        to_do = 2
        while to_do:
            to_do += 1 if tree["feature"][end] >= 0 else -1
            end += 1
        found.append((int(node), (at >= node) & (at < end)))
    return found


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([63, 64, 65, 300, 1023]),
    st.sampled_from([SQUARED, LOGISTIC]),
    st.sampled_from([0.0, 3.0]),
    st.booleans(),
)
def test_each_split_of_a_tree_is_the_best_of_its_rows(seed, n, objective, l2, by_gain) -> None:
    """By all splits of the node's rows. The choice reads gradients of 17 bits, so that one of two
    splits that are nearly as good may be taken; the sums of nodes are not rounded."""
    x, y = rows(seed, n)
    y = y if objective == SQUARED else (y > np.median(y)) * 1.0
    leaf = {"num_leaves": 5 if by_gain else 1000, "min_child_rows": 12, "l2": l2}
    forest = grown(x, y, trees=1, learning_rate=1.0, objective=objective, **leaf)
    g, h = derivatives(y, np.full(n, forest.base[0]), objective)
    tree = forest.nodes
    for node, here in nodes_of(tree, x) if len(tree) else []:
        best = best_gain(x[here], g[here], h[here], 12, 0, l2)
        assert forest.gain[node] == pytest.approx(best, rel=1e-3, abs=1e-3)
        assert forest.rows[node] == here.sum()
    at = leaves(tree, x) if len(tree) else []
    for one in np.unique(at):
        value = -g[at == one].sum() / (h[at == one].sum() + l2)
        assert tree["value"][one] == pytest.approx(value, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("objective", [SQUARED, LOGISTIC])
def test_rounding_changes_no_loss(objective: int, seed: int) -> None:
    """Where trees have monotone features, sums are not rounded. A sign of 0 lets all splits be.

    Of the logistic loss rounding also decides which splits leave the least curvature.
    """
    x, y = rows(seed, 1023, gaps=0.1)
    y = y if objective == SQUARED else (y > 2) * 1.0
    given = {"objective": objective, "trees": 50}
    rounded, exact = grown(x, y, **given), grown(x, y, monotone=[0] * 5, **given)
    nearly = 1e-3 if objective == SQUARED else 2e-2
    np.testing.assert_allclose(rounded.loss, exact.loss, rtol=nearly)


def test_a_single_large_label_hides_no_other_row() -> None:
    """Its gradient is a million times as large as theirs, and rounding would leave nothing."""
    x, y = rows(3, 500, gaps=0.0)
    x[0], y[0] = 11, 1e7
    forest = grown(x, y, trees=200, min_child_rows=1, num_leaves=8, learning_rate=0.5)
    others = ((margins(forest, x) - y) ** 2)[1:]
    assert others.mean() < 0.5 * np.var(y[1:])


def test_children_keep_the_least_sum_of_curvatures() -> None:
    """Of the logistic loss, to the last digit."""
    x, y = rows(8, 700)
    y = (y > 2) * 1.0
    for least in (1.0, 3.3, 10.0):
        given = {"min_child_rows": 1, "min_child_hessian": least, "learning_rate": 1.0}
        forest = grown(x, y, trees=1, objective=LOGISTIC, num_leaves=50, **given)
        _, h = derivatives(y, np.full(700, forest.base[0]), LOGISTIC)
        at = leaves(forest.nodes, x)
        assert min(h[at == one].sum() for one in np.unique(at)) >= least * (1 - 1e-6)
        assert len(np.unique(at)) > 3


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 0.6]))
def test_the_order_of_rows_changes_no_bit(seed: int, share: float) -> None:
    """Labels are whole numbers, so that their mean is the same in any order."""
    x, y = rows(seed, 200)
    y = np.round(y)
    order = np.random.default_rng(seed).permutation(200)
    given = {"trees": 5, "row_fraction": share, "feature_fraction": 0.7}
    one, other = grown(x, y, **given), grown(x[order], y[order], **given)
    for a, b in zip(trees_of(one), trees_of(other), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("weight", [0.1, 0.9, 1.1])
def test_a_least_curvature_that_is_met_exactly_ends_no_leaf(weight: float) -> None:
    """Ten equal weights are the least sum, and rounding lets them pass though they lack a hair."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 200, (1000, 3)).astype(float)
    y = x[:, 0] * (x[:, 1] > 90) / 100 + rng.normal(size=1000)
    given = {"num_leaves": 31, "min_child_rows": 1, "min_child_hessian": 10 * weight}
    given |= {"learning_rate": 0.3, "weight": np.full(1000, weight)}
    rounded, exact = grown(x, y, **given), grown(x, y, monotone=[0] * 3, **given)
    assert min((tree["feature"] < 0).sum() for tree in trees_of(rounded)) == 31
    assert rounded.loss[-1] < 1.15 * exact.loss[-1]


@pytest.mark.parametrize(("n", "l2"), [(100, 1e6), (500, 6.31e6)])
def test_a_large_l2_moves_no_split(n: int, l2: float) -> None:
    x = np.tile(np.arange(20.0), n // 20)[:, None]
    y = np.where(x[:, 0] > 9, 1.0, -1.0)
    given = {"trees": 1, "num_leaves": 2, "min_child_rows": 1, "l2": l2}
    assert grown(x, y, **given).nodes["value"][0] == 9.5
