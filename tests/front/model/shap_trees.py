"""Trees and rows for which the values of the package `shap` were recorded.

python tests/front/model/shap_trees.py FILE writes contributions and base values of each case, by
shap's TreeExplainer with the shares of rows in the trees (`tree_path_dependent`).
"""

import json
import sys
from typing import Any

import numpy as np

CASES = [(1, 3, 2), (2, 4, 4), (3, 6, 6), (4, 2, 5), (5, 12, 8)]
"""Seeds, features and the most splits on a path."""
TREES, ROWS = 4, 12


def grow(random: np.random.Generator, d: int, depth: int) -> np.ndarray:
    """A tree as `learners.trees.forest.trees_in` has it; paths may split by a feature twice."""
    nodes: list[list[float]] = []

    def add(left_over: int, rows: int) -> None:
        place = len(nodes)
        nodes.append([-1, random.normal(), 0, 0, rows, 0])
        if left_over and rows > 1 and random.random() < 0.9:
            left = int(random.integers(1, rows))
            add(left_over - 1, left)
            right = len(nodes)
            add(left_over - 1, rows - left)
            split = [random.integers(d), random.normal(), right, 1.0, rows, random.integers(2)]
            nodes[place] = [float(one) for one in split]

    add(depth, 500)
    return np.array(nodes)


def case(seed: int, d: int, depth: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The trees of a case, and its rows (ROWS, d), where one value of six is missing."""
    random = np.random.default_rng(seed)
    trees = [grow(random, d, depth) for _ in range(TREES)]
    x = random.normal(size=(ROWS, d))
    x[random.random(x.shape) < 1 / 6] = np.nan
    return trees, x


def as_shap_has_it(tree: np.ndarray) -> dict[str, np.ndarray]:
    """A tree in the form that shap's TreeExplainer takes."""
    feature, value, right, _, rows, missing_left = tree.T
    leaf, place = feature < 0, np.arange(len(tree))
    left = np.where(leaf, -1, place + 1)
    right = np.where(leaf, -1, right)
    return {
        "children_left": left.astype(int),
        "children_right": right.astype(int),
        "children_default": np.where(missing_left == 1, left, right).astype(int),
        "features": np.where(leaf, -2, feature).astype(int),
        "thresholds": np.where(leaf, -2.0, value),
        "values": np.where(leaf, value, 0.0)[:, None],
        "node_sample_weight": rows,
    }


def recorded() -> list[dict[str, Any]]:
    """What shap says of all cases."""
    import shap

    found = []
    for one in CASES:
        trees, x = case(*one)
        made = shap.TreeExplainer({"trees": [as_shap_has_it(tree) for tree in trees]})
        values = np.asarray(made.shap_values(x, check_additivity=False)).reshape(x.shape)
        base = float(np.asarray(made.expected_value).ravel()[0])
        found.append({"base": base, "contributions": values.tolist()})
    return found


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(recorded(), file)
        file.write("\n")
