"""The schedule of regressions: parameters that moved most are likely, dependent ones excluded.

Source: the paper of `program.py`, algorithm 2 and section 4.1: candidates are drawn with a
probability in proportion to the square of their last change, and those that are chosen have no
edge in the graph of correlations above a threshold.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


class Correlations:
    """Correlations between columns of a matrix, computed when first needed.

    x: (n, d), dense; `centred` False skips the subtraction of means. rows: size of the sample that
    is taken of more rows. kept: columns whose correlations with each other stay in memory, kept^2
    numbers of 4 bytes; the oldest make room. 0 keeps none, which is faster if few of many columns
    are needed at a time.
    """

    def __init__(
        self,
        x: Floats,
        *,
        centred: bool = False,
        rows: int = 1000,
        kept: int = 2048,
        seed: int = 0,
    ) -> None:
        if len(x) > rows:
            x = x[np.sort(np.random.default_rng(seed).choice(len(x), rows, replace=False))]
        z = np.array(x, np.float32, order="F")
        if centred:
            z -= z.mean(axis=0)
        norm = np.sqrt(np.einsum("ij,ij->j", z, z))
        z /= np.where(norm > 0, norm, 1)
        self.columns, self.n, self.centred = z, z.shape[1], centred
        self.computed = 0
        """Products of two columns computed so far."""
        self.read = 0
        """Columns read for these."""
        self._slot = np.full(self.n, -1, np.intp)
        self._column = np.full(min(kept, self.n), -1, np.intp)
        self._kept = np.zeros((len(self._column), len(self._column)), np.float32)
        self._next = 0

    def among(self, places: Places) -> NDArray[np.float32]:
        """Absolute correlations, (k, k), of k different columns."""
        return np.asarray(np.abs(self.with_signs(places)))

    def with_signs(self, places: Places) -> NDArray[np.float32]:
        """Correlations with signs, (k, k), of k different columns."""
        if len(places) > len(self._column):
            self.computed += len(places) ** 2
            self.read += len(places)
            z = self.columns[:, places]
            return np.asarray(z.T @ z)
        self._keep(places)
        at = self._slot[places]
        return self._kept[np.ix_(at, at)]

    def _keep(self, places: Places) -> None:
        fresh = places[self._slot[places] < 0]
        if not len(fresh):
            return
        slots = self._free(len(fresh), places)
        old = self._column[slots]
        self._slot[old[old >= 0]] = -1
        self._column[slots], self._slot[fresh] = fresh, slots
        used = np.flatnonzero(self._column >= 0)
        products = self.columns[:, fresh].T @ self.columns[:, self._column[used]]
        self._kept[np.ix_(slots, used)] = products
        self._kept[np.ix_(used, slots)] = products.T
        self.computed += products.size
        self.read += len(fresh) + len(used)

    def _free(self, n: int, needed: Places) -> Places:
        """Slots in turn, without those of columns that are needed now."""
        busy = np.zeros(len(self._column), np.bool_)
        held = self._slot[needed]
        busy[held[held >= 0]] = True
        order = np.roll(np.arange(len(busy)), -self._next)
        slots = order[~busy[order]][:n]
        self._next = int(slots[-1] + 1) % len(busy)
        return slots


LEAST_EVEN = 0.05
"""Least share of picks that goes through all parameters in turn, so that each recurs."""
MEMORY = 0.05
"""The share of all parameters over which the changes of those in turn are averaged."""


class Prioritised:
    """Picks parameters that may be updated at the same time.

    columns: of each parameter, whose correlations are its dependencies; None: there are none.
    at_once: how many are picked at most; candidates: how many are drawn for that, by default twice
    as many. threshold: correlations above it exclude each other.

    Each parameter is picked once before any is picked again. Later some are picked by their last
    change and some in turn. The share of these is what the squares of all changes would have if
    the others moved as those in turn did. Where `settle` gets how far parameters are from moving,
    those come first in turn that others may have moved: by the squares of all changes since they
    were settled, which add up as changes of independent parameters do, over the square of that
    distance. One that was picked is not picked again until `settle` says how it changed, and
    neither are those that depend on it, if it moved the last time.
    """

    def __init__(
        self,
        n: int,
        columns: Correlations | None,
        at_once: int,
        *,
        candidates: int | None = None,
        threshold: float = 0.1,
        seed: int = 0,
    ) -> None:
        self.n, self.columns, self.at_once, self.threshold = n, columns, at_once, threshold
        self.candidates = candidates or 2 * at_once
        self.random = np.random.default_rng(seed)
        self.turn, self.next = self.random.permutation(n), 0
        self.turned = np.zeros(n, np.bool_)
        """Whether each pending one was picked in turn, or for the first time."""
        self.squares, self.count = 0.0, 0.0
        """Decaying sums of the squared changes of those, and of their number."""
        self.fresh = self.turn
        """Those that were never picked."""
        self.change = np.zeros(n)
        """Squares of the last changes."""
        self.pending = np.zeros(n, np.bool_)
        self.moved, self.seen = 0.0, np.zeros(n)
        """Sums of the squares of all changes: in total, and when each parameter was settled."""
        self.distance: NDArray[np.float64] | None = None
        """Distance of each parameter from moving, as far as it is known."""

    def pick(self) -> Places:
        """Indices of parameters, the most urgent first; may be empty while others are pending."""
        n = self._even()
        likely, even = self._draw(n)
        chosen = self._choose(likely, self.at_once - min(len(even), n), likely[:0])
        even = even[~np.isin(even, chosen)]
        more = self._choose(even, self.at_once - len(chosen), chosen)
        self.turned[more] = True
        chosen = np.concatenate([chosen, more])
        self.pending[chosen] = True
        if len(self.fresh):
            self.fresh = self.fresh[~self.pending[self.fresh]]
        return chosen[np.argsort(-self.change[chosen], kind="stable")]

    def settle(
        self,
        places: Places,
        change: NDArray[np.float64],
        distance: NDArray[np.float64] | None = None,
    ) -> None:
        """Records the changes of picked parameters.

        distance: changes of the other parameters, roughly, after which these move again; above 0.
        """
        self.pending[places] = False
        self.change[places] = change**2
        self.moved += float(self.change[places].sum())
        self.seen[places] = self.moved
        if distance is not None:
            if self.distance is None:
                self.distance = np.full(self.n, float(np.max(distance, initial=0)))
            self.distance[places] = distance
        even = self.turned[places]
        self.turned[places] = False
        share = max(0.0, 1 - even.sum() / (MEMORY * self.n))
        self.squares = share * self.squares + float(self.change[places[even]].sum())
        self.count = share * self.count + int(even.sum())

    def _draw(self, in_turn: int) -> tuple[Places, Places]:
        """Candidates by their last change, the most urgent first; and those never picked, or in
        turn.
        """
        fresh = self.fresh[: self.candidates]
        n = self.candidates - len(fresh)
        moving = np.flatnonzero(self.change * ~self.pending) if n else fresh[:0]
        turn = self._in_turn(min(n, in_turn, self.n))
        even = np.concatenate([fresh, turn[~np.isin(turn, fresh)]])
        even = even[~self.pending[even]]
        # the smallest of exponential variables with these rates: draws without replacement
        late = self.random.exponential(size=len(moving)) / self.change[moving]
        likely = moving[np.argsort(late)[:n]]
        return likely[np.argsort(-self.change[likely], kind="stable")], even

    def _even(self) -> int:
        """Number of parameters that are picked in turn."""
        if len(self.fresh):
            return self.at_once
        others = self.n * self.squares / max(self.count, 1)
        every = others + float(self.change.sum())
        share = others / every if every > 0 else 1.0
        return int(self.at_once * max(LEAST_EVEN, share) + self.random.random())

    def products(self, places: Places) -> NDArray[np.float32] | None:
        """Products of k different columns of length 1, (k, k); None if not known."""
        if self.columns is None or self.columns.centred:
            return None
        return self.columns.with_signs(places)

    def _in_turn(self, n: int) -> Places:
        if self.distance is not None:
            urgent = np.maximum(self.moved - self.seen, 0) / self.distance**2
            urgent[self.pending] = -1
            chosen = np.argpartition(urgent, self.n - n)[self.n - n :] if n else self.fresh[:0]
            chosen = chosen[urgent[chosen] >= 0]
            return np.asarray(chosen[np.argsort(-urgent[chosen], kind="stable")])
        chosen = np.take(self.turn, np.arange(self.next, self.next + n), mode="wrap")
        self.next = (self.next + n) % self.n
        return chosen

    def _choose(self, drawn: Places, most: int, before: Places) -> Places:
        """At most `most` candidates without an edge to an earlier one, or to a pending one that
        moved.
        """
        if self.columns is None or not len(drawn) or most < 1:
            return drawn[: max(most, 0)]
        pending = np.flatnonzero(self.pending & (self.change > 0))
        every = np.concatenate([pending, before, drawn])
        edges = self.columns.among(every) > self.threshold
        first = len(pending) + len(before)
        free = np.asarray(~edges[:first].any(axis=0))
        chosen: list[int] = []
        for at in range(first, len(every)):
            if free[at]:
                chosen.append(at)
                free &= ~edges[at]
                if len(chosen) == most:
                    break
        return every[chosen]
