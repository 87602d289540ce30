"""The rows that groups of trees train on."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats, Pass


@dataclass(frozen=True)
class Rows:
    """The data of G groups of one width and kind: rows, LABELS, of more than two classes their
    labels (G, K), rising, and if some features are categories, which ones, (G, d).
    """

    groups: NDArray[np.void]
    rows: Pass
    labels: NDArray[np.void]
    classes: Floats | None = None
    by_level: NDArray[np.uint8] | None = None

    def of(self, which: NDArray[np.intp], classes: Floats | None) -> "Rows":
        """Selects some of the groups."""
        by_level = None if self.by_level is None else np.ascontiguousarray(self.by_level[which])
        return Rows(self.groups[which], self.rows.of(which), self.labels[which], classes, by_level)
