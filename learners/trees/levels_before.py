"""Categories by name in a training that goes on from trees of before.

Levels that these trees know keep their numbers, and levels that only the new rows have come behind
them (`kernels/native/rows/level_numbers.cpp`). Only the number of the NULLs, which follows the
last level, moves. So each row that the trees know takes the same way as before, and a level that
they do not know goes right, as in predictions of the model.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels.rows.prepare import KnownLevels
from tuskml.kernels.trees.boosting import BY_LEVEL, MOST_LEVEL, Forest
from tuskml.learners.learner import Request
from tuskml.learners.trees.forest import set_of

OWN_LEVEL = ("keep", "level")
"""Values of option `missing` with which NULLs of a category are a level of their own."""


@dataclass(frozen=True)
class Category:
    """A category of a model. fills: the level that a NULL counts as, None: none."""

    known: KnownLevels
    fills: str | None


@dataclass(frozen=True)
class Move:
    """How sets of one feature change: levels below `levels` stay, and the bit `before` of the old
    sets becomes the bit `missing`; None: there is no such bit."""

    feature: int
    levels: int
    before: int | None
    missing: int | None


def categories_of_model(preparation: Any) -> tuple[Category, ...]:
    """The categories in a model's preparation, a JSON text or the object; ValueError if it is
    damaged."""
    try:
        read = json.loads(preparation) if isinstance(preparation, str) else preparation or {}
        own = read.get("missing") in OWN_LEVEL
        return tuple(
            Category(
                KnownLevels(sound(one["name"]), levels_in(one), bool(one.get("missing"))),
                None if own else one.get("fill"),
            )
            for one in read.get("columns", ())
            if one["kind"] == "levels"
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError from error


def levels_in(column: Any) -> tuple[str, ...]:
    """The levels of a column of a preparation; ValueError if they cannot be numbered."""
    levels = tuple(map(sound, column["levels"]))
    if len(levels) > MOST_LEVEL or len(set(levels)) < len(levels):
        raise ValueError
    return levels


def sound(text: Any) -> str:
    """The text; ValueError if it is none, or not Unicode."""
    if not isinstance(text, str):
        raise ValueError
    text.encode()
    return text


def by_numbering(
    places: NDArray[np.intp], request: Request[Any, Any]
) -> Iterator[tuple[NDArray[np.intp], Request[Any, Any]]]:
    """Parts of groups whose NULLs have the same numbers, and a request whose trees have them too.

    places: of groups in the request, whose categories are numbers of levels. DataError where the
    trees of before do not say what their levels are called.
    """
    start = request.options.warm_start
    if start is None or request.by_level is None or request.preparation is None:
        yield places, request
        return
    moves = [
        moves_of(start.categories, request.preparation(int(k)), request.by_level[k])
        for k in places
    ]
    for each in dict.fromkeys(moves):
        which = places[[one == each for one in moves]]
        moved = replace(start, moves=each)
        yield which, replace(request, options=replace(request.options, warm_start=moved))


def moves_of(before: tuple[Category, ...], preparation: str, by_level: bytes) -> tuple[Move, ...]:
    """How sets of a model change in a group of this preparation; by_level: a byte per feature, 1
    where it is a category."""
    known = {one.known.column: one for one in before}
    columns = [one for one in json.loads(preparation)["columns"] if one["kind"] == "levels"]
    moves: list[Move] = []
    for feature, column in zip(np.flatnonzero(bytearray(by_level)), columns, strict=True):
        old = known.get(column["name"])
        if old is None:
            raise DataError(
                f"warm_start does not say what the levels of '{column['name'][:60]}' are called, "
                "expected a model whose features have names and which has it as a category"
            )
        levels = old.known.levels
        at = levels.index(old.fills) if old.fills in levels else None
        before_move = len(levels) if old.known.missing else at
        missing = len(column["levels"]) if column.get("missing") else None
        moves.append(Move(int(feature), len(levels), before_move, missing))
    return tuple(moves)


def renumbered(before: Forest, moves: tuple[Move, ...]) -> Forest:
    """The forest with sets of levels as the rows number them."""
    by_feature = {move.feature: move for move in moves}
    nodes, sets = before.nodes.copy(), list[float]()
    for at in np.flatnonzero((nodes["missing"] == BY_LEVEL) & (nodes["feature"] >= 0)).tolist():
        begin = int(nodes["value"][at])
        words = before.sets[begin + 1 : begin + 1 + int(before.sets[begin])]
        left = moved({int(k) for k in levels_of(words)}, by_feature[int(nodes["feature"][at])])
        nodes["value"][at] = len(sets)
        sets += set_of(left) if left else [1.0, 0.0]
    return replace(before, nodes=nodes, sets=np.array(sets))


def levels_of(words: NDArray[np.float64]) -> NDArray[np.intp]:
    """The numbers of the bits that are set in words of 32 bits."""
    return np.flatnonzero(np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little"))


def moved(left: set[int], move: Move) -> set[int]:
    """The levels that go left after a move."""
    kept = {level for level in left if level < move.levels}
    if move.missing is not None and move.before in left:
        kept.add(move.missing)
    return kept
