"""Passes over rows of several classes (`kernels/native/classes`)."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import structures
from tuskml.kernels.epochs import Epoch
from tuskml.kernels.library import Floats, check_code, library, pointer
from tuskml.kernels.parts.hopping import hop
from tuskml.kernels.parts.sharded import REACH_LEAST, ShardedPass, least_or_most
from tuskml.kernels.structures import Robust

if TYPE_CHECKING:
    from tuskml.kernels.passes import Pass

AT_ONCE = 1024
"""Groups whose classes are collected at once."""


@dataclass(frozen=True)
class Softmax:
    """The classes of G groups: label (G, K), rising, and the weights of their rows, None: 1."""

    label: Floats
    weight: Floats | None = None

    @property
    def n_classes(self) -> int:
        return int(self.label.shape[1])

    def of(self, which: NDArray[np.intp]) -> "Softmax":
        """The classes of some of the groups."""
        weight = None if self.weight is None else self.weight[which]
        return replace(self, label=self.label[which], weight=weight)

    @property
    def struct(self) -> structures.Softmax:
        """The structure that kernels read, valid while this object lives."""
        return structures.Softmax(self.n_classes, pointer(self.label), pointer(self.weight))

    def gradient(self, rows: "Pass", weights: Floats) -> Floats:
        """Sums over rows, (G, 2 + K p): loss, rows, gradient; weights: (G, K, p), in the caller's
        units. The first two alone when rows.loss_only.
        """
        if isinstance(rows, ShardedPass):
            return rows.sum_replies("softmax_gradient", self.label, self.weight, weights)
        n, k, p = weights.shape
        out = np.empty((n, 2 if rows.loss_only else 2 + k * p))
        arguments = pointer(np.ascontiguousarray(weights)), pointer(out)
        check_code(library().tk_softmax_gradient(rows.struct, self.struct, *arguments))
        return out

    def curvature(self, rows: "Pass", weights: Floats, shift: Floats, scale: Floats) -> Floats:
        """Sums of the curvature of z, (G, K (K + 1) / 2, p (p + 1) / 2).

        The lower triangle of classes, and for each pair that of coordinates.
        """
        if isinstance(rows, ShardedPass):
            return rows.sum_replies(
                "softmax_curvature", self.label, self.weight, weights, shift, scale
            )
        n, k, p = weights.shape
        out = np.empty((n, k * (k + 1) // 2, p * (p + 1) // 2))
        weights = np.ascontiguousarray(weights)
        arguments = pointer(weights), pointer(shift), pointer(scale), pointer(out)
        check_code(library().tk_softmax_curvature(rows.struct, self.struct, *arguments))
        return out

    def scores(
        self,
        rows: "Pass",
        weights: Floats,
        to_z: tuple[Floats, Floats],
        clustered: bool = False,
        leverage: tuple[Floats, int, bool] | None = None,
    ) -> tuple[Floats, NDArray[np.int64] | None]:
        """Lower triangle of the sum of squared scores by z, (G, w (w + 1) / 2) with w = K p.

        Scores of rows, or of clusters, and the number of these, (G,). to_z: shift and scale;
        leverage: the packed inverse of the summed curvature, in the shape of the result, twice the
        power of 1 - leverage by which scores are divided, and whether the rows' weights are the
        squares of those of the curvature.
        """
        n, k, p = weights.shape
        inverse, power, squared = leverage or (None, 0, False)
        if isinstance(rows, ShardedPass):
            own = self.label, self.weight, weights, *to_z, inverse
            return rows.sum_replies("softmax_scores", *own, power=power, squared=squared), None
        out = np.empty((n, k * p * (k * p + 1) // 2))
        clusters = np.empty(n, np.int64) if clustered else None
        contiguous = [np.ascontiguousarray(one) for one in (weights, *to_z)]
        how = Robust(*map(pointer, contiguous), pointer(inverse), power, squared)
        call = library().tk_softmax_scores
        check_code(call(rows.struct, self.struct, how, pointer(out), pointer(clusters)))
        return out, clusters

    def reach(self, rows: "Pass", weights: Floats, direction: Floats, far: Floats) -> Floats:
        """Extremes over each group's rows and other classes, (G, 4), along a direction.

        The least margin of the true class against them, the least and the largest move of it, and
        the largest move of their margins above the mean by probability; weights, direction: (G, K,
        p). far (G,): margins of the true class above which other classes do not count.
        """
        if isinstance(rows, ShardedPass):
            replies = rows.ask("softmax_reach", self.label, self.weight, weights, direction, far)
            return least_or_most([one[0] for one in replies], REACH_LEAST)
        out = np.empty((len(weights), 4))
        weights, direction = np.ascontiguousarray(weights), np.ascontiguousarray(direction)
        far = np.ascontiguousarray(far)
        arguments = pointer(weights), pointer(direction), pointer(far), pointer(out)
        check_code(library().tk_softmax_reach(rows.struct, self.struct, *arguments))
        return out


@dataclass(frozen=True)
class Steps:
    """Stochastic epochs over rows of several classes.

    reference: whether the first class keeps its weights; else it keeps its intercept.
    """

    softmax: Softmax
    rows: "Pass"
    reference: bool

    def sgd(self, epoch: Epoch, weights: Floats, average: Floats | None, shared: bool) -> Floats:
        """Runs one epoch: updates weights (G, K p) in coordinates of z, fills average; returns the
        summed losses (G,).

        No threads share a model.
        """
        assert not shared
        if isinstance(self.rows, ShardedPass):
            own = self.softmax.label, self.softmax.weight
            options = {"reference": bool(self.reference)}
            return hop(self.rows, "softmax_sgd", own, epoch, weights, average, **options)
        loss = np.zeros(len(weights))
        out = pointer(weights), pointer(average), pointer(loss)
        call = library().tk_softmax_sgd
        struct = self.softmax.struct
        check_code(call(self.rows.struct, struct, epoch.struct, int(self.reference), *out))
        return loss


def classes_of(rows: "Pass", most: int) -> tuple[list[Floats], list[Floats], list[int]]:
    """Returns each group's distinct labels, rising, the rows of each, and the number of labels.

    With more than `most` labels the number is most + 1, without labels.
    """
    if isinstance(rows, ShardedPass):
        return merge_classes(rows.ask("classes", most=most), most)
    labels: list[Floats] = []
    counts: list[Floats] = []
    sizes: list[int] = []
    for first in range(0, rows.n_groups, AT_ONCE):
        some = rows.of(np.arange(first, min(first + AT_ONCE, rows.n_groups)))
        n = some.n_groups
        label, count, n_classes = np.empty((n, most)), np.empty((n, most)), np.empty(n, np.int64)
        outputs = pointer(label), pointer(count), pointer(n_classes)
        check_code(library().tk_classes(some.struct, most, *outputs))
        limited = [size if size <= most else 0 for size in n_classes.tolist()]
        labels += [label[g, :size].copy() for g, size in enumerate(limited)]
        counts += [count[g, :size].copy() for g, size in enumerate(limited)]
        sizes += n_classes.tolist()
    return labels, counts, sizes


def merge_classes(
    parts: list[list[Any]], most: int
) -> tuple[list[Floats], list[Floats], list[int]]:
    """Merges `classes_of` from the labels, the rows of each and the number of labels of parts."""
    counted: dict[float, float] = {}
    for label, count, _ in parts:
        for one, n in zip(label.tolist(), count.tolist(), strict=True):
            counted[one] = counted.get(one, 0.0) + n
    size = max(len(counted), *(int(one[2][0]) for one in parts))
    if size > most:
        return [np.empty(0)], [np.empty(0)], [most + 1]
    labels = sorted(counted)
    return [np.array(labels)], [np.array([counted[one] for one in labels])], [size]
