"""Epochs of nets as one kernel with a block per net (`cuda/nets.cu`).

Where the kernel has no room, forward and backward passes are operations on whole arrays. The first
axis is the group: rows x (G, n, d), for each layer the weights (G, in, out) and the biases (G, 1,
out). The formulas are those of `kernels/native/nets`. `xp` is NumPy, CuPy or a module with their
interface.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.gpu.device import Device
from tuskml.kernels.gpu.nets.orders import STATIC, Orders
from tuskml.kernels.gpu.nets.rows import Block
from tuskml.kernels.gpu.source import Source
from tuskml.kernels.library import raise_if_cancelled
from tuskml.kernels.nets.training import LOGISTIC, SQUARED, Rules
from tuskml.kernels.passes import Floats

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


MOST_ROWS = 32
"""Rows of a batch that are in shared memory at once."""
FEW_BYTES = 48 << 10
"""Bytes of shared memory up to which a block also keeps the optimizer's state there: four or more
blocks still fit on a multiprocessor.
"""
WIDE = 4096
"""Number of weights from which on a block has 256 threads."""
MOST_STEP = 1 << 24
"""Largest rows times weights of a step for one block, which then takes less than the 2.6 ms of a
step by arrays: on an H200 it did up to 9e9 a second. With many nets, which keep all
multiprocessors busy, longer steps are fine.
"""
PIECE = 1 << 26
"""Rows times weights of a net per launch: tens of milliseconds for its block between checks for a
cancel. Fewer if there are more nets than run at once.
"""
BLOCKS = 512
"""Number of nets that a GPU trains at once."""


def source_of(sizes: tuple[int, ...], rules: Rules) -> Source:
    """Kernel for nets of these sizes: inputs, hidden units and outputs."""
    rows = min(MOST_ROWS, -(-rules.batch // 4) * 4)
    weights = weights_of(sizes)
    units = [(size + 1) | 1 for size in sizes]
    values = rows * (sum(units[:-1]) + sum(units[1:]) + 2)
    small = 4 * (4 * weights + values) <= FEW_BYTES
    threads = 256 if weights >= WIDE else 128
    macros: dict[str, int | str] = {
        "SIZES": ", ".join(map(str, sizes)),
        "LAYERS": len(sizes) - 1,
        "ROWS": rows,
        "BATCH": rules.batch,
        "THREADS": threads,
        "ACTIVATION": rules.activation,
        "LOSS": rules.loss,
        "ADAM": int(rules.algorithm == 0),
        "KEEPS_STATE": int(small),
    }
    shared = 4 * ((4 if small else 2) * weights + values)
    return Source("train_nets", ("nets.cu",), tuple(macros.items()), threads, shared)


def weights_of(sizes: tuple[int, ...]) -> int:
    """Number of floats of a net's matrices in the kernel's layout."""
    return sum((inputs + 1) * (out | 1) for inputs, out in pairwise(sizes))


def fits(device: Device, sizes: tuple[int, ...], rules: Rules, nets: int) -> bool:
    """Returns whether a net fits a block's shared memory, and the steps are short or the nets
    many.
    """
    long = rules.batch * weights_of(sizes) > MOST_STEP and nets < BLOCKS
    return not long and source_of(sizes, rules).shared <= device.shared_bytes - STATIC


class FusedNets:
    """The nets of a block of groups, (G, weights) in the kernel's layout."""

    def __init__(
        self, device: Device, block: Block, sizes: tuple[int, ...], rules: Rules, mark: int
    ) -> None:
        self.device, self.block, self.rules, self.mark = device, block, rules, mark
        self.sizes, self.source = sizes, source_of(sizes, rules)
        self.g, self.longest = len(block.count), int(block.count.max())
        self.count = device.to_device(block.count)
        self.nets: Any = None
        self.state = device.xp.zeros((self.g, 2, weights_of(sizes)), np.float32)

    def start(self, layers: Layers) -> None:
        """Loads the initial weights."""
        xp, parts = self.device.xp, []
        for weights, biases in layers:
            inputs, out = weights.shape[1:]
            matrix = xp.zeros((self.g, inputs + 1, out | 1), np.float32)
            matrix[:, :inputs, :out], matrix[:, inputs:, :out] = weights, biases
            parts.append(matrix.reshape(self.g, -1))
        self.nets = xp.ascontiguousarray(xp.concatenate(parts, axis=1))

    def layers(self) -> Layers:
        """The weights (G, in, out) and biases (G, 1, out) of each layer."""
        layers, at, xp = [], 0, self.device.xp
        for inputs, out in pairwise(self.sizes):
            size = (inputs + 1) * (out | 1)
            matrix = self.nets[:, at : at + size].reshape(self.g, inputs + 1, out | 1)
            parts = matrix[:, :inputs, :out], matrix[:, inputs:, :out]
            layers.append((xp.ascontiguousarray(parts[0]), xp.ascontiguousarray(parts[1])))
            at += size
        return layers

    def epoch(
        self, epoch: int, rate: float, orders: Orders, alive: NDArray[np.bool_]
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Runs an epoch; returns sums of losses before each step, and whether all weights are
        finite, (G,).
        """
        block, put = self.block, self.device.to_device
        sums = self.device.xp.zeros((self.g, 2), np.float64)
        arguments = [
            block.x,
            block.y,
            block.share,
            self.count,
            put(alive.astype(np.int32)),
            orders.draw(epoch),
            orders.which,
            np.int64(self.longest),
            np.int32(epoch),
        ]
        factors = [rate, 1 - rate * self.rules.weight_decay, self.rules.momentum]
        behind = [*(np.float32(factor) for factor in factors), self.nets, self.state, sums]
        each = PIECE // (weights_of(self.sizes) * -(-self.g // BLOCKS))
        each = max(1, each // self.rules.batch) * self.rules.batch
        for low in range(0, self.longest, each):
            if low:
                self.device.mark_launches().wait()
            raise_if_cancelled(self.mark)
            between = np.int64(low), np.int64(min(low + each, self.longest))
            self.device.launch(self.source, (self.g, 1), [*arguments, *between, *behind])
        totals = self.device.to_host(sums)
        return totals[:, 0], totals[:, 1] == 0
