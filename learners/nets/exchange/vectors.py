"""Vectors of tables that are divided over workers: their owners, and the requests of a batch.

All vectors have a number, table by table. The worker of rank r has those whose number is r modulo
the number of workers, so the levels of each table are on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.nets.pieces import PAD, Numbers, Places, Single, concatenate_runs, scatter

Tables = Sequence[tuple[int, int, int]]


@dataclass(frozen=True)
class VectorRequest:
    """The vectors of tables that the rows of a batch read.

    levels: of each table, the vectors that the rows read, a level of several pieces repeated;
    floats: of all of them, table by table, padded; at, length: the position of each in that array,
    and its length; owners: of each worker, the indices of its vectors among these; ids: their
    numbers there.
    """

    levels: list[int]
    floats: int
    at: Places
    length: Numbers
    owners: list[NDArray[np.intp]]
    ids: list[Numbers]

    def put(self, vectors: Single, came: Sequence[Single]) -> None:
        """Stores the vectors that each worker has sent where the kernel reads them."""
        for some, given in zip(self.owners, came, strict=True):
            scatter(vectors, self.at[some], self.length[some], given)

    def take_gradients(self, by_vectors: Single) -> list[Single]:
        """The gradients by the vectors of each worker."""
        return [
            concatenate_runs(by_vectors, self.at[some], self.length[some]) for some in self.owners
        ]


def request_vectors(
    levels: NDArray[np.float32], pieces: NDArray[np.intp], tables: Tables, workers: int
) -> tuple[VectorRequest, NDArray[np.float32]]:
    """Collects the vectors that rows read, and the levels by which they read them.

    levels: (n, tables), the number of the level in each table or -1; pieces: (n,), of each row.
    The vectors come table by table, of each table piece by piece, in the order of the levels.
    """
    count = np.array([each for _, each, _ in tables], np.int64)
    size = np.array([each for _, _, each in tables], np.int32)
    base = np.cumsum(count) - count
    most, n_pieces = int(count.max(initial=1)), int(pieces.max(initial=0)) + 1
    there = levels >= 0
    blocks = np.arange(len(tables)) * n_pieces + pieces[:, None]
    keys = (blocks * most + levels.astype(np.int64))[there]
    found, place = np.unique(keys, return_inverse=True)
    table, level = found // (n_pieces * most), found % most
    each = np.bincount(table, minlength=len(tables))
    inside = np.arange(len(found)) - (np.cumsum(each) - each)[table]
    floats = -(-each * size // PAD) * PAD
    own = levels.copy()
    own[there] = inside[place.reshape(-1)]
    number = base[table] + level
    owners = [np.flatnonzero(number % workers == rank) for rank in range(workers)]
    ids = [(number[some] // workers).astype(np.int32) for some in owners]
    at = (np.cumsum(floats) - floats)[table] + inside * size[table]
    made = VectorRequest(each.tolist(), int(floats.sum()), at, size[table], owners, ids)
    return made, own
