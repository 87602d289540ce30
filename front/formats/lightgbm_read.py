"""Boosted trees from LightGBM's text format, as `Booster.save_model` writes it (versions 3 and 4).

LightGBM sends a row left where its value is at most the threshold, as tuskml does. Bits 2 and 3 of
a split's `decision_type` say what is missing: 0 nothing (NaN counts as 0), 1 zeros and NaN, 2 NaN;
bit 1 says whether missing values go left. Bit 0 says that the split is of a category. Its
threshold is then the number of a set of levels that go left, whose words of 32 bits are those of
`cat_threshold` between two of `cat_boundaries`. Children
below 0 are leaves, of which -1 is leaf 0. The format is that of LightGBM's `Tree::ToString` and
`GBDT::SaveModelToString`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuskml.errors import DataError, one_of
from tuskml.formats.lightgbm_names import preparation_of
from tuskml.kernels.trees.boosting import BY_LEVEL
from tuskml.learners.trees.forest import MISSING, NODE, VALUE, splits_by_level
from tuskml.model.scoring import Floats

OBJECTIVES = {
    "regression": "squared",
    "binary": "logistic",
    "multiclass": "logistic",
    "poisson": "poisson",
    "gamma": "gamma",
    "tweedie": "tweedie",
    "quantile": "quantile",
    "huber": "huber",
}
"""tuskml's by LightGBM's."""
EXPECTED = "expected the text of LightGBM's Booster.save_model"
MOST_CLASSES = 1000
DECISION_BITS = 4
"""Bits of a split's `decision_type`."""

Fields = Mapping[str, str]


@dataclass(frozen=True)
class Booster:
    """The content of a text. trees: their nodes as in `learners.trees.forest.trees_in`, those
    of one round consecutive; margins: one, or one for each of more than two classes; sets: of
    levels, concatenated, into which the values of splits by level are indices.
    """

    objective: str
    features: tuple[str, ...]
    margins: int
    classifies: bool
    trees: list[Floats]
    sets: list[float]
    preparation: str | None = None

    @property
    def coef(self) -> list[float]:
        """A model's `coef`, with margins of 0 before the first tree."""
        bases = [0.0] * (self.margins if self.margins > 1 else 0)
        head = [float(len(self.features)), float(len(self.trees)), float(len(bases)), *bases]
        head += [float(len(tree)) for tree in self.trees]
        nodes = np.concatenate(self.trees) if self.trees else np.empty((0, NODE))
        by_level = splits_by_level(nodes)
        nodes[by_level, VALUE] = len(self.sets) - nodes[by_level, VALUE]
        return head + nodes.ravel().tolist() + self.sets


def read(text: str) -> Booster:
    """Reads a text. Raises DataError if it is damaged, or has parts that tuskml's trees lack:
    linear leaves, other objectives.
    """
    if not isinstance(text, str):
        raise DataError(f"the text is of type {type(text).__qualname__}, {EXPECTED}")
    sections = list(sections_of(text))
    if not sections or not text.startswith("tree"):
        raise DataError(f"the text does not begin with 'tree', {EXPECTED}")
    head, *trees = sections
    try:
        return with_names(text, head, booster(head, trees))
    except DataError:  # it names the unsupported part
        raise
    except (KeyError, IndexError, ValueError, OverflowError) as error:
        raise DataError(f"the text is damaged ({error!r}), {EXPECTED}") from error


def sections_of(text: str) -> Iterator[dict[str, str]]:
    """The head and the trees, each line `name=value` or a name alone."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.strip().partition("=")
        if name == "Tree":
            yield found
            found = {}
        if name == "end of trees":
            break
        found[name] = value
    else:
        raise DataError(f"the text ends before 'end of trees', {EXPECTED}")
    yield found


def booster(head: Fields, sections: Sequence[Fields]) -> Booster:
    """Builds the booster of the text's parts; raises ValueError and KeyError if they are
    damaged.
    """
    objective, factor, margins = objective_of(head)
    features = tuple(head["feature_names"].split())
    if len(features) != int(head["max_feature_idx"]) + 1:
        raise ValueError("feature_names are not as many as max_feature_idx says")
    if len(sections) % margins:
        raise ValueError(f"{len(sections)} trees are no rounds of {margins}")
    if "tree_sizes" in head and len(head["tree_sizes"].split()) != len(sections):
        raise ValueError("the trees are not as many as tree_sizes")
    classifies = OBJECTIVES[objective] == "logistic"
    if "average_output" in head:  # random forests
        factor *= margins / max(len(sections), 1)
    sets: list[float] = []
    trees = [tree_of(section, len(features), factor, sets) for section in sections]
    return Booster(OBJECTIVES[objective], features, margins, classifies, trees, sets)


def with_names(text: str, head: Fields, found: Booster) -> Booster:
    """Adds the names of levels to the booster."""
    by_level = {int(one) for tree in found.trees for one in tree[splits_by_level(tree), 0]}
    infos = head.get("feature_infos", "").split()
    made = preparation_of(text, found.features, infos, by_level)
    return replace(found, preparation=made)


def objective_of(head: Fields) -> tuple[str, float, int]:
    """LightGBM's objective, a factor of its margins, and how many margins there are."""
    name, *words = head.get("objective", "").split() or [""]
    given = dict(word.partition(":")[::2] for word in words)
    if name not in OBJECTIVES or "sqrt" in given:
        told = " ".join([name, *words]) or "missing"
        raise DataError(f"the objective is {told}, expected {one_of(OBJECTIVES)}")
    margins = int(head.get("num_tree_per_iteration", "1"))
    several = name == "multiclass"
    if several and not 3 <= margins <= MOST_CLASSES:
        raise DataError(
            f"the model has {margins} classes, expected 3 to {MOST_CLASSES}, or objective binary"
        )
    if not several and margins != 1:
        raise ValueError(f"{margins} trees in a round of objective {name}")
    factor = float(given.get("sigmoid", "1")) if name == "binary" else 1.0
    return name, factor, margins


