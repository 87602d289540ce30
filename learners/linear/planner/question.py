"""What is known when a plan is asked for: the rows, a sketch of them, options and memory."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.kernels.speculated import Method, Tridiagonal, speculate, speculate_apart
from tuskml.learners.linear.planner.curves import Interval, fit
from tuskml.learners.linear.request import LinearOptions
from tuskml.learners.linear.tasks import LinearTask

MOST = 400
"""Iterations of a method on the model; beyond, a curve that is fitted to them is continued."""
FEWER = 120
"""The same where some of the eigenvalues are not known."""
LEAST_TOLERANCE = 1e-9
UNSURE = 1.6
"""How many times more or less it may be."""
LEAST_EIGENVALUE = 1e-12


def shrunk(eigenvalues: Floats, ratio: float) -> Floats:
    """Eigenvalues (p,), rising, of a sample with `ratio` variables for each row, corrected.

    Ledoit and Wolf's quadratic-inverse shrinkage for ratio < 1. Their sum stays the same.
    """
    p = len(eigenvalues)
    known = eigenvalues > LEAST_EIGENVALUE * max(float(eigenvalues[-1]), 1e-300)
    if not 0 < ratio < 1 or np.count_nonzero(known) < 2:
        return eigenvalues
    inverse = 1.0 / eigenvalues[known]
    smooth = min(ratio**2, 1 / ratio**2) ** 0.35 / p**0.35
    apart = inverse[:, None] - inverse[None, :]
    below = apart**2 + (smooth * inverse[:, None]) ** 2
    real = (inverse[:, None] * apart / below).mean(axis=0)
    imaginary = (inverse[:, None] ** 2 * smooth / below).mean(axis=0)
    bent = (
        (1 - ratio) ** 2 * inverse
        + 2 * ratio * (1 - ratio) * inverse * real
        + ratio**2 * inverse * (real**2 + imaginary**2)
    )
    out = eigenvalues.copy()
    out[known] = 1.0 / bent
    out[known] *= eigenvalues[known].sum() / out[known].sum()
    return out


@dataclass(frozen=True)
class Sketch:
    """The model of one problem at its start.

    curvature: as Lanczos' method saw it from the gradient (k steps); largest: the gradient's
    largest component by weight; unit: what gradients are measured in; step: the first one of
    steepest descent, by the Lipschitz bound; length: what the start's gradient is measured in for
    the first step of quasi-Newton methods, infinite where that is 1; ratio: weights for each row
    of the sample, 0 where all rows were seen; most: iterations that a method makes on it; scaled:
    of the methods that precondition, by their own weights.
    """

    curvature: Tridiagonal
    largest: float
    unit: float
    step: float
    length: float
    ratio: float = 0.0
    most: int = MOST
    runs: dict[Method, tuple[float, Floats]] = field(default_factory=dict, compare=False)
    scaled: dict[Method, "Sketch"] = field(default_factory=dict)

    @property
    def norm(self) -> float:
        return self.curvature.size

    @cached_property
    def spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues (k,), and the gradient's components along their vectors, (k,)."""
        values, along = self.curvature.quadrature()
        values = np.maximum(values, 0.0)
        return shrunk(values, self.ratio) if self.corrected else values, along

    @property
    def corrected(self) -> bool:
        """Whether the eigenvalues are no longer those that were seen: all were, of a sample."""
        steps, p = self.curvature.basis.shape
        return steps == p and self.ratio > 0

    def errors(self, method: Method, least: float = LEAST_TOLERANCE) -> Floats:
        """The largest component of the gradient by iteration, as the tolerance has it.

        They end where it is at most `least`, or later.
        """
        known = self.runs.get(method)
        if known is None or known[0] > least:
            first, ends = self.step, least * self.unit
            if method is Method.QUASI_NEWTON:
                first = 1.0 / max(1.0, self.norm / self.length)
            norms, largest = speculate(method, self.curvature, first, ends, self.most)
            if self.corrected:
                largest = self._corrected(method, first, norms, largest)
            known = self.runs[method] = least, largest / self.unit
        return known[1]

    def _corrected(self, method: Method, first: float, norms: Floats, largest: Floats) -> Floats:
        """The same by the corrected eigenvalues, whose vectors are not known.

        The largest component is taken to be the share of the norm that it is where the norm has
        fallen as far by the eigenvalues that were seen.
        """
        ends = 0.5 * float(norms.min())
        found = speculate_apart(method, *self.spectrum, first, ends, self.most)
        fallen = np.minimum.accumulate(norms)[::-1]
        return np.asarray(found * np.interp(found, fallen, (largest / norms)[::-1]))

    def iterations(
        self, method: Method, tolerance: float, bent: float = 0.0, times: float = 1.0
    ) -> Interval:
        """Until the largest component is at most the tolerance.

        bent: further iterations of an objective that is not quadratic; times: how many times more.
        """
        errors = self.scaled.get(method, self).errors(method, tolerance)
        below = np.flatnonzero(errors <= tolerance)
        if len(below):
            point = times * float(below[0]) + bent
            return Interval.around(point / UNSURE, point, point * UNSURE)
        curve = fit(errors.tolist())
        most = float(len(errors))
        point = max(most, most if curve is None else times * curve.iterations(tolerance).point)
        return Interval.around(most / UNSURE, point, 4 * point)

    def flow(self, tolerance: float) -> float:
        """How long the gradient's flow dv/dt = -gradient takes to the tolerance."""
        share = self.largest / max(self.norm, 1e-300)
        goal = tolerance * self.unit / max(share, 1e-300)
        eigenvalue, along = self.spectrum
        energy = along**2

        def left(t: float) -> float:
            return float(np.sqrt(energy @ np.exp(-2 * np.minimum(eigenvalue * t, 350.0))))

        low, high = 0.0, 1.0
        while left(high) > goal and high < 1e15:
            low, high = high, 4 * high
        for _ in range(12):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if left(middle) > goal else (low, middle)
        return high


