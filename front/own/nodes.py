"""Trees of other packages as tables of nodes (`learners/trees/forest.py`)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.learners.trees.forest import NODE
from tuskml.model.scoring import Floats


@dataclass(frozen=True)
class Nodes:
    """The nodes of a tree in any order, the root first, by column of shape (nodes,).

    left, right: the children, below 0 of a leaf; value: of a leaf; rows with a feature up to the
    threshold go left, and rows without one where missing_left says so.
    """

    left: NDArray[Any]
    right: NDArray[Any]
    feature: NDArray[Any]
    threshold: Floats
    value: Floats
    gain: Floats
    rows: NDArray[Any]
    missing_left: NDArray[Any]

    def levels(self) -> list[NDArray[np.intp]]:
        """The nodes by their depth. Raises ValueError unless they are a tree."""
        found, total = [np.zeros(1, np.intp)], 1
        while True:
            inner = found[-1][self.left[found[-1]] >= 0]
            total += 2 * len(inner)
            if total > len(self.left) or (self.right[inner] < 0).any():
                raise ValueError("the nodes are no tree")
            if not len(inner):
                break
            found.append(np.concatenate([self.left[inner], self.right[inner]]).astype(np.intp))
        if len(np.unique(np.concatenate(found))) < total:
            raise ValueError("the nodes are no tree")
        return found

    def table(self) -> Floats:
        """The nodes in preorder, (nodes, 6)."""
        levels, n = self.levels(), len(self.left)
        size, place = np.ones(n, np.int64), np.zeros(n, np.int64)
        inners = [level[self.left[level] >= 0] for level in levels]
        for inner in reversed(inners):
            size[inner] += size[self.left[inner]] + size[self.right[inner]]
        for inner in inners:
            place[self.left[inner]] = place[inner] + 1
            place[self.right[inner]] = place[inner] + 1 + size[self.left[inner]]
        out = np.zeros((int(size[0]), NODE))
        inner, every = np.concatenate(inners), np.concatenate(levels)
        leaf = every[self.left[every] < 0]
        out[place[leaf], 0], out[place[leaf], 1] = -1, self.value[leaf]
        out[place[every], 4] = self.rows[every]
        out[place[inner]] = np.stack(
            [
                self.feature[inner],
                self.threshold[inner],
                place[self.right[inner]],
                self.gain[inner],
                self.rows[inner],
                self.missing_left[inner],
            ],
            axis=1,
        )
        return out


# Packages that round features to floats before they compare them: a threshold for the features
# themselves sends every double to the same side.


def least_upper(single: NDArray[np.float32]) -> Floats:
    """The largest double that rounds to each float."""
    after = np.nextafter(single, np.float32(np.inf))
    middle = (single.astype(np.float64) + after.astype(np.float64)) / 2
    odd = single.view(np.uint32) & 1 == 1  # halfway between two floats the even one is taken
    found = np.where(odd, np.nextafter(middle, -np.inf), middle)
    return np.asarray(np.where(np.isfinite(after), found, single), np.float64)


def up_to(threshold: Floats) -> Floats:
    """Thresholds of doubles that go left if, as floats, they are at most these numbers."""
    single = threshold.astype(np.float32)
    above = single.astype(np.float64) > threshold
    return least_upper(np.where(above, np.nextafter(single, np.float32(-np.inf)), single))


def below(threshold: NDArray[np.float32]) -> Floats:
    """Thresholds of doubles that go left if, as floats, they are less than these floats."""
    return least_upper(np.nextafter(threshold, np.float32(-np.inf)))
