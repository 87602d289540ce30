"""Blocks of rare features: a rule for all features but the frequent ones, not a table.

The paper (Qin, Torres, Rusu, VLDB 2017, section 5) leaves each feature outside the top K a
partition of its own: a request per feature. Here features whose ids are neighbours share a key. Of
how many depends on the id's number of bits, since dictionaries often number features by falling
frequency: the first thousand rare ones occur in most rows, the last million hardly ever.
`block_choice` sizes them.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tuskml.errors import DataError, OptionError
from tuskml.partitioner.native import Ids

LARGEST = 65_536
"""Largest number of features in a block: 256 KiB as float32."""
ID_BITS = 62


@dataclass(frozen=True)
class Blocks:
    """Blocks by ranges of ids: range r has the ids with widths[r] bits to widths[r + 1] - 1 bits.

    widths: rising, the first 0, which is id 0's number of bits; sizes: features per block, of each
    range. A range's first block begins with its first id; ranges have the keys one after the
    other.
    """

    widths: tuple[int, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        for size in self.sizes:
            if not 1 <= size <= LARGEST:
                raise OptionError(f"block must be from 1 to {LARGEST} features, got {size}")
        rising = all(a < b for a, b in zip(self.widths, self.widths[1:], strict=False))
        whole = len(self.widths) == len(self.sizes) > 0 == self.widths[0]
        if not (rising and whole and self.widths[-1] <= ID_BITS):
            raise DataError(f"blocks cannot have ranges that begin with ids of {self.widths} bits")

    @classmethod
    def of(cls, size: int) -> "Blocks":
        """Blocks of one size for all ids."""
        return cls((0,), (size,))

    def ending(self, start: int, size: int) -> "Blocks":
        """Keeps these blocks below `start`, a power of two, and adds blocks of `size` from there
        on.
        """
        width = start.bit_length()
        before = [(w, s) for w, s in zip(self.widths, self.sizes, strict=True) if w < width]
        widths, sizes = zip(*before, strict=True)
        return Blocks((*widths, width), (*sizes, size))

    @cached_property
    def starts(self) -> list[int]:
        """First id of each range."""
        return [1 << width >> 1 for width in self.widths]

    @cached_property
    def first(self) -> list[int]:
        """First block of each range, and the number of blocks of all ranges."""
        ends = [*self.starts[1:], 1 << ID_BITS]
        starts = [0]
        for start, end, size in zip(self.starts, ends, self.sizes, strict=True):
            starts.append(starts[-1] + -(-(end - start) // size))
        return starts

    @property
    def count(self) -> int:
        """Number of blocks."""
        return self.first[-1]

    def count_of(self, n: int) -> int:
        """Number of blocks with ids below n."""
        if not n:
            return 0
        start, first, size = self.range_of_width((n - 1).bit_length())
        return first + (n - 1 - start) // size + 1

    def range_of_width(self, width: int) -> tuple[int, int, int]:
        """Start, first block and block size of the range of ids with `width` bits."""
        r = bisect_right(self.widths, width) - 1
        return self.starts[r], self.first[r], self.sizes[r]

    def sizes_of(self, blocks: Ids) -> Ids:
        """Number of slots of each block, int64 of the shape of `blocks`."""
        ranges = np.searchsorted(self.first[:-1], blocks, side="right") - 1
        return np.array(self.sizes, np.int64)[ranges]

    def spans_of(self, blocks: Ids) -> tuple[Ids, Ids, Ids]:
        """Returns the first feature of each block, and start and end of its range; all (n,)."""
        ranges = np.searchsorted(self.first[:-1], blocks, side="right") - 1
        begin, size = np.array(self.starts, np.int64)[ranges], np.array(self.sizes)[ranges]
        end = np.array([*self.starts[1:], 1 << ID_BITS], np.int64)[ranges]
        return begin + (blocks - np.array(self.first, np.int64)[ranges]) * size, begin, end

    def features_of(self, block: int) -> Ids:
        """Id of each slot of a block, int64 of shape (size,); -1 in slots beyond the range."""
        one = np.array([block], np.int64)
        start, _, end = self.spans_of(one)
        features = start + np.arange(self.sizes_of(one)[0], dtype=np.int64)
        return np.where(features < end, features, -1)

    def __str__(self) -> str:
        if self.sizes == (1,):
            return "a key each"
        named = [
            f"{size:,}" + (f" from {start:,}" if start else "")
            for start, size in zip(self.starts, self.sizes, strict=True)
        ]
        return "blocks of " + ", ".join(named)
