"""Sets of features that are split together: option `interaction_constraints` of boosted trees."""

from collections.abc import Iterator

import numpy as np
import pytest
from forests import grown, margins, trees_of
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.native
LOOSE = {"min_child_rows": 5, "min_child_hessian": 0.0, "num_leaves": 15, "trees": 6}


def ways(tree: np.ndarray, node: int = 0, used: tuple[int, ...] = ()) -> Iterator[set[int]]:
    """The features of the splits on the way to each leaf."""
    feature = int(tree["feature"][node])
    if feature < 0:
        yield set(used)
        return
    for child in (node + 1, int(tree["right"][node])):
        yield from ways(tree, child, (*used, feature))


def rows(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels to which all pairs of four features matter."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 20, (n, 4)) * 1.0
    y = sum(np.sin(x[:, i] / 3) * x[:, j] for i in range(4) for j in range(i))
    return x, y + rng.normal(size=n)


SETS = st.lists(
    st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True), min_size=1, max_size=4
)


@given(st.integers(0, 2**32 - 1), SETS, st.sampled_from([{}, {"monotone": [1, 0, 0, 0]}]))
def test_features_on_the_way_to_a_leaf_are_in_one_set(seed, sets, more) -> None:
    """Of a group so large that all trees have several leaves."""
    x, y = rows(seed, 1200)
    forest = grown(x, y, together=tuple(map(tuple, sets)), **LOOSE, **more)
    listed = [{one - 1 for one in some} for some in sets]
    alone = [{one} for one in set(range(4)).difference(*listed)]
    seen = [way for tree in trees_of(forest) for way in ways(tree)]
    assert all(any(way <= some for some in [*listed, *alone]) for way in seen)


@pytest.mark.parametrize("n", [300, 3000])
@pytest.mark.parametrize("sets", [((1, 2), (3, 4)), ((1, 2, 3), (3, 4)), ((1,), (2, 3, 4))])
def test_the_trees_are_those_of_lightgbm(n: int, sets: tuple[tuple[int, ...], ...]) -> None:
    """Small groups too, which have a search of their own without such sets."""
    lightgbm = pytest.importorskip("lightgbm")
    x, y = rows(5, n)
    exact = {"min_data_in_bin": 1, "feature_pre_filter": False, "verbose": -1}
    told = exact | {
        "objective": "regression",
        "min_data_in_leaf": 5,
        "min_sum_hessian_in_leaf": 0.0,
        "num_leaves": 15,
        "num_threads": 1,
        "deterministic": True,
        "interaction_constraints": [[one - 1 for one in some] for some in sets],
    }
    booster = lightgbm.train(told, lightgbm.Dataset(x, y, params=exact), 6)
    forest = grown(x, y, together=sets, **LOOSE)
    assert margins(forest, x) == pytest.approx(booster.predict(x, raw_score=True), abs=1e-5)


def test_categories_are_in_sets_too() -> None:
    x, y = rows(7, 1500)
    levels = {"categorical": [2, 3], "cat_smooth": 0.0, "min_category_rows": 5, "cat_l2": 0.0}
    forest = grown(x, y, together=((1, 3), (2, 4)), **LOOSE, **levels)
    seen = [way for tree in trees_of(forest) for way in ways(tree)]
    assert all(way <= {0, 2} or way <= {1, 3} for way in seen)
    free = grown(x, y, **LOOSE, **levels)
    assert any({0, 1} <= way for tree in trees_of(free) for way in ways(tree))
