"""Nets with recorded losses of PyTorch; read by the test and by the recording program.

python tests/helpers/torch_cases.py FILE writes the losses of 50 steps of each, by PyTorch.
"""

import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

STEPS, BATCH, INPUTS = 50, 32, 7
CASES: list[dict[str, Any]] = [
    {"loss": loss, "activation": activation, "hidden": hidden, "outputs": outputs, **more}
    for loss, outputs in (("squared", 1), ("logistic", 1), ("softmax", 4))
    for activation, hidden, more in (
        ("relu", [24], {"algorithm": "adam", "learning_rate": 0.003, "weight_decay": 0.0}),
        ("tanh", [16, 8], {"algorithm": "adam", "learning_rate": 0.01, "weight_decay": 0.1}),
        ("gelu", [20, 5], {"algorithm": "sgd", "learning_rate": 0.05, "weight_decay": 0.0}),
    )
]


def rows(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of all steps, float32."""
    random = np.random.default_rng(11)
    x = random.normal(size=(STEPS * BATCH, INPUTS)).astype(np.float32)
    m = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.3 * random.normal(size=len(x))
    if case["loss"] == "squared":
        return x, m.astype(np.float32)
    if case["loss"] == "logistic":
        return x, (m > 0).astype(np.float32)
    return x, np.digitize(m, [-1, 0, 1]).astype(np.float32)


def start(case: dict[str, Any]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The first weights (units, inputs) and biases (units,) of each layer, float32."""
    return layers(np.random.default_rng(12), [INPUTS, *case["hidden"], case["outputs"]])


def layers(random: np.random.Generator, sizes: list[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Drawn weights (units, inputs) and biases (units,) of layers between these sizes, float32."""
    return [
        (
            (random.normal(size=(n, d)) / np.sqrt(d)).astype(np.float32),
            (0.1 * random.normal(size=n)).astype(np.float32),
        )
        for d, n in pairwise(sizes)
    ]


def linear(weights: np.ndarray, biases: np.ndarray) -> Any:
    """A layer of PyTorch with these initial weights."""
    import torch

    layer = torch.nn.Linear(weights.shape[1], weights.shape[0])
    layer.weight.data, layer.bias.data = torch.tensor(weights), torch.tensor(biases)
    return layer


def stepper(case: dict[str, Any], decayed: list[Any], biases: list[Any]) -> Any:
    """PyTorch's algorithm of a case, whose weight decay leaves out the biases."""
    import torch

    groups = [
        {"params": decayed, "weight_decay": case["weight_decay"]},
        {"params": biases, "weight_decay": 0.0},
    ]
    if case["algorithm"] == "adam":
        return torch.optim.AdamW(groups, lr=case["learning_rate"])
    return torch.optim.SGD(groups, lr=case["learning_rate"], momentum=case.get("momentum", 0.9))


def record(file: str, losses: Callable[[dict[str, Any]], list[float]], cases: list[Any]) -> None:
    """Writes the losses of each case, and by which version of PyTorch."""
    import torch

    recorded = {"torch": torch.__version__, "losses": [losses(case) for case in cases]}
    Path(file).write_text(json.dumps(recorded, indent=0))


def losses(case: dict[str, Any]) -> list[float]:
    """The mean loss of each step's batch before the step, by PyTorch."""
    import torch

    nn = torch.nn
    activation = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}[case["activation"]]
    parts: list[Any] = []
    for weights, biases in start(case):
        parts += [linear(weights, biases), activation()]
    net = nn.Sequential(*parts[:-1])
    made = [part for part in net if isinstance(part, nn.Linear)]
    stepped = stepper(case, [one.weight for one in made], [one.bias for one in made])
    x, y = map(torch.tensor, rows(case))
    found = []
    for at in range(0, len(x), BATCH):
        m, label = net(x[at : at + BATCH]), y[at : at + BATCH]
        if case["loss"] == "squared":
            loss = ((m[:, 0] - label) ** 2).mean() / 2
        elif case["loss"] == "logistic":
            loss = nn.functional.binary_cross_entropy_with_logits(m[:, 0], label)
        else:
            loss = nn.functional.cross_entropy(m, label.long())
        stepped.zero_grad()
        loss.backward()
        stepped.step()
        found.append(loss.item())
    return found


if __name__ == "__main__":
    record(sys.argv[1], losses, CASES)
