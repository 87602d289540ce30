"""Fits along a path of L1 penalties, one per group of a pass (`native/paths/api.h`).

Models store paths as JSON, which `write_paths` writes.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.rows.cells import stretches_of
from tuskml.kernels.structures import KERNELS

POINT = KERNELS.dtype("tk_path_point")
"""Dtype of the C structure `tk_path_point`."""


@KERNELS.structure("tk_path_spec")
class Spec(ctypes.Structure):
    """The C structure `tk_path_spec`."""


@KERNELS.structure("tk_chosen_paths")
class PathChoice(ctypes.Structure):
    """The C structure `tk_chosen_paths`."""


SQUARED, LOGISTIC = KERNELS.constants("TK_PATH_", "SQUARED LOGISTIC")
Bools = NDArray[np.bool_]
LEFT_OUT, TRAINED_ON, HELD_OUT = KERNELS.constants("TK_", "LEFT_OUT TRAINED_ON HELD_OUT")
"""Roles of a stretch of rows in a fold."""


@dataclass(frozen=True)
class Rules:
    """Options of fits of paths; the fields of `tk_path_spec` by their names there.

    penalties: falling values of lambda, or None: `length` values from the largest one at which a
    weight is not 0 down to `ratio` times it. folds: number of splits into training and held-out
    rows; each fold holds out one of as many stretches unless `roles` are given: (folds,
    stretches), each LEFT_OUT, TRAINED_ON or HELD_OUT.
    """

    loss: int
    length: int
    alpha: float
    tolerance: float
    max_epochs: int
    ratio: float = 1.0
    folds: int = 0
    positive: bool = False
    standardize: bool = False
    seed: int = 0
    penalties: tuple[float, ...] | None = None
    roles: NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class Weights:
    """Nonzero weights of one path.

    Those of penalty k are start[k] to start[k + 1], as feature numbers, which rise, and values.
    """

    start: NDArray[np.int64]
    feature: NDArray[np.int32]
    value: Floats

    def dense(self, k: int, width: int) -> Floats:
        """All weights at penalty k, (width,)."""
        out = np.zeros(width)
        part = slice(*self.start[k : k + 2].tolist())
        out[self.feature[part]] = self.value[part]
        return out


def fit(
    rows: Pass,
    rules: Rules,
    free: NDArray[np.uint8] | None,
    memory: int,
    block: NDArray[np.int32] | None = None,
    stretch: NDArray[np.int32] | None = None,
    shares: Floats | None = None,
) -> tuple[NDArray[np.void], list[Weights]]:
    """Fits each group; returns points (`POINT`, (G, length)) and weights of its path.

    free: (G, d), nonzero for features without a penalty; memory: the account that copies of rows
    are charged to, 0 for the heap; block: (G, d), features of a group with equal numbers are
    penalised together, None: each on its own; stretch: the stretch of each row, groups
    concatenated, None: by chance; shares: (G, 3), alpha and 1 - alpha of each group, and the alpha
    that determines the largest lambda, None: as in the rules. Raises Interrupted, MemoryError and
    TuskError.
    """
    penalties = None if rules.penalties is None else np.array(rules.penalties)
    spec = _spec(rules, free, block)
    if rules.folds and stretch is None:
        stretch = stretches_of(rows.groups, rules.folds, seed=rules.seed, threads=rows.threads)
    if shares is None:
        shares = np.tile([rules.alpha, 1 - rules.alpha, rules.alpha], (rows.n_groups, 1))
    spec.stretch, spec.alpha = pointer(stretch), pointer(shares)
    setattr(spec, "lambda", pointer(penalties))
    points = np.zeros((rows.n_groups, rules.length), POINT)
    handle = ctypes.c_void_p()
    arguments = rows.struct, spec, memory or None, pointer(points), ctypes.addressof(handle)
    check_code(library().tk_paths_new(*arguments))
    try:
        return points, [_weights(handle, g, points[g]) for g in range(rows.n_groups)]
    finally:
        library().tk_paths_free(handle)


def needs_sums(rows: Pass, rules: Rules, block: NDArray[np.int32] | None) -> Bools:
    """Marks the groups (G,) whose fits need sums over the rows alone."""
    spec = _spec(rules, None, block)
    called = library().tk_paths_by_sums
    return np.array([called(rows.struct, spec, group) for group in range(rows.n_groups)], np.bool_)


def _spec(rules: Rules, free: NDArray[np.uint8] | None, block: NDArray[np.int32] | None) -> Spec:
    return Spec(
        loss=rules.loss,
        length=rules.length,
        folds=rules.folds,
        positive=rules.positive,
        standardize=rules.standardize,
        ratio=rules.ratio,
        tolerance=rules.tolerance,
        max_epochs=rules.max_epochs,
        n_stretches=rules.folds if rules.roles is None else rules.roles.shape[1],
        role=pointer(rules.roles),
        free=pointer(free),
        block=pointer(block),
    )


def _weights(handle: ctypes.c_void_p, group: int, points: NDArray[np.void]) -> Weights:
    start = np.concatenate([[0], np.cumsum(points["n_weights"])])
    weights = Weights(start, np.empty(start[-1], np.int32), np.empty(start[-1]))
    library().tk_paths_copy(handle, group, pointer(weights.feature), pointer(weights.value))
    return weights


def write_paths(
    points: NDArray[np.void],
    weights: Sequence[Weights],
    chosen: NDArray[np.intp],
    threads: int,
    ids: NDArray[np.int64] | None = None,
) -> tuple[str, ...]:
    """One JSON text per group.

    It has numbers by penalty, and by penalty the indices, from 1 on, and values of nonzero
    weights. Numbers that JSON lacks are null. points: (G, length), POINT; chosen: (G,), indices of
    the models' penalties, from 0 on; ids: of the features, (d,), if these are numbers of ids.
    """
    points = np.ascontiguousarray(points)
    places = np.ascontiguousarray(chosen, np.int64)
    number = np.concatenate([one.feature for one in weights])
    feature = number.astype(np.int64) if ids is None else ids[number]
    value = np.concatenate([one.value for one in weights])
    handle = ctypes.c_void_p()
    choice = PathChoice(
        *points.shape, pointer(points), pointer(places), pointer(feature), pointer(value)
    )
    check_code(library().tk_path_texts_new(choice, threads, ctypes.addressof(handle)))
    try:
        return tuple(_text(handle, group) for group in range(len(points)))
    finally:
        library().tk_path_texts_free(handle)


def _text(handle: ctypes.c_void_p, group: int) -> str:
    size = ctypes.c_int64()
    at = library().tk_path_text(handle, group, ctypes.addressof(size))
    return ctypes.string_at(at, size.value).decode("ascii")
