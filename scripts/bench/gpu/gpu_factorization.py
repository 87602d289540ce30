"""Matrix factorization on a GPU compared with the CPU's: ratings of MovieLens 20M's shape,
rank 100.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from gpu_common import line, normals, packed, uniforms

from tuskml.kernels import passes
from tuskml.kernels.factorization import Factorization, Shape
from tuskml.kernels.gpu import source
from tuskml.kernels.gpu.factorization.training import DeviceFactorization

USERS, ITEMS, RATINGS = 138_493, 26_744, 20_000_000
RANK, EPOCHS, STEP, L2 = 100, 20, 0.05, 0.07
TRUE_RANK, NOISE = 10, 0.75
PIECES = 5
"""Pieces in which ratings train if they are declared not to fit."""
HELD_OUT = 20
"""One of this many ratings is held out."""


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


def factorization(device: Any, scale: float, threads: int, cpu: bool) -> Iterator[dict[str, Any]]:
    """An epoch by either schedule, and the error on held-out ratings, against the CPU's."""
    n = max(400, int(RATINGS * scale))
    users, items = (max(20, int(ids * min(1.0, scale**0.5))) for ids in (USERS, ITEMS))
    data = ratings(device, n, users, items)
    shape = Shape(users, items, RANK, True, L2)
    held = n // HELD_OUT
    train, test = ([column[rows] for column in data] for rows in (slice(held, n), slice(held)))
    name = f"matrix factorization, n={n - held:,}, {users:,} x {items:,}, rank {RANK}"
    moved = 16 * source.factor_stride(RANK, True) * (n - held)
    error: dict[str, float] = {}
    took: dict[str, float] = {}
    for lock_free in (True, False):
        kind = "lock-free" if lock_free else "ordered"
        began = time.perf_counter()
        with DeviceFactorization.of_columns(
            device, tuple(train), shape, 0, lock_free=lock_free
        ) as model:
            device.mark_launches().wait()
            ready = time.perf_counter() - began
            each = trained(model, lock_free)
            took[kind] = float(np.median(each))
            error[kind] = (2 * model.loss_at(*test)) ** 0.5
            schedule = model.ratings.schedule
            yield line(
                f"{name}, {kind} epoch, M ratings/s",
                "",
                (n - held) / took[kind] / 1e6,
                seconds=took[kind],
                gb=moved / took[kind] / 1e9,
                sort_seconds=ready,
                first_seconds=each[0],
                rmse=error[kind],
                workers=schedule.workers,
            )
    if not cpu:
        for kind in took:
            yield line(f"{name}, {kind} against the CPU", "", None)
        return
    host = [tuple(device.to_host(column) for column in part) for part in (train, test)]
    del data, train, test
    packs, _memories = on_host(host, threads)
    yield by_pieces(device, packs, shape, name)
    yield from against_cpu(name, took, error, on_cpu(packs, shape))


def against_cpu(
    name: str, took: dict[str, float], error: dict[str, float], theirs: tuple[float, float]
) -> Iterator[dict[str, Any]]:
    """The seconds and errors of each kind of epoch, by those of the CPU."""
    for kind, ours in took.items():
        yield line(
            f"{name}, {kind} epoch against the CPU", "", theirs[0] / ours, cpu_seconds=theirs[0]
        )
        yield line(
            f"{name}, {kind}, held-out RMSE off the CPU's",
            "<= 0.01",
            abs(error[kind] / theirs[1] - 1),
            cpu_rmse=theirs[1],
        )


def on_host(parts: list[tuple[Any, ...]], threads: int) -> tuple[list[Any], list[Any]]:
    """Ratings as rows of the packers', and their memory."""
    packs, memories = [], []
    for user, item, rating in parts:
        values = np.stack([user, item], 1).astype(np.float32)
        groups, memory = packed(values, rating, [0], np.array([len(rating)]), 2)
        packs.append(passes.Pass(groups, 0, None, None, True, threads))
        memories.append(memory)
    return packs, memories


def by_pieces(device: Any, packs: list[Any], shape: Shape, name: str) -> dict[str, Any]:
    """Lock-free epochs of ratings of which a part is on the device at a time."""
    n = int(packs[0].groups["n_rows"][0])
    began = time.perf_counter()
    model = DeviceFactorization.of_rows(
        packs[0], device, shape, 0, lock_free=True, at_once=max(1 << 10, n // PIECES)
    )
    with model:
        ready = time.perf_counter() - began
        each = trained(model, True)
        error = (2 * model.loss(packs[1])) ** 0.5
    took = float(np.median(each))
    return line(
        f"{name}, lock-free epoch by pieces, M ratings/s",
        "",
        n / took / 1e6,
        seconds=took,
        sort_seconds=ready,
        rmse=error,
    )


def on_cpu(packs: list[Any], shape: Shape) -> tuple[float, float]:
    """Seconds of an epoch and the held-out RMSE of the CPU's kernels."""
    with Factorization(packs[0], 0, shape, 0) as model:
        each = trained(model, False)
        return float(np.median(each)), (2 * model.loss(packs[1])) ** 0.5
