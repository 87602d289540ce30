"""Matrix factorization on a GPU beside the CPU's: ratings of MovieLens 20M's shape, rank 100."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from gpu_common import line, normals, packed, uniforms

from tuskml.udas import kernels
from tuskml.udas.factorization import Factorization, Shape
from tuskml.udas.gpu import source
from tuskml.udas.gpu.factorization import DeviceFactorization

USERS, ITEMS, RATINGS = 138_493, 26_744, 20_000_000
RANK, EPOCHS, STEP, L2 = 100, 20, 0.05, 0.07
TRUE_RANK, NOISE = 10, 0.75
HELD_OUT = 20
"""One of so many ratings."""


def ratings(device: Any, n: int, users: int, items: int) -> tuple[Any, Any, Any]:
    """Ids int64 and ratings float64 (n,) on the device: a low-rank model with biases and noise.

    Popularity falls by a power law, ids in the order of it; a pair may occur again.
    """
    xp = device.xp
    user = (users * uniforms(xp, n, 1) ** 1.6).astype(np.int64)
    item = (items * uniforms(xp, n, 2) ** 2.5).astype(np.int64)
    p, q = normals(xp, (users, TRUE_RANK), 3), normals(xp, (items, TRUE_RANK), 4)
    rating = 3.5 + 0.43 * normals(xp, (users,), 5)[user] + 0.5 * normals(xp, (items,), 6)[item]
    for k in range(TRUE_RANK):
        rating += (0.5 / TRUE_RANK**0.5) * p[:, k][user] * q[:, k][item]
    rating += NOISE * normals(xp, (n,), 7)
    return user, item, rating.astype(np.float64)


def trained(model: Any, lock_free: bool) -> list[float]:
    """Seconds of each epoch, which ends with a sum on the host; the step falls to 0."""
    found = []
    for epoch in range(EPOCHS):
        began = time.perf_counter()
        model.epoch(epoch, STEP * (1 - epoch / EPOCHS), lock_free)
        found.append(time.perf_counter() - began)
    return found


def factorization(device: Any, scale: float, threads: int, cpu: bool) -> list[dict[str, Any]]:
    """An epoch by either schedule, and the error on held-out ratings, against the CPU's."""
    n = max(400, int(RATINGS * scale))
    users, items = (max(20, int(ids * min(1.0, scale**0.5))) for ids in (USERS, ITEMS))
    data = ratings(device, n, users, items)
    shape = Shape(users, items, RANK, True, L2)
    held = n // HELD_OUT
    train, test = ([column[rows] for column in data] for rows in (slice(held, n), slice(held)))
    name = f"matrix factorization, n={n - held:,}, {users:,} x {items:,}, rank {RANK}"
    moved = 16 * source.factor_stride(RANK, True) * (n - held)
    lines, error, took = [], {}, {}
    for lock_free in (True, False):
        kind = "lock-free" if lock_free else "ordered"
        began = time.perf_counter()
        with DeviceFactorization.of_columns(
            device, *train, shape, 0, lock_free=lock_free
        ) as model:
            device.launched().wait()
            ready = time.perf_counter() - began
            each = trained(model, lock_free)
            took[kind] = float(np.median(each))
            error[kind] = (2 * model.loss_at(*test)) ** 0.5
            schedule = model.ratings.schedule
            lines.append(
                line(f"{name}, {kind} epoch, M ratings/s", "", (n - held) / took[kind] / 1e6,
                     seconds=took[kind], gb=moved / took[kind] / 1e9, sort_seconds=ready,
                     first_seconds=each[0], rmse=error[kind], workers=schedule.workers)
            )  # fmt: skip
    if not cpu:
        return [*lines, *(line(f"{name}, {k} against the CPU", "", None) for k in took)]
    host = [tuple(device.to_host(column) for column in part) for part in (train, test)]
    theirs = on_cpu(host, shape, threads)
    for kind, ours in took.items():
        lines += [
            line(f"{name}, {kind} epoch against the CPU", "", theirs[0] / ours,
                 cpu_seconds=theirs[0]),
            line(f"{name}, {kind}, held-out RMSE off the CPU's", "<= 0.01",
                 abs(error[kind] / theirs[1] - 1), cpu_rmse=theirs[1]),
        ]  # fmt: skip
    return lines


def on_cpu(parts: list[tuple[Any, ...]], shape: Shape, threads: int) -> tuple[float, float]:
    """Seconds of an epoch and the held-out RMSE of the CPU's kernels."""
    passes, memories = [], []
    for user, item, rating in parts:
        values = np.stack([user, item], 1).astype(np.float32)
        groups, memory = packed(values, rating, [0], np.array([len(rating)]), 2)
        passes.append(kernels.Pass(groups, 0, None, None, True, threads))
        memories.append(memory)
    with Factorization(passes[0], 0, shape, 0) as model:
        each = trained(model, False)
        return float(np.median(each)), (2 * model.loss(passes[1])) ** 0.5
