"""A uniform sample of rows from a stream of unknown length."""

import math

import numpy as np

from tuskml.errors import OptionError
from tuskml.partitioner.native import Ids
from tuskml.partitioner.rows import SparseRows, starts_of


class RowSample:
    """Each row of the stream is in the sample with the same probability.

    Algorithm L (Li, *Reservoir-Sampling Algorithms of Time Complexity O(n(1 + log(N/n)))*, ACM
    TOMS 1994), which draws how many rows to skip, a descendant of Vitter's algorithms (ACM TOMS
    1985), which the paper cites. The rows drawn depend on the seed and the rows' order, not on
    the borders of chunks.

    size: rows to keep, at least 1; seed: any integer of at least 0.
    """

    def __init__(self, size: int = 10_000, seed: int = 0) -> None:
        if size < 1:
            raise OptionError(f"sample must be at least 1 row, got {size}")
        self.size = size
        self._random = np.random.default_rng([seed, 0x5A3])
        self._seen = 0
        self._rows: list[Ids] = []
        self._numbers: list[int] = []
        self._highest = 1.0  # of the sampled rows' keys, if each row had a key from (0, 1)
        self._next = size  # the next row to take, once the reservoir is full

    @property
    def seen(self) -> int:
        """Number of rows seen."""
        return self._seen

    def update(self, rows: SparseRows) -> None:
        """Passes the rows of a chunk through the reservoir; copies those taken."""
        taken: dict[int, int] = {}
        end = self._seen + len(rows)
        filled = len(self._rows)
        for number in range(self._seen, min(end, self._seen + self.size - filled)):
            taken[filled + number - self._seen] = number
        full = filled + len(taken) == self.size
        if full and filled < self.size:
            self._skip(self.size - 1)
        while full and self._next < end:
            taken[int(self._random.integers(self.size))] = self._next
            self._skip(self._next)
        for place, number in taken.items():
            row = number - self._seen
            self._put(place, number, rows.ids[rows.starts[row] : rows.starts[row + 1]])
        self._seen = end

    def merge(self, other: "RowSample") -> None:
        """Makes this the sample of both streams, as if the other's rows came later.

        The number of rows from each stream is hypergeometric.
        """
        if other.size != self.size:
            raise OptionError(f"samples of {self.size} and {other.size} rows cannot be merged")
        total = self._seen + other._seen
        keep = min(self.size, total)
        own = int(self._random.hypergeometric(self._seen, other._seen, keep)) if keep else 0
        chosen = [
            (sample._numbers[k] + before, sample._rows[k])
            for sample, count, before in ((self, own, 0), (other, keep - own, self._seen))
            for k in self._random.permutation(len(sample._rows))[:count].tolist()
        ]
        self._numbers = [number for number, _ in chosen]
        self._rows = [row for _, row in chosen]
        self._seen = total
        if keep == self.size:  # the highest of the `size` lowest of `total` keys
            self._highest = float(self._random.beta(self.size, total - self.size + 1))
            self._advance(total - 1)

    def rows(self) -> SparseRows:
        """The sampled rows, in the order of arrival."""
        order = np.argsort(np.array(self._numbers, np.int64), kind="stable").tolist()
        if not order:
            return SparseRows(np.zeros(1, np.int64), np.zeros(0, np.int64))
        parts = [self._rows[k] for k in order]
        lengths = np.array([len(part) for part in parts], np.int64)
        return SparseRows(starts_of(lengths), np.concatenate(parts))

    def _put(self, place: int, number: int, ids: Ids) -> None:
        if place == len(self._rows):
            self._rows.append(ids.copy())
            self._numbers.append(number)
        else:
            self._rows[place] = ids.copy()
            self._numbers[place] = number

    def _skip(self, last: int) -> None:
        """Lowers the highest key by the row just taken, and draws the next to take."""
        self._highest *= math.exp(math.log(1 - self._random.random()) / self.size)
        self._advance(last)

    def _advance(self, last: int) -> None:
        """Draws how many rows after `last` have keys above the highest of the sample."""
        chance = -math.log1p(-self._highest) if self._highest < 1 else math.inf
        skipped = -math.log(1 - self._random.random()) / chance if chance else math.inf
        self._next = last + 1 + (int(skipped) if skipped < 2**62 else 2**62)
