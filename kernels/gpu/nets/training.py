"""Trains the nets of many groups at once on a device.

The objective, the steps and the order of the rows are those of `kernels/native/nets`, so the
results equal the CPU's up to the rounding of sums. Groups have rows in blocks of one length, the
longest one's; rows beyond a group's end have the weight 0.

One kernel computes the steps of nets that fit in a block's shared memory (`fused.py`). Those of
others are operations on arrays, each of all nets. Dropout, held-out rows, embedded categories and
time limits are not supported.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.gpu.device import Device
from tuskml.kernels.gpu.nets.fused import FusedNets, Layers, fits, gradient, losses, margins
from tuskml.kernels.gpu.nets.orders import Orders, first_weights
from tuskml.kernels.gpu.nets.rows import Block, block_of, parts_of
from tuskml.kernels.library import raise_if_cancelled
from tuskml.kernels.nets.structures import TRAINED
from tuskml.kernels.nets.training import (
    ABOVE,
    DIVERGED,
    OUT_OF_RANGE,
    SQUARED,
    WORSE,
    ByGroup,
    NetResult,
    Rules,
)
from tuskml.kernels.passes import Floats, Pass

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
AT_ONCE = 1 << 14
"""Rows of each group whose final losses are computed at once."""


def train_on_device(device: Device, rows: Pass, rules: Rules, given: ByGroup) -> NetResult:
    """Trains the net of each group; returns the same as `kernels.nets.training.train_nets`."""
    g, n_weights = rows.n_groups, rules.weights(rows.n_features)
    result = NetResult(
        np.full((g, n_weights), np.nan), np.full((g, rules.epochs), np.nan), np.zeros(g, TRAINED)
    )
    for name in ("base_loss", "loss", "held_loss"):
        result.about[name] = np.nan
    taken = np.ones(g, bool) if given.left_out is None else given.left_out == 0
    for places in parts_of(rows.groups["n_rows"], np.flatnonzero(taken)):
        block = block_of(device, rows.of(places), rules, given, places)
        start = None if given.start is None else given.start[places]
        one = Training(device, block, rules, start, rows.cancel_mark).run()
        result.weights[places], result.history[places] = one.weights, one.history
        result.about[places] = one.about
    return result


class Training:
    """The nets of the groups of a block."""

    def __init__(
        self, device: Device, block: Block, rules: Rules, start: Floats | None, mark: int
    ) -> None:
        self.mark, self.given = mark, start
        self.device, self.xp, self.block, self.rules = device, device.xp, block, rules
        self.sizes = (block.x.shape[2], *rules.hidden, rules.outputs)
        self.g = len(block.count)
        self.layers = self._first(start)
        self.orders = Orders(device, block.count, rules.seed, rules.shuffle)
        self.fused = None
        if fits(device, self.sizes, rules, self.g):
            self.fused = FusedNets(device, block, self.sizes, rules, mark)
            self.fused.start(self.layers)
            return
        zeros = [(w * 0, b * 0) for w, b in self.layers]
        self.first, self.second = zeros, [(w * 0, b * 0) for w, b in self.layers]
        self.steps = np.zeros(self.g, np.int64)

    def _first(self, start: Floats | None) -> Layers:
        """Initial weights."""
        flat = first_weights(self.rules.seed, self.sizes)
        if start is None:
            return [self._put(w, b) for w, b in split(np.tile(flat, (self.g, 1)), self.sizes)]
        layers = split(start.astype(np.float64), self.sizes)
        scale, shift = self.block.scale[:, None, :], self.block.shift[:, None, :]
        w, b = layers[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            layers[0] = np.where(scale == 0, 0, w / scale), b + (w * shift).sum(axis=2)
            by_label = self.block.label_scale[:, None]
            inverse = np.where(by_label == 0, 0, 1 / by_label)
        w, b = layers[-1]
        layers[-1] = w * inverse[..., None], (b - self.block.label_shift[:, None]) * inverse
        return [self._put(w, b) for w, b in layers]

    def _put(self, weights: Floats, biases: Floats) -> tuple[Any, Any]:
        """Loads weights (G, out, in) and biases (G, out) in the device's layout."""
        turned = np.ascontiguousarray(weights.transpose(0, 2, 1), np.float32)
        put = self.device.to_device
        return put(turned), put(np.ascontiguousarray(biases[:, None, :], np.float32))

    def run(self) -> NetResult:
        """Runs all epochs; returns the result."""
        history = np.full((self.g, self.rules.epochs), np.nan)
        about = np.zeros(self.g, TRAINED)
        about["held_loss"] = np.nan
        unit = self.block.label_scale**2
        alive = self.block.finite.copy()
        initial = None if self.given is None else self._final_loss() * unit
        about["ending"][~alive] = OUT_OF_RANGE
        about["base_loss"] = np.where(alive, self._constant_loss() * unit, np.nan)
        for epoch in range(self.rules.epochs):
            if not alive.any():
                break
            with np.errstate(over="ignore", invalid="ignore"):  # of diverging nets
                sums, finite = self._epoch(epoch, alive)
            history[alive, epoch] = (sums / self.block.count * unit)[alive]
            about["epochs"][alive] = about["kept"][alive] = epoch + 1
            lost = alive & ~(np.isfinite(sums) & finite)
            about["ending"][lost] = DIVERGED
            alive &= ~lost
        if self.fused is not None:
            self.layers = self.fused.layers()
        with np.errstate(over="ignore", invalid="ignore"):
            about["loss"] = np.where(self.block.finite, self._final_loss() * unit, np.nan)
        weights = np.where(self.block.finite[:, None], self._in_caller_s_units(), np.nan)
        if initial is not None and self.given is not None:
            worse = self.block.finite & ~(about["loss"] <= ABOVE * initial)
            weights[worse], about["loss"][worse] = self.given[worse], initial[worse]
            about["ending"][worse], about["kept"][worse] = WORSE, 0
        return NetResult(weights, history, about)

    def _epoch(self, epoch: int, alive: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
        """Runs an epoch; returns sums of the batches' losses before their steps, and whether all
        weights are finite, (G,).
        """
        rate = rate_of(self.rules, epoch)
        if self.fused is not None:
            return self.fused.epoch(epoch, rate, self.orders, alive)
        xp, block, batch = self.xp, self.block, self.rules.batch
        order, total = self.orders.draw(epoch)[self.orders.which], xp.zeros(self.g, np.float64)
        groups = xp.arange(self.g)[:, None]
        for at in range(0, int(block.count.max()), batch):
            raise_if_cancelled(self.mark)
            some = order[:, at : at + batch]
            size = np.clip(block.count - at, 0, batch)
            moves = (size > 0) & alive
            share = block.share[groups, some]
            share = share * (xp.arange(some.shape[1]) < self.device.to_device(size)[:, None])
            rows = block.x[groups, some], block.y[groups, some], share
            total += self._step(rows, size, moves, rate)
        return np.asarray(self.device.to_host(total)), self._finite()

    def _step(
        self,
        rows: tuple[Any, Any, Any],
        size: NDArray[np.int64],
        moves: NDArray[np.bool_],
        rate: float,
    ) -> Any:
        """Moves the nets of groups that have rows; returns the sums of losses."""
        xp, rules = self.xp, self.rules
        x, y, share = rows
        m, values, slopes = margins(xp, self.layers, x, rules.activation)
        each, delta = losses(xp, m, y, rules.loss)
        inverse = self.device.to_device((1 / np.maximum(size, 1)).astype(np.float32))
        delta = delta * (share * inverse[:, None])[..., None]
        slope = gradient(xp, self.layers, values, slopes, delta)
        self.steps += moves
        moving = self.device.to_device(moves)[:, None, None]
        self._move(slope, moving, rate)
        return xp.where(share > 0, each * share, each * 0).astype(np.float64).sum(axis=1)

    def _move(self, slope: list[tuple[Any, Any]], moving: Any, rate: float) -> None:
        """Takes a step of Adam or of gradient descent with momentum."""
        xp, rules = self.xp, self.rules
        t = np.maximum(self.steps, 1).astype(np.float64)
        shares = [
            self.device.to_device((1 / (1 - beta**t)).astype(np.float32))[:, None, None]
            for beta in (BETA1, BETA2)
        ]
        for at in range(len(self.layers)):
            for which in (0, 1):
                w, g = self.layers[at][which], slope[at][which]
                first, second = self.first[at][which], self.second[at][which]
                decay = np.float32(1 - rate * rules.weight_decay if which == 0 else 1)
                if rules.algorithm == 0:
                    new_first = np.float32(BETA1) * first + np.float32(1 - BETA1) * g
                    new_second = np.float32(BETA2) * second + np.float32(1 - BETA2) * g * g
                    length = xp.sqrt(new_second * shares[1]) + np.float32(EPSILON)
                    moved = decay * w - np.float32(rate) * shares[0] * new_first / length
                else:
                    new_first, new_second = np.float32(rules.momentum) * first + g, second
                    moved = decay * w - np.float32(rate) * new_first
                self._keep(at, which, xp.where(moving, moved, w))
                self._keep(at, which, xp.where(moving, new_first, first), self.first)
                self._keep(at, which, xp.where(moving, new_second, second), self.second)

    def _keep(self, at: int, which: int, array: Any, into: Layers | None = None) -> None:
        """Stores weights (which = 0) or biases (1) of a layer in a list of layers."""
        into = self.layers if into is None else into
        pair = list(into[at])
        pair[which] = array
        into[at] = pair[0], pair[1]

    def _finite(self) -> NDArray[np.bool_]:
        """Returns whether all weights of a group are finite, (G,)."""
        finite = np.ones(self.g, bool)
        for pair in self.layers:
            for array in pair:
                total = self.device.to_host((array * 0).sum(axis=(1, 2)))
                finite &= np.asarray(total) == 0
        return finite

    def _final_loss(self) -> Floats:
        """Mean loss over all rows in the nets' units, (G,)."""
        total, weight, block = np.zeros(self.g), np.zeros(self.g), self.block
        for at in range(0, int(block.count.max()), AT_ONCE):
            some = slice(at, at + AT_ONCE)
            share = block.share[:, some]
            m, _, _ = margins(self.xp, self.layers, block.x[:, some], self.rules.activation)
            each, _ = losses(self.xp, m, block.y[:, some], self.rules.loss)
            each = self.xp.where(share > 0, each * share, each * 0).astype(np.float64)
            total += np.asarray(self.device.to_host(each.sum(axis=1)))
            weight += np.asarray(self.device.to_host(share.astype(np.float64).sum(axis=1)))
        with np.errstate(invalid="ignore"):
            return total / weight

    def _constant_loss(self) -> Floats:
        """Mean loss of the best constant in the nets' units, (G,)."""
        y, share = self.block.y, self.block.share.astype(np.float64)
        count, host = self.block.count, self.device.to_host
        if self.rules.loss == SQUARED:
            mean = (y * share).sum(axis=1, keepdims=True)
            off = y - mean / self.device.to_device(count)[:, None]
            return host((off * off * share).sum(axis=1)) / count / 2
        loss = np.zeros(self.g)
        for k in range(max(self.rules.outputs, 2)):
            part = host((share * (y == k)).sum(axis=1)) / count
            loss -= np.where(part > 0, part * np.log(np.where(part > 0, part, 1)), 0)
        return loss

    def _in_caller_s_units(self) -> Floats:
        """Weights (G, weights) in the caller's units: by layer and unit, the bias and the
        weights.
        """
        parts = []
        for at, (weights, biases) in enumerate(self.layers):
            w = np.asarray(self.device.to_host(weights), np.float64).transpose(0, 2, 1)
            b = np.asarray(self.device.to_host(biases), np.float64)[:, 0, :]
            if at + 1 == len(self.layers):
                w = w * self.block.label_scale[:, None, None]
                b = b * self.block.label_scale[:, None] + self.block.label_shift[:, None]
            if not at:
                w = w * self.block.scale[:, None, :]
                b = b - (w * self.block.shift[:, None, :]).sum(axis=2)
            parts.append(np.concatenate([b[..., None], w], axis=2).reshape(self.g, -1))
        return np.concatenate(parts, axis=1)


def split(flat: NDArray[Any], sizes: tuple[int, ...]) -> list[tuple[Any, Any]]:
    """Splits weights (G, weights) into each layer's weights (G, out, in) and biases (G, out)."""
    pieces, at = [], 0
    for inputs, out in pairwise(sizes):
        table = flat[:, at : at + out * (inputs + 1)].reshape(len(flat), out, inputs + 1)
        pieces.append((table[..., 1:], table[..., 0]))
        at += out * (inputs + 1)
    return pieces


def rate_of(rules: Rules, epoch: int) -> float:
    """Learning rate of an epoch, from 0 on."""
    if rules.schedule == 1:
        return float(rules.learning_rate * 0.5 * (1 + np.cos(np.pi * epoch / rules.epochs)))
    if rules.schedule == 2:
        return rules.learning_rate * rules.decay ** (epoch // rules.decay_every)
    return rules.learning_rate
