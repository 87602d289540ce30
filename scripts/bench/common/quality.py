"""The quality of a model, by one measure for every system: computed here from coefficients,
never taken on trust.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from data import Floats
from numpy.typing import NDArray

STEP = 200_000
Labels = NDArray[np.uint8]


def log_loss(X: Floats, y: Labels, coef: Any, intercept: float) -> float:
    """The mean logistic loss of a dense model."""
    w = np.asarray(coef, np.float32).ravel()
    total = 0.0
    for at in range(0, len(y), STEP):
        total += _loss_sum(X[at : at + STEP] @ w + np.float32(intercept), y[at : at + STEP])
    return total / len(y)


def grouped_log_loss(X: Floats, y: Labels, g: NDArray[np.int32], W: Floats) -> float:
    """The mean loss when row i uses the weights W[g[i]], the intercept last."""
    total = 0.0
    for at in range(0, len(y), STEP):
        own = W[g[at : at + STEP]]
        total += _loss_sum(
            np.einsum("ij,ij->i", X[at : at + STEP], own[:, :-1]) + own[:, -1], y[at : at + STEP]
        )
    return total / len(y)


def sparse_log_loss(
    offsets: NDArray[np.int32],
    ids: NDArray[np.int32],
    vals: Floats,
    y: Labels,
    coef: Any,
    intercept: float,
) -> float:
    """The mean logistic loss of a sparse model; features beyond the model's weigh 0."""
    w = np.asarray(coef, np.float32).ravel()
    known = ids < len(w)
    products = np.where(known, vals * w[np.where(known, ids, 0)], 0)
    sums = np.concatenate([[0.0], np.cumsum(products, dtype=np.float64)])
    return _loss_sum(sums[offsets[1:]] - sums[offsets[:-1]] + intercept, y) / len(y)


def penalty(coef: Any, l2: float) -> float:
    """The objective's second part: l2/2 * ||w||^2."""
    w = np.asarray(coef, np.float64).ravel()
    return float(l2 / 2 * (w @ w))


def optimum(X: Floats, y: Labels, l2: float) -> float:
    """The least value of mean(loss) + l2/2 ||w||^2 by Newton's method in double precision."""
    rows, dim = X.shape
    theta = np.zeros(dim + 1)
    ridge = np.append(np.full(dim, l2), 0.0)
    for _ in range(30):
        gradient, hessian = np.zeros(dim + 1), np.zeros((dim + 1, dim + 1))
        for at in range(0, rows, STEP):
            A = np.column_stack([X[at : at + STEP], np.ones(len(X[at : at + STEP]))]).astype(
                np.float64
            )
            p = 1 / (1 + np.exp(-(A @ theta)))
            gradient += A.T @ (p - y[at : at + STEP])
            hessian += (A * (p * (1 - p))[:, None]).T @ A
        step = np.linalg.solve(hessian / rows + np.diag(ridge), gradient / rows + ridge * theta)
        theta -= step
        if np.abs(step).max() < 1e-9:
            break
    return log_loss(X, y, theta[:-1], theta[-1]) + penalty(theta[:-1], l2)


def _loss_sum(margin: NDArray[np.floating], y: Labels) -> float:
    signed = np.where(y > 0, -margin, margin).astype(np.float64)
    return float(np.logaddexp(0, signed).sum())
