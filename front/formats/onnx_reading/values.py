"""Symbolic values of an ONNX graph's tensors, as functions of the features of a row."""

from dataclasses import dataclass, replace

import numpy as np

from tuskml.errors import DataError
from tuskml.model.scoring import Floats

Layer = tuple[Floats, Floats]
"""The weights (units, inputs) and the biases (units,)."""


@dataclass(frozen=True)
class Features:
    """scale * features + shift. n: the features, 0 where the graph does not say; scale, shift:
    (n,), or of shape () for all of them."""

    n: int
    scale: Floats
    shift: Floats

    @property
    def plain(self) -> bool:
        """Returns whether they are the features themselves."""
        return bool((self.scale == 1).all() and (self.shift == 0).all())

    def times(self, factor: Floats) -> "Features":
        """Multiplies each feature by a factor, or all by one."""
        return replace(self, scale=self.scale * factor, shift=self.shift * factor)

    def plus(self, more: Floats) -> "Features":
        """Adds a number to each feature, or one to all."""
        return replace(self, shift=self.shift + more)


@dataclass(frozen=True)
class Dense:
    """Layers over the features. activations: of the layers but the last one, or with `factor` of
    all; then the value is the last layer's activation times the factor."""

    inputs: int
    layers: tuple[Layer, ...]
    activations: tuple[str, ...] = ()
    factor: float = 1.0

    @property
    def active(self) -> bool:
        """Returns whether the last layer has its activation."""
        return len(self.activations) == len(self.layers)

    @property
    def margins(self) -> int:
        """The numbers of a row."""
        return len(self.layers[-1][1])

    def times(self, factor: Floats) -> "Dense":
        """Multiplies each number by a factor, or all by one."""
        if self.active:
            if factor.size != 1:
                raise DataError("an activation is multiplied by several numbers, expected one")
            return replace(self, factor=self.factor * float(factor.ravel()[0]))
        weights, biases = self.layers[-1]
        factor = np.broadcast_to(factor.ravel(), biases.shape)
        return self._ending((weights * factor[:, None], biases * factor))

    def plus(self, more: Floats) -> "Dense":
        """Adds a number to each, or one to all."""
        if self.active:
            raise DataError("a number is added to an activation, expected weights of a layer")
        weights, biases = self.layers[-1]
        return self._ending((weights, biases + np.broadcast_to(more.ravel(), biases.shape)))

    def activate(self, name: str) -> "Dense":
        """The activations of the last layer."""
        if self.active:
            raise DataError(f"'{name}' is of an activation, expected one activation for a layer")
        return replace(self, activations=(*self.activations, name))

    def _ending(self, layer: Layer) -> "Dense":
        return replace(self, layers=(*self.layers[:-1], layer))


@dataclass(frozen=True)
class Erf:
    """at + by * erf(z / sqrt 2), z the sums of a layer, as graphs write gelu."""

    of: Dense
    at: float
    by: float


@dataclass(frozen=True)
class Forest:
    """Sums of trees. trees: of each margin the tables of its trees, as in
    `learners.trees.forest.trees_in`, with sets of levels instead of their indices; bases: the
    initial margins, (margins,).
    """

    n: int
    trees: tuple[tuple["Tree", ...], ...]
    bases: Floats

    @property
    def margins(self) -> int:
        """The numbers of a row."""
        return len(self.trees)

    def times(self, factor: Floats) -> "Forest":
        """Multiplies each margin by a factor, or all by one."""
        each = np.broadcast_to(factor.ravel(), self.bases.shape)
        trees = tuple(
            tuple(tree.times(one) for tree in some)
            for some, one in zip(self.trees, each.tolist(), strict=True)
        )
        return replace(self, trees=trees, bases=self.bases * each)

    def plus(self, more: Floats) -> "Forest":
        """Adds a number to each margin, or one to all."""
        return replace(self, bases=self.bases + np.broadcast_to(more.ravel(), self.bases.shape))


@dataclass(frozen=True)
class Tree:
    """table: (nodes, 6) in preorder; sets: the levels that splits by level send left, into
    which the values of these splits are indices.
    """

    table: Floats
    sets: tuple[tuple[int, ...], ...] = ()

    def times(self, factor: float) -> "Tree":
        """Multiplies the leaves."""
        table = self.table.copy()
        table[table[:, 0] < 0, 1] *= factor
        return replace(self, table=table)


Margins = Dense | Forest


@dataclass(frozen=True)
class Answer:
    """A response to margins: `logistic`, `softmax` or `exp`."""

    of: Margins
    response: str


@dataclass(frozen=True)
class DerivedValue:
    """A class, or another number that follows from an answer."""


@dataclass(frozen=True)
class Zero:
    """0 for any features."""


Value = Features | Margins | Erf | Answer | DerivedValue | Zero | Floats
