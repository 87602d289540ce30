"""A net as the list of numbers that a model's field `coef` has (`udas/scalars/nets/nets.c`).

They are d, the number of its features; L, the number of its layers; the activation, by its index
in `ACTIVATIONS`, plus `EMBEDS` if categories are embedded; the units of each layer. With embedded
categories follow T, the number of tables; for each table the first feature, the levels and the
length of its vectors; and then the vectors, by table and level. At the end, for each layer and
unit, the bias and the weight of each input. The inputs of the first layer are the features outside
of tables and then the vectors, table by table.

A category of n levels has vectors of min(50, round(1.6 n^0.56)) numbers by default: fast.ai's rule
(Howard and Gugger, Information 11, 2020, section 4), with a limit. The option `embedding`
overrides it.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError
from tuskml.kernels.nets.training import ACTIVATIONS, SQUARED
from tuskml.kernels.passes import Floats
from tuskml.learners.class_weights import two_classes, weights_of
from tuskml.learners.learner import Request
from tuskml.learners.nets.options import NetOptions
from tuskml.learners.tasks import Task

Tables = tuple[tuple[int, int, int], ...]
"""For each embedded category the first feature, the levels and the length of its vectors."""
SPARSE_FROM = 1_000_000
"""Numbers of vectors from which on steps are sparse, unless an option says so: a dense step takes
milliseconds then, whatever the batch."""
LONGEST = 50
"""Numbers of a vector, unless an option says how many."""


def usual_length(levels: int) -> int:
    """The default length of vectors of a category with `levels` levels."""
    return int(min(LONGEST, round(1.6 * levels**0.56)))


def embeds(options: NetOptions) -> bool:
    """Returns whether categories are embedded."""
    return options.embedding != 0


def sparse_steps(options: NetOptions, tables: Tables) -> bool:
    """Returns whether a step changes the vectors of the levels of its batch alone."""
    if options.sparse_embeddings is not None:
        return options.sparse_embeddings
    return sum(levels * length for _, levels, length in tables) >= SPARSE_FROM


def tables_of(request: Request[Task, NetOptions], group: int) -> Tables:
    """The tables of a group; a category of one level does not vary, and needs none."""
    options = request.options
    if request.categories is None or not embeds(options):
        return ()
    return tuple(
        (first, levels, options.embedding or usual_length(levels))
        for first, levels in request.categories(group)
        if levels > 1
    )


def by_shape(
    groups: NDArray[np.void], request: Request[Task, NetOptions]
) -> Iterator[tuple[NDArray[np.intp], Tables]]:
    """Places of the groups of one width, kind and tables."""
    found: dict[tuple[int, Tables], list[int]] = {}
    named = request.categories is not None and embeds(request.options)
    _, shape = np.unique(np.stack([groups["dim"], groups["kind"]]), axis=1, return_inverse=True)
    if not named:
        for number in range(int(shape.max()) + 1):
            yield np.flatnonzero(shape == number), ()
        return
    for place, number in enumerate(shape.tolist()):
        tables = tables_of(request, place)
        found.setdefault((number, tables), []).append(place)
    for (_, tables), places in sorted(found.items()):
        yield np.array(places, np.intp), tables


def class_weights(
    options: NetOptions,
    labels: NDArray[np.void] | None,
    loss: int,
    many: tuple[Floats, Floats] | None,
) -> Floats | None:
    """The weights of the losses of the classes, (G, K); None: all 1.

    labels: LABELS of groups of two classes; many: of more than two each group's labels and the
    weights of their rows, (G, K). Raises DataError if a class has no weight.
    """
    if options.class_weight is None or loss == SQUARED:
        return None
    if many is None:
        assert labels is not None
        many = classes_by_options(options, labels)
    return weights_of(options, *many)


def classes_by_options(options: NetOptions, labels: NDArray[np.void]) -> tuple[Floats, Floats]:
    """As `two_classes`, with the classes that the options name, if any."""
    label, count = two_classes(labels)
    if options.classes is not None:
        label = np.tile(np.array(options.classes, np.float64), (len(labels), 1))
    return label, count


def log_odds_of(weight: Floats | None) -> Floats | float:
    """The change of log-odds due to the weights of two classes (G, 2)."""
    return 0.0 if weight is None else np.log(weight[:, 1] / weight[:, 0])


def warm_start(
    options: NetOptions, head: Floats, n_groups: int, classes: Floats | None
) -> Floats | None:
    """The weights to start from, (G, weights); None to draw them.

    head: the first numbers of a net of these groups; classes: (G, K) of more than two. Adam's
    means and the momentum start at 0. Raises DataError for another net.
    """
    given = options.warm_start
    if given is None:
        return None
    if given.store is not None:
        raise OptionError(
            f"warm_start is the stored model '{given.store}', expected a model of 'mlp' with "
            "coefficients"
        )
    numbers = np.array(given.coef, np.float64)
    if len(numbers) < len(head) or (numbers[: len(head)] != head).any():
        raise DataError(f"warm_start is {describe_net(numbers)}, expected {describe_net(head)}")
    if classes is not None and given.classes and (classes != np.array(given.classes)).any():
        raise DataError("warm_start has other classes than the labels, expected the same")
    return np.tile(numbers[len(head) :], (n_groups, 1))


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
