"""Categories by name in LightGBM's text: the last line `pandas_categorical`, read and written.

It has a list of levels for each categorical column, in the order of the columns. LightGBM's Python
package gives a level of a frame its index in that list, and an unknown or missing one NaN, which a
split of categories sends right. tuskml does the same with unknown levels
(`udas/scalars/named/named.c`).
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from tuskml.errors import DataError

LINE = "pandas_categorical:"
FILLED = ("impute", "level")
"""Values of the option `missing` with which a number that is missing has another one."""

Column = Mapping[str, Any]


def columns_of(preparation: str | None) -> list[Column]:
    """The columns of a model of rows with names, each of which is one feature; none for a
    model of lists. Raises DataError for features that are derived from columns in another way.
    """
    if preparation is None:
        return []
    columns: list[Column] = json.loads(preparation)["columns"]
    for one in columns:
        if one["kind"] not in ("number", "levels") or one.get("part") or one.get("indicator"):
            raise DataError(
                f"feature '{one['name']}' is made of a column, which LightGBM's format cannot "
                "say, expected a model of numbers and categories"
            )
    return columns


def infos_of(columns: Sequence[Column], n_features: int) -> list[str]:
    """LightGBM's `feature_infos`: the range of a number, the indices of levels."""
    if not columns:
        return ["[-inf:inf]"] * n_features
    return [
        ":".join(map(str, range(len(one["levels"])))) if one["kind"] == "levels" else "[-inf:inf]"
        for one in columns
    ]


def line_of(columns: Sequence[Column]) -> str:
    """The line with the levels' names; numbers stay numbers."""
    lists = [levels_of(one) for one in columns if one["kind"] == "levels"]
    return LINE + (json.dumps(lists, ensure_ascii=False) if lists else "null")


def levels_of(column: Column) -> list[Any]:
    """The levels of a column as a data frame has them."""
    levels: list[str] = column["levels"]
    if not column.get("numbers"):
        return levels
    numbers = [float(one) for one in levels]
    return [int(one) if one.is_integer() else one for one in numbers]


def fills_of(preparation: str | None, columns: Iterable[Column]) -> list[float]:
    """The value of a missing number in each column; NaN where it stays missing."""
    filled = preparation is not None and json.loads(preparation).get("missing") in FILLED
    return [
        float(one["fill"]) if filled and one["kind"] == "number" and "fill" in one else math.nan
        for one in columns
    ]


def missing_left(preparation: str, column: Column, left: Sequence[int]) -> bool:
    """Returns whether a split by a column sends its missing values left.

    left: the numbers of the levels that go left; the one behind the last stands for a missing one.
    """
    imputed = json.loads(preparation).get("missing") == "impute" and "fill" in column
    n = len(column["levels"])
    return (column["levels"].index(column["fill"]) if imputed else n) in left


def refuse_missing(column: Column) -> NoReturn:
    """DataError about such a split: its levels that training did not see go right."""
    raise DataError(
        f"a split sends rows where '{column['name']}' is missing and rows with a new level to "
        "different sides, which LightGBM cannot tell apart: expected unseen_as_missing=True, by "
        "which it takes new levels for missing ones"
    )


def preparation_of(
    text: str, names: Sequence[str], infos: Sequence[str], by_level: Iterable[int]
) -> str | None:
    """The preparation for a text with levels by name; None without any.

    names, infos: of the features; by_level: indices of features that splits send by level. Raises
    DataError unless there are as many lists of levels as categories, ValueError if they are
    damaged.
    """
    lists = lists_in(text)
    if not lists:
        return None
    categories = categories_in(infos, set(by_level), len(lists))
    columns: list[dict[str, Any]] = []
    levels = iter(lists)
    for place, name in enumerate(names):
        columns.append({"name": name, "kind": "number"})
        if place in categories:
            columns[-1] = {"name": name, **preparation_levels(next(levels))}
    whole = {"version": 1, "missing": "keep", "unseen": "other", "columns": columns}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":"))


def lists_in(text: str) -> list[list[Any]]:
    """The lists of levels in a text's last lines."""
    line = next((one for one in reversed(text.splitlines()) if one.startswith(LINE)), None)
    found = json.loads(line.removeprefix(LINE)) if line else None
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, list) and one for one in found):
        raise ValueError(f"{LINE} is no list of lists")
    return found


def categories_in(infos: Sequence[str], by_level: set[int], n_lists: int) -> set[int]:
    """The categorical features; constant ones have no info of their own."""
    found = by_level | {k for k, one in enumerate(infos) if one != "none" and one[:1] != "["}
    constant = {k for k, one in enumerate(infos) if one == "none"} - found
    if len(found) + len(constant) == n_lists:
        found |= constant
    if len(found) != n_lists:
        raise DataError(
            f"pandas_categorical has {n_lists} lists of levels and the text {len(found)} "
            "categories, expected as many: train without columns that are constant"
        )
    return found


def preparation_levels(levels: Sequence[Any]) -> dict[str, Any]:
    """Levels as a preparation has them."""
    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in levels):
        texts = [f"{one:.17g}" if isinstance(one, float) else str(one) for one in levels]
        return {"kind": "levels", "numbers": True, "levels": texts, "fill": texts[0]}
    if not all(isinstance(one, str | bool) for one in levels):
        raise ValueError(f"{LINE} has levels that are no text and no numbers")
    texts = [one if isinstance(one, str) else str(one).lower() for one in levels]
    return {"kind": "levels", "levels": texts, "fill": texts[0]}
