"""What the spectrum of dense rows says of iterations: methods are run on a model of the objective.

The tables (`iterations.py`, `spread.py`) hold what was usual; how long methods that follow
gradients take on ill-conditioned rows, only the curvature's eigenvalues tell. They are those of a
sample of the rows, corrected for what a sample adds: the largest ones are too large and the
smallest too small (Ledoit and Wolf, Quadratic shrinkage for large covariance matrices, Bernoulli
2022). A method's run on f(v) = g.v + 1/2 sum lambda_i v_i^2, of these eigenvalues and the
gradient's components along their vectors, takes microseconds an iteration. Its errors take the
place of those that Algorithm 1 of Kaoudi et al., SIGMOD 2017, gets from the rows of a sample.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.kernels.speculated import Method, speculate
from tuskml.optimizer.curves import Interval, fit

MOST = 1500
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

    eigenvalue (k,) and gradient (k,): of the curvature, and along its vectors; largest: the
    gradient's largest component by weight; unit: what gradients are measured in; step: the first
    one of steepest descent, by the Lipschitz bound; length: what the start's gradient is measured
    in for the first step of quasi-Newton methods, infinite where that is 1; most: iterations that
    a method makes on it; scaled: of the methods that precondition, by their own weights.
    """

    eigenvalue: Floats
    gradient: Floats
    largest: float
    unit: float
    step: float
    length: float
    most: int = MOST
    runs: dict[tuple[Method, int], Floats] = field(default_factory=dict, compare=False)
    scaled: dict[Method, "Sketch"] = field(default_factory=dict)

    @property
    def norm(self) -> float:
        return float(np.sqrt(self.gradient @ self.gradient))

    @property
    def condition(self) -> float:
        """Of the curvature, the largest over the least eigenvalue that is not 0."""
        known = self.eigenvalue[self.eigenvalue > LEAST_EIGENVALUE * self.eigenvalue.max()]
        return float(known.max() / known.min()) if len(known) else 1.0

    def errors(self, method: Method, least: float = LEAST_TOLERANCE) -> Floats:
        """The largest component of the gradient by iteration, about, as the tolerance has it.

        The start's largest component over its length is taken for that of all iterations.
        """
        key = method, round(10 * math.log10(least))
        if key not in self.runs:
            share = self.largest / max(self.norm, 1e-300)
            first = self.step
            if method is Method.QUASI_NEWTON:
                first = 1.0 / max(1.0, self.norm / self.length)
            ends = least * self.unit / max(share, 1e-300)
            found = speculate(method, self.eigenvalue, self.gradient, first, ends, self.most)
            self.runs[key] = found * share / self.unit
        return self.runs[key]

    def iterations(self, method: Method, tolerance: float, bent: float = 0.0) -> Interval:
        """Until the largest component is at most the tolerance.

        bent: further iterations of an objective that is not quadratic.
        """
        errors = self.scaled.get(method, self).errors(method, tolerance)
        below = np.flatnonzero(errors <= tolerance)
        if len(below):
            point = float(below[0]) + bent
            return Interval.around(point / UNSURE, point, point * UNSURE)
        curve = fit(errors.tolist())
        most = float(len(errors))
        point = max(most, most if curve is None else curve.iterations(tolerance).point)
        return Interval.around(most / UNSURE, point, 4 * point)

    def flow(self, tolerance: float) -> float:
        """How long the gradient's flow dv/dt = -gradient takes to the tolerance."""
        share = self.largest / max(self.norm, 1e-300)
        goal = tolerance * self.unit / max(share, 1e-300)
        energy = self.gradient**2

        def left(t: float) -> float:
            return float(np.sqrt(energy @ np.exp(-2 * np.minimum(self.eigenvalue * t, 350.0))))

        low, high = 0.0, 1.0
        while left(high) > goal and high < 1e15:
            low, high = high, 4 * high
        for _ in range(12):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if left(middle) > goal else (low, middle)
        return high
