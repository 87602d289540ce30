"""The schedule of regressions: parameters that moved most are likely, dependent ones excluded.

Source: the paper of `program.py`, algorithm 2 and section 4.1: candidates are drawn with a
probability in proportion to the square of their last change, and those that are chosen have no
edge in the graph of correlations above a threshold.
"""

from itertools import pairwise

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
        self.columns = z
        self._begin(z.shape[1], kept)

    def _begin(self, n: int, kept: int) -> None:
        self.n, self.computed = n, 0
        """Products of two columns computed so far."""
        self._slot = np.full(self.n, -1, np.intp)
        self._column = np.full(min(kept, self.n), -1, np.intp)
        self._kept = np.zeros((len(self._column), len(self._column)), np.float32)
        self._next = 0

    def take(self, places: Places) -> NDArray[np.float32]:
        """Columns of length 1, (n, k)."""
        return self.columns[:, places]

    def among(self, places: Places) -> NDArray[np.float32]:
        """Absolute correlations, (k, k), of k different columns."""
        if len(places) > len(self._column):
            self.computed += len(places) ** 2
            z = self.take(places)
            return np.asarray(np.abs(z.T @ z))
        self._keep(places)
        at = self._slot[places]
        return np.asarray(np.abs(self._kept[np.ix_(at, at)]))

    def _keep(self, places: Places) -> None:
        fresh = places[self._slot[places] < 0]
        if not len(fresh):
            return
        slots = self._free(len(fresh), places)
        old = self._column[slots]
        self._slot[old[old >= 0]] = -1
        self._column[slots], self._slot[fresh] = fresh, slots
        used = np.flatnonzero(self._column >= 0)
        products = self.take(fresh).T @ self.take(self._column[used])
        self._kept[np.ix_(slots, used)] = products
        self._kept[np.ix_(used, slots)] = products.T
        self.computed += products.size

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
IN_TURN = 16
"""Number of times that all are sorted while each has its turn once."""
BRANCHES = 64
DRAWS = 3
"""Times that parameters are drawn for one pick: some are drawn twice, and count once."""


