"""The memory that a training of trees takes, as `explain_training` tells it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.segments import SLAB, charged, dense_charged, dense_row_bytes, value_size
from tuskml.kernels.trees.spent import LARGE
from tuskml.learners.held_out import held_out_counts
from tuskml.learners.trees.forest_options import ForestOptions
from tuskml.learners.trees.options import TreeOptions
from tuskml.learners.trees.rules import bin_rows, child_rows

NEAR, NARROW = 1 << 18, 1 << 16
"""Cells of a group whose rows have the numbers of their histogram cells, and rows of one whose
histograms are narrow, as `kernels/native/trees` has them."""
SMALL_ROWS, SMALL_FEATURES = 1023, 256
"""Rows and features of a group that grows in `kernels/native/trees/near`, at most."""


@dataclass(frozen=True)
class Shape:
    """The shape of one group: rows, held-out rows, features, and bytes of a feature and of a
    row.
    """

    rows: int
    held: int
    features: int
    value: int
    row: int

    @classmethod
    def of(cls, group: NDArray[np.void], options: TreeOptions) -> "Shape":
        n, d, kind, extras = (int(group[name][0]) for name in ("n_rows", "dim", "kind", "extras"))
        share = options.validation or 0.0
        held = int(held_out_counts(group["n_rows"], share)[0])
        return cls(n, held, d, value_size(kind), int(dense_row_bytes(d, kind, extras)))

    @property
    def large(self) -> bool:
        """Returns whether several threads train it, and whether it gives its features back."""
        return self.rows * self.features >= LARGE


def most_bytes(group: NDArray[np.void], options: TreeOptions, outputs: int) -> int:
    """Peak bytes that the account counts while one group trains, its packed rows included.

    A large float32 group has the most while its rows are put in bins: afterwards its features are
    freed. outputs: trees of an iteration.
    """
    shape = Shape.of(group, options)
    packed, features = dense_charged(group[0])
    copies = sum(
        charged(n * shape.row) for n in (shape.rows - shape.held, shape.held) if shape.held
    )
    rest = packed - features * shape.large * bool(copies)
    in_bins = copies - shape.rows * shape.features * shape.value * shape.large * bool(copies)
    codes = charged(shape.rows * shape.features)
    grown = rest - features * shape.large * (not copies) + in_bins + codes
    for size in per_row(shape, options):
        grown += charged((shape.rows - shape.held) * size)
    grown += charged(8 * outputs * shape.rows) + charged(12 * (outputs > 1) * shape.rows)
    return max(packed + copies, rest + copies + codes, grown + histograms(shape, options))


def per_row(shape: Shape, options: TreeOptions) -> list[int]:
    """Bytes of arrays for each row that trees grow on, besides its bins and margins: gradients,
    orders, labels, draws, and its bins in other forms.
    """
    d = shape.features
    if isinstance(options, ForestOptions):
        return [16, 4, 4, 4, 4, 4, 8, 8, 8]
    forms = d if shape.large else 8 + 3 * d if grows_near(shape) else 2 * d
    if NEAR < shape.rows * d < LARGE:
        forms = 0
    drawn = 4 * (options.row_fraction < 1 or options.goss)
    return [16, 4, 4, drawn, forms, *[8, 8] * (options.objective == "quantile")]


def grows_near(shape: Shape) -> bool:
    """Returns whether the group is as small as those that grow from sets of bits."""
    return shape.rows <= SMALL_ROWS and shape.features <= SMALL_FEATURES


def histograms(shape: Shape, options: TreeOptions) -> int:
    """Bytes of the histograms of the leaves that may still be split."""
    n = shape.rows - shape.held
    of_feature = min(options.max_bins + 1, n // bin_rows(options, n) + 2)
    leaves = min(options.num_leaves, n // child_rows(options, n) + 1)
    if isinstance(options, ForestOptions):  # leaf by leaf, down to those of few rows
        leaves = min(leaves, 2 * max(n // (2 * of_feature), 1).bit_length() + 2)
    elif grows_near(shape):
        return leaves * 8 * (shape.features + 15) // 16 * 16 * of_feature
    cell = 16 if not shape.large and n <= NARROW else 24
    size = (shape.features * of_feature + 8) * cell
    together = min(max(SLAB // size, 1), leaves)
    return -(-leaves // together) * charged(together * size)
