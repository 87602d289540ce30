"""The labels that a task allows, and the rows that it can use."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.classes import EXACT, as_literal
from tuskml.learners.options.kinds import ByClass
from tuskml.learners.options.table import Options

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Allowed:
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


def counts(name: str) -> Allowed:
    """Labels of at least 0; name: of who needs them."""
    return Allowed(f"{name} needs a label of at least 0, since it is of counts", low=0.0)


def of_classes(task: str, options: Options) -> Allowed:
    """Labels that are numbers and classes: those that options name, or those that are exact."""
    weight = options.class_weight
    by_option: list[tuple[str, Any]] = [("classes", options.classes)]
    if isinstance(weight, ByClass) and not weight.are_text:
        by_option.append(("class_weight", weight.classes))
    for name, values in by_option:
        if isinstance(values, tuple) and all(isinstance(one, float) for one in values):
            listed = [f"{one:.15g}" for one in values]
            either = ", ".join(listed[:-1]) + f" or {listed[-1]}"
            return Allowed(f"expected {either} as option '{name}' has", values=values)
    most = math.nextafter(EXACT, 0.0)
    return Allowed(
        f"'{task}' needs labels below 2^53 = 9007199254740992 in size, since larger whole numbers "
        "are rounded: give a boolean, such as label = {label}",
        low=-most,
        high=most,
    )
