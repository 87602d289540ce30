"""Rows with blocks of correlated columns, like neighbouring loci of a genome, and the least
objective of their lasso.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

Floats = NDArray[np.float64]
CORRELATION = 0.9
"""The correlation of neighbouring columns."""
SUPPORT = 30
SIGNAL = 3.0


@dataclass(frozen=True)
class Problem:
    """x (n, d) with columns of length 1, y (n,), a penalty, and the least objective."""

    x: Floats
    y: Floats
    penalty: float
    least: float

    def objective(self, w: Floats) -> float:
        """1/2 ||y - x w||^2 + penalty ||w||_1."""
        where = np.flatnonzero(w)
        residual = self.y - self.x[:, where] @ w[where]
        return float(residual @ residual / 2 + self.penalty * np.abs(w).sum())


def problem(n: int, d: int, share: float) -> Problem:
    """share: of the penalty at which all weights are 0. The least objective is scikit-learn's."""
    from sklearn.linear_model import Lasso

    random = np.random.default_rng(0)
    x = random.normal(size=(n, d))
    x[:, 1:] *= np.sqrt(1 - CORRELATION**2)
    x = np.asfortranarray(lfilter([1.0], [1.0, -CORRELATION], x, axis=1))
    x -= x.mean(axis=0)
    x /= np.linalg.norm(x, axis=0)
    y = x[:, random.choice(d, SUPPORT, replace=False)] @ random.normal(size=SUPPORT)
    y += random.normal(size=n) * y.std() / SIGNAL
    y -= y.mean()
    y /= np.linalg.norm(y)
    penalty = share * float(np.abs(x.T @ y).max())
    best = Lasso(penalty / n, fit_intercept=False, tol=1e-10, max_iter=10**5).fit(x, y)
    made = Problem(x, y, penalty, 0.0)
    return Problem(x, y, penalty, made.objective(best.coef_))
