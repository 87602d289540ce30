"""The rows of groups on a device, in the nets' units.

Rows are copied through pinned memory, some groups at a time, and the device computes the units.
On the host that took longer than the epochs on the device.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.gpu.device import Device
from tuskml.kernels.gpu.rows import ALIGNED, STAGED_BYTES, Part, Staging
from tuskml.kernels.library import raise_if_cancelled
from tuskml.kernels.nets.training import LOGISTIC, SQUARED, ByGroup, Rules
from tuskml.kernels.passes import Floats, Pass

CONSTANT = 1e-13
"""Relative to the mean: a smaller deviation is rounding."""
LONGER = 2
"""Largest ratio of the numbers of rows of groups trained together."""
VALUES_AT_ONCE = 1 << 24
"""Values that are in double on the device at once: 128 MiB, and some copies."""


@dataclass(frozen=True)
class Block:
    """Rows of G groups on the device, in the nets' units: x (G, n, d) and y (G, n), float32.

    share: the weight of each row, (G, n), 0 beyond a group's end; count: number of rows, (G,);
    shift, scale (G, d) and label_shift, label_scale (G,): of the units, on the host.
    """

    x: Any
    y: Any
    share: Any
    count: NDArray[np.int64]
    shift: Floats
    scale: Floats
    label_shift: Floats
    label_scale: Floats

    @property
    def finite(self) -> NDArray[np.bool_]:
        """Returns whether a group can be trained, (G,)."""
        with np.errstate(invalid="ignore"):
            units = self.shift.sum(axis=1) + self.scale.sum(axis=1)
            return np.asarray(np.isfinite(units + self.label_shift + self.label_scale))


def parts_of(n_rows: NDArray[np.int64], places: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """Indices of groups of about equal numbers of rows, rising."""
    places = places[np.argsort(n_rows[places], kind="stable")]
    while len(places):
        fits = int(np.searchsorted(n_rows[places], LONGER * n_rows[places[0]], side="right"))
        yield np.sort(places[:fits])
        places = places[fits:]


def block_of(
    device: Device, rows: Pass, rules: Rules, given: ByGroup, places: NDArray[np.intp]
) -> Block:
    """Rows of groups on the device; places: indices of the groups in `given`."""
    xp, count = device.xp, rows.groups["n_rows"].astype(np.int64)
    g, n, d = rows.n_groups, int(count.max()), rows.n_features
    x, y, share = (xp.empty(shape, np.float32) for shape in ((g, n, d), (g, n), (g, n)))
    units = xp.empty((g, 2 * d + 2), np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for some, values, labels in copy_groups(device, rows, n):
            counts = device.to_device(count[some].astype(np.float64))[:, None]
            there = xp.arange(n) < counts
            x[some], *of_rows = standardise(xp, values, there, counts, rules)
            classes = Classes(device, rules, given, places[some], positive_of(rows, some))
            own, *of_labels = in_units(xp, labels, there, counts, classes)
            y[some], share[some] = own * there, classes.shares(own, there, counts)
            units[some] = xp.concatenate([*of_rows, *of_labels], axis=1)
    shift, scale, label = np.split(device.to_host(units), [d, 2 * d], axis=1)
    return Block(x, y, share, count, shift, scale, label[:, 0], label[:, 1])


def positive_of(rows: Pass, some: slice) -> Floats:
    """Label of the positive class of some groups."""
    return np.ones(rows.n_groups)[some] if rows.positive is None else rows.positive[some]


def copy_groups(device: Device, rows: Pass, n: int) -> Iterator[tuple[slice, Any, Any]]:
    """Yields some groups at a time: their slice, rows (G, n, d) and labels (G, n), padded with
    zeros.

    The rows are valid until the next ones are requested.
    """
    g, d = rows.n_groups, rows.n_features
    dtype = np.dtype(np.float32 if rows.groups["kind"][0] == 0 else np.float64)
    each = max(1, VALUES_AT_ONCE // (n * d))
    size = min(STAGED_BYTES, (min(g, each) * n + ALIGNED) * (d * dtype.itemsize + 8))
    staging, start = Staging(device, d, dtype, size), np.arange(g, dtype=np.int64) * n

    def fill(first: int, values: NDArray[Any], labels: Floats) -> None:
        rows.copy_rows(start, first, values, labels)

    for low in range(0, g, each):
        raise_if_cancelled(rows.cancel_mark)
        some = slice(low, min(low + each, g))
        total = (some.stop - low) * n
        values, labels = (device.xp.empty(s, t) for s, t in (((total, d), dtype), (total, "f8")))
        device.upload_after(device.mark_launches())  # memory that earlier launches read is reused
        try:
            staging.copy(fill, Part(low * n, low * n + total, values, labels))
        finally:  # a pending copy would write into memory reused by others
            staging.drain()
        device.launch_after(device.mark_uploads())
        yield some, values.reshape(-1, n, d), labels.reshape(-1, n)


def standardise(
    xp: Any, values: Any, there: Any, count: Any, rules: Rules
) -> tuple[Any, Any, Any]:
    """Rows (G, n, d) in the nets' units, 0 beyond the end, and shift and scale, (G, d)."""
    x, inside = values.astype(np.float64), there[..., None]
    shift, scale = units_of(xp, x, inside, count, rules)
    x -= shift[:, None, :]
    x *= scale[:, None, :]
    x *= inside
    return x, shift, scale


