"""Gradient passes on a GPU: compared with the copy bandwidth, a read of all rows, CuPy and
PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gpu_common import kernel_seconds, line, normals, seconds

from tuskml.kernels.gpu import passes, source
from tuskml.kernels.gpu.rows import SLACK, DeviceRows, places
from tuskml.kernels.passes import GROUP
from tuskml.learners.linear.tasks import LINEAR

WIDTHS = (28, 64, 100, 256, 1000)
MOST_VALUES = 5_200_000_000
CHECKED = 1 << 24
"""Values that are converted to double at a time, for the truth."""


def logistic_rows(device: Any, sizes: Any, d: int, seed: int = 0) -> Any:
    """A pass over groups of these sizes, multiples of 4, whose labels follow a logistic model."""
    xp, start = device.xp, places(sizes)
    total = int(start[-1])
    values = xp.zeros((total + SLACK, d), np.float32)
    labels = xp.zeros(total + SLACK, np.float64)
    truth = device.to_device(np.random.default_rng(seed).normal(size=d) / np.sqrt(d))
    step = max(1, (1 << 26) // d)
    for number, low in enumerate(range(0, total, step)):
        some = normals(xp, (min(step, total - low), d), seed + number)
        values[low : low + len(some)] = some
        noise = normals(xp, (len(some),), seed + number + 10_000)
        labels[low : low + len(some)] = some @ truth.astype(np.float32) + noise > 0
    held = DeviceRows.of_device(device, values, labels, sizes, 0)
    groups = np.zeros(len(sizes), GROUP)
    groups["head"], groups["n_rows"], groups["dim"] = 1 + np.arange(len(sizes)), sizes, d
    return passes.DevicePass(
        groups,
        LINEAR["logistic"].loss,
        np.ones(len(sizes)),
        None,
        True,
        1,
        on_device=held,
        which=np.arange(len(sizes)),
        heads=groups["head"].copy(),
    )


def ceilings(device: Any, size: int, found: dict[str, float]) -> Iterator[dict[str, Any]]:
    """Bytes read and written a second by the driver's copy on the device, and by a sum alone."""
    a = normals(device.xp, (size // 4,), 7)
    b = device.xp.zeros_like(a)

    def copy() -> None:
        if hasattr(b.data, "copy_from_device_async"):
            b.data.copy_from_device_async(a.data, a.nbytes)
        else:
            b[:] = a

    found["copy"] = 2 * a.nbytes / kernel_seconds(device, copy)
    found["read"] = a.nbytes / kernel_seconds(device, a.sum)
    off = abs(float((a - b).sum()))
    yield line("device-to-device copy, read and written, GB/s", "", found["copy"] / 1e9, off=off)
    yield line("x.sum() of CuPy, read, GB/s", "", found["read"] / 1e9)


def truth_of(device: Any, x: Any, y: Any, weights: Any) -> Any:
    """Loss, rows, and gradient by weights and intercept in double, by CuPy."""
    xp, d = device.xp, x.shape[1]
    w, sums = device.to_device(weights[:-1]), np.zeros(d + 3)
    for low in range(0, len(x), max(1, CHECKED // d)):
        some = x[low : low + max(1, CHECKED // d)].astype(np.float64)
        sign = 2 * y[low : low + len(some)] - 1
        z = sign * (some @ w + weights[-1])
        e = xp.exp(-xp.abs(z))
        loss = xp.maximum(-z, z * 0) + xp.log1p(e)
        slope = -sign * xp.where(z >= 0, e, e * 0 + 1) / (1 + e)
        parts = [loss.sum(), len(some), *device.to_host(slope @ some), slope.sum()]
        sums += np.array([float(part) for part in parts])
    return sums


def gradient_pass(
    device: Any, n: int, d: int, ceiling: dict[str, float]
) -> Iterator[dict[str, Any]]:
    """Yields figures of one pass: the whole call, its kernel alone, and two products in CuPy
    and PyTorch.
    """
    n = min(n, n * MOST_VALUES // (20_000_000 * d)) // 4 * 4
    rows = logistic_rows(device, np.array([n]), d)
    w = np.random.default_rng(1).normal(size=(1, d + 1)) / np.sqrt(d)
    part = rows.on_device.parts[0]
    x, y = part.values[:n], part.labels[:n]
    truth = truth_of(device, x, y, w[0])
    off = np.abs(rows.gradient(w)[0] - truth)
    wrong = {"off": float(off.max() / np.abs(truth).max())}
    whole = seconds(device, lambda: rows.gradient(w))
    visit = passes.Visit(
        rows, part, rows.table(part), device.to_device(w), rows.losses_on_device(), d + 3
    )
    alone = kernel_seconds(device, lambda: rows._gradient_of(visit))
    size = n * (4 * d + 8)
    name = f"logistic gradient pass, n={n:,}, d={d}"
    kernel = source.gradient(d, 4, n)
    yield line(
        f"{name}, of the copy bandwidth",
        ">= 0.70",
        size / whole / ceiling["copy"],
        seconds=whole,
        macros=dict(kernel.macros),
        **wrong,
    )
    yield line(
        f"{name}, its kernel alone, of the read bandwidth",
        ">= 0.85",
        size / alone / ceiling["read"],
        seconds=alone,
        **wrong,
    )
    signs = y.astype(np.float32) * 2 - 1
    at = device.to_device(w[0, :-1].astype(np.float32))
    peer = kernel_seconds(device, lambda: by_cupy(device.xp, x, signs, at), 3)
    yield line(
        f"{name}, against X @ w, X.T @ r of CuPy", ">= 1.7x", peer / whole, seconds=peer, **wrong
    )
    theirs = by_torch(x, signs, at)
    if theirs is not None:
        peer = kernel_seconds(device, theirs, 3)
        yield line(f"{name}, against the same of PyTorch", "", peer / whole, seconds=peer, **wrong)


def by_cupy(xp: Any, x: Any, signs: Any, at: Any) -> Any:
    """The gradient by two products, in float."""
    return x.T @ (-signs / (1 + xp.exp(signs * (x @ at))))


def by_torch(x: Any, signs: Any, at: Any) -> Callable[[], Any] | None:
    """The pass by PyTorch on the same memory; None without it."""
    try:
        import torch

        if not torch.cuda.is_available():
            return None
        a, b, c = (torch.from_dlpack(one) for one in (x, signs, at))
    except Exception:  # not installed, or not for arrays such as these
        return None
    torch.cuda.set_stream(torch.cuda.default_stream())
    return lambda: a.T @ (-b / (1 + torch.exp(b * (a @ c))))
