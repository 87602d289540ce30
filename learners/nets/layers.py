"""A net as the list of numbers that a model's field `coef` has (`udas/scalars/nets/nets.c`).

They are d, the number of its inputs; L, the number of its layers; the activation, by its place in
`ACTIVATIONS`; the units of each layer; and then of each layer, of each of its units, the bias and
the weight of each input.
"""

from collections.abc import Sequence

import numpy as np

from tuskml.kernels.passes import Floats

HEAD = 3
"""Numbers before the units of the layers."""


def head_of(inputs: int, units: Sequence[int], activation: int) -> Floats:
    """The numbers before the weights."""
    return np.array([inputs, len(units), activation, *units], np.float64)


def layers_in(numbers: Sequence[float]) -> tuple[int, list[tuple[Floats, Floats]]]:
    """The activation, and of each layer the weights (units, inputs) and the biases (units,)."""
    table = np.asarray(numbers, np.float64)
    inputs, count, activation = table[:HEAD].astype(int).tolist()
    found, at = [], HEAD + count
    for units in table[HEAD:at].astype(int).tolist():
        layer = table[at : at + units * (inputs + 1)].reshape(units, inputs + 1)
        found.append((layer[:, 1:], layer[:, 0]))
        at, inputs = at + layer.size, units
    return activation, found
