"""Training of the centres of each group of a pass (`kernels/native/clusters/api.h`)."""

import ctypes
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.structures import KERNELS

CLUSTERED = KERNELS.dtype("tk_clustered")
"""Dtype of the C structure `tk_clustered`."""


@KERNELS.structure("tk_clusters")
class Clusters(ctypes.Structure):
    """The C structure `tk_clusters`."""


ALGORITHMS = ("auto", "lloyd", "minibatch")
LARGE, MOST_CLUSTERS, POINTS = KERNELS.constants("TK_CLUSTERS_", "LARGE MOST POINTS")
FIXED, TOLERANCE, ITERATIONS, LATE, FEW, OUT_OF_RANGE = KERNELS.constants(
    "TK_CLUSTERS_", "FIXED TOLERANCE ITERATIONS LATE FEW OUT_OF_RANGE"
)
"""Reasons for the end of a training."""


@dataclass(frozen=True)
class Rules:
    """Options of a training of centres; the fields of `tk_clusters` by their names there.

    algorithm: an index into `ALGORITHMS`; epsilon: negative for the algorithm's default.
    """

    clusters: int
    starts: int
    algorithm: int
    max_iter: int
    batch_size: int
    standardize: bool
    epsilon: float
    seed: int

    def numbers(
        self, n_features: NDArray[np.int64], n_rows: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Largest count of numbers of the centres, with units.

        n_rows: rows of the groups, which have no more centres than that; None: room for all
        clusters.
        """
        most = self.clusters if n_rows is None else np.minimum(self.clusters, n_rows)
        return np.asarray(self.standardize * n_features + most * (n_features + 1))


@dataclass(frozen=True)
class ClusterResult:
    """The centres of G groups.

    numbers: one array per group, with units (d,) if features are standardized and room for all
    centres (clusters, 1 + d), each with the weight of its rows first; history: (G, POINTS), NaN
    behind the last iteration; about: `CLUSTERED` of shape (G,).
    """

    numbers: list[Floats]
    history: Floats
    about: NDArray[np.void]


def train_centres(rows: Pass, rules: Rules, memory: int) -> ClusterResult:
    """The centres of each group.

    memory: the account that is charged, 0 for the heap. Raises Interrupted, MemoryError and
    TuskError.
    """
    ends = np.cumsum(rules.numbers(rows.groups["dim"].astype(np.int64)))
    place = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    how = Clusters(**asdict(rules))
    how.place = pointer(place)
    numbers = np.zeros(ends[-1])
    history = np.full((rows.n_groups, POINTS), np.nan)
    about = np.zeros(rows.n_groups, CLUSTERED)
    out = pointer(numbers), pointer(history), pointer(about)
    check_code(library().tk_train_clusters(rows.struct, how, memory, *out))
    return ClusterResult(np.split(numbers, ends[:-1]), history, about)
