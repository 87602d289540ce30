"""Rows with names in ONNX graphs, for all models: the features that the model computes from them.

The node `features` equals a list of features, of shape (n, d); `refused`, of shape (n, 1), is 0,
and NaN where the model rejects the row or has no prediction for it.

Parts of dates are those of `udas/rowblock/derived.h`. Times are doubles, in days since 1970-01-01.
All numbers stay below 2^53, so sums and products are exact, and a quotient's floor is the whole
quotient.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.formats.onnx.columns import numbers_placed, texts_placed
from tuskml.formats.onnx.graph import Graph, Steps
from tuskml.model.model import Model

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


Floats = NDArray[np.float64]


@dataclass
class Block:
    """The features of one column, without an indicator.

    parts: nodes of shape (n, w); width: of all of them; is_category: whether one of the features
    is 1 and the others 0, or all are 0; indicator: the node that is 1 if the value was missing;
    whole: the parts as one node, once computed; vector: the node of the level's vector if the
    category is embedded, (n, length), which replaces the parts.
    """

    parts: list[str]
    width: int
    is_category: bool = False
    indicator: str | None = None
    whole: str = ""
    vector: str = ""


@dataclass
class Rows:
    """The columns so far.

    vectors: by the first feature of an embedded category, the vectors of its features.
    """

    graph: Graph
    missing: str
    refuses_unseen: bool
    vectors: Mapping[int, Floats]
    blocks: list[Block] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    @property
    def next_feature(self) -> int:
        """The number of features so far."""
        return sum(block.width + bool(block.indicator) for block in self.blocks)

    def refuse_gaps(self, steps: Steps, is_missing: str) -> None:
        """Rows with a gap that nothing fills have no prediction."""
        if self.missing in ("skip", "error"):
            self.refusals.append(steps.where(is_missing, math.nan, 0.0))


def add_prepared_features(
    graph: Graph, model: Model, vectors: Mapping[int, Floats] | None = None
) -> None:
    """Adds the nodes `features` and `refused`. Raises DataError for features that ONNX cannot
    derive.

    vectors: by the first feature of each category that a net embeds, the vectors of its features;
    `features` then has the other features followed by the vectors, by column.
    """
    preparation = json.loads(model.preparation or "")
    rows = Rows(graph, preparation["missing"], preparation["unseen"] == "error", vectors or {})
    for place, column in enumerate(preparation["columns"]):
        rows.blocks.append(block_of(rows, Steps(graph, f"column{place}"), column))
    joined = [node for block in rows.blocks for node in nodes_of(block)]
    joined += [block.vector for block in rows.blocks if block.vector]
    graph.add("Concat", joined, "features", axis=1)
    steps = Steps(graph, "rows")
    gaps = as_double(steps, steps.do("IsNaN", "features"))
    nothing = steps.do("ReduceSum", steps.do("Mul", gaps, 0.0), "second", keepdims=1)
    graph.add("Sum", [nothing, *rows.refusals], "refused")


def nodes_of(block: Block) -> list[str]:
    """The nodes of a column's features, in their order, without an embedded category's."""
    return [
        *([] if block.vector else block.parts),
        *([block.indicator] if block.indicator else []),
    ]


def block_of(rows: Rows, steps: Steps, column: dict[str, Any]) -> Block:
    """The features of one column."""
    kind = column["kind"]
    if kind == "product":
        return product(rows, steps, column)
    if kind == "words":
        raise DataError(
            f"the model counts hashed words of '{column['name']}', and ONNX has no operator for "
            "their hash: expected a model without the option text"
        )
    if kind not in ("number", "category", "cycle", "levels"):
        raise DataError(f"the model derives '{column['name']}', which ONNX graphs here do not")
    given = column.get("column", column["name"])
    encoded = {"category": category, "levels": number_level}.get(kind)
    if encoded and not column.get("numbers"):
        texts_placed(rows.graph, steps.name, given, column["levels"])
        return encoded(rows, steps, column, f"{steps.name}_place")
    is_missing = steps.do("IsNaN", given)
    value = steps.where(is_missing, 0.0, given)
    value = part_of(steps, value, column["part"]) if column.get("part") else value
    if encoded:
        known = steps.where(is_missing, math.nan, value)
        numbers_placed(rows.graph, steps.name, known, column["levels"])
        return encoded(rows, steps, column, f"{steps.name}_place")
    return number(rows, steps, column, upright(steps, is_missing), upright(steps, value))


def upright(steps: Steps, values: str) -> str:
    """Values of shape (n,) as a column, (n, 1)."""
    return steps.do("Unsqueeze", values, "second")


def number(rows: Rows, steps: Steps, column: dict[str, Any], is_missing: str, value: str) -> Block:
    """A number, or the sine and cosine of a cyclic part; gaps are filled."""
    rows.refuse_gaps(steps, is_missing)
    fill = math.nan if rows.missing == "keep" else float(column.get("fill", 0.0))
    indicator = as_double(steps, is_missing) if column.get("indicator") else None
    if column["kind"] == "number":
        parts = [steps.where(is_missing, fill, value)]
    else:
        turned = angle(fill, column["part"])
        ends = (math.sin(turned), math.cos(turned))
        sides = circle(steps, value, column["part"])
        parts = [steps.where(is_missing, e, s) for e, s in zip(ends, sides, strict=True)]
    return Block(parts, len(parts), indicator=indicator)


def as_double(steps: Steps, truth: str) -> str:
    """1.0 where something holds."""
    return steps.do("Cast", truth, to=11)


def category(rows: Rows, steps: Steps, column: dict[str, Any], place: str) -> Block:
    """Each level's feature; place: the index of the level, followed by the unknown ones, then
    a gap.
    """
    levels, reference = column["levels"], int(bool(column.get("reference")))
    n = len(levels)
    width = n - reference + bool(column.get("other")) + bool(column.get("missing"))
    other = n - reference if column.get("other") else -1
    filled = column.get("fill")
    gap = (
        width - 1
        if column.get("missing")
        else other
        if rows.missing in ("keep", "level")
        else levels.index(filled) - reference
        if filled is not None
        else -1
    )
    features = np.array([*range(-reference, n - reference), other, gap])
    table = steps.constant(features, np.int64)
    chosen = upright(steps, steps.do("Gather", table, place, axis=0))
    if rows.missing in ("skip", "error"):
        rows.refuse_gaps(steps, upright(steps, steps.do("Equal", place, last(steps, n + 1))))
    if rows.refuses_unseen and other < 0:
        unseen = upright(steps, steps.do("Equal", place, last(steps, n)))
        rows.refusals.append(steps.where(unseen, math.nan, 0.0))
    same = steps.do("Equal", chosen, steps.constant(np.arange(width)[None, :], np.int64))
    indicator = None
    if column.get("indicator"):
        indicator = as_double(steps, upright(steps, steps.do("Equal", place, last(steps, n + 1))))
    block = Block([as_double(steps, same)], width, True, indicator)
    vectors = rows.vectors.get(rows.next_feature)
    if vectors is not None:
        numbers = np.where(features[:, None] < 0, 0.0, vectors[features])  # 0: not known
        block.vector = steps.do("Gather", steps.constant(numbers), place, axis=0)
    return block


def last(steps: Steps, place: int) -> str:
    """An index after the levels."""
    return steps.constant(place, np.int64)


def product(rows: Rows, steps: Steps, column: dict[str, Any]) -> Block:
    """Products of the factors' features, those that the model has: each key counts the
    features of the factors, the last one fastest. A level that a row does not have makes 0,
    even with a NaN factor.
    """
    factors = [rows.blocks[place] for place in column["factors"]]
    keys = np.array(column["keys"], np.int64)
    if not len(keys):
        return Block([], 0)
    values, holds = None, None
    for block in reversed(factors):
        one = gather(steps, block, keys % block.width)
        keys = keys // block.width
        if block.is_category:
            truth = steps.do("Greater", one, 0.5)
            holds = truth if holds is None else steps.do("And", holds, truth)
        else:
            values = one if values is None else steps.do("Mul", values, one)
    if values is None:
        assert holds is not None
        return Block([as_double(steps, holds)], len(column["keys"]))
    found = values if holds is None else steps.where(holds, values, 0.0)
    return Block([found], len(column["keys"]))


def gather(steps: Steps, block: Block, places: Any) -> str:
    """Some features of a column, by their indices."""
    if not block.whole:
        many = len(block.parts) > 1
        block.whole = steps.do("Concat", *block.parts, axis=1) if many else block.parts[0]
    return steps.do("Gather", block.whole, steps.constant(places, np.int64), axis=1)


def number_level(rows: Rows, steps: Steps, column: dict[str, Any], place: str) -> Block:
    """The level's number as one feature; NaN for an unknown one, and for a gap that has none."""
    n, filled = len(column["levels"]), column.get("fill")
    gap = math.nan
    if column.get("missing"):
        gap = n
    elif rows.missing not in ("keep", "level") and filled is not None:
        gap = column["levels"].index(filled)
    values = steps.constant([*range(n), math.nan, gap])
    chosen = upright(steps, steps.do("Gather", values, place, axis=0))
    return Block([chosen], 1, indicator=refuse_levels(rows, steps, column, place))


def refuse_levels(rows: Rows, steps: Steps, column: dict[str, Any], place: str) -> str | None:
    """Notes which rows have no prediction for a level; returns the column's indicator."""
    n = len(column["levels"])
    is_missing = upright(steps, steps.do("Equal", place, last(steps, n + 1)))
    rows.refuse_gaps(steps, is_missing)
    if rows.refuses_unseen and not column.get("other"):
        unseen = upright(steps, steps.do("Equal", place, last(steps, n)))
        rows.refusals.append(steps.where(unseen, math.nan, 0.0))
    return as_double(steps, is_missing) if column.get("indicator") else None
