"""Shared by the parts of `gpu.py`: time, random data, rows for the CPU's kernels, a line."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tuskml.kernels import passes
from tuskml.kernels.gpu.nets.orders import scramble
from tuskml.kernels.segments import SEGMENT

REPEATS = 7


def seconds(device: Any, body: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median of some runs after a first one; the device has done all of it."""
    body()
    device.mark_launches().wait()
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        body()
        device.mark_launches().wait()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def kernel_seconds(device: Any, body: Callable[[], object], repeats: int = REPEATS) -> float:
    """Seconds by the device's own clock, without the host's time to launch and to wait."""
    if getattr(device, "cupy", None) is None or not hasattr(device.cupy.cuda, "get_elapsed_time"):
        return seconds(device, body, repeats)
    event, elapsed = device.cupy.cuda.Event, device.cupy.cuda.get_elapsed_time
    body()
    found = []
    for _ in range(repeats):
        before, after = event(), event()
        before.record()
        body()
        after.record()
        after.synchronize()
        found.append(elapsed(before, after) / 1e3)
    return statistics.median(found)


def uniforms(xp: Any, n: int, seed: int) -> Any:
    """float64 (n,) from 0 to 1, on the arrays' device, by a hash of each index."""
    places = xp.arange(n, dtype=np.uint64) + np.uint64((seed + 1) << 40)
    return ((scramble(places) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def normals(xp: Any, shape: tuple[int, ...], seed: int) -> Any:
    """float32, where the arrays are."""
    try:
        return xp.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    except (ImportError, RuntimeError, AttributeError):  # cuRAND is not there: Box and Muller
        n = int(np.prod(shape))
        angle = 2 * np.pi * uniforms(xp, n, seed)
        size = xp.sqrt(-2 * xp.log(uniforms(xp, n, seed + 500_000)))
        return (size * xp.cos(angle)).astype(np.float32).reshape(shape)


def packed(values: Any, labels: Any, first: Any, n_rows: Any, dim: int) -> tuple[Any, Any]:
    """Dense float32 rows in the packers' layout: groups (passes.GROUP), and their memory.

    Group g is rows first[g] to first[g] + n_rows[g] - 1.
    """
    each = SEGMENT.itemsize + n_rows * (8 + 4 * dim)
    begin = np.concatenate([[0], np.cumsum(-(-each // 64) * 64)])
    memory = np.zeros(int(begin[-1]) + 64, np.uint8)
    base = -memory.ctypes.data % 64
    groups = np.zeros(len(n_rows), passes.GROUP)
    groups["n_rows"], groups["dim"] = n_rows, dim
    for g, n in enumerate(n_rows):
        segment = memory[base + begin[g] : base + begin[g] + each[g]]
        segment[16:24].view(np.uint32)[:] = n
        low = first[g]
        segment[32 : 32 + 8 * n].view(np.float64)[:] = labels[low : low + n]
        segment[32 + 8 * n :].view(np.float32)[:] = values[low : low + n].ravel()
        groups["head"][g] = segment.ctypes.data
    return groups, memory


WRONG = 1e-6
"""Relative error that exceeds rounding."""


def line(work: str, asked: str, reached: float | None, **more: Any) -> dict[str, Any]:
    """One figure; reached None: it could not be measured here; off: relative error of the
    computation. Raises ArithmeticError if that is too large.
    """
    off = more.get("off")
    if off is not None and not off <= more.get("allowed", WRONG):
        raise ArithmeticError(f"{work}: the result is off by {off:.3g}")
    found = {"work": work, "asked": asked, "reached": reached, **more}
    shown = "not measured" if reached is None else f"{reached:.4g}"
    rest = ", ".join(f"{k} {v:.4g}" for k, v in more.items() if isinstance(v, float))
    print(f"{work:<75} {asked:<30} {shown:>12}  {rest}", flush=True)
    return found
