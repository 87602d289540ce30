"""Gradient boosting of the groups of a pass (`kernels/native/trees/api.h` has the objective)."""

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import address_of, check_code, library, pointer
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.trees.structures import BOOSTED, NODE, Boost, ForestArrays

SQUARED, LOGISTIC, POISSON, QUANTILE, HUBER, SOFTMAX = range(6)
"""Losses, `tk_objective`."""
MOST_BINS = 255
"""Bins per feature, at most."""


@dataclass(frozen=True)
class Rules:
    """How trees grow; the fields of `tk_boost` by their names there."""

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


@dataclass(frozen=True)
class Forest:
    """The trees of one group. With K > 2 classes, tree i is of class i % K, otherwise K is 1.

    base: (K,) the margins before the first tree; base_loss: the mean training loss there; start:
    (trees + 1,) int64, the first node of each tree; nodes: NODE of shape (nodes,), a
    tree's in preorder; gain: (nodes,) float32, 0 at leaves; rows: (nodes,) int64, rows that reach
    a node; loss, held: mean loss of training and held-out rows after each iteration.
    """

    base: Floats
    base_loss: float
    start: NDArray[np.int64]
    nodes: NDArray[np.void]
    gain: NDArray[np.float32]
    rows: NDArray[np.int64]
    loss: Floats
    held: Floats

    @property
    def trees(self) -> int:
        return len(self.start) - 1

    @property
    def iterations(self) -> int:
        """Those whose trees are kept."""
        return self.trees // len(self.base)


@dataclass(frozen=True)
class Targets:
    """What trees of some groups are grown for, beside the rules.

    classes: (G, K) labels of more than two classes, rising; monotone: (d,) int8, 1 where margins
    must rise with a feature, -1 where they must fall.
    """

    classes: Floats | None = None
    monotone: NDArray[np.int8] | None = None

    @property
    def outputs(self) -> int:
        return 1 if self.classes is None else self.classes.shape[1]


ONE_MARGIN = Targets()


def boosted(
    rows: Pass,
    rules: Rules,
    memory: int,
    held: Pass | None = None,
    targets: Targets = ONE_MARGIN,
) -> list[Forest]:
    """The trees of each group of dense rows.

    memory: the account that is charged, 0 for the heap; held: held-out rows of the same groups.
    Raises Interrupted, MemoryError and TuskError.
    """
    boost = Boost(
        **{name: getattr(rules, name) for name in Rules.__dataclass_fields__},
        held=None if held is None else address_of(held.groups),
        classes=pointer(targets.classes),
        n_classes=targets.outputs,
        monotone=pointer(targets.monotone),
    )
    handle = ctypes.c_void_p()
    kernels = library()
    check_code(kernels.tk_boost_groups(rows.struct, boost, memory, ctypes.byref(handle)))
    try:
        about = np.empty(len(rows.groups), BOOSTED)
        kernels.tk_forests_about(handle, pointer(about))
        shape = targets.outputs, held is not None
        return [_forest(handle, group, shape, row) for group, row in enumerate(about)]
    finally:
        kernels.tk_forests_free(handle)


def _forest(
    handle: ctypes.c_void_p, group: int, shape: tuple[int, bool], about: np.void
) -> Forest:
    """A copy of one group's trees; shape: how many outputs, and whether rows were held out."""
    outputs, held = shape
    n, grown = int(about["nodes"]), int(about["grown"])
    forest = Forest(
        np.empty(outputs),
        float(about["base_loss"]),
        np.empty(int(about["trees"]) + 1, np.int64),
        np.empty(n, NODE),
        np.empty(n, np.float32),
        np.empty(n, np.int64),
        np.empty(grown),
        np.empty(grown if held and not np.isnan(about["held_loss"]) else 0),
    )
    arrays = (forest.base, forest.start, forest.nodes, forest.gain, forest.rows, forest.loss)
    to = ForestArrays(*map(pointer, arrays), pointer(forest.held) if len(forest.held) else None)
    library().tk_forests_copy(handle, group, to)
    return forest
