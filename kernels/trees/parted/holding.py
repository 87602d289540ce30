"""Rows of parts that are held out, and equal rows that lie in several parts.

Rows are held out, and drawn for trees, by hashes of their content: those of equal rows are told
apart by how many of the same come before. So which rows these are does not depend on how the rows
are cut: each part is told how many of its rows the parts before have too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.parts.message import Array
from tuskml.kernels.parts.sharded import ShardedPass
from tuskml.kernels.passes import OwnedRows, Pass
from tuskml.kernels.rows import structures
from tuskml.kernels.structures import GROUP

Hashes = NDArray[np.uint64]
TOGETHER = 1 << 22
"""Hashes that all parts send at once, about."""
TOP = 48
"""Bits of a hash behind those by which ranks are counted first."""


@dataclass(frozen=True)
class Hold:
    """Rows that are held out, n of them: those whose hashes are at most `until`. earlier: of each
    part the hashes that parts before it have too, and how often.
    """

    seed: int
    until: int
    n: int
    earlier: list[list[Array]]

    @property
    def given(self) -> dict[str, int]:
        """What a message says of it, beside the part's own arrays."""
        return {"seed": self.seed, "until": self.until}


class Apart:
    """The rows of a part, those that are held out apart."""

    def __init__(self, until: int, kept: NDArray[np.void], held: NDArray[np.void]) -> None:
        self.until, self.kept, self.held = until, kept, held

    def close(self) -> None:
        """Frees them."""
        for groups in (self.kept, self.held):
            with OwnedRows(groups):
                pass


def held_apart(
    rows: Pass, arrays: Sequence[Any], hold: Mapping[str, int] | None, beside: Beside
) -> tuple[Pass, Pass | None]:
    """A part's rows to train on, and those that are held out; None: none are."""
    if hold is None:
        return rows, None
    apart = beside.kept.get("apart")
    if not isinstance(apart, Apart) or apart.until != hold["until"]:
        if apart is not None:
            beside.kept.pop("apart").close()
        kept, held = np.zeros(1, GROUP), np.zeros(1, GROUP)
        spec = named(hold["seed"], hold["until"], arrays)
        to = pointer(kept), pointer(held), None
        check_code(library().tk_hold_out(rows.struct, beside.memory, spec, *to))
        beside.kept["apart"] = apart = Apart(hold["until"], kept, held)
    return replace(rows, groups=apart.kept), replace(rows, groups=apart.held)


def named(seed: int, until: int, arrays: Sequence[Any]) -> structures.Hold:
    """As kernels take it, with the hashes that parts before have too."""
    hashes, before = arrays
    return structures.Hold(seed, until, pointer(hashes), pointer(before), len(hashes))


def hashes(rows: Pass, given: Mapping[str, Any]) -> list[Array]:
    """A part's answer: the hashes of its rows in a slice, and how many rows have each."""
    found = np.empty(int(rows.groups["n_rows"][0]), np.uint64)
    check_code(library().tk_row_hashes(rows.struct, given["seed"], pointer(found)))
    return counted(found, given)


def counted(found: Hashes, given: Mapping[str, Any]) -> list[Array]:
    """Hashes of a slice, rising, and how often each occurs."""
    if given["bits"]:
        found = found[found >> np.uint64(64 - given["bits"]) == given["slice"]]
    return list(np.unique(found, return_counts=True))


def ranks(rows: Pass, arrays: Sequence[Any], given: Mapping[str, Any]) -> list[Array]:
    """A part's answer: how many hashes begin with each 16 bits, or those that begin with some."""
    found = np.empty(int(rows.groups["n_rows"][0]), np.uint64)
    spec = named(given["seed"], 0, arrays)
    check_code(library().tk_hold_out(rows.struct, None, spec, None, None, pointer(found)))
    first = found >> np.uint64(TOP)
    if given["first"] is None:
        return [np.bincount(first.astype(np.int64), minlength=1 << 64 - TOP)]
    return [found[first == given["first"]]]


def earlier(ask: Callable[..., list[list[Array]]], n_rows: int) -> list[list[Array]]:
    """Of each part the hashes that parts before have too, rising, and how many rows there.

    ask: hashes of all parts, by `bits` and `slice`; n_rows: of all parts.
    """
    bits = max(0, (n_rows // TOGETHER).bit_length())
    found = [merged(ask(bits=bits, slice=number)) for number in range(1 << bits)]
    return [
        [np.concatenate(each) for each in zip(*of_part, strict=True)]
        for of_part in zip(*found, strict=True)
    ]


def merged(answers: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The same of one slice."""
    every = np.concatenate([one[0] for one in answers])
    several, times = np.unique(every, return_counts=True)
    several = several[times > 1]
    so_far = np.zeros(len(several), np.int64)
    out: list[list[Array]] = []
    for found, counts in answers:
        there = np.isin(found, several, assume_unique=True)
        at = np.searchsorted(several, found[there])
        before = so_far[at]
        out.append([found[there][before > 0], before[before > 0]])
        so_far[at] += counts[there]
    return out


def hold_of(rows: ShardedPass, n: int, seed: int) -> Hold:
    """Holds out n rows of all parts, those of the least hashes, as `Pass.shuffled` does."""
    seed &= 2**64 - 1

    def ask(**given: int) -> list[list[Array]]:
        return rows.asked("tree_hashes", seed=seed, **given)

    table = earlier(ask, int(rows.groups["n_rows"][0]))
    each = dict(enumerate(table))
    counts = [one[0] for one in rows.asked_each("tree_ranks", each, seed=seed, first=None)]
    upto = np.cumsum(np.sum(counts, axis=0))
    first = int(np.searchsorted(upto, n))
    left = n - (int(upto[first - 1]) if first else 0)
    found = [one[0] for one in rows.asked_each("tree_ranks", each, seed=seed, first=first)]
    return Hold(seed, int(np.sort(np.concatenate(found))[left - 1]), n, table)