class SumTree:
    """Weights of n items, of which k change, or are drawn, in a time in proportion to k log n."""

    def __init__(self, n: int) -> None:
        self.levels = [np.zeros(-(-n // BRANCHES) * BRANCHES)]
        while len(self.levels[-1]) > BRANCHES:
            n = len(self.levels[-1]) // BRANCHES
            self.levels.append(np.zeros(-(-n // BRANCHES) * BRANCHES))

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self.levels[-1].sum())

    def put(self, places: Places, weights: Floats) -> None:
        """Sets weights of different items."""
        self.levels[0][places] = weights
        for below, level in pairwise(self.levels):
            places = np.unique(places // BRANCHES)
            level[places] = below.reshape(-1, BRANCHES)[places].sum(axis=1)

    def draw(self, k: int, random: np.random.Generator) -> Places:
        """At most k different items, each draw with a probability in proportion to the weight, in
        the order of their first draws.
        """
        if not self.total > 0:
            return np.zeros(0, np.intp)
        at, left = np.zeros(k, np.intp), random.random(k) * self.total
        for level in reversed(self.levels):
            sums = np.cumsum(level.reshape(-1, BRANCHES)[at], axis=1)
            child = np.minimum((sums <= left[:, None]).sum(axis=1), BRANCHES - 1)
            left -= np.where(child > 0, sums[np.arange(k), child - 1], 0.0)
            at = at * BRANCHES + child
        drawn, first = np.unique(at, return_index=True)
        drawn = drawn[np.argsort(first)]
        return drawn[self.levels[0][drawn] > 0]


class Prioritised:
    """Picks parameters that may be updated at the same time, in a time in proportion to their
    number.

    columns: of each parameter, whose correlations are its dependencies; None: there are none.
    at_once: how many are picked at most; candidates: how many are drawn for that, by default twice
    as many. threshold: correlations above it exclude each other.

    Each parameter is picked once before any is picked again, unless `renew` says which would
    move. Later some are picked by their last change and some in turn. The share of these is what
    the squares of all changes would have if the others moved as those in turn did. One that was
    picked is not picked again until `settle` says how it changed, and neither are those that
    depend on it, if it moved the last time. Where `settle` gets how far parameters are from
    moving, those come first in turn that others may have moved: by the squares of all changes
    since they were settled, which add up as changes of independent parameters do, over the square
    of that distance. They are sorted anew once a share of them has had its turn.
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
        self.columns, self.at_once, self.threshold = columns, at_once, threshold
        self.candidates = candidates
        self.random = np.random.default_rng(seed)
        self.turn, self.next, self.n = self.random.permutation(n), 0, n
        """Those that have their turn next, and the number of those that have one."""
        self.turned = np.zeros(n, np.bool_)
        """Whether each pending one was picked in turn, or for the first time."""
        self.squares, self.count = 0.0, 0.0
        """Decaying sums of the squared changes of those, and of their number."""
        self.fresh, self.begun = self.turn[:0], 0
        """The next of those that were never picked, and how many of these there were so far."""
        self.change, self.tree = np.zeros(n), SumTree(n)
        """Squares of the last changes; and those of parameters that are not pending, by which
        they are drawn."""
        self.pending = np.zeros(n, np.bool_)
        self.flying: set[int] = set()
        """The pending ones."""
        self.moved, self.seen = 0.0, np.zeros(n)
        """Sums of the squares of all changes: in total, and when each parameter was settled."""
        self.distance: Floats | None = None
        """Distance of each parameter from moving, as far as it is known."""
        self._refill()

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
        self.flying.update(chosen.tolist())
        self.tree.put(chosen, np.zeros(len(chosen)))
        self._refill()
        return chosen[np.argsort(-self.change[chosen], kind="stable")]

    def settle(self, places: Places, change: Floats, distance: Floats | None = None) -> None:
        """Records the changes of picked parameters.

        distance: changes of the other parameters, roughly, after which these move again; above 0.
        """
        self.change[places] = change**2
        self.release(places)
        self.moved += float(self.change[places].sum())
        self.seen[places] = self.moved
        if distance is not None:
            if self.distance is None:
                self.distance = np.full(len(self.seen), float(np.max(distance, initial=0)))
            self.distance[places] = distance
        even = self.turned[places]
        self.turned[places] = False
        share = max(0.0, 1 - even.sum() / (MEMORY * max(self.n, 1)))
        self.squares = share * self.squares + float(self.change[places[even]].sum())
        self.count = share * self.count + int(even.sum())

    def release(self, places: Places) -> None:
        """Takes back picks of parameters, whose last changes still count."""
        self.pending[places] = False
        self.flying.difference_update(places.tolist())
        self.tree.put(places, self.change[places])

    def renew(self, change: Floats) -> None:
        """Replaces all last changes, (n,), by those that parameters would make next. Only those
        that would move are picked until the next call, unless others do.
        """
        self.change[:] = change**2
        every = np.arange(len(change))
        self.tree.put(every, np.where(self.pending, 0, self.change))
        self.turn, self.next = self.random.permutation(np.flatnonzero(change)), 0
        self.n = len(self.turn)
        self.squares = self.count = 0.0
        self.fresh, self.begun = self.turn[:0], self.n

    def _refill(self) -> None:
        self.fresh = self.fresh[~self.pending[self.fresh]]
        end = self.begun + max(self._most - len(self.fresh), 0)
        self.fresh = np.concatenate([self.fresh, self.turn[self.begun : end]])
        self.begun = min(end, len(self.turn))

    @property
    def _most(self) -> int:
        return self.candidates or 2 * self.at_once

    def _draw(self, in_turn: int) -> tuple[Places, Places]:
        """Candidates by their last change, the most urgent first; and those never picked, or in
        turn.
        """
        fresh = self.fresh[: self._most]
        n = self._most - len(fresh)
        turn = self._in_turn(min(n, in_turn, self.n))
        even = np.concatenate([fresh, turn[~np.isin(turn, fresh)]])
        even = even[~self.pending[even]]
        drawn: list[Places] = []
        for _ in range(DRAWS):
            left = n - sum(map(len, drawn))
            found = self.tree.draw(left, self.random) if 2 * left > n else even[:0]
            if not len(found):
                break
            drawn.append(found)
            self.tree.put(found, np.zeros(len(found)))
        likely = np.concatenate([*drawn, even[:0]])
        self.tree.put(likely, self.change[likely])
        return likely[np.argsort(-self.change[likely], kind="stable")], even

    def _even(self) -> int:
        """Number of parameters that are picked in turn."""
        if len(self.fresh):
            return self.at_once
        others = self.n * self.squares / max(self.count, 1)
        every = others + self.tree.total
        share = others / every if every > 0 else 1.0
        return int(self.at_once * max(LEAST_EVEN, share) + self.random.random())

    def _in_turn(self, n: int) -> Places:
        if self.distance is not None and self.next < n:
            urgent = np.maximum(self.moved - self.seen, 0) / self.distance**2
            k = max(n, len(urgent) // IN_TURN)
            chosen = np.argpartition(urgent, len(urgent) - k)[len(urgent) - k :]
            self.turn = chosen[np.argsort(urgent[chosen], kind="stable")]
            self.next = k
        if self.distance is not None:
            self.next -= n
            return self.turn[self.next : self.next + n][::-1]
        chosen = np.take(self.turn, np.arange(self.next, self.next + n), mode="wrap")
        self.next = (self.next + n) % max(self.n, 1)
        return chosen

    def _choose(self, drawn: Places, most: int, before: Places) -> Places:
        """At most `most` candidates without an edge to an earlier one, or to a pending one that
        moved.
        """
        if self.columns is None or not len(drawn) or most < 1:
            return drawn[: max(most, 0)]
        pending = np.fromiter(self.flying, np.intp, len(self.flying))
        pending = np.sort(pending[self.change[pending] > 0])
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
