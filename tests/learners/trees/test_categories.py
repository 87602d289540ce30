"""Splits of categories: LightGBM's trees, brute force over all sets of levels, their limits."""

import itertools
from typing import Any

import numpy as np
import pytest
from forests import grown, leaves, left_of, margins, trees_of

from tuskml.kernels.trees.boosting import LOGISTIC, SOFTMAX, SQUARED

pytestmark = pytest.mark.native
LIGHTGBM = {SQUARED: "regression", LOGISTIC: "binary", SOFTMAX: "multiclass"}


def shops(n: int = 6000, levels: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Two categories, and a number whose values are bins."""
    rng = np.random.default_rng(7)
    shop = rng.integers(0, levels, n)
    day = rng.integers(0, 7, n)
    area = np.clip(np.round(3 * rng.normal(size=n)), -6, 6)
    effect, of_day = rng.normal(size=levels), rng.normal(size=7)
    y = effect[shop] + of_day[day] * (area > 0) + rng.normal(size=n)
    return np.stack([shop, day, area], axis=1).astype(float), y


def peers(x: np.ndarray, y: np.ndarray, objective: int, trees: int, **given: Any) -> np.ndarray:
    """LightGBM's margins with the same parameters."""
    lightgbm = pytest.importorskip("lightgbm")
    params = {
        "objective": LIGHTGBM[objective],
        "num_leaves": 15,
        "min_data_in_leaf": 5,
        "min_sum_hessian_in_leaf": 1e-3,
        "max_bin": 255,
        "min_data_in_bin": 1,
        "verbose": -1,
        "num_threads": 1,
        "feature_pre_filter": False,
    } | given
    if objective == SOFTMAX:
        params["num_class"] = len(np.unique(y))
    data = lightgbm.Dataset(x, y, categorical_feature=[0, 1], params=params)
    return lightgbm.train(params, data, trees).predict(x, raw_score=True)


@pytest.mark.sample(3)
@pytest.mark.parametrize("objective", LIGHTGBM)
@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"max_cat_threshold": 4, "cat_smooth": 30.0, "cat_l2": 1.0},
        {"cat_smooth": 1.0, "cat_l2": 0.0},
    ],
)
def test_the_trees_are_lightgbms(objective: int, limits: dict[str, Any]) -> None:
    """Counts of rows are exact here and estimates by H in LightGBM, so some sets may differ."""
    x, y = shops()
    if objective == LOGISTIC:
        y = (y > 0.2) * 1.0
    if objective == SOFTMAX:
        y = np.digitize(y, [-0.7, 0.7]).astype(float)
    how = {"min_data_per_group": 60} | limits
    theirs = peers(x, y, objective, 30, **how)
    ours = margins(
        grown(x, y, objective=objective, categorical=[0, 1], min_category_rows=60, **limits), x
    )
    if objective == SQUARED:
        assert np.abs(ours - theirs).max() < 1e-5
    assert loss(ours, y, objective) == pytest.approx(loss(theirs, y, objective), rel=2e-3)
    plain = margins(grown(x, y, objective=objective), x)
    assert np.abs(ours - plain).max() > 0.05


def loss(m: np.ndarray, y: np.ndarray, objective: int) -> float:
    if objective == SQUARED:
        return float(np.mean((m - y) ** 2))
    if objective == LOGISTIC:
        return float(np.mean(np.logaddexp(0, np.where(y > 0, -m, m))))
    rows = np.arange(len(y))
    return float(np.mean(np.logaddexp.reduce(m, axis=1) - m[rows, y.astype(int)]))


FREE = {
    "min_category_rows": 1,
    "cat_smooth": 0.0,
    "cat_l2": 0.0,
    "max_cat_threshold": 255,
    "max_cat_to_onehot": 0,
    "min_child_rows": 1,
}


