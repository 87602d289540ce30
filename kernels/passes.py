"""Passes over rows and the linear systems of Newton's method, by the kernels of
`kernels/native/linear/api.h`, which are called with the GIL released.

Arrays are C-contiguous float64 unless a name says otherwise.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tuskml.kernels import structures
from tuskml.kernels.epochs import Epoch
from tuskml.kernels.library import (
    Charges,
    Floats,
    Triangles,
    address_of,
    cancel,
    cancel_count,
    cancel_mark,
    check_code,
    library,
    mark_begin,
    pointer,
    raise_if_cancelled,
    watching_sigint,
)
from tuskml.kernels.open_rows import Calling, Open
from tuskml.kernels.segments import dense_bytes, dense_row_bytes, value_size
from tuskml.kernels.structures import GROUP, LABELS, SEGMENT, WEIGHTS, Robust, System
from tuskml.schedule import budget

__all__ = [
    "GROUP",
    "KINDS",
    "LABELS",
    "NEAR_ONE",
    "Epoch",
    "Floats",
    "OwnedRows",
    "Pass",
    "Solution",
    "Triangles",
    "address_of",
    "cancel",
    "cancel_count",
    "cancel_mark",
    "library",
    "mark_begin",
    "most_rows",
    "raise_if_cancelled",
    "solve",
    "watching_sigint",
]

SQUARED = 0
"""Number of the squared loss, the cheapest one."""
NEAR_ONE = 256.0
"""Sparse features are not scaled if their largest values are within this factor of 1."""
KINDS = ("dense float32", "dense float64", "sparse float32", "sparse float64")
T = TypeVar("T")


class once(Generic[T]):
    """Like `functools.cached_property`, which before Python 3.12 has one lock for all objects.

    With that lock, a thread that waits for rows of other workers stops all others.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, one: None, owner: type) -> Self: ...

    @overload
    def __get__(self, one: object, owner: type) -> T: ...

    def __get__(self, one: object | None, owner: type) -> "Self | T":
        if one is None:
            return self
        value: T = self.compute(one)
        return one.__dict__.setdefault(self.name, value)  # type: ignore[no-any-return]


@dataclass
class Meter:
    """Counts of passes, in passes over all rows: one over every k-th chunk counts 1 / k.

    gradients: for the loss and its gradient; losses: for the loss alone; curvatures: for the
    curvature too; products: of the curvature with a direction; whole: whether each pass must be
    counted. Kernels that make several passes per call count none, and are not used then.
    """

    gradients: float = 0.0
    losses: float = 0.0
    curvatures: float = 0.0
    products: float = 0.0
    whole: bool = True

    def count_pass(self, stride: int, loss_only: bool = False) -> None:
        """Counts a pass for the loss, and unless loss_only its gradient."""
        if loss_only:
            self.losses += 1 / stride
        else:
            self.gradients += 1 / stride


def counts_all(meter: Meter | None) -> bool:
    """Returns whether each pass must be counted, which excludes kernels with several per call."""
    return meter is not None and meter.whole


def most_rows(groups: NDArray[np.void]) -> int:
    """Rows of the largest group, rounded down to a power of two for stability."""
    return 1 << int(np.log2(groups["n_rows"].max()))


LARGE = 1 << 21
"""Cells of a group of trees that several threads train, `LARGE` of `native/trees/bins.hpp`."""


