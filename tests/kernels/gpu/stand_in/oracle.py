"""The sums of a pass in NumPy, in long doubles: the losses of design.md, section 3."""

import numpy as np


def derivatives(task, m, y, smoothing=0.0, class_weight=None):
    """Loss, first and second derivative by the margin of each row; y numbers, or 0 and 1."""
    if task == "linear":
        return (m - y) ** 2 / 2, m - y, np.ones_like(m)
    sign = np.where(y == 1, 1, -1)
    z = sign * m
    if task == "logistic":
        p = 1 / (1 + np.exp(-z))
        found = np.logaddexp(0, -z), -sign * (1 - p), p * (1 - p)
    else:
        gap = 1 - z
        if smoothing:
            corner = (gap > 0) & (gap < smoothing)
            loss = np.where(corner, gap**2 / (2 * smoothing), np.maximum(gap, 0) - smoothing / 2)
            loss = np.where(gap <= 0, 0, loss)
            slope = np.where(corner, gap / smoothing, gap >= smoothing)
            found = loss, -sign * slope, np.where(corner, 1 / smoothing, 0)
        else:
            found = np.maximum(gap, 0), -sign * (gap > 0), np.zeros_like(m)
    if class_weight is None:
        return found
    weight = np.where(y == 1, class_weight[1], class_weight[0])
    return tuple(weight * a for a in found)


def sums(task, x, y, weights, **how):
    """Loss, rows, gradient by weight and by intercept of one group, as `Pass.gradient` gives."""
    x, w = x.astype(np.longdouble), weights.astype(np.longdouble)
    loss, slope, _ = derivatives(task, x @ w[:-1] + w[-1], y.astype(np.longdouble), **how)
    return np.concatenate([[loss.sum(), len(y)], x.T @ slope, [slope.sum()]]).astype(float)


def curvature(task, x, y, weights, shift, scale, **how):
    """The lower triangle of sum(h z z'), row by row."""
    x, w = x.astype(np.longdouble), weights.astype(np.longdouble)
    h = derivatives(task, x @ w[:-1] + w[-1], y.astype(np.longdouble), **how)[2]
    z = np.column_stack([(x - shift) * scale, np.ones(len(y))])
    whole = (z * h[:, None]).T @ z
    return whole[np.tril_indices(len(whole))].astype(float)