# What all candidate plans of one training have in common.


@dataclass(frozen=True)
class Statistics:
    """What is known of a batch of groups with the same number of features.

    most_rows: of the largest group, as a power of two; the others, which costs are estimated
    from, are 0 where nobody has counted: rows and entries (values of the features) of all groups.
    on_disk: bytes of spilled rows that a pass has to read.
    """

    most_rows: int
    n_features: int
    sparse: bool
    rows: int = 0
    entries: int = 0
    groups: int = 1
    double: bool = False
    on_disk: float = 0.0

    @property
    def storage(self) -> str:
        """How rows are kept, as `tuskml.kernels.passes.KINDS` says it."""
        return f"{'sparse' if self.sparse else 'dense'} float{64 if self.double else 32}"


@dataclass(frozen=True)
class Measured:
    """Seconds of something of the user's own on all rows: before and in an iteration, or a pass.

    failure: why it cannot be.
    """

    setup: float
    iteration: float
    failure: str | None


@dataclass(frozen=True)
class AtCorner:
    """Iterations of a method at the hinge, as a sample of the rows tells.

    ended: whether it came to an end there, else it takes more; unsure: how many times more or
    fewer it may take; whole: whether that was to the tolerance that is asked for.
    """

    iterations: float
    ended: bool
    unsure: float = 2.0
    whole: bool = False


@dataclass(frozen=True)
class Question:
    """What all candidates of one training have in common.

    length: mean squared length of the centred rows, and spread: of dense features' variances
    (`spread.py`), where they are known; spread_with_l2: with what the penalty adds; rarer: the
    rarer class's share of the rows, at the hinge; sketch: a
    model of the objective (`sketch.py`); corner: what methods did at the hinge on a sample
    (`guard/cornered.py`); measured: what was timed instead of being computed,
    by algorithm or as "pass gradient" and "pass curvature"; spent: seconds of a pass that was made
    and is of use only to plans that begin by the curvature; gpu: whether the rows are on one;
    room: bytes that a plan may take beside the rows;
    shown: what batches of the same call showed (`trials.py`).
    """

    task: LinearTask
    options: LinearOptions
    seen: Statistics
    threads: int
    measured: Mapping[str, Measured] = field(default_factory=dict)
    length: float | None = None
    spread: float | None = None
    spread_with_l2: float | None = None
    rarer: float | None = None
    sketch: Sketch | None = None
    corner: Mapping[Method, AtCorner] = field(default_factory=dict)
    spent: float = 0.0
    gpu: bool = False
    room: float = math.inf
    shown: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def penalised(self) -> bool:
        """Whether large weights cost."""
        return self.options.l1 > 0 or self.options.l2 > 0

    @property
    def rows_of_one(self) -> float:
        """Rows of a group, in the mean; at least 1."""
        return max(self.seen.rows / max(self.seen.groups, 1), 1.0)

    @property
    def wide(self) -> bool:
        """Whether sparse rows are fewer than their features."""
        return self.seen.sparse and self.seen.n_features > self.rows_of_one
