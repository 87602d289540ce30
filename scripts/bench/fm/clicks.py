"""Rows like clicks: many categories with interactions planted between them, and 10^6 ids."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FIELDS, IDS, RANK = 20, 1_000_000, 4
Ids = NDArray[np.int32]
Labels = NDArray[np.bool_]


def clicks(n: int, seed: int) -> tuple[Ids, Labels, float]:
    """Ids of n rows, (n, FIELDS), their labels, and the log-loss of the true probabilities.

    Fields have from 7 to 360,000 ids, the frequent ones first. Weights and vectors of ids are
    the same for all seeds.
    """
    sizes = np.geomspace(10, IDS / 2, FIELDS)
    sizes = np.maximum(sizes * IDS / sizes.sum(), 5).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(sizes)])
    truth, rng = np.random.default_rng(1), np.random.default_rng(seed + 2)
    weights = truth.normal(0, 0.25, first[-1])
    vectors = truth.normal(0, 0.18, (first[-1], RANK))
    ids = np.empty((n, FIELDS), np.int32)
    margins, sums, squares = np.full(n, -1.2), np.zeros((n, RANK)), np.zeros((n, RANK))
    for field, size in enumerate(sizes.tolist()):
        place = ((size + 1.0) ** rng.random(n) - 1).astype(np.int64)  # about 1 / rank
        ids[:, field] = first[field] + np.minimum(place, size - 1)
        one = vectors[ids[:, field]]
        margins += weights[ids[:, field]]
        sums += one
        squares += one * one
    margins += (sums * sums - squares).sum(axis=1) / 2
    labels = rng.random(n) < 1 / (1 + np.exp(-margins))
    least = float(np.where(labels, np.logaddexp(0, -margins), np.logaddexp(0, margins)).mean())
    return ids, labels, least


def write_libsvm(path: Path, ids: Ids, labels: Labels) -> None:
    """The file that libFM and xLearn read: a line `label id:1 id:1 ...` per row."""
    with path.open("w") as file:
        for row, label in zip(ids.tolist(), labels.tolist(), strict=True):
            file.write(f"{int(label)} {' '.join(f'{one}:1' for one in row)}\n")
