"""Gradient boosting of the groups of a pass (`kernels/native/trees/api.h` has the objective)."""

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import RowsError
from tuskml.kernels.library import address_of, check_code, library, pointer
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.structures import KERNELS

NODE = KERNELS.dtype("tk_node")
"""Dtype of the C structure `tk_node`."""
BOOSTED = KERNELS.dtype("tk_boosted")
"""Dtype of the C structure `tk_boosted`."""


@KERNELS.structure("tk_started")
class StartStructure(ctypes.Structure):
    """The C structure `tk_started`."""


@KERNELS.structure("tk_boost")
class Boost(ctypes.Structure):
    """The C structure `tk_boost`."""


@KERNELS.structure("tk_forest_arrays")
class ForestArrays(ctypes.Structure):
    """The C structure `tk_forest_arrays`."""


SIDE = KERNELS.dtype("tk_side")
"""Dtype of the C structure `tk_side`."""
PART_SPLIT = KERNELS.dtype("tk_part_split")
"""Dtype of the C structure `tk_part_split`."""
EXTENT = KERNELS.dtype("tk_extent")
"""Dtype of the C structure `tk_extent`."""


ONE_SIDE = KERNELS.dtype("tk_one_side")
"""Dtype of the C structure `tk_one_side`."""


@KERNELS.structure("tk_ranks")
class Ranks(ctypes.Structure):
    """The C structure `tk_ranks`."""


@KERNELS.structure("tk_bins")
class Bins(ctypes.Structure):
    """The C structure `tk_bins`."""


@KERNELS.structure("tk_growing")
class Growing(ctypes.Structure):
    """The C structure `tk_growing`."""


@KERNELS.structure("tk_summed_arrays")
class SummedArrays(ctypes.Structure):
    """The C structure `tk_summed_arrays`."""


SQUARED, LOGISTIC, POISSON, GAMMA, TWEEDIE, QUANTILE, HUBER, SOFTMAX, GINI = KERNELS.constants(
    "TK_",
    "SQUARED LOGISTIC POISSON_TREES GAMMA_TREES TWEEDIE_TREES QUANTILE_TREES HUBER_TREES SOFTMAX "
    "GINI",
)
"""Losses, `tk_objective`."""
MOST_BINS = KERNELS.constant("TK_MOST_BINS")
"""Largest number of bins per feature."""
MOST_SETS = KERNELS.constant("TK_MOST_SETS")
"""Sets of features that may be split together, at most."""
MOST_LEVEL = KERNELS.constant("TK_MOST_LEVEL")
"""The greatest number of a level, `TK_MOST_LEVEL`."""


