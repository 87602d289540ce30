"""A `Pass` over one group whose rows lie in parts on different workers.

Each sum over rows is requested from all parts, and their replies are added in the order of the
parts. So its bits depend on how the rows are cut, and not on who computes when. No worker has all
rows: kernels that need them raise RuntimeError.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 4.2: gradient accumulation parallelism (GAP), algebraic.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels import structures
from tuskml.kernels.epochs import Epoch
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.open_rows import Open
from tuskml.kernels.parts.hopping import hop
from tuskml.kernels.parts.merging import merge_labels, merge_moments
from tuskml.kernels.parts.message import Array, pack_message, unpack_message
from tuskml.kernels.passes import SQUARED, Floats, OwnedRows, Pass, once
from tuskml.kernels.rows.census import PreparationTexts
from tuskml.kernels.structures import GROUP, LABELS

SETTINGS = ("loss", "fit_intercept", "smoothing", "loss_only", "stride", "by_scores")
"""Settings of a pass, besides its arrays, that determine its sums."""
ARRAYS = ("positive", "class_weight", "parameter")


class Crew(Protocol):
    """Workers that train one group together, step by step."""

    def train(self, task: str, message: bytes, most: int) -> Sequence[bytes]:
        """Replies of the workers (`Crew.train`); their number is a power of two, at most
        `most`.
        """


class Parts(Protocol):
    """The parts of a group's rows, in a fixed order.

    n_rows: all rows, including skipped ones. After `of_parts`: found, the group (kernels.GROUP)
    without its rows, and counts, the usable rows of each part. folds: the folds of these rows,
    None: all; told: preparation of rows with names, None: they have none; remarks: on the rows of
    each part, as JSON; crew: workers that train on them together, or None; workers: how many
    have the parts, at most.
    """

    n_rows: int
    told: PreparationTexts | None
    remarks: Sequence[Mapping[str, Any]]
    found: NDArray[np.void] | None
    counts: NDArray[np.int64]
    folds: tuple[int, ...] | None
    crew: Crew | None
    workers: int

    def of(self, folds: tuple[int, ...] | None) -> "Parts":
        """The same parts with their rows of some folds, not yet described."""

    def together(self, n: int) -> Iterable[AbstractContextManager["Parts"]]:
        """The same parts for n trainings at a time, each until its context ends."""

    def ask_one(self, place: int, message: bytes) -> bytes:
        """Reply of one part."""

    def ask_some(self, messages: Mapping[int, bytes]) -> Sequence[bytes]:
        """Replies of some parts, in the order of `messages`."""

    def ask(self, message: bytes) -> Sequence[bytes]:
        """Reply of each part (`answering.answered`), in order."""

    def keep(self, places: Sequence[int]) -> None:
        """Restricts to these parts: the others have no usable row."""

    def deal(self, told: Sequence[bytes]) -> None:
        """Deals rows to folds (`dealing.py`), for `of`.

        told: message for each part.
        """


class BorrowedRows(OwnedRows):
    """Rows without memory of their own."""

    def __exit__(self, *_: object) -> None:
        pass


@dataclass(frozen=True)
class ShardedPass(Pass):
    """A pass over rows in parts.

    groups: one group, whose rows are on other workers; parts: the workers' parts; classifies:
    whether labels are classes; folds: of the rows of this pass, None: those of `parts`.
    """

    parts: Parts | None = None
    classifies: bool = False
    folds: tuple[int, ...] | None = None

    @property
    def struct(self) -> structures.Pass:
        """Structure of no group; a kernel never sees rows of other workers."""
        if self.n_groups:
            raise RuntimeError("a kernel needs the rows of a group that lies in parts")
        return super().struct

    @once
    def label_parts(self) -> list[NDArray[np.void]]:
        """Returns LABELS (1,) of each part that has rows."""
        return [one[0].view(LABELS).reshape(1) for one in self.ask("labels")]

    def labels(self) -> NDArray[np.void]:
        if not self.n_groups:
            return np.zeros(0, LABELS)
        return merge_labels(self.label_parts, self.classifies)

    def feature_moments(self, sample: int) -> tuple[Floats, Floats]:
        if not self.n_groups:
            return super().feature_moments(sample)
        moments = self.ask("feature_moments", sample=int(sample))
        weight = np.array([one["weight"][0] for one in self.label_parts])
        return merge_moments(weight, *(np.stack(each) for each in zip(*moments, strict=True)))

    def feature_counts(self) -> tuple[Floats, Floats]:
        if not self.n_groups:
            return super().feature_counts()
        counts, largest = zip(*self.ask("feature_counts"), strict=True)
        return add_arrays(counts), np.maximum.reduce(largest)

    def values_near_one(self) -> bool | None:
        codes = [int(one[0][0]) for one in self.ask("values_near_one")]
        return False if 0 in codes else (None if 2 in codes else True)

    def entries(self) -> NDArray[np.int64]:
        return np.asarray(add_arrays([one[0] for one in self.ask("entries")]), np.int64)

    def leaks(self, least: int) -> bool:
        """Returns whether a feature is the label in each part (`kernels.passes.leaks`)."""
        codes = {int(one[0][0]) for one in self.ask("leaks", least=least)}
        return len(codes) == 1 and codes != {0}

    def gradient(self, weights: Floats) -> Floats:
        if not self.n_groups:
            return super().gradient(weights)
        if self.meter is not None:
            self.meter.count_pass(self.stride, self.loss_only)
        return self.sum_replies("gradient", weights)

    def curvature(self, weights: Floats, shift: Floats, scale: Floats, precise: bool) -> Floats:
        if not self.n_groups:
            return super().curvature(weights, shift, scale, precise)
        if self.meter is not None:
            self.meter.curvatures += 1 / self.stride
        return self.sum_replies("curvature", weights, shift, scale, precise=bool(precise))

    def size_likelihood(self, weights: Floats, size: Floats) -> Floats:
        return self.sum_replies("size_likelihood", weights, size)

    def squared_scores(
        self,
        weights: Floats,
        shift: Floats,
        scale: Floats,
        inverse: Floats,
        power: int,
        squared: bool = False,
    ) -> Floats:
        arrays = weights, shift, scale, inverse
        return self.sum_replies("squared_scores", *arrays, power=int(power), squared=bool(squared))

    def sgd(self, epoch: Epoch, weights: Floats, average: Floats | None, shared: bool) -> Floats:
        if not self.n_groups:
            return super().sgd(epoch, weights, average, shared)
        return hop(self, "sgd", (), epoch, weights, average, shared=bool(shared))

    def shuffle(
        self, memory: int, seed: int, held_out: NDArray[np.int64]
    ) -> tuple[OwnedRows, OwnedRows]:
        """The rows as two passes; each part orders its rows by a hash of their content."""
        if held_out.any():
            raise RuntimeError("rows that lie in parts cannot be held out")
        return BorrowedRows(self.groups), BorrowedRows(np.zeros(self.n_groups, GROUP))

    def ask(self, method: str, *arrays: Array | None, **given: Any) -> list[list[Any]]:
        """Arrays of the reply of each part with such rows.

        given: further arguments of the method.
        """
        assert self.parts is not None
        message = self.message(method, arrays, given)
        replies = [unpack_message(one)[1] for one in self.parts.ask(message)]
        return [one for one in replies if one]

    @property
    def whose(self) -> tuple[int, ...] | None:
        """Folds of the rows."""
        return self.parts.folds if self.folds is None and self.parts is not None else self.folds

    def counts(self) -> NDArray[np.int64]:
        """Number of rows of each part."""
        assert self.parts is not None
        message = pack_message(description_header(self.whose))
        counts = [unpack_message(one)[1][0] for one in self.parts.ask(message)]
        return np.array([0 if one is None else one[0] for one in counts], np.int64)

    def ask_each(
        self, method: str, arrays: Mapping[int, Sequence[Array | None]], **given: Any
    ) -> list[list[Any]]:
        """Arrays of the replies of some parts, each with arguments of its own."""
        assert self.parts is not None
        messages = {at: self.message(method, own, given) for at, own in arrays.items()}
        return [unpack_message(one)[1] for one in self.parts.ask_some(messages)]

    def ask_part(self, place: int, method: str, *arrays: Array | None, **given: Any) -> list[Any]:
        """Arrays of the reply of one part."""
        assert self.parts is not None
        return unpack_message(self.parts.ask_one(place, self.message(method, arrays, given)))[1]

    def message(
        self, method: str, arrays: Sequence[Array | None], given: Mapping[str, Any]
    ) -> bytes:
        """The message to a part."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        about = {"settings": settings, "d": self.n_features, "folds": self.whose}
        header = {"method": method, "given": given, **about}
        own = [getattr(self, name) for name in ARRAYS]
        return pack_message(header, [*own, *arrays])

    def sum_replies(self, method: str, *arrays: Array | None, **given: Any) -> Floats:
        """Sum of the first arrays of the replies, in the order of the parts."""
        return add_arrays([one[0] for one in self.ask(method, *arrays, **given)])


