"""The labels that a task allows, the rows that it can use, and the classes that labels are."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, RowsError
from tuskml.kernels.passes import Floats
from tuskml.kernels.structures import SOME_ROW
from tuskml.learners.models import Lists, Models, Names
from tuskml.learners.options.kinds import ByClass
from tuskml.learners.options.table import Options
from tuskml.learners.tasks import Task

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class LabelRange:
    """The allowed labels: a range whose low end `above` excludes, or a set of values.

    says: the requirement as the end of a sentence; {label} in it stands for a label as in SQL.
    """

    says: str
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    values: tuple[float, ...] | None = None

    def refusal(self, label: float, where: str = "") -> str:
        """A sentence about a label that is not allowed; where: such as " in row 3"."""
        shown = f"{label:.17g}" if abs(label) >= EXACT else f"{label:.15g}"
        return f"label is {shown}{where}, {self.says.replace('{label}', as_literal(label))}"

    def holds(self, labels: Floats) -> Mask:
        """Tests which labels are allowed, (n,)."""
        if self.values is not None:
            return np.isin(labels, self.values)
        least = labels > self.low if self.above else labels >= self.low
        return np.asarray(least & (labels <= self.high))


def counts(name: str) -> LabelRange:
    """Labels of at least 0; name: of who needs them."""
    return LabelRange(f"{name} needs a label of at least 0, since it is of counts", low=0.0)


def of_classes(task: str, options: Options) -> LabelRange:
    """Labels that are numbers and classes: those that options name, or those that are exact."""
    weight = options.class_weight
    by_option: list[tuple[str, Any]] = [("classes", options.classes)]
    if isinstance(weight, ByClass) and not weight.are_text:
        by_option.append(("class_weight", weight.classes))
    for name, values in by_option:
        if isinstance(values, tuple) and all(isinstance(one, float) for one in values):
            listed = [f"{one:.15g}" for one in values]
            either = ", ".join(listed[:-1]) + f" or {listed[-1]}"
            return LabelRange(f"expected {either} as option '{name}' has", values=values)
    most = math.nextafter(EXACT, 0.0)
    return LabelRange(
        f"'{task}' needs labels below 2^53 = 9007199254740992 in size, since larger whole numbers "
        "are rounded: give a boolean, such as label = {label}",
        low=-most,
        high=most,
    )


TINY = 1e-150
"""Numbers whose squares are too small for all of a double's digits."""
CERTAIN = 1000.0
"""A margin whose class has the probability 1 to the last digit, and the other one 0."""
EXACT = 2.0**53
"""Whole numbers from here on are one double with a neighbour."""


def check_classes(task: Task, options: Options, labels: NDArray[np.void]) -> None:
    """Raises DataError unless a classifier's labels (LABELS) are two values, those that
    options name.
    """
    if not task.classifies:
        return
    refuse_large(task, labels)
    bad = np.flatnonzero(labels["third_row"])
    if len(bad):
        seen = labels[bad[0]]
        raise RowsError(
            f"label is {seen['third']:g} in {row_of(seen)} of a group whose labels were "
            f"{seen['low']:g} and {seen['high']:g}, '{task.name}' needs two classes"
        )
    if options.classes is not None:
        refuse_others("classes", options.classes, labels)
    weight = options.class_weight
    if isinstance(weight, ByClass):
        refuse_others("class_weight", weight.classes, labels)
    elif weight is not None and len(weight) != 2 and not isinstance(weight, str) and len(labels):
        raise DataError(
            f"option 'class_weight' has {len(weight)} weights and a group 2 classes, expected a "
            "weight for each"
        )


def refuse_no_classes(
    found: Iterable[Floats], sizes: Iterable[int], most: int, numbers: str
) -> None:
    """Raises RowsError for groups with more than `most` classes, or more than two that are
    proportions.

    found: the labels of each group; sizes: the number of classes of each group; numbers: the task
    for numeric labels.
    """
    if max(sizes, default=0) > most:
        raise RowsError(
            f"label has more than {most:,} distinct values in a group, expected classes: "
            f"{numbers} is for numbers"
        )
    for labels in found:
        share = labels[labels != np.floor(labels)]
        if len(labels) > 2 and len(share):
            raise RowsError(
                f"label is {share[0]:.15g}, one of {len(labels)} values of a group that are no "
                "whole numbers, expected classes: for proportions give 'logistic' the option "
                "'proportions' and the trials as weights, or two rows with weights, label 1 with "
                "weight share * trials and label 0 with (1 - share) * trials; "
                f"{numbers} is for numbers"
            )


def row_of(labels: np.void) -> str:
    """Names the row of its group that has the third distinct value of LABELS."""
    row = int(labels["third_row"])
    return "a row" if row == SOME_ROW else f"row {row}"


def classes_in(labels: NDArray[np.void], options: Options, many: Floats | None) -> Lists:
    """The classes of each group, rising; many: those of groups with more than two, (G, K)."""
    n = len(labels)
    if many is not None:
        return Lists.of_rows(many, np.full(n, many.shape[1]))
    if options.classes is not None:
        return Lists.of_rows(np.tile(options.classes, (n, 1)), np.full(n, 2))
    pairs = np.stack([labels["low"], labels["high"]], axis=1)
    return Lists.of_rows(pairs, np.where(labels["low"] == labels["high"], 1, 2))