def tree_of(given: Fields, n_features: int, factor: float, sets: list[float]) -> Floats:
    """A tree in preorder, (nodes, 6); its leaves are multiplied by a factor. Adds to the sets."""
    refuse_kinds(given)
    leaves = int(given["num_leaves"])
    values = numbers(given, "leaf_value", leaves) * factor
    if not np.isfinite(values).all():
        raise ValueError("a leaf has no number")
    counts = numbers(given, "leaf_count", leaves) if "leaf_count" in given else np.zeros(leaves)
    if leaves == 1:
        return np.array([[-1.0, values[0], 0.0, 0.0, counts[0], 0.0]])
    splits = splits_of(given, leaves - 1, n_features, sets)
    children = np.stack([numbers(given, f"{side}_child", leaves - 1) for side in SIDES], axis=1)
    table, taken = np.zeros((2 * leaves - 1, NODE)), 0
    waiting = [(0, -1)]  # nodes, and the split whose right child they are
    while waiting:
        node, parent = waiting.pop()
        place, taken = taken, taken + 1
        if parent >= 0:
            table[parent, 2] = place
        if node < 0:
            table[place] = [-1, values[~node], 0, 0, counts[~node], 0]
            continue
        table[place] = splits[node]
        left, right = (int(one) for one in children[node])
        waiting += [(right, place), (left, -1)]
    if taken != len(table):
        raise ValueError("the nodes are no tree")
    add_counts(table)
    return table


SIDES = ("left", "right")


def refuse_kinds(given: Fields) -> None:
    """Raises DataError for a tree of another kind."""
    if int(given.get("is_linear", "0")):
        raise DataError(
            "a tree has linear leaves, expected one number per leaf: linear_tree=false"
        )


def splits_of(given: Fields, n: int, n_features: int, sets: list[float]) -> Floats:
    """The splits as rows of a tree's table, (n, 6). Adds to the sets."""
    feature, threshold = (numbers(given, name, n) for name in ("split_feature", "threshold"))
    gain = numbers(given, "split_gain", n) if "split_gain" in given else np.zeros(n)
    types = numbers(given, "decision_type", n)
    if not ((types >= 0) & (types < 1 << DECISION_BITS)).all():
        raise ValueError("a split is of no known decision_type")
    kinds = types.astype(int)
    if not ((feature >= 0) & (feature < n_features)).all() or np.isnan(threshold).any():
        raise ValueError("a split has no feature or no threshold")
    zero_left, default_left, missing = threshold >= 0, (kinds >> 1) & 1, (kinds >> 2) & 3
    by_level = kinds & 1 == 1
    if (~by_level & (missing == 1) & (default_left != zero_left)).any():
        raise DataError(
            "a split sends zeros to another side than their value, expected a model without "
            "zero_as_missing"
        )
    zeros = np.zeros(n)
    left = np.where(missing == 0, zero_left, default_left)
    table = np.stack([feature, threshold, zeros, gain, zeros, left], axis=1).astype(float)
    table[by_level, MISSING] = BY_LEVEL
    table[by_level, VALUE] = sets_of(given, threshold[by_level], sets)
    return table


def sets_of(given: Fields, numbers_of_sets: Floats, sets: list[float]) -> list[int]:
    """Adds the sets of a tree's splits of categories. Returns their starts."""
    begins: list[int] = []
    if not len(numbers_of_sets):
        return begins
    boundary = [int(word) for word in given["cat_boundaries"].split()]
    words = [int(word) for word in given["cat_threshold"].split()]
    for number in numbers_of_sets.astype(int):
        first, end = boundary[number], boundary[number + 1]
        chosen = words[first:end]
        if number < 0 or not 0 <= first < end <= len(words) or min(chosen) < 0:
            raise ValueError("a split has no set of levels")
        if max(chosen) >= 2**32:
            raise ValueError("a word of a set of levels has more than 32 bits")
        begins.append(len(sets))
        sets += [float(len(chosen)), *map(float, chosen)]
    return begins


def numbers(given: Fields, name: str, n: int) -> Floats:
    """The n numbers of a line."""
    found = np.array([float(word) for word in given[name].split()])
    if len(found) != n:
        raise ValueError(f"{name} has {len(found)} numbers, expected {n}")
    return found


def add_counts(table: Floats) -> None:
    """Sets the rows of splits to the sums over their leaves."""
    for place in range(len(table) - 1, -1, -1):
        if table[place, 0] >= 0:
            table[place, 4] = table[place + 1, 4] + table[int(table[place, 2]), 4]
