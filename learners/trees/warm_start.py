"""Trees to continue: option `warm_start` of boosted trees.

They are the model's, whose margins are those before the next tree, as after as many iterations of
one longer training.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError
from tuskml.kernels.passes import Floats
from tuskml.kernels.rows.prepare import KnownLevels
from tuskml.kernels.trees.boosting import BY_LEVEL, MOST_LEVEL, NODE, Forest, Rows
from tuskml.learners.learner import Request
from tuskml.learners.options.kinds import WARM_START, Kind, WarmStart
from tuskml.learners.trees.forest import HEAD, MISSING, VALUE, bytes_of, set_of, trees_of_payload
from tuskml.learners.trees.forest import NODE as NUMBERS

OWN_LEVEL = ("keep", "level")
"""Values of the option `missing` with which NULLs of a category are a level of their own."""


@dataclass(frozen=True)
class Category:
    """A category of a model. fills: the level that a NULL counts as, None: none."""

    known: KnownLevels
    fills: str | None


@dataclass(frozen=True)
class Move:
    """The change of sets of one feature: levels below `levels` stay, and the bit `before` of the
    old sets becomes the bit `missing`; None: there is no such bit.
    """

    feature: int
    levels: int
    before: int | None
    missing: int | None


def categories_of_model(preparation: Any) -> tuple[Category, ...]:
    """The categories in a model's preparation, a JSON text or the object; raises ValueError if
    it is damaged.
    """
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
    """The levels of a column of a preparation; raises ValueError if they cannot be numbered."""
    levels = tuple(map(sound, column["levels"]))
    if len(levels) > MOST_LEVEL or len(set(levels)) < len(levels):
        raise ValueError
    return levels


def sound(text: Any) -> str:
    """Returns the text; raises ValueError if it is not a text or not valid Unicode."""
    if not isinstance(text, str):
        raise ValueError
    text.encode()
    return text


def by_numbering(
    places: NDArray[np.intp], request: Request[Any, Any]
) -> Iterator[tuple[NDArray[np.intp], Request[Any, Any]]]:
    """Yields parts of groups whose NULLs have the same numbers, and a request whose trees have
    them too.

    places: indices of groups in the request, whose categories are numbers of levels. Raises
    DataError if the earlier trees lack the names of their levels.
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
    """The changes of a model's sets in a group of this preparation; by_level: a byte per feature,
    1 where it is a category.
    """
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


def renumber_levels(before: Forest, moves: tuple[Move, ...]) -> Forest:
    """The forest with sets of levels as the rows number them."""
    by_feature = {move.feature: move for move in moves}
    nodes, sets = before.nodes.copy(), list[float]()
    for at in np.flatnonzero((nodes["missing"] == BY_LEVEL) & (nodes["feature"] >= 0)).tolist():
        begin = int(nodes["value"][at])
        words = before.sets[begin + 1 : begin + 1 + int(before.sets[begin])]
        left = levels_after(
            {int(k) for k in levels_of(words)}, by_feature[int(nodes["feature"][at])]
        )
        nodes["value"][at] = len(sets)
        sets += set_of(left) if left else [1.0, 0.0]
    return replace(before, nodes=nodes, sets=np.array(sets))


