"""Groups as the report shows them: a key in words, a model, how well it went, how it got there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.learners.models import HISTORY_POINTS
from tuskml.learners.tasks import weighs_features
from tuskml.learners.trees.learner import OF_TREES
from tuskml.model.model import Model
from tuskml.plots import gaps
from tuskml.text.table import format_value

NO_MODEL = "no usable row"
GOOD = ("ok", "constant feature", "collinear features", "early stop")
BAD = ("diverged", NO_MODEL)
SYMBOLS = {"good": "✓", "fair": "!", "bad": "✕"}
WORST_FIRST = ("bad", "fair", "good")


@dataclass(frozen=True)
class Group:
    """One model. key: of its group, one text a column; model: None for a group without rows."""

    key: tuple[str, ...]
    model: Model | None

    @property
    def name(self) -> str:
        """The key in one text."""
        return ", ".join(self.key) or "the model"

    @property
    def status(self) -> str:
        return NO_MODEL if self.model is None else self.model.status

    @property
    def grade(self) -> str:
        """`good`, `fair` (it can be used, and somebody should look) or `bad`."""
        if self.status in GOOD:
            return "good"
        return "bad" if self.status in BAD else "fair"

    @property
    def counters(self) -> Mapping[str, Any]:
        """The training's counters of its store or of row groups."""
        found = {} if self.model is None else self.model.options.get("counters", {})
        return found if isinstance(found, Mapping) else {}

    @property
    def estimate(self) -> tuple[float, float] | None:
        """Iterations and seconds, where the plan was chosen by cost."""
        estimate = {} if self.model is None else self.model.options.get("estimated", {})
        try:
            return float(estimate["iterations"]), float(estimate["seconds"])
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def algorithm(self) -> str:
        """The plan's first word."""
        return "none" if self.model is None else self.model.plan.partition(",")[0]

    @property
    def linear(self) -> bool:
        """Returns whether there is a coefficient for each feature, and not for each of many
        classes.
        """
        model = self.model
        if model is None or model.several:
            return False
        return weighs_features(model.task) and bool(model.coef)

    @property
    def has_trees(self) -> bool:
        """Returns whether the model is of trees, and has some."""
        return self.model is not None and self.model.task in OF_TREES and bool(self.model.coef)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The coefficients, 0 for absorbed levels; none where they are no features'."""
        model = self.model
        if model is None or not self.linear:
            return np.empty(0)
        found = np.array(model.coef, float)
        found[list(model.absorbed)] = 0
        return found

    def terms(self, given: Sequence[str]) -> Sequence[str]:
        """The features' names: the model's own, else those given if their number matches, else
        x1, x2, ...
        """
        if self.model is None:
            return ()
        own, n = self.model.features, self.model.width
        return own if len(own) == n else given if len(given) == n else self.model.feature_names

    def curve(self, most: int) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Iterations, and the remaining share of the first gap to the best objective.

        At most `most` points; None with fewer than two, as the best itself has no gap.
        """
        if self.model is None or not self.model.history:
            return None
        gap = gaps({"history": self.model.history})
        gap = gap[np.isfinite(gap)]
        if len(gap) < 2 or gap[0] <= 0:
            return None
        points = len(self.model.history)
        thinned = points == HISTORY_POINTS
        last = max(self.model.iterations, points - 1) if thinned else points - 1
        at = np.linspace(0, last, points)[: len(gap)]
        if len(gap) > most:
            kept = np.linspace(0, len(gap) - 1, most).round().astype(int)
            at, gap = at[kept], gap[kept]
        return at, gap / gap[0]


def group_of(key: Sequence[Any], value: Mapping[str, Any] | None) -> Group:
    """A group of its key and its model value as a database returns it."""
    return Group(tuple(map(format_value, key)), None if value is None else Model.of(value))


def some_of(groups: Sequence[Group], most: int) -> list[Group]:
    """Selects at most `most` groups: those that need attention, then the largest.

    If not all fit, each of both kinds gets half, and the unused part of the other.
    """
    ordered = sort_by_trouble(groups)
    good = [group for group in ordered if group.grade == "good"]
    troubled = ordered[: len(ordered) - len(good)]
    kept = troubled[: max(most // 2, most - len(good))]
    return kept + good[: most - len(kept)]


def sort_by_trouble(groups: Sequence[Group]) -> list[Group]:
    """Sorts groups: those that need attention, the worst first, then the largest."""

    def order(group: Group) -> tuple[int, int]:
        rows = 0 if group.model is None else group.model.n_rows
        return WORST_FIRST.index(group.grade), -rows

    return sorted(groups, key=order)
