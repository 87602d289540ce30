"""Where a trial starts: from the weights of a trial that differs little from it.

Of linear models the optimum moves little from one penalty to the next weaker one (J. Friedman, T.
Hastie, R. Tibshirani, Regularization paths for generalized linear models via coordinate descent,
2010, 2.5). The criterion of convergence is the same, so that the start changes the iterations
alone. Another fold's weights are no good start: where a small group's classes can be separated,
they are large, and wrong by much for rows that they have not seen.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.selection.asked import Search
from tuskml.groups.selection.candidates import Candidate
from tuskml.kernels.passes import Floats
from tuskml.learners.models import Models
from tuskml.learners.registry import learner_of


class Nearness:
    """The weights of the last trial on a set of rows, over G groups of d features at most."""

    def __init__(self, search: Search, groups: NDArray[np.void]) -> None:
        self.candidates = search.candidates
        self.shape = len(groups), int(groups["dim"].max(initial=0)) + 1
        self.dense = bool((groups["kind"] < 2).all())
        self.weights: dict[str, Floats] = {}

    def forget(self, n: int) -> None:
        """Before trials on other rows, of n groups."""
        self.weights.clear()
        self.shape = n, self.shape[1]

    def helps(self, number: int) -> bool:
        """Whether a candidate may start elsewhere and end at the same weights."""
        one = self.candidates[number]
        options = one.options
        return (
            self.dense
            and one.task.weighs_features
            and options.epsilon > 0
            and options.warm_start is None
            and options.max_iter is None
        )

    def of(self, number: int) -> Floats | None:
        """The weights (G, d + 1) to start from, NaN at first; None where they would not help."""
        if not self.helps(number):
            return None
        found = self.weights.get(self.candidates[number].task.name)
        return np.full(self.shape, np.nan) if found is None else found

    def keep(self, number: int, places: NDArray[np.intp], models: Models) -> None:
        """Keeps the weights of models, (n,), of the groups at some places."""
        if not self.helps(number):
            return
        size = np.diff(models.coef.offsets)
        usual = size == models.n_features  # not so of more than two classes
        name = self.candidates[number].task.name
        table = self.weights.get(name)
        if table is None:
            table = np.full(self.shape, np.nan)
        for d in np.unique(size[usual]):
            which = np.flatnonzero(usual & (size == d))
            at = models.coef.offsets[which][:, None] + np.arange(d)
            table[places[which], :d] = models.coef.values[at]
            table[places[which], d] = models.intercept[which]
        self.weights[name] = table


def path(candidates: Sequence[Candidate], numbers: Sequence[int]) -> list[int]:
    """The numbers in an order in which neighbours differ little: from the simplest models on."""

    def place(number: int) -> tuple[str, float]:
        one = candidates[number]
        return one.task.name, learner_of(one.task).complexity(one.options)

    return sorted(numbers, key=place)
