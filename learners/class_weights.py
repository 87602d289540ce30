"""Weights of classes: option `class_weight`.

The linear models and nets multiply losses by them. For the others they are weights of rows: a copy
of the rows has each row's own weight times that of its class.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, RowsError
from tuskml.kernels.passes import Floats, Pass, cancel_mark, weigh_rows
from tuskml.kernels.softmax import classes_of
from tuskml.learners.learner import Groups, Learner, Request
from tuskml.learners.models import Models
from tuskml.learners.options.kinds import ByClass
from tuskml.learners.options.table import Options
from tuskml.schedule import budget

MOST_CLASSES = 1000
"""Classes of a group; no learner has more."""


def weights_of(options: Options, label: Floats, count: Floats) -> Floats | None:
    """The weights of the classes of groups, (G, K); None: all 1.

    label: the classes of each group, rising; count: the weights of their rows, each (G, K). Raises
    DataError and RowsError if a class has no weight.
    """
    given = options.class_weight
    if given is None:
        return None
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


def two_classes(labels: NDArray[np.void]) -> tuple[Floats, Floats]:
    """The lower and the higher class of groups (LABELS) and the weights of their rows, each
    (G, 2).
    """
    high = labels["weight_high"]
    label = np.stack([labels["low"], labels["high"]], axis=1)
    return label, np.stack([labels["weight"] - high, high], axis=1)


def train_weighted(
    learner: Learner, groups: Groups, request: Request[Any, Any], memory: int
) -> Iterator[Models]:
    """The models of groups, as `Learner.train` yields them, on rows with the weights of classes.

    memory: address of the account that copies of rows are charged to.
    """
    if not learner.facts.weighs_classes or request.options.class_weight is None:
        yield from learner.train(groups, request, memory)
        return
    with ExitStack() as stack:
        rows = Pass(groups, threads=budget.threads())
        rows = replace(rows, cancel_mark=cancel_mark())
        factors = factors_of(rows, request.options)
        own = stack.enter_context(
            weigh_rows(rows, *factors.list_classes(np.arange(len(groups))), memory)
        )
        if request.parted is not None:
            kept, held = (
                weigh_part(stack, one, factors, groups, memory) for one in request.parted
            )
            request = replace(request, parted=(kept, held))
        if request.last:
            rows.spend()
        yield from learner.train(own, request, memory)


@dataclass(frozen=True)
class Factors:
    """The classes of each group, rising, and their weights, each (K,); none where rows keep their
    weights.
    """

    label: list[Floats]
    weight: list[Floats]

    def list_classes(self, which: NDArray[np.intp]) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """The classes and weights of some groups, concatenated, and where each group begins."""
        label, weight = ([one[g] for g in which.tolist()] for one in (self.label, self.weight))
        ends = np.cumsum([0, *map(len, label)], dtype=np.int64)
        return np.concatenate(label), np.concatenate(weight), ends


def factors_of(rows: Pass, options: Options) -> Factors:
    """The weights of the classes of groups with two classes or more."""
    label, count, sizes = classes_of(rows, MOST_CLASSES)
    weight = [np.ones(len(one)) for one in label]
    for size in sorted(set(sizes) - {1, MOST_CLASSES + 1}):
        which = [g for g, one in enumerate(sizes) if one == size]
        found = weights_of(
            options, np.array([label[g] for g in which]), np.array([count[g] for g in which])
        )
        assert found is not None
        for g, own in zip(which, found, strict=True):
            weight[g] = own
    return Factors(label, weight)


def weigh_part(
    stack: ExitStack, rows: Groups, factors: Factors, groups: Groups, memory: int
) -> Groups:
    """The rows of a search's part, with the weights of these groups' classes, until the stack is
    closed; rows: GROUP by the groups' field `place`.
    """
    places, out = groups["place"], rows.copy()
    some = Pass(rows[places], cancel_mark=cancel_mark())
    listed = factors.list_classes(np.arange(len(groups)))
    out[places] = stack.enter_context(weigh_rows(some, *listed, memory))
    return out
