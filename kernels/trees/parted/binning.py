"""Bins of a group whose rows lie in parts: those of all rows together, bit for bit.

Parts send the values of the rows that determine bounds, which are chosen by their content: all of
small groups, of large ones 200,000. For categories they send the number of rows of each level.
"""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import RowsError
from tuskml.kernels.library import Floats, address_of, check_code, library, pointer
from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.parts.message import Array
from tuskml.kernels.parts.sharded import ShardedPass
from tuskml.kernels.passes import Pass
from tuskml.kernels.trees.boosting import MOST_LEVEL, REFUSED, Rules, Targets, boost_of
from tuskml.kernels.trees.boosting import Bins as Struct
from tuskml.kernels.trees.parted.holding import Hold, split_held_out

SAMPLE = 200_000
"""Approximate number of rows that determine bounds: `BIN_SAMPLE`."""
VALUES_TOGETHER = 1 << 22
"""Approximate number of values that all parts send at once."""


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
        """The structure that kernels read; valid while this object lives."""
        arrays = map(pointer, (self.bound, self.first, self.missing, self.by_level))
        return Struct(*arrays, len(self.missing))


def about(rows: Pass, arrays: list[Any], given: Mapping[str, Any], beside: Beside) -> list[Array]:
    """A part's answer: which features lack values (d,); the sum of the weights, the largest one,
    their unit, the sum of those of held-out rows, and the least and the greatest label (6,); and
    of each category its levels and how many rows they have.
    """
    rows, held = split_held_out(rows, arrays, given["hold"], beside)
    group = address_of(rows.groups)
    gaps, weights = np.zeros(rows.n_features, np.uint8), np.zeros(6)
    if held is not None:
        library().tk_weights(address_of(held.groups), pointer(weights))
        weights[3] = weights[0]
    library().tk_gaps(group, pointer(gaps))
    library().tk_weights(group, pointer(weights))
    library().tk_range_of_labels(group, pointer(weights[4:]))
    reply: list[Array] = [gaps, weights]
    for feature in given["categories"]:
        counts = np.zeros(MOST_LEVEL + 1, np.int64)
        code = library().tk_level_counts(group, feature, pointer(counts))
        if code == REFUSED:
            raise RowsError(
                "a feature that option 'categorical' lists has a value that is no level, expected "
                f"whole numbers from 0 to {MOST_LEVEL:,}"
            )
        check_code(code)
        levels = np.flatnonzero(counts)
        reply += [levels, counts[levels]]
    return reply


def values(rows: Pass, arrays: list[Any], given: Mapping[str, Any], beside: Beside) -> list[Array]:
    """Reply of a part: for each feature the values of its sampled rows, without missing ones."""
    rows, _ = split_held_out(rows, arrays, given["hold"], beside)
    handle, n = ctypes.c_void_p(), ctypes.c_int64()
    outputs = ctypes.byref(handle), ctypes.byref(n)
    check_code(library().tk_bin_sample_new(address_of(rows.groups), given["all_rows"], *outputs))
    kind = (np.float32, np.float64)[int(rows.groups["kind"][0])]
    reply: list[Array] = []
    try:
        room = np.empty(n.value)
        for feature in given["features"]:
            count = library().tk_bin_sample_values(handle, feature, pointer(room))
            reply.append(room[:count].astype(kind))
    finally:
        library().tk_bin_sample_free(handle)
    return reply


def measure_weights(extent: NDArray[np.void], weights: Floats) -> None:
    """Fills in the largest weight, the unit of weights and the range of labels of all parts.

    weights: (P, 6), as `about` answers.
    """
    extent["most"] = weights[:, 1].max()
    units = np.ascontiguousarray(weights[weights[:, 0] > 0, 2])
    extent["unit"] = library().tk_common_unit(pointer(units), len(units))
    extent["least"], extent["greatest"] = weights[:, 4].min(), weights[:, 5].max()


def bins_of(
    rows: ShardedPass, rules: Rules, targets: Targets, hold: Hold | None
) -> tuple[Bins, Floats]:
    """Bins of the rows of all parts, and what each part said of weights and labels, (P, 6)."""
    boost, d = boost_of(rules, targets), rows.n_features
    flags = None if targets.categorical is None else targets.categorical[0]
    categories = [] if flags is None else np.flatnonzero(flags).tolist()
    answers = ask_parts(rows, hold, "tree_about", categories=categories)
    missing = np.bitwise_or.reduce([one[0] for one in answers])
    bounds = [np.empty(0)] * d
    for i, feature in enumerate(categories):
        counts = np.zeros(MOST_LEVEL + 1, np.int64)
        for one in answers:
            counts[one[2 + 2 * i]] += one[3 + 2 * i]
        out = np.empty(rules.max_bins)
        bounds[feature] = out[: room(library().tk_levels_of(pointer(counts), boost, pointer(out)))]
        missing[feature] = 1
    own = [
        f
        for f in range(d)
        if f not in set(categories) and not write_shared_bounds(targets, f, bounds)
    ]
    all_rows = int(rows.groups["n_rows"][0]) - (hold.n if hold else 0)
    sampled = min(all_rows, SAMPLE)
    step = max(1, VALUES_TOGETHER // max(sampled, 1))
    for at in range(0, len(own), step):
        some = own[at : at + step]
        for feature, sample in zip(some, merge_samples(rows, hold, some, all_rows), strict=True):
            out = np.empty(rules.max_bins)
            arguments = pointer(sample), len(sample), boost, all_rows, pointer(out)
            count = library().tk_bounds_of(*arguments)
            bounds[feature] = out[: room(count)]
    weights = np.array([one[1] for one in answers])
    return assemble_bins(bounds, missing, flags), weights


def room(count: int) -> int:
    """Checks a kernel's count. Raises MemoryError if it had no memory."""
    if count < 0:
        check_code(2)
    return count


def write_shared_bounds(targets: Targets, feature: int, bounds: list[Floats]) -> bool:
    """Returns whether a feature has bounds shared by all groups, and if so writes them."""
    if targets.bounds is None:
        return False
    numbers, start = targets.bounds
    bound = numbers[start[feature] : start[feature + 1]]
    if len(bound) == 1 and np.isnan(bound[0]):
        return False
    bounds[feature] = bound
    return True


def ask_parts(rows: ShardedPass, hold: Hold | None, method: str, **given: Any) -> list[list[Any]]:
    """Replies of each part about its rows that are not held out."""
    if hold is None:
        return rows.ask(method, hold=None, **given)
    return rows.ask_each(method, dict(enumerate(hold.earlier)), hold=hold.arguments, **given)


def merge_samples(
    rows: ShardedPass, hold: Hold | None, features: list[int], all_rows: int
) -> list[Floats]:
    """Sampled values of all parts, by feature."""
    answers = ask_parts(rows, hold, "tree_values", features=features, all_rows=all_rows)
    return [np.concatenate(each).astype(np.float64) for each in zip(*answers, strict=True)]


def assemble_bins(
    bounds: list[Floats], missing: NDArray[np.uint8], by_level: NDArray[np.uint8] | None
) -> Bins:
    """Bins from finite bounds, followed by infinity unless it has levels, and NaN for missing
    values.
    """
    every: list[Floats] = []
    first = [0]
    for feature, one in enumerate(bounds):
        last = [] if by_level is not None and by_level[feature] else [np.inf]
        every.append(np.concatenate([one, last, [np.nan] * int(missing[feature])]))
        first.append(first[-1] + len(every[-1]))
    return Bins(np.concatenate(every), np.array(first, np.int32), missing, by_level)
