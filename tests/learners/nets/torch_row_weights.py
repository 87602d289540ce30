"""Nets of weighted rows for which PyTorch's losses were recorded.

python tests/learners/nets/torch_row_weights.py FILE writes the losses of 50 steps of each, by
PyTorch. It needs tests/helpers in PYTHONPATH.
"""

import json
import sys
from typing import Any

import numpy as np
from torch_cases import BATCH, CASES, STEPS, rows, start

WEIGHTED = [CASES[0], CASES[3], CASES[7]]
"""A net for each loss, two by Adam and one with weight decay."""


def weights() -> np.ndarray:
    """Weights of all rows, with the mean 1 in each batch of a step."""
    found = np.random.default_rng(31).gamma(0.5, size=(STEPS, BATCH)) + 0.01
    whole: np.ndarray = (found / found.mean(axis=1, keepdims=True)).ravel()
    return whole


def losses(case: dict[str, Any]) -> list[float]:
    """The weighted mean loss of each step's batch before the step, by PyTorch."""
    import torch

    nn = torch.nn
    activation = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}[case["activation"]]
    parts: list[Any] = []
    for matrix, bias in start(case):
        layer = nn.Linear(matrix.shape[1], matrix.shape[0])
        layer.weight.data, layer.bias.data = torch.tensor(matrix), torch.tensor(bias)
        parts += [layer, activation()]
    net = nn.Sequential(*parts[:-1])
    layers = [part for part in net if isinstance(part, nn.Linear)]
    groups = [
        {"params": [one.weight for one in layers], "weight_decay": case["weight_decay"]},
        {"params": [one.bias for one in layers], "weight_decay": 0.0},
    ]
    made = torch.optim.AdamW(groups, lr=case["learning_rate"])
    x, y = map(torch.tensor, rows(case))
    weight, found = torch.tensor(weights().astype(np.float32)), []
    for at in range(0, len(x), BATCH):
        some = slice(at, at + BATCH)
        m, label = net(x[some]), y[some]
        if case["loss"] == "squared":
            each = (m[:, 0] - label) ** 2 / 2
        elif case["loss"] == "logistic":
            one = nn.functional.binary_cross_entropy_with_logits
            each = one(m[:, 0], label, reduction="none")
        else:
            each = nn.functional.cross_entropy(m, label.long(), reduction="none")
        loss = (weight[some] * each).mean()
        made.zero_grad()
        loss.backward()
        made.step()
        found.append(loss.item())
    return found


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump({"losses": [losses(case) for case in WEIGHTED]}, file)
