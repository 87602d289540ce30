"""Nets with embedded categories for which PyTorch's losses were recorded.

PYTHONPATH=tests/helpers python tests/learners/nets/torch_embeddings.py FILE writes the losses of
50 steps of each, by PyTorch.
"""

import sys
from typing import Any

import numpy as np
from torch_cases import layers, linear, record, stepper

STEPS, BATCH, PLAIN, HIDDEN = 50, 32, 2, 12
LEVELS, LENGTHS, FIRST = (5, 9), (3, 4), (1, 6)
"""Of each category its levels, the length of its vectors and its first feature; the first of the
plain features is before them, the other one behind."""
CASES: list[dict[str, Any]] = [
    {"loss": "squared", "algorithm": "adam", "learning_rate": 0.01, "weight_decay": 0.0},
    {"loss": "logistic", "algorithm": "adam", "learning_rate": 0.02, "weight_decay": 0.1},
    {"loss": "squared", "algorithm": "sgd", "learning_rate": 0.02, "weight_decay": 0.0},
    {"loss": "logistic", "algorithm": "adam", "learning_rate": 0.02, "weight_decay": 0.0,
     "class_weight": (0.4, 3.0)},
    {"loss": "squared", "algorithm": "adam", "learning_rate": 0.01, "weight_decay": 0.0,
     "sparse": True},
    {"loss": "logistic", "algorithm": "adam", "learning_rate": 0.02, "weight_decay": 0.0,
     "sparse": True},
    {"loss": "squared", "algorithm": "sgd", "learning_rate": 0.02, "weight_decay": 0.0,
     "momentum": 0.0, "sparse": True},
]  # fmt: skip
"""sparse: PyTorch's SparseAdam for the vectors. Its gradient descent has no momentum there."""


def rows(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Plain features (n, 2), levels (n, 2) and labels (n,) of all steps."""
    random = np.random.default_rng(21)
    n = STEPS * BATCH
    x = random.normal(size=(n, PLAIN)).astype(np.float32)
    level = np.stack([random.integers(0, k, n) for k in LEVELS], axis=1)
    m = x[:, 0] * (level[:, 0] - 2) + (level[:, 1] == 3) - 0.5 + 0.3 * random.normal(size=n)
    y = m if case["loss"] == "squared" else m > 0
    return x, level, y.astype(np.float32)


def features(x: np.ndarray, level: np.ndarray) -> np.ndarray:
    """The rows with a feature per level, (n, 16) float32."""
    parts = [np.eye(k, dtype=np.float32)[level[:, c]] for c, k in enumerate(LEVELS)]
    return np.concatenate([x[:, :1], *parts, x[:, 1:]], axis=1)


def start() -> tuple[list[np.ndarray], list[tuple[np.ndarray, np.ndarray]]]:
    """The first vectors of each table, and weights and biases of each layer, float32."""
    random = np.random.default_rng(22)
    vectors = [random.normal(size=(k, d)) for k, d in zip(LEVELS, LENGTHS, strict=True)]
    drawn = layers(random, [PLAIN + sum(LENGTHS), HIDDEN, 1])
    return [one.astype(np.float32) for one in vectors], drawn


def losses(case: dict[str, Any]) -> list[float]:
    """The mean loss of each step's batch before the step, by PyTorch. Weights of classes are
    divided by their mean over all rows."""
    import torch

    nn = torch.nn
    vectors, drawn = start()
    sparse = case.get("sparse", False)
    tables = [
        nn.Embedding.from_pretrained(torch.tensor(one), freeze=False, sparse=sparse)
        for one in vectors
    ]
    made = [linear(weights, biases) for weights, biases in drawn]
    of_tables, of_layers = [one.weight for one in tables], [one.weight for one in made]
    biases = [one.bias for one in made]
    if sparse and case["algorithm"] == "adam":
        steppers = [
            stepper(case, of_layers, biases),
            torch.optim.SparseAdam(of_tables, lr=case["learning_rate"]),
        ]
    else:
        steppers = [stepper(case, of_tables + of_layers, biases)]
    x, level, y = map(torch.tensor, rows(case))
    weight = torch.tensor(case.get("class_weight", (1.0, 1.0)))[(y > 0).long()]
    weight = weight / weight.mean()
    found = []
    for at in range(0, len(x), BATCH):
        some = slice(at, at + BATCH)
        parts = [x[some], *(table(level[some, c]) for c, table in enumerate(tables))]
        m = made[1](torch.relu(made[0](torch.cat(parts, dim=1))))[:, 0]
        if case["loss"] == "squared":
            loss = ((m - y[some]) ** 2).mean() / 2
        else:
            each = nn.functional.binary_cross_entropy_with_logits(m, y[some], reduction="none")
            loss = (weight[some] * each).mean()
        for one in steppers:
            one.zero_grad()
        loss.backward()
        for one in steppers:
            one.step()
        found.append(loss.item())
    return found


if __name__ == "__main__":
    record(sys.argv[1], losses, CASES)