def add_arrays(terms: Sequence[Array]) -> Array:
    """Sum from the first term to the last, in order."""
    total: Array = reduce(np.add, terms)
    return total


def least_or_most(terms: Sequence[Floats], least: Sequence[bool]) -> Floats:
    """Reduces each column of terms (G, k) to its least or largest value."""
    ends = np.where(least, np.minimum.reduce(terms), np.maximum.reduce(terms))
    return np.ascontiguousarray(ends)


def pass_of_squares(rows: Pass) -> Pass:
    """A pass over the same rows with the squared loss and no other settings, on the processor."""
    settings = SQUARED, None, None, True
    return anew(rows, *settings)


def anew(
    rows: Pass,
    loss: int,
    positive: Floats | None,
    class_weight: Floats | None,
    fit_intercept: bool,
    own: Open | None = None,
) -> Pass:
    """A pass over the same rows with this loss and no other settings, on the processor."""
    settings = rows.groups, loss, positive, class_weight, fit_intercept, rows.threads
    if not isinstance(rows, ShardedPass):
        return Pass(*settings, cancel_mark=rows.cancel_mark, open=own)
    return ShardedPass(*settings, cancel_mark=rows.cancel_mark, open=own, parts=rows.parts)


def description_header(folds: tuple[int, ...] | None) -> dict[str, Any]:
    """Header of a request for the description of a part's rows."""
    return {"method": "described", "folds": folds}