def levels_of(words: NDArray[np.float64]) -> NDArray[np.intp]:
    """The numbers of the bits that are set in words of 32 bits."""
    return np.flatnonzero(np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little"))


def levels_after(left: set[int], move: Move) -> set[int]:
    """The levels that go left after a move."""
    kept = {level for level in left if level < move.levels}
    if move.missing is not None and move.before in left:
        kept.add(move.missing)
    return kept


FEATURE, RIGHT, GAIN, ROWS = 0, 2, 3, 4
"""Indices in a node, in addition to those of `forest.py`."""
BROKEN = "warm_start has coefficients that are no trees, expected a whole model of 'gbdt'"


@dataclass(frozen=True)
class TreesBefore(WarmStart):
    """A model of trees. task, objective: where the model says; features: their names, if any;
    categories: those whose levels have names; moves: how their numbers change, `by_numbering`."""

    task: str | None = None
    objective: str | None = None
    features: tuple[str, ...] = ()
    categories: tuple[Category, ...] = ()
    moves: tuple[Move, ...] = ()


def _number(value: Any) -> float:
    """A number of a model as JSON, which may be infinite: PostgreSQL writes that as text."""
    if value in ("Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ValueError
    return float(value)


def _objective(options: Any) -> str | None:
    """The objective among a model's options, which are a text or an object."""
    if isinstance(options, str):
        options = json.loads(options)
    found = options.get("objective") if isinstance(options, dict) else None
    return found if isinstance(found, str) else None


def _trees(value: Any) -> WarmStart:
    given = value if isinstance(value, dict) else {}
    coef, payload = given.get("coef"), given.get("payload")
    if coef is None and isinstance(payload, str):
        coef = trees_of_payload(bytes_of(payload))
    if not isinstance(coef, list) or not coef:
        return WARM_START.parse(value)  # type: ignore[no-any-return]
    usual = WARM_START.parse({**given, "coef": [0]})
    task, names = given.get("task"), given.get("features")
    return TreesBefore(
        tuple(map(_number, coef)),
        usual.intercept,
        None,
        usual.classes,
        task if isinstance(task, str) else None,
        _objective(given.get("options")),
        tuple(map(str, names)) if isinstance(names, list) else (),
        categories_of_model(given.get("preparation")),
    )


TREES_BEFORE = Kind(WARM_START.allowed, _trees)


def refuse_model(given: WarmStart, task: str, objective: str) -> None:
    """Raises OptionError for a model of another task or objective, or in a store."""
    if given.store is not None:
        raise OptionError(
            f"warm_start is the stored model '{given.store}', expected a model of '{task}' with "
            "coefficients"
        )
    if not isinstance(given, TreesBefore):
        return
    if given.task not in (None, task):
        raise OptionError(f"warm_start is a model of '{given.task}', expected one of '{task}'")
    if given.objective not in (None, objective):
        raise OptionError(
            f"warm_start has the objective '{given.objective}', expected '{objective}' as the "
            "training"
        )


def refuse_names(given: WarmStart, names: tuple[str, ...]) -> None:
    """Raises DataError if both have names of features, and other ones."""
    own = given.features if isinstance(given, TreesBefore) else ()
    if not own or not names or own == names:
        return
    place = next((i for i, (a, b) in enumerate(zip(own, names, strict=False)) if a != b), None)
    if place is None:
        raise DataError(f"warm_start has {len(own)} features, expected {len(names)} as the rows")
    raise DataError(
        f"warm_start has the feature '{own[place]}' at place {place + 1}, expected "
        f"'{names[place]}' as the rows"
    )


def refuse_start(places: NDArray[np.intp], request: Request[Any, Any]) -> None:
    """Raises OptionError or DataError for a model that groups cannot continue; places: indices of
    the groups in the request.
    """
    given = request.options.warm_start
    if given is None:
        return
    refuse_model(given, request.task.name, request.options.objective)
    if request.feature_names is not None:
        for place in places:
            refuse_names(given, tuple(request.feature_names(int(place))))


def start_forest(given: Rows, options: Any, classifies: bool) -> Forest | None:
    """The trees that groups of equally many classes continue; None without a warm start."""
    start = options.warm_start
    if start is None:
        return None
    several = given.classes
    before = trees_before(
        start, int(given.groups["dim"][0]), 1 if several is None else several.shape[1]
    )
    refuse_categories(before, given.by_level)
    if isinstance(start, TreesBefore) and start.moves:
        before = renumber_levels(before, start.moves)
    if classifies and start.classes:
        labels = given.labels
        own = np.stack([labels["low"], labels["high"]], axis=1) if several is None else several
        if several is None and options.classes is not None:
            own = np.array([options.classes])
        alone = own[:, 0] == own[:, -1]
        known = np.isin(own, start.classes).all(axis=1) & (own.shape[1] == len(start.classes))
        if not (known | alone).all():
            raise DataError("warm_start has other classes than the labels, expected the same")
    return before


def trees_before(given: WarmStart, width: int, outputs: int) -> Forest:
    """The trees of a model of d features; outputs: 1, or the number of more than two classes.

    Raises DataError for numbers that are no trees of these features and outputs.
    """
    numbers = np.array(given.coef, np.float64)
    bases = outputs if outputs > 1 else 0
    if len(numbers) < HEAD or not np.isfinite(numbers[:HEAD]).all():
        raise DataError(BROKEN)
    if numbers[0] != width:
        raise DataError(f"warm_start has {numbers[0]:.0f} features, expected {width} as the rows")
    if numbers[2] != bases:
        classes = f"{numbers[2]:.0f} classes" if numbers[2] else "two classes, or is of numbers"
        raise DataError(
            f"warm_start has {classes}, expected the {outputs} classes of the labels"
            if outputs > 1
            else f"warm_start has {classes}, expected a model with as many classes as the labels"
        )
    trees, first = numbers[1], HEAD + bases
    if not (0 <= trees <= len(numbers) - first) or trees % 1 or trees % outputs:
        raise DataError(BROKEN)
    start = starts(numbers[first : first + int(trees)], len(numbers))
    behind = first + int(trees)
    end = behind + int(start[-1]) * NUMBERS
    if end > len(numbers):
        raise DataError(BROKEN)
    table = numbers[behind:end].reshape(-1, NUMBERS)
    sets = numbers[end:].copy()
    check_nodes(table, start, width, sets)
    nodes = np.empty(len(table), NODE)
    nodes["value"], nodes["feature"] = table[:, VALUE], table[:, FEATURE]
    nodes["right"], nodes["missing"] = table[:, RIGHT], table[:, MISSING]
    chosen = nodes["missing"] == BY_LEVEL
    nodes["value"][chosen] = len(sets) - nodes["value"][chosen]
    base = numbers[HEAD:first].copy() if bases else np.array([given.intercept])
    gain, rows = table[:, GAIN].astype(np.float32), table[:, ROWS].astype(np.int64)
    none = np.empty(0)
    return Forest(base, 0.0, start, nodes, gain, rows, none, none, sets)


def starts(sizes: Floats, most: int) -> NDArray[np.int64]:
    """The first node of each tree, and the number of all nodes, (trees + 1,)."""
    if not ((sizes >= 1) & (sizes <= most) & (sizes % 1 == 0)).all():
        raise DataError(BROKEN)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def check_nodes(table: Floats, start: NDArray[np.int64], width: int, sets: Floats) -> None:
    """Raises DataError unless each walk ends at a leaf of its tree, and each set is there."""
    size = np.repeat(np.diff(start), np.diff(start))
    at = np.arange(len(table)) - np.repeat(start[:-1], np.diff(start))
    feature, right = table[:, FEATURE], table[:, RIGHT]
    inner = feature >= 0
    whole = (feature % 1 == 0) & (feature >= -1) & (feature < width)
    behind = (right % 1 == 0) & (right > at + 1) & (right < size)
    side = np.isin(table[:, MISSING], (0, 1, BY_LEVEL))
    counted = (table[:, ROWS] >= 0) & (table[:, ROWS] < 2.0**53)
    sound = whole & side & counted & np.where(inner, behind, np.isfinite(table[:, VALUE]))
    chosen = inner & (table[:, MISSING] == BY_LEVEL)
    known = np.isin(len(sets) - table[chosen, VALUE], places_of(sets))
    if not sound.all() or not known.all():
        raise DataError(BROKEN)


def places_of(sets: Floats) -> list[int]:
    """The start of each set."""
    words = (sets >= 0) & (sets < 2.0**32) & (sets % 1 == 0)
    places, at = [], 0
    while words.all() and at < len(sets):
        places.append(at)
        if not 1 <= sets[at] <= (MOST_LEVEL + 1) // 32 or at + 1 + sets[at] > len(sets):
            raise DataError(BROKEN)
        at += 1 + int(sets[at])
    if not words.all():
        raise DataError(BROKEN)
    return places


def refuse_categories(before: Forest, categorical: NDArray[np.uint8] | None) -> None:
    """Raises DataError if a category of the rows is split as a number, or the other way round.

    categorical: (G, d), as the kernels have it.
    """
    inner = before.nodes["feature"] >= 0
    split, missing = before.nodes["feature"][inner], before.nodes["missing"][inner]
    flags = np.zeros((1, 1 + split.max(initial=0)), np.uint8)
    own = flags if categorical is None else categorical
    other = (own[:, split] != (missing == BY_LEVEL)).any(axis=0)
    if other.any():
        place = int(split[other][0]) + 1
        raise DataError(
            f"warm_start and the rows do not both have feature {place} as a category, expected "
            "the same option 'categorical'"
        )


def join_trees(before: Forest, more: Forest) -> Forest:
    """The trees of before and then those of a training that went on from them."""
    nodes = more.nodes.copy()
    nodes["value"][nodes["missing"] == BY_LEVEL] += len(before.sets)
    return Forest(
        more.base,
        more.base_loss,
        np.concatenate([before.start, before.start[-1] + more.start[1:]]),
        np.concatenate([before.nodes, nodes]),
        np.concatenate([before.gain, more.gain]),
        np.concatenate([before.rows, more.rows]),
        more.loss,
        more.held,
        np.concatenate([before.sets, more.sets]),
    )
