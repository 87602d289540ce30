"""Predictions of many rows on the GPU: its own arrays in place, NumPy's arrays a part at a time.

For arrays from Python: in SQL rows lie in the vectors of the database, some thousand at a time,
and are scored there. Rows in the host's memory take longer to copy than to multiply, so the GPU is
used only on request.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuskml.errors import DataError
from tuskml.kernels.gpu import cuda, source
from tuskml.kernels.gpu.device import Device
from tuskml.kernels.gpu.rows import Part, Staging
from tuskml.kernels.passes import Floats

PART_BYTES = 256 << 20
STAGED_BYTES = 32 << 20


def decision(x: Any, coef: ArrayLike, intercept: float, device: Device | None = None) -> Floats:
    """Margins coef . x_i + intercept, NumPy's float64 (n,).

    x: (n, d), float32 or float64, an array of NumPy's or of the GPU's; device: by default the
    current GPU. Raises DataError if shapes or types do not fit, or there is no GPU.
    """
    weights = np.append(np.asarray(coef, np.float64), intercept)
    if x.ndim != 2 or x.dtype not in (np.float32, np.float64) or x.shape[1] + 1 != len(weights):
        raise DataError(
            f"features have shape {x.shape} and type {x.dtype}, expected (n, "
            f"{len(weights) - 1}) of float32 or float64 as the coefficients"
        )
    if device is not None:
        return margins_of(device, x, weights)
    reason = cuda.availability()
    if reason is not None:
        raise DataError(f"predictions on the GPU are not possible: {reason}")
    with cuda.failures():
        return margins_of(cuda.device(), x, weights)


def margins_of(device: Device, x: Any, weights: Floats) -> Floats:
    """Returns the margins of rows, on the host or the device."""
    if isinstance(x, device.xp.ndarray):
        return margins_there(device, x, weights)
    return margins(device, x, weights)


def predict_proba(
    x: Any, coef: ArrayLike, intercept: float, device: Device | None = None
) -> Floats:
    """Probabilities of the higher class of a logistic model, float64 (n,); as `decision`."""
    m = decision(x, coef, intercept, device)
    e = np.exp(-np.abs(m))
    return np.asarray(np.where(m >= 0, 1.0, e) / (1.0 + e))


def margins_there(device: Device, x: Any, weights: Floats) -> Floats:
    """Returns the margins of rows on the device, in one launch."""
    xp, (n, d) = device.xp, x.shape
    out = xp.empty(n, np.float64)
    if n:
        rows = xp.ascontiguousarray(x)
        arguments = [rows, np.int64(n), np.int64(d), device.to_device(weights), out]
        device.launch(source.wide("margins", x.dtype.itemsize), (-(-n // 8), 1), arguments)
    return device.to_host(out)


def margins(device: Device, x: NDArray[Any], weights: Floats) -> Floats:
    """Computes margins with two parts on the device in turn: one is copied while the other is in
    use.
    """
    n, d = x.shape
    row = d * x.dtype.itemsize + 8
    step = min(n, max(1, PART_BYTES // row))
    out = np.empty(n)
    if not n:
        return out
    staging = Staging(device, d, x.dtype, min(STAGED_BYTES, (step + 4) * row))
    try:
        for low, sums in margins_by_part(device, x, weights, step, staging):
            out[low : low + len(sums)] = sums
    finally:
        staging.drain()
    return out


def margins_by_part(
    device: Device, x: NDArray[Any], weights: Floats, step: int, staging: Staging
) -> Iterator[tuple[int, Floats]]:
    """Yields the first row and the margins of `step` rows at a time."""

    def fill(first: int, values: NDArray[Any], labels: Floats) -> None:
        values[:] = x[first : first + len(labels)]
        labels[:] = 0.0

    xp, (n, d) = device.xp, x.shape
    kernel = source.wide("margins", x.dtype.itemsize)
    parts = [Part(0, 0, xp.zeros((step, d), x.dtype), xp.zeros(step, np.float64)) for _ in "12"]
    sums, weights_there = [xp.empty(step, np.float64) for _ in "12"], device.to_device(weights)
    device.upload_after(device.mark_launches())
    before: tuple[Part, Any] | None = None
    for number, low in enumerate(range(0, n, step)):
        part, out = parts[number % 2], sums[number % 2]
        part.low, part.high = low, min(low + step, n)
        if part.used is not None:
            device.upload_after(part.used)
        staging.copy(fill, part)
        device.launch_after(device.mark_uploads())
        if before is not None:
            yield before[0].low, device.to_host(before[1])[: before[0].high - before[0].low]
        rows = part.high - low
        arguments = [part.values, np.int64(rows), np.int64(d), weights_there, out]
        device.launch(kernel, (-(-rows // 8), 1), arguments)
        part.used = device.mark_launches()
        before = part, out
    if before is not None:
        yield before[0].low, device.to_host(before[1])[: before[0].high - before[0].low]
