"""The start of a trial: the weights of a similar trial.

Of linear models the optimum moves little from one penalty to the next weaker one (J. Friedman, T.
Hastie, R. Tibshirani, Regularization paths for generalized linear models via coordinate descent,
2010, 2.5), and from all rows of a large group to those of some folds. So a candidate is trained on
all rows of each large group first, from the candidate before it, and its trials start there with
the same curvature. The criterion of convergence is the same, so that the start changes the
iterations alone. The start knows of rows that judge the trial, so a trial that does not end at the
optimum of its own rows is trained again from its own start, and algorithms that may keep something
of their start do not begin there (`Trials.forgets`).

Other rows' weights are no good start of small groups: where classes can be separated, they are
large, and wrong by much for rows that they have not seen.
"""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.selection.candidates import Candidate
from tuskml.groups.selection.search import Search
from tuskml.learners.learner import Request
from tuskml.learners.near import MOST_BYTES, Near, NearWhole
from tuskml.learners.registry import learner_of

PENALTIES = ("l1", "l2")
ROUGH = 0.1
"""The tolerance on all rows of a group: a trial's first step removes the remaining error."""
CLOSE = 12
"""Rows of a group per weight from which on its folds are similar to the whole."""


class Nearness:
    """The weights of the last trial on sets of rows, over G groups of d features at most."""

    def __init__(self, search: Search, groups: NDArray[np.void]) -> None:
        self.candidates = search.candidates
        self.d = int(groups["dim"].max(initial=0))
        self.dense = bool((groups["kind"] < 2).all())
        self.sets: dict[str, Near] = {}
        self.wholes: dict[str, Near] = {}
        self.n = 0

    def forget(self, n: int) -> None:
        """Before trials on other rows, of n sets."""
        self.sets.clear()
        self.wholes.clear()
        self.n = n

    def helps(self, number: int) -> bool:
        """Returns whether a candidate may start elsewhere and end at the same weights."""
        one = self.candidates[number]
        options = one.options
        return (
            self.dense
            and one.task.weighs_features
            and options.epsilon > 0
            and options.warm_start is None
            and options.max_iter is None
            and options.validation == 0  # there a training ends before the optimum
            and learner_of(one.task).trials.ends_alike(Request(one.task, options))
        )

    def of(self, number: int) -> Near | None:
        """The starts of a candidate's trials; None if no start would help."""
        if not self.helps(number):
            return None
        found = self.sets.setdefault(self._name(number), Near(self.n, self.d))
        return self._alike(found, number)

    def whole(self, number: int, sets: int) -> Near | None:
        """The starts of trainings on all rows of groups with `sets` sets of rows each.

        None if they would help no trial: of one set, or where a step from any start ends at the
        optimum; and if trials might end at weights that depend on held-out rows.
        """
        one = self.candidates[number]
        if sets == 1 or not one.task.moves_on or not self.helps(number):
            return None
        if not learner_of(one.task).trials.forgets(Request(one.task, one.options), self.d):
            return None
        if self.n * (self.d + 1) * 8 > MOST_BYTES:  # many small groups
            return None
        found = self.wholes.get(self._name(number))
        if found is None:
            n = self.n // sets
            found = self.wholes[self._name(number)] = Near(n, self.d, epsilon=ROUGH)
        elif not np.isfinite(found.weights[:, 0]).any():
            return None  # no group is large, or has weights that others can start from
        return self._alike(found, number)

    def from_whole(self, number: int, close: NDArray[np.bool_], sets: int) -> Near | None:
        """The starts of trials after a training on all rows of groups; close (N,): which of
        them.
        """
        own, whole = self.of(number), self.whole(number, sets)
        if own is None or whole is None:
            return own
        known = np.isfinite(whole.weights[:, 0]).repeat(sets)
        return NearWhole(own, whole, close & known, sets) if known.any() else own

    def _alike(self, near: Near, number: int) -> Near:
        """Returns the start without sums of another objective, or of other coordinates."""
        path = others(self.candidates[number])
        if near.path != path:
            near.forget_sums()
            near.path = path
        return near

    def _name(self, number: int) -> str:
        return self.candidates[number].task.name


def close(groups: NDArray[np.void]) -> NDArray[np.bool_]:
    """Tests which groups (G,) are so large that their folds are like the whole."""
    return np.asarray(groups["n_rows"] >= CLOSE * (groups["dim"].astype(np.int64) + 1))


def path(candidates: Sequence[Candidate], numbers: Sequence[int]) -> list[int]:
    """The numbers in an order in which neighbours differ little: from the simplest models on, of
    linear ones by each choice of the other options.
    """

    def place(number: int) -> tuple[str, str, float]:
        one = candidates[number]
        return one.task.name, others(one), learner_of(one.task).trials.complexity(one.options)

    return sorted(numbers, key=place)


def others(candidate: Candidate) -> str:
    """The options, except penalties, of a candidate of a linear task, as JSON."""
    if not candidate.task.weighs_features:
        return ""
    shown = json.loads(candidate.shown)
    return json.dumps({name: shown[name] for name in shown if name not in PENALTIES})
