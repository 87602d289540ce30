"""The option `speculate`: how candidates are tried on a sample of the rows.

Its members are those of Algorithm 1 of Kaoudi et al., A Cost-based Optimizer for Gradient Descent
Optimization, SIGMOD 2017, section 5, and their defaults the paper's.
"""

from dataclasses import dataclass
from typing import Any

from tuskml.errors import nearest
from tuskml.learners.options.kinds import TIME, Kind, integer, real

SAMPLE = integer(10, 10**7)
EPSILON = real(0, 1, open_low=True)
MEMBERS = {"sample": SAMPLE, "time": TIME, "epsilon": EPSILON}


@dataclass(frozen=True)
class Speculate:
    """sample: rows of a group; time: seconds for all candidates; epsilon: where a trial ends."""

    sample: int = 1000
    time: float = 10.0
    epsilon: float = 0.05


def _speculate(value: Any) -> Speculate:
    if not isinstance(value, dict):
        raise ValueError
    for name, given in value.items():
        if name not in MEMBERS:
            raise ValueError(nearest(name, MEMBERS))
        MEMBERS[name].parse(given)
    return Speculate(**{name: MEMBERS[name].parse(given) for name, given in value.items()})


SPECULATE = Kind(
    'an object such as {"sample": 1000, "time": "10s", "epsilon": 0.05}: rows, a duration and a '
    "number between 0 and 1",
    _speculate,
)
