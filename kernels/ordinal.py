"""Passes over rows of ordered levels (`kernels/native/ordinal/api.h`)."""

import ctypes
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.structures import KERNELS


@KERNELS.structure("tk_ordinal")
class Ordinal(ctypes.Structure):
    """The C structure `tk_ordinal`."""


LINKS = ("logit", "probit", "cloglog")
"""The links, by their numbers in the kernels."""


@dataclass(frozen=True)
class Levels:
    """The levels of G groups: label (G, K), rising, the link's index in `LINKS`, and the shift and
    scale (G, d) of z. Weights v are (G, q), the K - 1 thresholds first.
    """

    label: Floats
    link: int
    shift: Floats
    scale: Floats

    @property
    def cuts(self) -> int:
        """The number of thresholds, K - 1."""
        return int(self.label.shape[1]) - 1

    def of(self, which: NDArray[np.intp]) -> "Levels":
        """The levels of some of the groups."""
        own = {name: getattr(self, name)[which] for name in ("label", "shift", "scale")}
        return replace(self, **own)

    def struct(self, of_scores: int = 0) -> Ordinal:
        """The structure that kernels read, valid while this object lives."""
        arrays = pointer(self.label), pointer(self.shift), pointer(self.scale)
        return Ordinal(self.cuts + 1, self.link, of_scores, *arrays)

    def losses(self, rows: Pass, v: Floats) -> Floats:
        """The summed losses of groups, (G,)."""
        out = np.empty((len(v), 2))
        once, v = replace(rows, loss_only=True), np.ascontiguousarray(v)
        check_code(library().tk_ordinal_sums(once.struct, self.struct(), pointer(v), pointer(out)))
        return out[:, 0]

    def sums(self, rows: Pass, v: Floats, of_scores: int = 0) -> tuple[Floats, Floats, Floats]:
        """Sums over rows: losses (G,), their gradients by v (G, q), and the lower triangles of
        their curvatures (G, q (q + 1) / 2).

        of_scores: 1 for squared scores in place of curvatures, 2 with squared weights of rows.
        """
        n, q = v.shape
        out, v = np.empty((n, 2 + q + q * (q + 1) // 2)), np.ascontiguousarray(v)
        how = self.struct(of_scores)
        check_code(library().tk_ordinal_sums(rows.struct, how, pointer(v), pointer(out)))
        return out[:, 0], out[:, 2 : 2 + q], np.ascontiguousarray(out[:, 2 + q :])

    def cluster_scores(self, rows: Pass, v: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Lower triangles of the summed squares of the clusters' scores (G, q (q + 1) / 2), and
        the number of clusters (G,). The rows have clusters.
        """
        n, q = v.shape
        out, v = np.empty((n, q * (q + 1) // 2)), np.ascontiguousarray(v)
        clusters = np.empty(n, np.int64)
        given = pointer(v), pointer(out), pointer(clusters)
        check_code(library().tk_ordinal_clusters(rows.struct, self.struct(), *given))
        return out, clusters

    def reach(self, rows: Pass, v: Floats, step: Floats) -> Floats:
        """What Newton's step says of the existence of an optimum, (G, 2): `tk_ordinal_reach`."""
        out = np.empty((len(v), 2))
        v, step = np.ascontiguousarray(v), np.ascontiguousarray(step)
        given = pointer(v), pointer(step), pointer(out)
        check_code(library().tk_ordinal_reach(rows.struct, self.struct(), *given))
        return out
