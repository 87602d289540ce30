"""Many nets at once by arrays of a device, compared with the CPU's kernels and PyTorch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gpu_common import line, packed

from tuskml.kernels import passes
from tuskml.kernels.gpu.nets.training import train_on_device
from tuskml.kernels.nets.training import LOGISTIC, ByGroup, Rules, train_nets

ROWS, INPUTS, UNITS, BATCH = 2000, 28, 32, 32
EPOCHS = 3
REPEATS = 5
RATE = 0.001
ROUNDING = 1e-3
"""Rounding of losses after some epochs in float."""


def rows_of(groups: int, threads: int) -> tuple[Any, Any, Any]:
    """Groups of rows whose labels need a net: a pass, its memory, and the arrays."""
    random = np.random.default_rng(1)
    x = random.normal(size=(groups, ROWS, INPUTS)).astype(np.float32)
    y = (x[..., 0] * x[..., 1] + np.sin(2 * x[..., 2]) + x[..., 3] > 0).astype(np.float64)
    first = np.arange(groups) * ROWS
    values = x.reshape(-1, INPUTS)
    records, memory = packed(values, y.ravel(), first, np.full(groups, ROWS), INPUTS)
    rows = passes.Pass(records, LOGISTIC, np.ones(groups), None, True, threads)
    return rows, memory, (x, y.astype(np.float32))


def nets(device: Any, groups: int, threads: int, cpu: bool) -> Iterator[dict[str, Any]]:
    """Nets 28-32-1 of 2,000 rows each, epochs of batches of 32 by Adam, the copy included."""
    rules = Rules(
        loss=LOGISTIC,
        activation=0,
        algorithm=0,
        schedule=0,
        outputs=1,
        hidden=(UNITS,),
        epochs=EPOCHS,
        batch=BATCH,
        patience=1,
        decay_every=1,
        learning_rate=RATE,
        decay=0.1,
        momentum=0.9,
        weight_decay=0.0,
        dropout=0.0,
        seed=0,
    )
    name = f"{groups:,} nets 28-32-1 of {ROWS:,} rows, {EPOCHS} epochs"
    if not cpu:
        yield line(name, "", None)
        return
    rows, _memory, arrays = rows_of(groups, threads)
    found, ours = timed(lambda: train_on_device(device, rows, rules, ByGroup()))
    theirs, took = timed(lambda: train_nets(rows, rules, 0, ByGroup()))
    off = np.abs(found.about["loss"] / theirs.about["loss"] - 1).max()
    wrong = {"off": float(off), "allowed": ROUNDING}
    yield line(f"{name}, seconds", "", ours, **wrong)
    yield line(f"{name}, against the CPU", "", took / ours, cpu_seconds=took, **wrong)
    peer = by_torch(*arrays)
    if peer is not None:
        _, theirs_took = timed(peer)
        yield line(
            f"{name}, against torch.bmm and Adam",
            "",
            theirs_took / ours,
            peer_seconds=theirs_took,
            **wrong,
        )


def timed(body: Callable[[], Any]) -> tuple[Any, float]:
    """The result of the last run, and the median seconds; a first run warms up."""
    body()
    took = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        found = body()
        took.append(time.perf_counter() - began)
    return found, statistics.median(took)


def by_torch(x: Any, y: Any) -> Callable[[], Any] | None:
    """The nets as products of batches; None without PyTorch and its GPU."""
    try:
        import torch

        if not torch.cuda.is_available():
            return None
    except ImportError:
        return None
    g = len(x)

    def body() -> None:
        rows, labels = torch.as_tensor(x, device="cuda"), torch.as_tensor(y, device="cuda")
        shapes = (g, INPUTS, UNITS), (g, 1, UNITS), (g, UNITS, 1), (g, 1, 1)
        weights = [torch.nn.Parameter(0.1 * torch.randn(s, device="cuda")) for s in shapes]
        adam = torch.optim.Adam(weights, RATE, fused=True)
        loss_of = torch.nn.BCEWithLogitsLoss(reduction="sum")
        for _ in range(EPOCHS):
            order = torch.randperm(ROWS, device="cuda")
            for at in range(0, ROWS, BATCH):
                some = order[at : at + BATCH]
                hidden = torch.relu(torch.baddbmm(weights[1], rows[:, some], weights[0]))
                m = torch.baddbmm(weights[3], hidden, weights[2])[..., 0]
                adam.zero_grad()
                (loss_of(m, labels[:, some]) / len(some)).backward()
                adam.step()
        torch.cuda.synchronize()

    return body
