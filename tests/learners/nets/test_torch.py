"""The losses of 50 steps are PyTorch's, from the same first weights and on the same batches."""

import json
from pathlib import Path

import numpy as np
import pytest
from nets import PLAIN, flat, net
from torch_cases import BATCH, CASES, STEPS, rows, start

from tuskml.kernels.nets.training import ACTIVATIONS, ALGORITHMS

LOSSES = ("squared", "logistic", "softmax")
RECORDED = json.loads((Path(__file__).parent / "torch_losses.json").read_text())["losses"]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_losses_are_those_of_pytorch(number):
    """An epoch's mean is over its batches, so epochs of ever more rows say each step's loss."""
    case = CASES[number]
    x, y = rows(case)
    classes = np.arange(case["outputs"])[None] * 1.0 if case["outputs"] > 1 else None
    given = {name: case[name] for name in ("learning_rate", "weight_decay", "outputs")}
    first = flat([(w.astype(float), b.astype(float)) for w, b in start(case)])[None]
    sums = [0.0]
    for step in range(1, STEPS + 1):
        n = step * BATCH
        found = net(
            x[:n], y[:n].astype(float), start=first, classes=classes, epochs=1, batch=BATCH,
            hidden=tuple(case["hidden"]), loss=LOSSES.index(case["loss"]),
            activation=ACTIVATIONS.index(case["activation"]),
            algorithm=ALGORITHMS.index(case["algorithm"]), **given, **PLAIN,
        )  # fmt: skip
        sums.append(found.history[0, 0] * step)
    np.testing.assert_allclose(np.diff(sums), RECORDED[number], rtol=1e-5, atol=1e-6)
