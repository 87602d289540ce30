"""Stored models of more than two classes whose weights lie in the store while they are trained.

    mean(log sum_k exp(m_k) - m_y) + l2/2 ||w||^2 + l1 ||w||_1,   m_k = w_k.x + b_k

A feature has K weights, one per class, which share a key and lie side by side in its payload: a
chunk of rows asks for as many payloads as with two classes, K times as large. Without a penalty
the first class is the reference, whose weights stay 0, as of a training in memory.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels.library import FLOOR, cancel_mark
from tuskml.kernels.passes import Pass
from tuskml.kernels.rows.renumber import n_trained
from tuskml.kernels.softmax import Softmax, classes_of
from tuskml.learners.class_weights import weights_of
from tuskml.learners.classes import refuse_large, refuse_no_classes
from tuskml.learners.linear.algorithms import LAST_CHOICE
from tuskml.learners.linear.multinomial.choice import MOST_CLASSES
from tuskml.learners.linear.options import OF_STORES
from tuskml.learners.linear.request import LinearOptions, Request
from tuskml.learners.linear.stored.in_memory import ALGORITHMS
from tuskml.learners.linear.stored.outgrown import bytes_of, room_of
from tuskml.learners.linear.stored.start import DTYPE
from tuskml.schedule.budget import look_at_limits

Pairs = Iterator[tuple[NDArray[np.int64], NDArray[Any]]]


@dataclass(frozen=True)
class Several:
    """The classes of one group: softmax has their labels (1, K), counts (K,) the rows of each."""

    softmax: Softmax
    counts: NDArray[np.float64]

    @property
    def label(self) -> NDArray[np.float64]:
        """Rising, (K,)."""
        label: NDArray[np.float64] = self.softmax.label[0]
        return label

    def first_intercepts(self, options: LinearOptions) -> tuple[float, ...]:
        """The intercepts of the best constant; the first is 0."""
        if not options.fit_intercept:
            return (0.0,) * len(self.label)
        weight = self.softmax.weight
        share = np.log(self.counts if weight is None else self.counts * weight[0])
        return tuple((share - share[0]).tolist())


def several_of(rows: Pass, labels: NDArray[np.void], request: Request) -> Several:
    """The classes of the rows of one group, which has more than two."""
    refuse_large(request.task, labels)
    found, counts, sizes = classes_of(rows, MOST_CLASSES)
    refuse_no_classes(found, sizes, MOST_CLASSES, "task 'linear'")
    label, count = found[0][None, :], counts[0]
    return Several(Softmax(label, weights_of(request.options, label, count[None, :])), count)


def trains_in_store(
    groups: NDArray[np.void], request: Request, n_classes: int, memory: int
) -> bool:
    """Returns whether the weights of all classes stay in the store during training.

    They do with an algorithm or an option for stores, and if memory (address of the account; 0: no
    limit) does not hold them; else a training in memory is both faster and exact.
    """
    options = request.options
    if options.algorithm != "auto" or options.departs(*OF_STORES):
        asked = options.algorithm in ALGORITHMS
    else:
        asked = options.warm_start is None and outgrows(groups, n_classes, memory)
    if asked and options.warm_start is not None:
        raise OptionError(
            "option 'warm_start' is not available for more than two classes that are trained in a "
            f"store, expected none, or algorithm '{LAST_CHOICE.name}', which trains in memory"
        )
    return asked


def outgrows(groups: NDArray[np.void], n_classes: int, memory: int) -> bool:
    """Returns whether the weights of sparse rows' classes take more memory than a training may."""
    if not memory or not (bytes_of(groups["dim"]) * n_classes > FLOOR).any():
        return False
    look_at_limits(memory)
    room = room_of(memory)
    if not (bytes_of(groups["dim"]) * n_classes > room).any():
        return False
    features = n_trained(groups, memory, cancel_mark())
    return float(bytes_of(np.array(features))) * n_classes > room


def centre_intercepts(intercepts: Sequence[float], penalised: bool) -> NDArray[np.float64]:
    """The intercepts of the model: shifted to the mean 0 where all classes have penalised
    weights.
    """
    found = np.array(intercepts, float)
    return found - found.mean() if penalised else found


def seal_pairs(pairs: Pairs, intercepts: NDArray[np.float64]) -> Pairs:
    """The numbers of a sealed model: weight k of feature i has id (i + 1) K + k, the intercepts
    are first; pairs: with the ids of a working store, i K + k.
    """
    k = len(intercepts)
    places = np.flatnonzero(intercepts)
    first = places.astype(np.int64), intercepts[places].astype(DTYPE)
    return itertools.chain([first], ((ids + k, weights) for ids, weights in pairs))
