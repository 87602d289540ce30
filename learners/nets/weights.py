"""The start of a training of nets, and the weights of classes."""

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError
from tuskml.kernels.nets.training import SQUARED
from tuskml.kernels.passes import Floats
from tuskml.learners.class_weights import two_classes, weights_of
from tuskml.learners.nets.layers import describe_net
from tuskml.learners.nets.options import NetOptions


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
