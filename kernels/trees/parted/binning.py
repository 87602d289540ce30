"""Bins of a group whose rows lie in parts: those of all rows in one place, bit for bit.

Parts send the values of the rows by which bounds are found, which are chosen by their content: all
of small groups, of large ones 200,000. Of categories they send how often each level occurs.
"""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels.library import Floats, address_of, check_code, library, pointer
from tuskml.kernels.parts.message import Array
from tuskml.kernels.parts.sharded import ShardedPass
from tuskml.kernels.passes import Pass
from tuskml.kernels.trees.boosting import MOST_LEVEL, REFUSED, Rules, Targets, boost_of
from tuskml.kernels.trees.structures import Bins as Struct

SAMPLE = 200_000
"""Rows by which bounds are found, about: `BIN_SAMPLE`."""
VALUES_TOGETHER = 1 << 22
"""Values that all parts send at once, about."""


@dataclass(frozen=True)
class Bins:
    """Bins of d features: bound (n,) float64, first (d + 1,) int32, missing (d,) uint8, and
    by_level (d,) uint8, where some features are categories.
    """

    bound: Floats
    first: NDArray[np.int32]
    missing: NDArray[np.uint8]
    by_level: NDArray[np.uint8] | None

    @property
    def total(self) -> int:
        return int(self.first[-1])

    @property
    def struct(self) -> Struct:
        """As kernels read it; it is valid while this object is."""
        arrays = map(pointer, (self.bound, self.first, self.missing, self.by_level))
        return Struct(*arrays, len(self.missing))


def about(rows: Pass, given: Mapping[str, Any]) -> list[Array]:
    """A part's answer: which features lack values (d,), the sum of the weights and the largest
    one (2,), and of each category its levels and how many rows they have.
    """
    group = address_of(rows.groups)
    gaps, weights = np.zeros(rows.n_features, np.uint8), np.empty(2)
    library().tk_gaps(group, pointer(gaps))
    library().tk_weights(group, pointer(weights))
    found: list[Array] = [gaps, weights]
    for feature in given["categories"]:
        counts = np.zeros(MOST_LEVEL + 1, np.int64)
        code = library().tk_level_counts(group, feature, pointer(counts))
        if code == REFUSED:
            raise DataError(
                "a feature that option 'categorical' lists has a value that is no level, expected "
                f"whole numbers from 0 to {MOST_LEVEL:,}"
            )
        check_code(code)
        levels = np.flatnonzero(counts)
        found += [levels, counts[levels]]
    return found


def values(rows: Pass, given: Mapping[str, Any]) -> list[Array]:
    """A part's answer: of each feature the values of its sampled rows, without missing ones."""
    handle, n = ctypes.c_void_p(), ctypes.c_int64()
    made = ctypes.byref(handle), ctypes.byref(n)
    check_code(library().tk_bin_sample_new(address_of(rows.groups), given["all_rows"], *made))
    kind = (np.float32, np.float64)[int(rows.groups["kind"][0])]
    found: list[Array] = []
    try:
        room = np.empty(n.value)
        for feature in given["features"]:
            count = library().tk_bin_sample_values(handle, feature, pointer(room))
            found.append(room[:count].astype(kind))
    finally:
        library().tk_bin_sample_free(handle)
    return found


def bins_of(rows: ShardedPass, rules: Rules, targets: Targets) -> tuple[Bins, Floats]:
    """Bins of the rows of all parts, and what each part said of its weights, (P, 2)."""
    boost, d = boost_of(rules, targets), rows.n_features
    flags = None if targets.categorical is None else targets.categorical[0]
    categories = [] if flags is None else np.flatnonzero(flags).tolist()
    answers = rows.asked("tree_about", categories=categories)
    missing = np.bitwise_or.reduce([one[0] for one in answers])
    bounds = [np.empty(0)] * d
    for i, feature in enumerate(categories):
        counts = np.zeros(MOST_LEVEL + 1, np.int64)
        for one in answers:
            counts[one[2 + 2 * i]] += one[3 + 2 * i]
        out = np.empty(rules.max_bins)
        bounds[feature] = out[: room(library().tk_levels_of(pointer(counts), boost, pointer(out)))]
        missing[feature] = 1
    own = [f for f in range(d) if f not in set(categories) and not shared(targets, f, bounds)]
    sampled = min(int(rows.groups["n_rows"][0]), SAMPLE)
    step = max(1, VALUES_TOGETHER // max(sampled, 1))
    for at in range(0, len(own), step):
        for feature, found in zip(
            own[at : at + step], merged(rows, own[at : at + step]), strict=True
        ):
            out = np.empty(rules.max_bins)
            count = library().tk_bounds_of(pointer(found), len(found), boost, pointer(out))
            bounds[feature] = out[: room(count)]
    weights = np.array([one[1] for one in answers])
    return put_together(bounds, missing, flags), weights


def room(count: int) -> int:
    """What a kernel counted. MemoryError where it had no memory."""
    if count < 0:
        check_code(2)
    return count


def shared(targets: Targets, feature: int, bounds: list[Floats]) -> bool:
    """Whether a feature has bounds that all groups share, which are written then."""
    if targets.bounds is None:
        return False
    numbers, start = targets.bounds
    given = numbers[start[feature] : start[feature + 1]]
    if len(given) == 1 and np.isnan(given[0]):
        return False
    bounds[feature] = given
    return True


def merged(rows: ShardedPass, features: list[int]) -> list[Floats]:
    """The sampled values of all parts, by feature."""
    answers = rows.asked("tree_values", features=features, all_rows=int(rows.groups["n_rows"][0]))
    return [np.concatenate(each).astype(np.float64) for each in zip(*answers, strict=True)]


def put_together(
    bounds: list[Floats], missing: NDArray[np.uint8], by_level: NDArray[np.uint8] | None
) -> Bins:
    """Bins from finite bounds: behind them an infinite one, but for levels, and NaN for gaps."""
    every, first = [], [0]
    for feature, one in enumerate(bounds):
        last = [] if by_level is not None and by_level[feature] else [np.inf]
        every.append(np.concatenate([one, last, [np.nan] * int(missing[feature])]))
        first.append(first[-1] + len(every[-1]))
    return Bins(np.concatenate(every), np.array(first, np.int32), missing, by_level)
