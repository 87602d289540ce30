"""The start of a training of nets, and the weights of classes."""

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError, RowsError
from tuskml.kernels.nets.training import SQUARED
from tuskml.kernels.passes import Floats
from tuskml.learners.nets.layers import describe_net
from tuskml.learners.nets.options import NetOptions
from tuskml.learners.options.kinds import ByClass


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
    given = options.class_weight
    if given is None or loss == SQUARED:
        return None
    if many is None:
        assert labels is not None
        many = two_classes(options, labels)
    label, count = many
    k = label.shape[1]
    if given == "balanced":
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = count.sum(axis=1, keepdims=True) / (k * count)
        return np.ascontiguousarray(np.where(count > 0, weight, 1.0))
    if isinstance(given, ByClass):
        known = dict(zip(given.classes, given, strict=True))
        lacking = [one for one in label.ravel().tolist() if one not in known]
        if lacking:
            raise RowsError(f"option 'class_weight' has no class {lacking[0]:g}, which a label is")
        return np.array([[known[one] for one in row] for row in label.tolist()], np.float64)
    if len(given) != k:
        raise DataError(
            f"option 'class_weight' has {len(given)} weights and a group {k} classes, expected a "
            "weight for each"
        )
    return np.tile(np.array(given, np.float64), (len(label), 1))


def two_classes(options: NetOptions, labels: NDArray[np.void]) -> tuple[Floats, Floats]:
    """The lower and the higher class of each group and the weights of their rows, each (G, 2)."""
    pair = [labels["low"], labels["high"]]
    label = np.stack(pair, axis=1)
    if options.classes is not None:
        label = np.tile(np.array(options.classes, np.float64), (len(labels), 1))
    high = labels["weight_high"]
    return label, np.stack([labels["weight"] - high, high], axis=1)


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
