"""The fields of a model, and the properties that follow from them alone."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from tuskml.errors import DataError
from tuskml.learners.classes import shortest
from tuskml.learners.tasks import has_levels, weighs_features
from tuskml.model import scorers
from tuskml.model.answers import Answers, answers_of


@dataclass(frozen=True, repr=False)
class Fields:
    """The fields of SQL's model value, as `Model` describes them."""

    task: str
    coef: list[float] | None
    intercept: float | None
    std_err: list[float | None] | None
    classes: list[float] | None
    n_rows: int
    n_skipped: int
    n_features: int
    loss: float
    history: list[float] | None
    iterations: int
    converged: bool
    status: str
    plan: str
    seconds: float
    options: dict[str, Any]
    store: str | None
    features: tuple[str, ...] = field(default=(), compare=False)
    label: str | None = field(default=None, compare=False)
    class_names: list[str] | None = None
    preparation: str | None = None
    trials: dict[str, Any] | None = field(default=None, compare=False)
    note: str | None = field(default=None, compare=False)
    spread: list[float] | None = None
    histogram: str | None = field(default=None, compare=False)

    @cached_property
    def payload(self) -> bytes:
        """The input of predictions, as SQL's field `payload`.

        Raises DataError if no prediction could use the model.
        """
        names = ("task", "coef", "classes", "spread", "class_names", "intercept", "preparation")
        fields = {name: getattr(self, name) for name in names}
        return scorers.payload(fields | {"options": self.options_text})

    @cached_property
    def has_text_classes(self) -> bool:
        """Returns whether a class has a name that is not its number."""
        return scorers.has_text_classes(self.classes, self.class_names)

    @property
    def names_of_classes(self) -> tuple[str, ...]:
        """The name of each class, in the order of `classes`."""
        return tuple(self.class_names or map(shortest, self.classes or ()))

    @property
    def options_text(self) -> str:
        """The options as SQL's value has them; the version of the format comes first."""
        first = {name: self.options[name] for name in ("tuskml",) if name in self.options}
        return json.dumps(first | self.options, separators=(",", ":"))

    @property
    def answers(self) -> Answers:
        """The model's answers to a margin."""
        return answers_of(self.task, self.options, bool(self.classes))

    @property
    def many_classes(self) -> bool:
        """Returns whether the model predicts one of more than two classes."""
        return len(self.classes or ()) > 2 and not self.answers.factorizes

    @property
    def several(self) -> bool:
        """Returns whether the model has weights for each of more than two classes."""
        return weighs_features(self.task) and len(self.classes or ()) > 2

    @property
    def cuts(self) -> int:
        """The thresholds between ordered levels, which come first in `coef`."""
        ordered = has_levels(self.task) and bool(self.coef)
        return len(self.classes or ()) - 1 if ordered else 0

    @property
    def has_terms(self) -> bool:
        """Returns whether features have coefficients."""
        return weighs_features(self.task) or self.cuts > 0

    @property
    def width(self) -> int:
        """The numbers of a row; 0 in a store, where rows have any number."""
        if not weighs_features(self.task):
            return self.n_features
        n = 0 if self.coef is None else len(self.coef)
        return max(n // len(self.classes or ()) - 1, 0) if self.several else n

    @property
    def term_names(self) -> tuple[str, ...]:
        """A name for each number in `coef`: the features', of several classes with the class's,
        and of thresholds those of the levels on both sides.
        """
        names = self.feature_names
        if self.cuts:
            return (*(f"{low} | {high}" for low, high in pairwise(self.names_of_classes)), *names)
        if not self.several:
            return names
        terms = ("intercept", *names)
        return tuple(f"{one}: {name}" for one in self.names_of_classes for name in terms)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for each coefficient: the caller's, else x1, x2, ... as in SQL.

        The names of one array `both` are `both[1]`, `both[2]`, ...
        """
        n = self.width
        if len(self.features) == n:
            return self.features
        if len(self.features) == 1 and not self.answers.factorizes:
            return tuple(f"{self.features[0]}[{place}]" for place in range(1, n + 1))
        return tuple(f"x{place}" for place in range(1, n + 1))

    @property
    def absorbed(self) -> range:
        """The places in `coef` of the levels of absorbed categories, which summaries leave out."""
        first, n = self.options.get("absorbed_features", (1, 0))
        return range(first - 1, min(first - 1 + n, len(self.coef or ())))

    def weights(self) -> list[float]:
        """`coef`, empty if there is none. Raises DataError if it is in a store."""
        if self.coef is None and self.store is None:
            return []
        if self.coef is None:
            raise DataError(
                f"the coefficients lie in the store, tuskml store export {self.store} FILE writes "
                "them to a file, and tuskml.predict predicts where the store is"
            )
        return self.coef
