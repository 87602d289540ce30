"""Nets of many groups on the GPU: a step of arrays moves all of them."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from gpu_common import line

from tuskml.kernels.gpu.nets.training import Block, Training
from tuskml.kernels.nets.training import LOGISTIC, Rules

ROWS, INPUTS, EPOCHS = 2000, 28, 5


def nets(device: Any, groups: int) -> Iterator[dict[str, Any]]:
    """Nets 28-32-1 of 2,000 rows each, an epoch of batches of 32 by Adam."""
    rules = Rules(
        loss=LOGISTIC, activation=0, algorithm=0, schedule=0, outputs=1, hidden=(32,),
        epochs=EPOCHS, batch=32, patience=1, decay_every=1, learning_rate=0.001, decay=0.1,
        momentum=0.9, weight_decay=0.0, dropout=0.0, seed=0,
    )  # fmt: skip
    random = np.random.default_rng(1)
    x = random.normal(size=(groups, ROWS, INPUTS)).astype(np.float32)
    y = (x[..., 0] * x[..., 1] + np.sin(2 * x[..., 2]) + x[..., 3] > 0).astype(np.float32)
    one, none = np.ones((groups, INPUTS)), np.zeros((groups, INPUTS))
    block = Block(
        device.to_device(x), device.to_device(y), device.to_device(np.ones_like(y)),
        np.full(groups, ROWS), none, one, np.zeros(groups), np.ones(groups),
    )  # fmt: skip
    took = []
    for _ in range(2):  # the first warms up
        began = time.perf_counter()
        found = Training(device, block, rules, None, -1).run()
        took.append(time.perf_counter() - began)
    loss = float(found.about["loss"].mean())
    yield line(f"{groups:,} nets 28-32-1, an epoch", "", took[-1] / EPOCHS, loss=loss)