def positive_class(options: Options, labels: NDArray[np.void]) -> Floats:
    """The positive class of each group, (G,)."""
    given = options.classes
    high = np.full(len(labels), given[1]) if given else labels["high"]
    return np.ascontiguousarray(high, np.float64)


def refuse_large(task: Task, labels: NDArray[np.void]) -> None:
    """Two whole numbers beyond 2^53 may be one double, and so one class."""
    ends = np.concatenate([labels["low"], labels["high"]])
    large = ends[np.abs(ends) >= EXACT]
    if len(large):
        raise RowsError(
            f"label is {large[0]:.17g}, '{task.name}' needs labels below 2^53 = 9007199254740992 "
            "in size, since larger whole numbers are rounded: give a boolean, such as label = "
            f"{as_literal(large[0])}"
        )


def as_literal(label: float) -> str:
    """A whole number as SQL reads it: by its digits where a BIGINT has them."""
    return f"{label:.0f}" if abs(label) <= 2.0**63 else f"{label:.17g}"


def refuse_others(option: str, classes: tuple[float, ...], labels: NDArray[np.void]) -> None:
    """Raises RowsError unless each label is one of the two classes that the option names."""
    ends = np.concatenate([labels["low"], labels["high"]])
    other = ends[~np.isin(ends, classes)]
    if len(other):
        either = " or ".join(f"{one:.15g}" for one in classes)
        raise RowsError(f"label is {other[0]:.15g}, expected {either} as option '{option}' has")


def within_doubles(
    margin: Floats, labels: NDArray[np.void], link: Callable[[Floats], Floats] | None = None
) -> Floats:
    """Constant margins of groups of numbers (LABELS), (G,): that of the middle of the labels'
    range where sums of them are beyond doubles. link: from means to margins."""
    lost = ~np.isfinite(margin)
    middle = labels["low"][lost] / 2 + labels["high"][lost] / 2
    found = margin.copy()
    found[lost] = link(middle) if link else middle
    return found


def squares_vanish(labels: NDArray[np.void]) -> Mask:
    """Tests which groups have numbers (LABELS) that differ, but too small ones for squares."""
    size = np.hypot(np.sqrt(labels["variance"]), labels["mean"])
    return np.asarray((labels["low"] != labels["high"]) & (size < TINY))


def margin_of_one_class(options: Options, labels: NDArray[np.void]) -> NDArray[np.float64]:
    """The constant margin of groups with a single class, (G,): CERTAIN on the side of that class.

    NaN where it is unknown which of two classes it is. Options may name both; without these 0 and
    -1 are the lower one, as classes are coded, but a 1 may be one of 0 and 1 or of 1 and 2.
    """
    label = labels["low"]
    if options.classes is not None:
        return np.where(label > options.classes[0], CERTAIN, -CERTAIN)
    return np.where((label == 0) | (label == -1), -CERTAIN, np.nan)


def name_as_booleans(models: Models) -> Models:
    """Models of boolean labels, whose classes 0 and 1 are called false and true."""
    found = models.class_names
    pool = tuple(tuple(BOOLEANS.get(one, one) for one in names) for names in found.pool)
    return with_sides(replace(models, class_names=Names(pool, found.code)))


BOOLEANS = {"0": "false", "1": "true"}


def with_sides(models: Models) -> Models:
    """Models whose classes have names; those of one class know its side by the name alone."""
    lone = np.diff(models.classes.offsets) == 1
    lone &= models.class_names.code >= 0
    if not lone.any():
        return models
    names = models.class_names
    sides = [SIDES.get(one[0].lower(), np.nan) if one else np.nan for one in names.pool]
    size = np.abs(np.nan_to_num(models.intercept, nan=CERTAIN))  # shares have 1/2
    return replace(
        models, intercept=np.where(lone, np.array(sides)[names.code] * size, models.intercept)
    )


SIDES = {"0": -1.0, "-1": -1.0, "false": -1.0, "true": 1.0}
"""The margin's sign for class names that imply the lower (-1) or the higher class (1)."""


def class_fields(classes: Lists) -> dict[str, Lists | Names]:
    """The fields of models that say which classes they have."""
    return {"classes": classes, "class_names": class_names(classes)}


def class_names(classes: Lists) -> Names:
    """The classes of n models as text, for labels that are numbers: 0 is '0', 1.5 is '1.5'.

    A model without classes has no names. Lists that are the same share an item of the pool.
    """
    n, values = len(classes.offsets) - 1, classes.values
    width = len(values) // max(n, 1)
    if width and (np.diff(classes.offsets) == width).all():
        bits = np.ascontiguousarray(values, np.float64).view(np.int64).reshape(n, width)
        if (bits == bits[0]).all():  # as in most batches
            names = tuple(shortest(value) for value in values[:width].tolist())
            return Names((names,), np.zeros(n, np.int32))
    places: dict[bytes, int] = {}
    pool: list[tuple[str, ...]] = []
    code = np.full(len(classes.offsets) - 1, -1, np.int32)
    for i, (begin, end) in enumerate(pairwise(classes.offsets.tolist())):
        values = classes.values[begin:end]
        if not len(values):
            continue
        key = values.tobytes()
        if key not in places:
            places[key] = len(pool)
            pool.append(tuple(shortest(value) for value in values.tolist()))
        code[i] = places[key]
    return Names(tuple(pool), code)


def shortest(value: float) -> str:
    """The shortest text that reads as the number; whole ones have no point."""
    return f"{value:.0f}" if value == int(value) and abs(value) < EXACT else repr(value)
