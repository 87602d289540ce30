"""Warm starts shared between trainings of similar rows or options.

A training may start from the weights of another one, in its coordinates, and with its curvature.
Its result is independent of the start up to its tolerance: a start is only assumed to be closer to
the optimum than none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats

Places = NDArray[np.integer[Any]]
MOST_BYTES = 1 << 26
"""Bytes of a table that is kept in addition to the weights."""


@dataclass
class Parts:
    """Rows of the `number` parts of each of N sets, and data of a set without each part.

    rows: GROUP, (N * number,), the parts of a set being neighbours, None if not needed; systems:
    (N * number, T), as in `Near.curvature`; slopes: (N * number, d + 1), as in `Near.slope`.
    """

    rows: NDArray[np.void] | None = None
    number: int = 1
    systems: Floats | None = None
    slopes: Floats | None = None

    def of(self, places: Places) -> Places:
        """The indices of the parts of some sets."""
        return np.asarray((places[:, None] * self.number + np.arange(self.number)).ravel())


class Near:
    """The starts of trainings on N sets of dense rows of at most d features, by the index of a
    set.

    weights: (N, d + 1) in the caller's units, the intercept after the last feature of a set, NaN
    where there are none; epsilon: a sufficient tolerance, if the models are not kept.
    """

    def __init__(
        self, n: int, d: int, weights: Floats | None = None, epsilon: float = 0.0
    ) -> None:
        self.n, self.d, self.epsilon = n, d, epsilon
        self.weights = np.full((n, d + 1), np.nan) if weights is None else weights
        self.moments: Floats | None = None
        self.systems: Floats | None = None
        self.slopes: Floats | None = None
        self.parts = Parts()
        self.path: object = None  # data shared by the objectives

    def forget_sums(self) -> None:
        """Keeps the weights alone."""
        self.systems = self.slopes = self.parts.systems = self.parts.slopes = None

    def start(self, places: Places, p: int) -> Floats:
        """The weights to start from, (n, p); NaN where there are none."""
        if self.weights.shape[1] < p:
            return np.full((len(places), p), np.nan)
        return np.asarray(self.weights[places, :p])

    def coordinates(
        self, places: Places, d: int, measure: Callable[[], tuple[Floats, Floats]]
    ) -> tuple[Floats, Floats]:
        """Mean and standard deviation of features, (n, d) each, which are measured but once."""
        if not self.has_room(2 * self.d):
            return self._agreed(places, *measure())
        if self.moments is None:
            self.moments = np.full((self.n, 2, self.d), np.nan)
        if np.isnan(self.moments[places, :, :d]).any():
            self.moments[places, :, :d] = np.stack(self._agreed(places, *measure()), axis=1)
        found = self.moments[places, :, :d]
        return np.ascontiguousarray(found[:, 0]), np.ascontiguousarray(found[:, 1])

    def _agreed(self, places: Places, mean: Floats, deviation: Floats) -> tuple[Floats, Floats]:
        """The measured moments, or others that condition the problem as well."""
        return mean, deviation

    def curvature(self, places: Places, p: int) -> Floats | None:
        """Packed triangles (n, p (p + 1) / 2) without a penalty; NaN, or None, where unknown."""
        size = p * (p + 1) // 2
        return None if self.systems is None else self.systems[places, :size]

    def slope(self, places: Places, p: int) -> Floats | None:
        """Gradients of the mean loss by the weights to start from, (n, p); NaN where unknown."""
        return None if self.slopes is None else self.slopes[places, :p]

    def has_room(self, width: int, parts: int = 1) -> bool:
        """Returns whether `width` numbers of each of `parts` parts of all sets may be kept."""
        return self.n * parts * width * 8 <= MOST_BYTES

    def keeps(self, parts: int = 1) -> bool:
        """Returns whether there is room for the curvatures of `parts` parts of each set."""
        return self.has_room((self.d + 1) * (self.d + 2) // 2, parts)

    def keep(self, places: Places, weights: Floats, systems: Floats | None) -> None:
        """Keeps where trainings ended: weights (n, p), and triangles as `curvature` has them."""
        self.weights[places, : weights.shape[1]] = weights
        if systems is not None and self.keeps():
            self.systems = self._put(self.systems, self.n, places, systems)

    def keep_slopes(self, places: Places, slopes: Floats) -> None:
        """Keeps gradients of the mean loss where trainings ended, (n, p)."""
        self.slopes = self._put(self.slopes, self.n, places, slopes)

    def keep_parts(self, places: Places, systems: Floats, slopes: Floats) -> None:
        """Keeps the same of some sets without each of their parts: curvatures (n * number, T),
        and gradients (n * number, p).
        """
        n, at = self.n * self.parts.number, self.parts.of(places)
        self.parts.systems = self._put(self.parts.systems, n, at, systems)
        self.parts.slopes = self._put(self.parts.slopes, n, at, slopes)

    def _put(self, table: Floats | None, n: int, places: Places, values: Floats) -> Floats:
        if table is None:
            p = self.d + 1
            width = p if values.shape[1] <= p else p * (p + 1) // 2
            table = np.full((n, width), np.nan)
        table[places, : values.shape[1]] = values
        return table


class NearWhole(Near):
    """The starts of sets of rows, several per group, from the weights of the whole group.

    close: (N,), which of them do; the others start from their own weights. Sets are judged by rows
    that the whole group has seen: only if they end at an optimum of their own rows is that fair.
    """

    def __init__(self, own: Near, whole: Near, close: NDArray[np.bool_], sets: int) -> None:
        weights = np.where(close[:, None], whole.weights.repeat(sets, axis=0), own.weights)
        super().__init__(own.n, own.d, weights)
        self.own, self.whole, self.close, self.sets = own, whole, close, sets
        self.moments = own.moments

    def coordinates(
        self, places: Places, d: int, measure: Callable[[], tuple[Floats, Floats]]
    ) -> tuple[Floats, Floats]:
        """The coordinates of the whole group, except for features that are constant in the set."""
        found = super().coordinates(places, d, measure)
        self.own.moments = self.moments
        return found

    def _agreed(self, places: Places, mean: Floats, deviation: Floats) -> tuple[Floats, Floats]:
        if self.whole.moments is None:
            return mean, deviation
        theirs = self.whole.moments[places // self.sets][:, :, : mean.shape[1]]
        use = self.close[places, None] & (deviation > 0) & (theirs[:, 1] > 0)
        return np.where(use, theirs[:, 0], mean), np.where(use, theirs[:, 1], deviation)

    def curvature(self, places: Places, p: int) -> Floats | None:
        """The whole group's curvature, less the rows that the set lacks if that is known.

        Sets that start from their own weights have their own, as without large groups in the
        batch.
        """
        found = self.whole.curvature(places // self.sets, p)
        if self.whole.parts.systems is not None:
            found = self.whole.parts.systems[places, : p * (p + 1) // 2]
        own = self.own.curvature(places, p)
        if found is None or own is None:
            none = np.full((len(places), p * (p + 1) // 2), np.nan)
            found, own = none if found is None else found, none if own is None else own
        return np.where(self.close[places, None], found, own)

    def slope(self, places: Places, p: int) -> Floats | None:
        """The whole group's slope, less the rows that the set lacks."""
        found = self.whole.parts.slopes
        if found is None:
            return None
        return np.where(self.close[places, None], found[places, :p], np.nan)

    def keeps(self, parts: int = 1) -> bool:
        """False: sets that start from the whole group keep no curvature."""
        return self.own.keeps(parts) and not bool(self.close.all())

    def keep(self, places: Places, weights: Floats, systems: Floats | None) -> None:
        """Keeps the weights, and the triangles of sets that start from their own."""
        self.own.keep(places, weights, None)
        some = np.flatnonzero(~self.close[places])
        if systems is not None and len(some):
            self.own.keep(places[some], weights[some], systems[some])
