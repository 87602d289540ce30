"""Forward and backward passes of G nets over the rows of G groups, as operations on whole arrays.

The first axis is the group: rows x (G, n, d), for each layer the weights (G, in, out) and the
biases (G, 1, out). The formulas are those of `kernels/native/nets`. `xp` is NumPy, CuPy or a
module with their interface.
"""

from typing import Any

from tuskml.kernels.nets.training import LOGISTIC, SQUARED

Layers = list[tuple[Any, Any]]


def relu(xp: Any, z: Any) -> tuple[Any, Any]:
    """max(0, z), and its derivative."""
    return xp.where(z < 0, z * 0, z), (z > 0).astype(z.dtype)


def tanh(xp: Any, z: Any) -> tuple[Any, Any]:
    """tanh z, and its derivative."""
    value = xp.tanh(z)
    return value, 1 - value * value


def gelu(xp: Any, z: Any) -> tuple[Any, Any]:
    """z Phi(z), with Phi by formula 7.1.26 of Abramowitz and Stegun, and its derivative."""
    size = xp.abs(z) * 0.707106781
    e = xp.exp(-size * size)
    t = 1 / (1 + 0.3275911 * size)
    p = t * 1.061405429 - 1.453152027
    p = p * t + 1.421413741
    p = p * t - 0.284496736
    p = p * t + 0.254829592
    tail = 0.5 * p * t * e
    below = xp.where(z < 0, tail, 1 - tail)
    return z * below, below + z * e * 0.398942280


ACTIVATED = (relu, tanh, gelu)
"""Activation functions by number."""


def margins(xp: Any, layers: Layers, x: Any, activation: int) -> tuple[Any, list[Any], list[Any]]:
    """Outputs of the nets, (G, n, outputs), and for each layer its inputs and the slopes there."""
    values, slopes = [x], []
    for weights, biases in layers[:-1]:
        value, slope = ACTIVATED[activation](xp, xp.matmul(values[-1], weights) + biases)
        values.append(value)
        slopes.append(slope)
    weights, biases = layers[-1]
    return xp.matmul(values[-1], weights) + biases, values, slopes


def losses(xp: Any, m: Any, y: Any, loss: int) -> tuple[Any, Any]:
    """Loss of each row, (G, n), and its derivatives by the margins (G, n, outputs).

    y: (G, n), numbers or indices of classes.
    """
    if loss == SQUARED:
        off = m[..., 0] - y
        return off * off / 2, off[..., None]
    if loss == LOGISTIC:
        one = m[..., 0]
        e = xp.exp(-xp.abs(one))
        p = xp.where(one < 0, e, e * 0 + 1) / (1 + e)
        return xp.maximum(one, one * 0) - y * one + xp.log1p(e), (p - y)[..., None]
    most = m.max(axis=2, keepdims=True)
    e = xp.exp(m - most)
    total = e.sum(axis=2, keepdims=True)
    own = (xp.arange(m.shape[2]) == y[..., None]).astype(m.dtype)
    each = (most + xp.log(total))[..., 0] - (m * own).sum(axis=2)
    return each, e / total - own


def gradient(
    xp: Any, layers: Layers, values: list[Any], slopes: list[Any], delta: Any
) -> list[tuple[Any, Any]]:
    """Gradient by back-propagation; delta: derivatives of the mean loss by the margins."""
    gradients = []
    for at in range(len(layers) - 1, -1, -1):
        of_weights = xp.matmul(values[at].transpose(0, 2, 1), delta)
        gradients.append((of_weights, delta.sum(axis=1, keepdims=True)))
        if at:
            delta = xp.matmul(delta, layers[at][0].transpose(0, 2, 1)) * slopes[at - 1]
    return gradients[::-1]
