"""Newton's steps of many groups with curvatures known before the first pass."""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import structures
from tuskml.kernels.library import Floats, check_code, library, pointer
from tuskml.kernels.passes import Pass
from tuskml.kernels.structures import KERNELS


@KERNELS.structure("tk_chord", **{"pass": ctypes.POINTER(structures.Pass)})
class Chord(ctypes.Structure):
    """The C structure `tk_chord`."""


@KERNELS.structure("tk_newton")
class Newton(ctypes.Structure):
    """The C structure `tk_newton`."""


Places = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Coordinates:
    """Coordinates in which G groups move and violations are measured; see `tk_chord`.

    shift, scale: (G, d); size, unit and weight_unit (G,): of labels, of gradients and of margins,
    None: 1.
    """

    shift: Floats
    scale: Floats
    l2: float
    size: Floats | None
    unit: Floats | None
    weight_unit: Floats | None


@dataclass(frozen=True)
class Rules:
    """When a descent ends, and when it gives up; see `tk_chord`."""

    epsilon: float
    enough: float
    far: float
    slow: float
    pivot: float
    most: int


@dataclass(frozen=True)
class ChordResult:
    """Final state of the groups, as in `tk_chord`, for the requested indices only.

    objective, violation, slack, last and steps are (G,), gradient is (G, p), ended (G,) is true at
    an optimum, history (most, G) is NaN where a group made no pass.
    """

    objective: Floats
    violation: Floats
    slack: Floats
    last: Floats
    gradient: Floats
    steps: Places
    ended: NDArray[np.bool_]
    history: Floats


def descend(
    rows: Pass,
    which: Places,
    v: Floats,
    hessian: Floats,
    at: Coordinates,
    before: tuple[Floats, Floats, Floats] | None,
    rules: Rules,
) -> ChordResult:
    """Moves the weights v (G, p) of the groups `which` in place, each until it ends or gives up.

    hessian: (G, p (p + 1) / 2), packed; before: weights (G, p) a step before v, and gradients and
    violations there. Raises Interrupted, and OutOfTime at the deadline of the rows: all v then
    have been evaluated.
    """
    n = len(v)
    result = ChordResult(
        np.full(n, np.nan),
        np.full(n, np.nan),
        np.full(n, np.nan),
        np.full(n, np.nan),
        np.zeros_like(v),
        np.zeros(n, np.int64),
        np.zeros(n, bool),
        np.full((rules.most, n), np.nan),
    )
    ended = np.zeros(n, np.int32)
    which, hessian = np.ascontiguousarray(which, np.int64), np.ascontiguousarray(hessian)
    arrays: list[Floats | None] = [at.shift, at.scale, at.size, at.unit, at.weight_unit]
    arrays += before or ()
    contiguous = [None if one is None else np.ascontiguousarray(one) for one in arrays]
    shift, scale, size, unit, weight_unit, *earlier = map(pointer, contiguous)
    chord = Chord(
        *(ctypes.pointer(rows.struct), len(which), pointer(which)),
        *(pointer(hessian), hessian.shape[1], shift, scale, at.l2),
        *(size, unit, weight_unit, *(earlier or (None, None, None))),
        *(rules.epsilon, rules.enough, rules.far, rules.slow, rules.pivot, rules.most),
        pointer(v),
        *map(pointer, (result.objective, result.violation, result.slack, result.last)),
        *map(pointer, (result.gradient, result.steps, ended, result.history)),
    )
    check_code(library().tk_chord_descend(chord))
    result.ended[:] = ended
    return result
