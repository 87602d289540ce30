"""Parts of dates in ONNX graphs, as `udas/rowblock/derived.h` defines them.

Times are doubles, in days since 1970-01-01. All numbers stay below 2^53, so sums and products are
exact, and a quotient's floor is the whole quotient.
"""

import math

from tuskml.formats.onnx.graph import Steps

MOST_DAYS = 1e10
"""Beyond, a time has the first value of a part."""
MICROSECONDS = 86_400e6
FIRST = {"year": 0.0, "month": 1.0, "weekday": 1.0, "hour": 0.0}
LENGTH = {"month": 12.0, "weekday": 7.0, "hour": 24.0}


def part_of(steps: Steps, days: str, part: str) -> str:
    """The year, the month from 1 on, the day of the week from Monday = 1 on, or the hour."""
    known = steps.do("Less", steps.do("Abs", days), MOST_DAYS)
    near = steps.where(known, days, 0.0)
    whole = steps.do("Floor", near)
    share = steps.do("Mul", steps.do("Sub", near, whole), MICROSECONDS)
    time = steps.do("Floor", steps.do("Add", share, 0.5))
    next_day = steps.do("GreaterOrEqual", time, MICROSECONDS)
    day = steps.where(next_day, steps.do("Add", whole, 1.0), whole)
    if part == "hour":
        found = steps.quotient(steps.where(next_day, 0.0, time), MICROSECONDS / 24)
    elif part == "weekday":
        found = steps.do("Add", steps.rest(steps.do("Add", day, 3.0), 7.0), 1.0)
    else:
        found = civil(steps, day, part)
    return steps.where(known, found, FIRST[part])


def civil(steps: Steps, day: str, part: str) -> str:
    """The year or the month: H. Hinnant, "chrono-compatible low-level date algorithms"."""
    z = steps.do("Add", day, 719_468.0)
    era, of_era = steps.quotient(z, 146_097.0), steps.rest(z, 146_097.0)
    leaps = steps.do("Sub", steps.quotient(of_era, 36_524.0), steps.quotient(of_era, 1460.0))
    leaps = steps.do("Sub", leaps, steps.quotient(of_era, 146_096.0))
    y = steps.quotient(steps.do("Add", of_era, leaps), 365.0)
    leap_days = steps.do("Sub", steps.quotient(y, 4.0), steps.quotient(y, 100.0))
    before = steps.do("Add", steps.do("Mul", y, 365.0), leap_days)
    of_year = steps.do("Sub", of_era, before)
    shifted = steps.quotient(steps.do("Add", steps.do("Mul", of_year, 5.0), 2.0), 153.0)
    late = steps.do("Less", shifted, 10.0)
    month = steps.do("Add", shifted, steps.where(late, 3.0, -9.0))
    if part == "month":
        return month
    year = steps.do("Add", y, steps.do("Mul", era, 400.0))
    return steps.do("Add", year, steps.where(steps.do("Less", month, 2.5), 1.0, 0.0))


def angle(value: float, part: str) -> float:
    """The angle of a part that goes round, in radians."""
    return 6.283185307179586 * (value - FIRST[part]) / LENGTH[part]


def circle(steps: Steps, value: str, part: str) -> tuple[str, str]:
    """Sine and cosine of that angle, from tables: splits of trees ask for the last bit, which the
    operators of runtimes do not have."""
    place = steps.do("Cast", steps.do("Sub", value, FIRST[part]), to=7)
    angles = [angle(FIRST[part] + k, part) for k in range(int(LENGTH[part]))]
    sines = steps.constant([math.sin(one) for one in angles])
    cosines = steps.constant([math.cos(one) for one in angles])
    return steps.do("Gather", sines, place), steps.do("Gather", cosines, place)
