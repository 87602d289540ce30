"""A net as the list of numbers that a model's field `coef` has (`udas/scalars/nets/nets.c`).

They are d, the number of its features; L, the number of its layers; the activation, by its index
in `ACTIVATIONS`, plus `EMBEDS` if categories are embedded; the units of each layer. With embedded
categories follow T, the number of tables; for each table the first feature, the levels and the
length of its vectors; and then the vectors, by table and level. At the end, for each layer and
unit, the bias and the weight of each input. The inputs of the first layer are the features outside
of tables and then the vectors, table by table.
"""

from collections.abc import Sequence

import numpy as np

from tuskml.kernels.nets.training import ACTIVATIONS
from tuskml.kernels.passes import Floats

HEAD = 3
"""Numbers before the units of the layers."""
EMBEDS = 16
"""Added to the number of the activation if categories are embedded."""
OF_TABLE = 3
"""Numbers that describe a table."""
Layer = tuple[Floats, Floats]
Table = tuple[int, Floats]


def head_of(
    inputs: int,
    units: Sequence[int],
    activation: int,
    tables: Sequence[tuple[int, int, int]] = (),
) -> Floats:
    """The numbers before the weights."""
    about = [len(tables), *(number for table in tables for number in table)] if tables else []
    kind = activation + EMBEDS * bool(tables)
    return np.array([inputs, len(units), kind, *units, *about], np.float64)


def shape_in(numbers: Sequence[float]) -> tuple[list[int], list[tuple[int, int, int]], int]:
    """The units of the layers, the descriptions of tables, and the index of the first weight."""
    count, kind = int(numbers[1]), int(numbers[2])
    units = [int(one) for one in numbers[HEAD : HEAD + count]]
    at = HEAD + count
    if kind < EMBEDS:
        return units, [], at
    n, at = int(numbers[at]), at + 1
    about = np.asarray(numbers[at : at + OF_TABLE * n], np.int64).reshape(n, OF_TABLE)
    return units, [(a, b, c) for a, b, c in about.tolist()], at + OF_TABLE * n


def tables_in(numbers: Sequence[float]) -> list[Table]:
    """The first feature of each table, and its vectors (levels, length)."""
    _, tables, at = shape_in(numbers)
    found = []
    for first, levels, length in tables:
        vectors = np.asarray(numbers[at : at + levels * length], np.float64)
        found.append((first, vectors.reshape(levels, length)))
        at += levels * length
    return found


def layers_in(numbers: Sequence[float]) -> tuple[int, list[Layer]]:
    """The activation, and of each layer the weights (units, inputs) and the biases (units,)."""
    all_units, tables, at = shape_in(numbers)
    inputs = int(numbers[0]) + sum(length - levels for _, levels, length in tables)
    at += sum(levels * length for _, levels, length in tables)
    table, found = np.asarray(numbers, np.float64), []
    for units in all_units:
        layer = table[at : at + units * (inputs + 1)].reshape(units, inputs + 1)
        found.append((layer[:, 1:], layer[:, 0]))
        at, inputs = at + layer.size, units
    return int(numbers[2]) % EMBEDS, found


def describe_net(numbers: Floats) -> str:
    """Describes a net in words; also accepts numbers that are no net."""
    try:
        units, tables, _ = shape_in(numbers.tolist())
        activation = ACTIVATIONS[int(numbers[2]) % EMBEDS]
    except (IndexError, ValueError, OverflowError):
        return "a model without a net"
    layers = "-".join(map(str, [int(numbers[0]), *units]))
    vectors = ", ".join(f"{levels} levels of {length}" for _, levels, length in tables)
    return f"a net {layers} of {activation}" + (f" with vectors for {vectors}" if tables else "")
