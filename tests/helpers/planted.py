"""Rows of planted cliques: features that always come together, under shuffled ids."""

import numpy as np

from tuskml.partitioner import SparseRows


def cliques(n, size=8, per_row=10, times=4, kept=1.0, seed=0):
    """(rows, members): each of n cliques in `times` random rows; members: int64, (n, size).

    kept: the probability of each member to be in a row of its clique.
    """
    rng = np.random.default_rng(seed)
    members = rng.permutation(n * size).astype(np.int64).reshape(n, size)
    drawn = rng.permutation(np.repeat(np.arange(n), times))
    n_rows = len(drawn) // per_row
    ids = members[drawn[: n_rows * per_row].reshape(n_rows, per_row)].reshape(n_rows, -1)
    there = rng.random(ids.shape) < kept
    starts = np.concatenate(([0], np.cumsum(there.sum(1))))
    return SparseRows(starts.astype(np.int64), ids[there]), members


def independent(n, n_rows, per_row, frequent=0, seed=0):
    """Rows of features that say nothing of each other; some of each row are of the first 20."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, n, (n_rows, per_row))
    ids[:, :frequent] = rng.integers(0, 20, (n_rows, frequent))
    return SparseRows(np.arange(0, ids.size + 1, per_row), ids.ravel()).distinct()
