"""The start of a stored model: its intercept, and the weights of a warm start."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels import passes
from tuskml.kernels.passes import Pass
from tuskml.kernels.segments import sparse_segments
from tuskml.kvstore import StoreRoot
from tuskml.learners.linear.check import constant
from tuskml.learners.linear.request import LinearOptions
from tuskml.learners.linear.tasks import LinearTask

DTYPE = "float32"
"""The dtype of stored weights."""


def first_intercept(
    rows: Pass, labels: NDArray[np.void], task: LinearTask, options: LinearOptions
) -> float:
    """The warm start's intercept, or that of the best constant, of one group.

    rows: with their `class_weight`; labels: LABELS (1,).
    """
    if options.warm_start is not None:
        return options.warm_start.intercept
    if not options.fit_intercept:
        return 0.0
    if task.quadratic:
        return float(labels["mean"][0])
    if task.own is not None and not task.classifies:
        return float(constant(task, labels["mean"])[0])
    if "logistic" not in (task.name, task.response):
        return 0.0
    n, high = int(labels["n_rows"][0]), int(labels["n_high"][0])
    weight = np.ones(2) if rows.class_weight is None else rows.class_weight[0]
    return float(np.log(high * weight[1] / ((n - high) * weight[0])))


def with_start(options: LinearOptions, root: StoreRoot) -> LinearOptions:
    """The options with the intercept of the stored model to start from, if it has one.

    Raises OptionError for a stored model that cannot start a linear training of two classes, or
    numbers.
    """
    warm = options.warm_start
    if warm is None or warm.store is None:
        return options
    with root.open(warm.store) as sealed:
        told = sealed.metadata
    several = len(told.get("classes") or ())
    wrong = f" of {several} classes" if several > 2 else ""
    if "rank" in told:
        wrong = f" of task '{told.get('task')}'"
    if wrong:
        raise OptionError(
            f"warm_start is the stored model '{warm.store}'{wrong}, expected one of numbers or of "
            "two classes, or a model whose coefficients lie in no store"
        )
    if not warm.intercept_stored:
        return options
    intercept = float(told.get("intercept") or 0.0)
    return replace(options, warm_start=replace(warm, intercept=intercept))


@dataclass(frozen=True)
class Start:
    """The initial weights of one group's training, and the ids that may have some.

    held: the held-out rows, if any.
    """

    rows: Pass
    held: Pass | None
    options: LinearOptions
    root: StoreRoot | None

    def dimension(self) -> int:
        """Features of all rows, and of the warm start where that has more."""
        seen, warm = int(self.rows.groups["dim"][0]), self.options.warm_start
        if self.held is not None:
            seen = max(seen, int(self.held.groups["dim"][0]))
        if warm is None:
            return seen
        if warm.store is None:
            return max(seen, len(warm.coef))
        assert self.root is not None
        return max(seen, self.root.version(warm.store).dimension)

    def weights(self) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        """Ids and weights of the warm start, in parts."""
        warm = self.options.warm_start
        if warm is not None and warm.store is not None:
            assert self.root is not None
            with self.root.open(warm.store) as source:
                for ids, weights in source.items():
                    passes.raise_if_cancelled(self.rows.cancel_mark)
                    yield ids, weights.astype(DTYPE)
        elif warm is not None:
            yield np.arange(len(warm.coef)), np.array(warm.coef, DTYPE)

    def ids(self) -> Iterator[NDArray[np.int64]]:
        """Ids outside the rows that a warm start may have, in parts."""
        yield from (ids for ids, _ in self.weights())
        if self.held is not None:
            for _, ids in sparse_segments(self.held.groups[0]):
                yield ids.astype(np.int64)