def are_levels(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns for each row of numbers (n, k) whether all are levels of categories or missing,
    (n,).
    """
    levels = (values >= 0) & (values <= MOST_LEVEL) & (values == np.floor(values))
    return np.asarray((levels | np.isnan(values)).all(axis=1))


BY_LEVEL = KERNELS.constant("TK_BY_LEVEL")
"""Flag in a node's `missing`: a set of levels goes left, `TK_BY_LEVEL`."""
REFUSED = KERNELS.constant("TK_REFUSED")
"""`TK_REFUSED`."""


@dataclass(frozen=True)
class Rules:
    """Options of growing trees; the fields of `tk_boost` by their names there."""

    objective: int
    trees: int
    num_leaves: int
    max_depth: int
    max_bins: int
    patience: int
    min_child_rows: int
    min_child_hessian: float
    min_gain: float
    l1: float
    l2: float
    learning_rate: float
    feature_fraction: float
    row_fraction: float
    shape: float
    seed: int
    max_cat_threshold: int = 32
    max_cat_to_onehot: int = 4
    min_category_rows: int = 100
    cat_smooth: float = 10.0
    cat_l2: float = 10.0
    averaged: int = 0
    node_fraction: float = 1.0
    top_rate: float = 0.0
    other_rate: float = 0.0
    spends: int = 0
    min_bin_rows: int = 0


@dataclass(frozen=True)
class Forest:
    """The trees of one group.

    With K > 2 classes, tree i is of class i % K, otherwise K is 1. base: (K,) the margins before
    the first tree; base_loss: the mean training loss there; start: (trees + 1,) int64, the first
    node of each tree; nodes: NODE of shape (nodes,), a tree's in preorder; gain: (nodes,) float32,
    0 at leaves; rows: (nodes,) int64, rows that reach a node; loss, held: mean loss of training
    and held-out rows after each iteration; sets: (sets,) levels that splits by level send left, as
    in `tk_forest_arrays`. numbers: all of this as `tk_forests_numbers` writes it, on request; then
    nodes, gain, rows and sets are empty.
    """

    base: Floats
    base_loss: float
    start: NDArray[np.int64]
    nodes: NDArray[np.void]
    gain: NDArray[np.float32]
    rows: NDArray[np.int64]
    loss: Floats
    held: Floats
    sets: Floats = field(default_factory=lambda: np.empty(0))
    numbers: Floats | None = None

    @property
    def trees(self) -> int:
        return len(self.start) - 1

    @property
    def iterations(self) -> int:
        """Number of iterations whose trees are kept."""
        return self.trees // len(self.base)

    def has_diverged(self, patience: int) -> bool:
        """Returns whether trees were left out because the training loss rose with them."""
        held = self.held if len(self.held) and patience else None
        judged = len(self.loss) if held is None else int(np.argmin(held)) + 1
        return self.iterations < judged


@dataclass(frozen=True)
class Targets:
    """Inputs of boosting besides the rules.

    classes: (G, K) labels of more than two classes, rising; monotone: (d,) int8, 1 if margins must
    rise with a feature, -1 if they must fall; together: (d,) uint64, bits of the sets of features
    that may be split on the way to one leaf, as in `tk_boost`; categorical: (G, d) uint8, 1 if
    values are levels of a category; started: earlier trees, from whose margins boosting goes on
    and which the result lacks; bounds: of bins, shared by all groups, as in `tk_boost`.
    """

    classes: Floats | None = None
    monotone: NDArray[np.int8] | None = None
    categorical: NDArray[np.uint8] | None = None
    started: Forest | None = None
    bounds: tuple[Floats, NDArray[np.int64]] | None = None
    together: NDArray[np.uint64] | None = None

    @property
    def outputs(self) -> int:
        return 1 if self.classes is None else self.classes.shape[1]


ONE_MARGIN = Targets()


def boost(
    rows: Pass,
    rules: Rules,
    memory: int,
    held: Pass | None = None,
    targets: Targets = ONE_MARGIN,
    as_numbers: bool = False,
) -> list[Forest]:
    """Grows the trees of each group of dense rows.

    memory: the account that is charged, 0 for the heap; held: held-out rows of the same groups;
    as_numbers: return trees as the numbers of models only. Raises Interrupted, MemoryError,
    TuskError, and DataError for a category's values that are not levels.
    """
    before = None if targets.started is None else start_structure(targets.started)
    boost = boost_of(rules, targets, held, before)
    handle = ctypes.c_void_p()
    kernels = library()
    code = kernels.tk_boost_groups(rows.struct, boost, memory, ctypes.byref(handle))
    if code == REFUSED:
        raise RowsError(
            "a feature that option 'categorical' lists has a value that is no level, expected "
            f"whole numbers from 0 to {MOST_LEVEL:,}"
        )
    check_code(code)
    try:
        about = np.empty(len(rows.groups), BOOSTED)
        kernels.tk_forests_about(handle, pointer(about))
        shape = targets.outputs, held is not None
        if as_numbers:
            lists = _numbers(handle, about, rows.groups["dim"], shape[0])
            return _without_nodes(handle, about, shape, lists)
        return [_forest(handle, g, shape, about[g]) for g in range(len(about))]
    finally:
        kernels.tk_forests_free(handle)


def least_child_rows(n: int) -> int:
    """Default of the least rows of a leaf in a group of n rows."""
    return int(library().tk_child_rows(n))


def usual_curvature(rules: Rules, mean: float) -> float:
    """The factor of the default of `min_child_hessian` for labels of this mean."""
    return float(library().tk_usual_curvature(rules.objective, rules.shape, mean))


def least_bin_rows(n: int) -> int:
    """Default of the least rows of a bin in a group of n rows."""
    return int(library().tk_bin_rows(n))


def usual_l2(n: int) -> float:
    """Default of `l2` in a group of n rows, in the units of `usual_curvature`."""
    return float(library().tk_l2(n))


def usual_feature_fraction(n: int) -> float:
    """Default of the fraction of the features that a tree may use in a group of n rows."""
    return float(library().tk_feature_fraction(n))


def usual_row_fraction(n: int) -> float:
    """Default of the fraction of the rows that a tree grows on in a group of n rows."""
    return float(library().tk_row_fraction(n))


def count_kept_iterations(base_loss: float, loss: Floats, held: Floats | None) -> int:
    """Returns the number of iterations to keep, as in `tk_kept_iterations`."""
    arguments = pointer(loss), pointer(held), len(loss)
    return int(library().tk_kept_iterations(base_loss, *arguments))


def boost_of(
    rules: Rules, targets: Targets, held: Pass | None = None, before: StartStructure | None = None
) -> Boost:
    """The structure that kernels read; valid while its inputs live."""
    return Boost(
        **{name: getattr(rules, name) for name in Rules.__dataclass_fields__},
        held=None if held is None else address_of(held.groups),
        classes=pointer(targets.classes),
        n_classes=targets.outputs,
        monotone=pointer(targets.monotone),
        together=pointer(targets.together),
        categorical=pointer(targets.categorical),
        bounds=pointer(targets.bounds[0]) if targets.bounds else None,
        bound_start=pointer(targets.bounds[1]) if targets.bounds else None,
        **{"from": None if before is None else ctypes.addressof(before)},
    )


def _numbers(
    handle: ctypes.c_void_p, about: NDArray[np.void], dims: NDArray[np.void], outputs: int
) -> list[Floats]:
    """Numbers of the trees of each group, as views of one array."""
    bases = outputs if outputs > 1 else 0
    sizes = 3 + bases + about["trees"] + 6 * about["nodes"] + about["sets"]
    ends = np.cumsum(sizes * ((about["trees"] > 0) | (bases > 0))).tolist()
    out, begin = np.empty(ends[-1]), 0
    lists: list[Floats] = []
    for group, (end, features) in enumerate(zip(ends, dims.tolist(), strict=True)):
        part = out[begin:end]
        if len(part):
            library().tk_forests_numbers(handle, group, features, pointer(part))
        lists.append(part)
        begin = end
    return lists


def start_structure(forest: Forest) -> StartStructure:
    """The trees as a C structure with pointers into the forest."""
    arrays = map(pointer, (forest.start, forest.nodes, forest.sets))
    return StartStructure(pointer(forest.base), forest.trees, *arrays)


def _without_nodes(
    handle: ctypes.c_void_p,
    about: NDArray[np.void],
    shape: tuple[int, bool],
    numbers: list[Floats],
) -> list[Forest]:
    """Forests whose trees are numbers, concatenated in arrays of all groups.

    shape: number of outputs, and whether rows were held out.
    """
    n, outputs = len(about), shape[0]
    ends = np.cumsum(np.stack([about["trees"] + 1, about["grown"]]), axis=1)
    starts, losses = np.empty(ends[0, -1], np.int64), np.empty(ends[1, -1])
    bases, held = np.empty((n, outputs)), np.empty(len(losses) if shape[1] else 0)
    at = [pointer(one) or 0 for one in (bases, starts, losses, held)]
    was_held = (shape[1] & ~np.isnan(about["held_loss"])).tolist()
    forests, tree, loss = [], 0, 0
    for g, (next_tree, next_loss) in enumerate(ends.T.tolist()):
        kept_losses = at[3] + 8 * loss if was_held[g] else None
        arrays = at[0] + 8 * outputs * g, at[1] + 8 * tree, None, None, None, at[2] + 8 * loss
        library().tk_forests_copy(handle, g, ForestArrays(*arrays, kept_losses, None))
        forests.append(
            Forest(
                bases[g],
                float(about["base_loss"][g]),
                starts[tree:next_tree],
                NO_NODES,
                NO_GAINS,
                NO_ROWS,
                losses[loss:next_loss],
                held[loss:next_loss] if was_held[g] else held[:0],
                numbers=numbers[g],
            )
        )
        tree, loss = next_tree, next_loss
    return forests


def _forest(
    handle: ctypes.c_void_p, group: int, shape: tuple[int, bool], about: np.void
) -> Forest:
    """Copies one group's trees; shape: number of outputs, and whether rows were held out."""
    outputs, held = shape
    trees, grown, n, sets = (int(about[name]) for name in ("trees", "grown", "nodes", "sets"))
    forest = Forest(
        np.empty(outputs),
        float(about["base_loss"]),
        np.empty(trees + 1, np.int64),
        np.empty(n, NODE),
        np.empty(n, np.float32),
        np.empty(n, np.int64),
        np.empty(grown),
        np.empty(grown if held and not np.isnan(about["held_loss"]) else 0),
        np.empty(sets),
    )
    nodes = map(pointer, (forest.nodes, forest.gain, forest.rows))
    pointer_held = pointer(forest.held) if len(forest.held) else None
    arrays = (
        pointer(forest.base),
        pointer(forest.start),
        *nodes,
        pointer(forest.loss),
        pointer_held,
    )
    library().tk_forests_copy(handle, group, ForestArrays(*arrays, pointer(forest.sets)))
    return forest


NO_NODES, NO_GAINS, NO_ROWS = np.empty(0, NODE), np.empty(0, np.float32), np.empty(0, np.int64)
"""The empty arrays of a forest that is kept as numbers."""


# The rows that groups of trees train on.


@dataclass(frozen=True)
class Rows:
    """The data of G groups of one width and kind: rows, LABELS, of more than two classes their
    labels (G, K), rising, and if some features are categories, which ones, (G, d).
    """

    groups: NDArray[np.void]
    rows: Pass
    labels: NDArray[np.void]
    classes: Floats | None = None
    by_level: NDArray[np.uint8] | None = None

    def of(self, which: NDArray[np.intp], classes: Floats | None) -> "Rows":
        """Selects some of the groups."""
        by_level = None if self.by_level is None else np.ascontiguousarray(self.by_level[which])
        return Rows(self.groups[which], self.rows.of(which), self.labels[which], classes, by_level)
