"""What the spectrum of dense rows says of iterations: methods are run on a model of the objective.

The tables (`iterations.py`, `spread.py`) hold what was usual; how long methods that follow
gradients take on ill-conditioned rows, only the curvature's eigenvalues tell. They are those of a
sample of the rows, corrected for what a sample adds: the largest ones are too large and the
smallest too small (Ledoit and Wolf, Quadratic shrinkage for large covariance matrices, Bernoulli
2022). A method's run on f(v) = g.v + 1/2 sum lambda_i v_i^2, of these eigenvalues and the
gradient's components along their vectors, takes microseconds an iteration. The vectors tell the
gradient's components by weight, the largest of which ends a training. Its errors take the place of
those that Algorithm 1 of Kaoudi et al., SIGMOD 2017, gets from the rows of a sample.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.kernels.speculated import Method, Tridiagonal, speculate, speculate_apart
from tuskml.optimizer.curves import Interval, fit

MOST = 500
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
