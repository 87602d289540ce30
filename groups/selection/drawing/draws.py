"""Values that are drawn: a range of an option, and its distribution."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuskml.errors import OptionError
from tuskml.learners.options.kinds import Option

RANGES = {"uniform", "log_uniform", "int", "log_int"}
"""The distributions, each of a range whose ends may be drawn; `log_`: of the logarithm."""


@dataclass(frozen=True)
class Draw:
    """Numbers between two ends, drawn evenly, or evenly in their logarithms."""

    low: float
    high: float
    logarithmic: bool
    whole: bool

    def one(self, random: "np.random.Generator") -> float | int:
        low, high = (self.low, self.high + 1) if self.whole else (self.low, self.high)
        if self.logarithmic:
            value = math.exp(random.uniform(math.log(low), math.log(high)))
        else:
            value = float(random.uniform(low, high))
        return min(int(value), int(self.high)) if self.whole else min(value, self.high)


def draw_of(option: Option, given: Mapping[str, Any]) -> Draw:
    """What an object such as {"log_uniform": [1e-6, 1]} draws. OptionError for another."""
    (name, ends), *more = given.items()
    logarithmic = name.startswith("log_")
    numbers = isinstance(ends, list) and len(ends) == 2 and all(map(_is_number, ends))
    if more or not numbers or not ends[0] <= ends[1] or (logarithmic and ends[0] <= 0):
        raise OptionError(
            f"option '{option.name}' is {json.dumps(given)[:60]}, expected its two ends, the "
            f'lower first, such as {{"{name}": [{"0.001, 1" if "uniform" in name else "7, 63"}]}}'
            f"{', above 0' if logarithmic else ''}"
        )
    found = Draw(float(ends[0]), float(ends[1]), logarithmic, "int" in name)
    for end in ends:
        try:
            option.kind.parse(int(end) if found.whole else float(end))
        except (ValueError, OverflowError):
            raise OptionError(
                f"option '{option.name}' is {json.dumps(given)[:60]}, expected ends that are "
                f"{option.kind.allowed}"
            ) from None
    return found


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