@pytest.mark.parametrize("seed", range(8))
def test_no_set_of_levels_has_a_lower_squared_error(seed: int) -> None:
    """Over all sets of seven levels (Fisher 1958)."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 7, 60).astype(float)
    y = rng.normal(size=7)[x.astype(int)] + rng.normal(size=60)
    forest = grown(
        x[:, None], y, categorical=[0], trees=1, num_leaves=2, learning_rate=1.0, **FREE
    )
    error = np.sum((margins(forest, x[:, None]) - y) ** 2)

    def of(chosen: tuple[int, ...]) -> float:
        left = np.isin(x, chosen)
        return sum(np.sum((y[part] - y[part].mean()) ** 2) for part in (left, ~left))

    every = [set_ for k in range(1, 4) for set_ in itertools.combinations(range(7), k)]
    best = min(of(one) for one in every if 0 < np.isin(x, one).sum() < 60)
    assert error == pytest.approx(best, rel=1e-6)


def sets_in(forest: Any) -> list[set[int]]:
    return [
        left_of(forest.sets, node["value"])
        for tree in trees_of(forest)
        for node in tree
        if node["missing"] == 2
    ]


def test_limits_of_the_options() -> None:
    x, y = shops()
    few = grown(x, y, categorical=[0, 1], max_cat_threshold=3)
    assert max(map(len, sets_in(few))) == 3
    single = grown(x, y, categorical=[1], max_cat_to_onehot=7)
    assert {len(one) for one in sets_in(single)} == {1}
    many = grown(x, y, categorical=[0], cat_smooth=150.0)
    count = np.bincount(x[:, 0].astype(int))
    used = {level for one in sets_in(many) for level in one}
    assert used
    assert min(count[list(used)]) >= 150 > count.min()
    wide = grown(x, y, categorical=[0, 1], min_category_rows=700)
    for tree in trees_of(wide):
        rows = np.bincount(leaves(tree, x, wide.sets), minlength=len(tree))
        for node in np.flatnonzero(tree["missing"] == 2):
            children = node + 1, tree["right"][node]
            assert min(below(tree, rows, child) for child in children) >= 700


def below(tree: np.ndarray, rows: np.ndarray, node: int) -> int:
    """The rows of a subtree."""
    if tree["feature"][node] < 0:
        return int(rows[node])
    return below(tree, rows, node + 1) + below(tree, rows, tree["right"][node])


def test_rare_levels_gaps_and_new_levels_go_right() -> None:
    """More levels than bins: the rare ones share the side of NaN and of levels never seen."""
    rng = np.random.default_rng(1)
    frequent = rng.integers(0, 50, 5000)
    rare = rng.integers(1000, 60000, 1000)
    x = np.concatenate([frequent, rare]).astype(float)[:, None]
    x[::97] = np.nan
    y = np.where(x[:, 0] >= 1000, 5.0, x[:, 0] % 3) + rng.normal(size=6000) / 10
    y[np.isnan(x[:, 0])] = 5.0
    forest = grown(x, y, categorical=[0], max_bins=60)
    alike = margins(forest, np.array([[np.nan], [64999.0], [777.0], [0.5], [-3.0]]))
    assert np.ptp(alike) == 0
    assert alike[0] == pytest.approx(5, abs=0.4)


def test_order_of_rows_and_threads_change_no_bit() -> None:
    x, y = shops(60000)
    y = np.round(16 * y) / 16  # sums of these are exact
    wide = np.concatenate([x] * 12, axis=1)  # more than one thread works on it
    flags = [0, 1, 3, 4]
    one = grown(wide, y, categorical=flags, trees=4)
    two = grown(wide, y, 2, categorical=flags, trees=4)
    order = np.random.default_rng(0).permutation(len(y))
    three = grown(wide[order], y[order], 2, categorical=flags, trees=4)
    for other in (two, three):
        assert one.nodes.tobytes() == other.nodes.tobytes()
        assert one.sets.tobytes() == other.sets.tobytes()
    assert len(one.sets)


def test_drawn_rows_have_the_same_sides() -> None:
    """Rows that a tree did not grow on get its values too."""
    x, y = shops()
    forest = grown(x, y, categorical=[0, 1], row_fraction=0.5)
    mean = np.mean((margins(forest, x) - y) ** 2) / 2
    assert forest.loss[-1] == pytest.approx(mean, rel=1e-9)