@dataclass(frozen=True)
class Pass:
    """The rows of G groups with d features each, and their loss.

    groups: GROUP of shape (G,); positive: shape (G,), the label that counts as +1; class_weight:
    shape (G, 2), weights of the -1 and the +1 examples, or None; charges: allocates arrays by row,
    by default on the heap; deadline: of `time.monotonic()`, at which `curvature` and `solve` raise
    OutOfTime; parameter: shape (G, 2), the loss's parameter and a factor of smoothing, None: 0 and
    1; by_scores: `curvature` sums squared derivatives of the losses; meter: counts passes, if
    given; common: whether neighbouring groups have rows in common, which `gradient` reads once;
    origin: shape (G, d + 1), subtracted from features and labels, None: nothing (`move`).
    """

    groups: NDArray[np.void]
    loss: int = 0
    positive: Floats | None = None
    class_weight: Floats | None = None
    fit_intercept: bool = True
    threads: int = 1
    smoothing: float = 0.0
    loss_only: bool = False
    stride: int = 1
    cancel_mark: int = -1
    open: Open | None = None
    charges: Charges | None = None
    deadline: float | None = None
    parameter: Floats | None = None
    by_scores: bool = False
    meter: Meter | None = None
    common: bool = False
    origin: Floats | None = None

    @once
    def n_groups(self) -> int:
        """Number of groups, G."""
        return len(self.groups)

    @once
    def n_features(self) -> int:
        """Number of features of each group, d."""
        return int(self.groups["dim"][0])

    @once
    def sparse(self) -> bool:
        """Whether rows are ids and values."""
        return bool(self.groups["kind"][0] >= 2)

    @property
    def p(self) -> int:
        """Number of weights of one group: its features and the intercept."""
        return self.n_features + 1

    @once
    def weight(self) -> Floats:
        """Sum of the weights of each group's rows, (G,): their number if they have none."""
        if not self.has_weights:
            return np.asarray(self.groups["n_rows"], np.float64)
        own = replace(self, loss=SQUARED, loss_only=True, open=None)  # at weights 0 no row is read
        return own.gradient(np.zeros((self.n_groups, self.p)))[:, 1]

    @property
    def has_weights(self) -> bool:
        """Returns whether rows have weights."""
        return bool((self.groups["extras"] & WEIGHTS).any())

    @property
    def first_rows(self) -> NDArray[np.int64]:
        """Returns where each group's rows begin in an array of all groups' rows, (G,)."""
        counts = self.groups["n_rows"]
        return np.asarray(np.cumsum(counts) - counts, np.int64)

    def of(self, which: NDArray[np.intp]) -> "Pass":
        """The pass over some of the groups, in rising order."""
        if len(which) == self.n_groups:
            return self
        return replace(
            self,
            groups=self.groups[which],
            positive=None if self.positive is None else self.positive[which],
            class_weight=None if self.class_weight is None else self.class_weight[which],
            open=None if self.open is None else self.open.of(which),
            parameter=None if self.parameter is None else self.parameter[which],
            origin=None if self.origin is None else self.origin[which],
        )

    def beside(self, n: int, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Allocates n uninitialised items for data kept with the rows."""
        return np.empty(n, dtype) if self.charges is None else self.charges.empty(n, dtype)

    def head(self, rows: int) -> "Pass":
        """The pass over the first rows of each group."""
        groups = self.groups.copy()
        groups["n_rows"] = np.minimum(groups["n_rows"], rows)
        return replace(self, groups=groups)

    @cached_property
    def struct(self) -> structures.Pass:
        """The structure that kernels read. It is made once, because the arrays do not move."""
        return structures.Pass(
            pointer(self.groups),
            self.n_groups,
            pointer(self.positive),
            pointer(self.class_weight),
            self.loss,
            self.fit_intercept,
            self.smoothing,
            self.threads,
            self.loss_only,
            self.stride,
            self.cancel_mark,
            pointer(self.parameter),
            self.by_scores,
            self.deadline or 0.0,
            self.common,
        )

    def spend(self) -> None:
        """Frees the memory of the features of large groups, which are not read again.

        Labels and weights stay. Smaller groups share pages, so theirs stay too.
        """
        library().tk_spend(self.struct, LARGE)

    def labels(self) -> NDArray[np.void]:
        """LABELS of shape (G,): range, classes and moments of the labels."""
        out = np.zeros(self.n_groups, LABELS)
        check_code(library().tk_labels(self.struct, pointer(out)))
        return out

    def feature_moments(self, sample: int) -> tuple[Floats, Floats]:
        """Mean and standard deviation of dense features, each (G, d); a constant one has 0."""
        mean = np.empty((self.n_groups, self.n_features))
        deviation = np.empty_like(mean)
        code = library().tk_feature_moments(
            self.struct,
            sample,
            pointer(mean),
            pointer(deviation),
        )
        check_code(code)
        return mean, deviation

    def find_crowded_features(self, share: float, deviation: Floats) -> tuple[Floats, Floats]:
        """The median of dense features whose values lie together in most rows, and their spread
        around it, (G, d) each; 0 for other features.

        Their quartiles, by a sample, are within `share` of their deviation (G, d) from each other.
        """
        centre, spread = np.empty_like(deviation), np.empty_like(deviation)
        of = pointer(np.ascontiguousarray(deviation))
        check_code(
            library().tk_crowded_features(self.struct, share, of, pointer(centre), pointer(spread))
        )
        return centre, spread

    def find_crowded_entries(self, share: float, largest: Floats) -> Floats:
        """The root mean square of the values of crowded sparse features, (G, d); 0 for others.

        Of their nonzero values three in four are within `share` of the largest |value| (G, d).
        """
        spread, of = np.empty_like(largest), pointer(np.ascontiguousarray(largest))
        check_code(library().tk_crowded_entries(self.struct, share, of, pointer(spread)))
        return spread

    def feature_counts(self) -> tuple[Floats, Floats]:
        """Counts the rows of each sparse feature, and finds its largest |value|, each (G, d)."""
        count = np.empty((self.n_groups, self.n_features))
        largest = np.empty_like(count)
        check_code(library().tk_feature_counts(self.struct, pointer(count), pointer(largest)))
        return count, largest

    @once
    def counts_of_features(self) -> tuple[Floats, Floats]:
        """Returns what `feature_counts` does, and keeps it: do not write to the arrays."""
        return self.feature_counts()

    def far_means(self, times: float, share: Floats | None = None) -> tuple[Floats, Floats]:
        """Means of sparse features over nonzero values, (G, d + 1), if far from 0, and the
        standard deviations there.

        That is, if |mean| is more than `times` the standard deviation; else 0. The last one is 0,
        and so are those of features that occur twice in a row or are 0 in half of the rows. share
        (G, d): fraction of rows that have a feature; None: features occur in all rows, or have a
        0.
        """
        mean = np.empty((self.n_groups, self.n_features + 1))
        deviation, shares = np.empty_like(mean), None if share is None else pointer(share)
        out = pointer(mean), pointer(deviation)
        check_code(library().tk_far_means(self.struct, times, shares, *out))
        return mean, deviation

    def values_near_one(self) -> bool | None:
        """Returns whether the largest sampled sparse value of all groups is between 1/16 and 16.

        None: it is, but some values, which may be all of a feature's, are not within NEAR_ONE of
        1.
        """
        return (False, True, None)[library().tk_values_near_one(self.struct)]

    def entries(self) -> NDArray[np.int64]:
        """Number of entries of each group's sparse rows, (G,)."""
        first, count = self.groups.ctypes.data, library().tk_nonzeros
        places = range(self.n_groups)
        return np.array([count(first + i * GROUP.itemsize) for i in places])

    def nonzeros(self) -> int:
        """Number of entries of sparse rows in all groups."""
        return int(self.entries().sum())

    def gradient(self, weights: Floats) -> Floats:
        """Sums over rows, (G, d + 3): loss, rows, gradient by weight, by intercept.

        The first two alone when loss_only.
        """
        out = np.empty((self.n_groups, 2 if self.loss_only else self.n_features + 3))
        weights = np.ascontiguousarray(weights)
        if self.meter is not None:
            self.meter.count_pass(self.stride, self.loss_only)
        if self.open is not None:
            return self._open_gradient(weights, None, None, out)
        check_code(library().tk_gradient(self.struct, pointer(weights), pointer(out)))
        return out

    def curvature(self, weights: Floats, shift: Floats, scale: Floats, precise: bool) -> Floats:
        """`gradient`, followed by the lower triangle of the curvature of z, row by row."""
        p = self.p
        out = np.empty((self.n_groups, p + 2 + p * (p + 1) // 2))
        if self.meter is not None:
            self.meter.curvatures += 1 / self.stride
        weights = np.ascontiguousarray(weights)
        if self.open is not None:
            return self._open_gradient(weights, shift, scale, out)
        code = library().tk_curvature(
            self.struct,
            pointer(weights),
            pointer(shift),
            pointer(scale),
            int(precise),
            pointer(out),
        )
        check_code(code, f"the curvature of {p:,} weights")
        return out

    def size_likelihood(self, weights: Floats, size: Floats) -> Floats:
        """Sums over rows of counts, (G, 4), of a negative binomial with this size.

        The log-likelihood without log y!, its first and second derivatives by the size, and the
        number of rows.
        """
        out = np.empty((self.n_groups, 4))
        weights, size = np.ascontiguousarray(weights), np.ascontiguousarray(size)
        arguments = pointer(weights), pointer(size), pointer(out)
        check_code(library().tk_size_likelihood(self.struct, *arguments))
        return out

    def median_residual(self, weights: Floats) -> Floats:
        """Weighted median of |margin - label|, (G,)."""
        out, weights = np.empty(self.n_groups), np.ascontiguousarray(weights)
        check_code(library().tk_median_residual(self.struct, pointer(weights), pointer(out)))
        return out

    def squared_scores(
        self,
        weights: Floats,
        shift: Floats,
        scale: Floats,
        inverse: Floats,
        power: int,
        squared: bool = False,
    ) -> Floats:
        """Lower triangle of the sum of squared scores by z, (G, p (p + 1) / 2).

        Each score is divided by a power of 1 - its leverage; inverse: of the summed curvature,
        packed likewise; squared: whether the rows' weights are the squares of those of the
        curvature.
        """
        out = np.empty((self.n_groups, self.p * (self.p + 1) // 2))
        contiguous = [np.ascontiguousarray(one) for one in (weights, shift, scale, inverse)]
        how = Robust(*map(pointer, contiguous), power, squared)
        check_code(library().tk_squared_scores(self.struct, how, pointer(out)))
        return out

    def cluster_scores(
        self, weights: Floats, shift: Floats, scale: Floats
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Lower triangle of the summed squares of the clusters' scores, and number of clusters,
        (G,).

        The rows have clusters.
        """
        out = np.empty((self.n_groups, self.p * (self.p + 1) // 2))
        clusters = np.empty(self.n_groups, np.int64)
        contiguous = [np.ascontiguousarray(one) for one in (weights, shift, scale)]
        how = Robust(*map(pointer, contiguous), None, 0)
        check_code(library().tk_cluster_scores(self.struct, how, pointer(out), pointer(clusters)))
        return out, clusters

    def curvature_apart(
        self, weights: Floats, shift: Floats, scale: Floats, precise: bool
    ) -> tuple[Floats, Triangles]:
        """Like `curvature`, but returns the sums of `gradient` and the curvature separately."""
        sums = self.curvature(weights, shift, scale, precise)
        return sums, sums[:, self.n_features + 3 :]

    def _open_gradient(
        self, weights: Floats, shift: Floats | None, scale: Floats | None, out: Floats
    ) -> Floats:
        """`gradient`, or with shift and scale `curvature`, with the loss and rows of `open`."""
        assert self.open is not None
        calling = Calling(self.open)
        code = library().tk_open_pass(
            self.struct,
            calling.struct,
            pointer(weights),
            pointer(shift),
            pointer(scale),
            int(shift is not None),
            pointer(out),
        )
        check_code(calling.check(code))
        return out

    def sgd(self, epoch: Epoch, weights: Floats, average: Floats | None, shared: bool) -> Floats:
        """Runs one stochastic epoch: updates weights (G, p), fills average; returns losses."""
        loss = np.zeros(self.n_groups)
        kernel = library().tk_hogwild if shared else library().tk_sgd
        code = kernel(
            self.struct,
            epoch.struct,
            pointer(weights),
            pointer(average),
            pointer(loss),
        )
        check_code(code)
        return loss

    def svrg(
        self, epoch: Epoch, anchor: Floats, full: Floats, weights: Floats, average: Floats
    ) -> None:
        """One SVRG epoch around anchor, whose mean gradient is full; all (G, p)."""
        code = library().tk_svrg(
            self.struct,
            epoch.struct,
            pointer(anchor),
            pointer(full),
            pointer(weights),
            pointer(average),
        )
        check_code(code)

    def copy_rows(
        self, start: NDArray[np.int64], first: int, values: NDArray[Any], labels: Floats
    ) -> None:
        """Copies dense rows to values (n, d) and labels (n,), from index `first` on.

        Group g's rows begin at start[g]; zeros fill the gaps.
        """
        check_code(
            library().tk_copy_rows(
                self.struct,
                pointer(start),
                first,
                len(labels),
                pointer(values),
                pointer(labels),
            )
        )

    def move(self, memory: int, origin: Floats) -> "OwnedRows":
        """Copies the rows minus an origin (G, d + 1) of the features and the label, the last one.

        Sparse rows get the features that they lack and whose origin is not 0.
        """
        copy, origin = np.zeros(self.n_groups, GROUP), np.ascontiguousarray(origin)
        check_code(library().tk_moved(self.struct, memory, pointer(origin), pointer(copy)))
        return OwnedRows(copy)

    def runs(self, epoch: Epoch) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """Runs of neighbouring rows that an epoch visits, in order.

        Offset (G + 1,), index in the group and number of rows of each run.
        """
        offset = np.zeros(self.n_groups + 1, np.int64)
        arguments = self.struct, epoch.struct, pointer(offset)
        check_code(library().tk_runs(*arguments, None, None))
        places, rows = np.empty(offset[-1], np.int64), np.empty(offset[-1], np.int32)
        check_code(library().tk_runs(*arguments, pointer(places), pointer(rows)))
        return offset, places, rows

    def shuffle(
        self, memory: int, seed: int, held_out: NDArray[np.int64]
    ) -> tuple["OwnedRows", "OwnedRows"]:
        """Copies the rows, ordered by a hash of their content, as (training, held-out) rows."""
        trained, held = (np.zeros(self.n_groups, GROUP) for _ in range(2))
        held_out = np.ascontiguousarray(held_out)
        code = library().tk_shuffle(
            self.struct,
            memory,
            seed & (2**64 - 1),
            pointer(held_out),
            pointer(trained),
            pointer(held),
        )
        check_code(code, "a copy of the rows")
        return OwnedRows(trained), OwnedRows(held)


class OwnedRows:
    """Rows that a kernel wrote, freed when the context ends."""

    def __init__(self, groups: NDArray[np.void]) -> None:
        self.groups = groups

    def __enter__(self) -> NDArray[np.void]:
        return self.groups

    def __exit__(self, *_: object) -> None:
        library().tk_free_groups(pointer(self.groups), len(self.groups))


# The linear systems of Newton's iterations: small, one per group, solved together.


@dataclass(frozen=True)
class Solution:
    """step and inverse_diagonal are (G, p), rank and pivot (G,); see `tk_system`."""

    step: Floats
    rank: NDArray[np.int64]
    pivot: Floats
    inverse_diagonal: Floats | None


def solve(
    hessian: Triangles,
    gradient: Floats,
    threads: int,
    inverse: bool = False,
    *,
    cancel_mark: int = -1,
    deadline: float | None = None,
) -> Solution:
    """Solves hessian @ step = gradient for each group; hessian is (G, p(p+1)/2), packed.

    Raises Interrupted, and OutOfTime at the deadline.
    """
    if not isinstance(hessian, np.ndarray) and not inverse:
        solution: Solution = hessian.solve(gradient)
        return solution
    hessian = np.asarray(hessian)
    n, p = gradient.shape
    hessian, gradient = np.ascontiguousarray(hessian), np.ascontiguousarray(gradient)
    step = np.empty((n, p))
    rank = np.empty(n, np.int64)
    pivot = np.empty(n)
    diagonal = np.empty((n, p)) if inverse else None
    system = System(
        n,
        p,
        pointer(hessian),
        hessian.shape[1],
        pointer(gradient),
        pointer(step),
        pointer(rank),
        pointer(pivot),
        pointer(diagonal),
        threads,
        cancel_mark,
        deadline or 0.0,
    )
    check_code(library().tk_solve(system))
    return Solution(step, rank, pivot, diagonal)


# Rows of many small groups that are scattered over memory, copied together.

LEAST_GROUPS = 64
MOST_BYTES = 8 << 20
"""Bytes of rows moved in one call, so that they about fit into a cache."""
_threads = threading.local()


def gather_groups(rows: Pass) -> Pass:
    """Copies many small groups that are scattered over memory into one block.

    The copy belongs to this thread and is valid until the thread's next copy.
    """
    groups = rows.groups
    if rows.sparse or len(groups) < LEAST_GROUPS:
        return rows
    row = dense_row_bytes(rows.n_features, int(groups["kind"][0]), int(groups["extras"][0]))
    place = np.zeros(len(groups) + 1, np.int64)
    np.cumsum((SEGMENT.itemsize + groups["n_rows"] * row + 8 + 63) // 64 * 64, out=place[1:])
    struct = rows.struct
    if place[-1] > MOST_BYTES or not library().tk_scattered(struct):
        return rows
    copy = np.empty_like(groups)
    memory = _scratch(int(place[-1]))
    arguments = pointer(memory), pointer(place), pointer(copy)
    check_code(library().tk_gather(struct, *arguments), "a copy of the rows")
    return replace(rows, groups=copy)


def _scratch(size: int) -> NDArray[np.uint8]:
    """Memory of this thread, up to MOST_BYTES: fresh pages would cost more than the copy."""
    scratch: NDArray[np.uint8] | None = getattr(_threads, "scratch", None)
    if scratch is None or len(scratch) < size:
        scratch = _threads.scratch = np.empty(size, np.uint8)
    return scratch


# Statistics of packed rows, and copies without some rows.


def row_bytes(groups: NDArray[np.void]) -> int:
    """Bytes of the packed rows of groups of one kind."""
    rows, kind = int(groups["n_rows"].sum()), int(groups["kind"][0])
    if kind < 2:
        return dense_bytes(groups)
    entries = Pass(groups).nonzeros()
    return rows * 12 + entries * (4 + value_size(kind))


def first_labels(groups: NDArray[np.void]) -> Floats:
    """Least label of each group, (G,): the label of a group of one row."""
    least = Pass(groups).labels()["low"]
    return np.ascontiguousarray(least)


def leaks(groups: NDArray[np.void], least: int) -> NDArray[np.int32]:
    """Index, from 1 on, of the first feature of each group that determines the label, (G,).

    The feature is the label in all rows, or a linear function of it; 0 if there is none, or there
    are fewer than `least` rows.
    """
    rows = Pass(groups, threads=budget.threads(), cancel_mark=cancel_mark())
    codes = np.zeros(len(groups), np.int32)
    check_code(library().tk_leaks(rows.struct, least, pointer(codes)))
    return codes


def label_ranges(groups: NDArray[np.void]) -> NDArray[np.void]:
    """LABELS of shape (G,) of groups of any widths with numeric labels."""
    return Pass(groups, threads=budget.threads()).labels()


def weigh_rows(
    rows: Pass, label: Floats, factor: Floats, start: NDArray[np.int64], memory: int
) -> OwnedRows:
    """Copies the rows, each with its weight, or 1, times the factor of its label.

    label, factor: of the distinct labels of each group, rising, concatenated; start: (G + 1,),
    where each group begins there; memory: address of the account that the copies are charged to.
    """
    copies = np.zeros(rows.n_groups, GROUP)
    arguments = pointer(label), pointer(factor), pointer(start), pointer(copies)
    check_code(library().tk_weigh(rows.struct, memory, *arguments), "a copy of the rows")
    return OwnedRows(copies)


def copy_rows(groups: NDArray[np.void], chosen: Sequence[NDArray[Any]], memory: int) -> OwnedRows:
    """Copies the chosen rows of each group, (n,), in order; numbers are how often each is copied.

    memory: address of the account that the copies are charged to. If a row is copied twice, all
    copies have weights, of 1 where the rows have none.
    """
    rows = Pass(groups, threads=budget.threads(), cancel_mark=cancel_mark())
    taken = np.ascontiguousarray(np.concatenate(chosen), np.uint8)
    copies = np.zeros(len(groups), GROUP)
    check_code(library().tk_choose(rows.struct, memory, pointer(taken), pointer(copies)))
    copies["n_skipped"] = groups["n_skipped"]
    return OwnedRows(copies)
