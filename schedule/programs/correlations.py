"""Correlations between columns of the data, on a sample of rows."""

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
        return np.asarray(np.abs(self.signed(places)))

    def signed(self, places: Places) -> NDArray[np.float32]:
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
