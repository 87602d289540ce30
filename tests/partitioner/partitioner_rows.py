"""What tests of the partitioner share."""

import numpy as np
from hypothesis import strategies as st

from tuskml.partitioner import SparseRows, sparse_rows

N_FEATURES = 12


def packed(rows: list[list[int]]) -> SparseRows:
    """Rows given as lists."""
    indptr = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    return sparse_rows(indptr.astype(np.int64), np.array([i for row in rows for i in row], int))


def lists(rows: SparseRows) -> list[list[int]]:
    """Rows as lists."""
    return [part.tolist() for part in np.split(rows.ids, rows.starts[1:-1])] if len(rows) else []


def zipf(n: int, dim: int, seed: int) -> np.ndarray:
    """n ids below dim, of which id k is drawn about 1 / (k + 1) as often as id 0."""
    uniform = np.random.default_rng(seed).random(n)
    return (np.exp(uniform * np.log(dim + 1)) - 1).astype(np.int64)


sparse_lists = st.lists(st.lists(st.integers(0, N_FEATURES - 1), max_size=8), max_size=80)