def preparation_of(parts: Parts) -> PreparationTexts | None:
    """Preparation of rows with names; None if no part has a row."""
    for answer in parts.ask(pack_message({"method": "told"})):
        if arrays := unpack_message(answer)[1]:
            return PreparationTexts.of_arrays(arrays)
    return None


def has_words(parts: Parts) -> bool:
    """Returns whether the rows of some part are documents of words, not of ids."""
    answers = parts.ask(pack_message(description_header(parts.folds)))
    return any(unpack_message(one)[0]["words"] for one in answers)


def of_parts(parts: Parts) -> NDArray[np.void] | None:
    """The group (1,) that lies in parts, without its rows; None if no row is usable.

    Raises DataError if features differ between parts.
    """
    answers = [
        unpack_message(one) for one in parts.ask(pack_message(description_header(parts.folds)))
    ]
    firsts = [arrays[0] for _, arrays in answers]
    parts.remarks = [header["remarks"] for header, _ in answers if header["remarks"]]
    places = [place for place, one in enumerate(firsts) if one is not None and one[0] > 0]
    if not places:
        return None
    parts.keep(places)
    known = np.array([firsts[place] for place in places], np.int64)
    group = np.zeros(1, GROUP)
    rows, dims, kinds = known[:, 0], known[:, 1], known[:, 2]
    if len(set(kinds.tolist())) > 1 or (kinds[0] < 2 and len(set(dims.tolist())) > 1):
        raise DataError(
            f"features of a group have {dims.min()} and {dims.max()} elements or other types in "
            "another file, expected the same everywhere"
        )
    group["n_rows"], group["dim"], group["kind"] = rows.sum(), max(dims.max(), 1), kinds[0]
    group["extras"] = np.bitwise_or.reduce(known[:, 3])
    group["n_skipped"] = parts.n_rows - rows.sum()
    parts.found, parts.counts = group, rows
    return group


# Sums over rows, requested from the parts too.


def entry_sums(rows: Pass) -> tuple[Floats, Floats]:
    """The sums (G, d + 1) of sparse features and of 1, and (G, d + 2) of their squares, of 1 and
    of the weights of rows, by one pass over the entries.
    """
    if isinstance(rows, ShardedPass) and rows.n_groups:
        replies = rows.ask("entry_sums")
        return add_arrays([one[0] for one in replies]), add_arrays([one[1] for one in replies])
    n, d = rows.n_groups, rows.n_features
    nothing, direction = np.zeros((n, d + 1)), np.zeros((n, d + 1))
    direction[:, -1] = 1.0
    sums, squares = np.empty((n, d + 1)), np.empty((n, d + 2))
    offset = rows.first_rows
    arguments = pointer(nothing), pointer(direction), pointer(offset), pointer(None)
    call = library().tk_curvature_times
    check_code(call(pass_of_squares(rows).struct, *arguments, pointer(sums), pointer(squares)))
    return sums, squares


def margin_reach(rows: Pass, weights: Floats, direction: Floats, far: Floats) -> Floats:
    """Extremes over each group's rows, (G, 4), along a direction of the weights.

    The least y m, the least and the largest move y (z.u) and the largest (1 - q) |z.u|; weights,
    direction: (G, d + 1), in the caller's units. Counts of 0 have y = -1 and the share |z.u|,
    others the move |z.u| alone. far (G,): margins y m above which rows do not count.
    """
    if isinstance(rows, ShardedPass) and rows.n_groups:
        replies = rows.ask("margin_reach", weights, direction, far)
        return least_or_most([one[0] for one in replies], REACH_LEAST)
    out = np.empty((rows.n_groups, 4))
    weights, direction = np.ascontiguousarray(weights), np.ascontiguousarray(direction)
    far = np.ascontiguousarray(far)
    arguments = pointer(weights), pointer(direction), pointer(far), pointer(out)
    check_code(library().tk_margin_reach(rows.struct, *arguments))
    return out


REACH_LEAST = (True, True, False, False)
"""Whether each of the four is a minimum."""