def in_units(
    xp: Any, labels: Any, there: Any, count: Any, classes: "Classes"
) -> tuple[Any, Any, Any]:
    """Labels (G, n) in the form of the loss, and their shift and scale, (G, 1)."""
    shift, scale, rules = count * 0, count * 0 + 1, classes.rules
    if rules.loss != SQUARED:
        return classes.numbers(labels), shift, scale
    if rules.standardise:
        shift, inverse = units_of(xp, labels[..., None], there[..., None], count, rules)
        scale = xp.where(inverse == 0, 0.0, 1 / inverse)
        labels = (labels - shift) * inverse
    return labels, shift, scale


def units_of(xp: Any, x: Any, inside: Any, count: Any, rules: Rules) -> tuple[Any, Any]:
    """Means and inverse deviations of features, (G, d); 0 for constant features.

    x: (G, n, d), 0 beyond the end; inside: (G, n, 1); count: (G, 1).
    """
    if not rules.standardise:
        nothing = xp.zeros((x.shape[0], x.shape[2]))
        return nothing, nothing + 1
    mean = x.sum(axis=1) / count
    off = (x - mean[:, None, :]) * inside
    off *= off
    deviation = xp.sqrt(off.sum(axis=1) / count)
    varies = deviation > CONSTANT * xp.abs(mean)
    inverse = xp.where(varies, 1 / xp.where(varies, deviation, 1.0), 0.0)
    return mean, xp.where(xp.isfinite(deviation), inverse, np.nan)


class Classes:
    """Labels and weights of the classes of some groups; places: indices of the groups in
    `given`.
    """

    def __init__(
        self,
        device: Device,
        rules: Rules,
        given: ByGroup,
        places: NDArray[np.intp],
        positive: Floats,
    ) -> None:
        self.xp, self.rules = device.xp, rules
        self.positive = device.to_device(positive)[:, None]
        self.label, self.weight = (
            None if array is None else device.to_device(array[places])
            for array in (given.classes, given.class_weight)
        )

    def numbers(self, labels: Any) -> Any:
        """Returns the class number of each row, (G, n)."""
        if self.rules.loss == LOGISTIC:
            return (labels == self.positive).astype(np.float64)
        if self.label is None:
            return labels
        return (self.label[:, None, :] < labels[..., None]).sum(axis=2).astype(np.float64)

    def shares(self, own: Any, there: Any, count: Any) -> Any:
        """Returns the weight of each row, (G, n), 0 beyond a group's end."""
        if self.weight is None:
            return there.astype(np.float32)
        number = (own * there).astype(np.int64)
        weight = self.xp.take_along_axis(self.weight, number, axis=1) * there
        return weight / (weight.sum(axis=1, keepdims=True) / count)
