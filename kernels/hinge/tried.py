"""Trial training of the hinge on a few rows, in one call, for planning
(`native/hinge/tried.cpp`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import Floats, library, pointer
from tuskml.kernels.speculated import Method
from tuskml.kernels.structures import Tried as Given


@dataclass(frozen=True)
class Corner:
    """The problem: n dense rows of d features, in coordinates of variance 1.

    z: (d, n) float32; sign: (n,), the class, -1 or 1; l2: (d,), the penalty of each weight, None:
    none; corners: widths of the smoothed corner, the last one final; weight_unit: unit of the
    first step of L-BFGS; most: limit on iterations.
    """

    z: NDArray[np.float32]
    sign: Floats
    l2: Floats | None
    corners: Sequence[float]
    epsilon: float
    weight_unit: float
    fit_intercept: bool
    most: int

    def tried(self, method: Method, v: Floats, seconds: float) -> tuple[int, bool]:
        """Number of iterations from v (d + 1,), and whether they reached the optimum.

        seconds: limit on the processor time.
        """
        result, _ = self._run(method, v, seconds)
        return abs(result), result > 0

    def weights(self, method: Method, v: Floats, seconds: float) -> Floats:
        """Returns the final weights, (d + 1,), the intercept last."""
        return self._run(method, v, seconds)[1]

    def _run(self, method: Method, v: Floats, seconds: float) -> tuple[int, Floats]:
        d, n = self.z.shape
        z, sign = np.ascontiguousarray(self.z, np.float32), np.ascontiguousarray(self.sign)
        l2 = None if self.l2 is None else np.ascontiguousarray(self.l2)
        corners, weights = np.array(self.corners, float), np.array(v, float)
        rows = pointer(z), pointer(sign), pointer(l2)
        ends = self.epsilon, self.weight_unit, self.fit_intercept, self.most, seconds
        problem = Given(n, d + 1, *rows, pointer(corners), len(corners), *ends)
        return int(library().tk_try_hinge(problem, method, pointer(weights))), weights
