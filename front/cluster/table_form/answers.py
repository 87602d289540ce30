"""Models that workers returned as Arrow, as a trainer hands them to a statement."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tuskml.learners.models import Lists, Models, Names, Strings
from tuskml.learners.topics.training import topics_of_payload
from tuskml.learners.trees.forest import trees_of_payload
from tuskml.udas.model_fields import MODEL_FIELDS

if TYPE_CHECKING:
    import pyarrow as pa


def models_of(values: "pa.StructArray") -> Models:
    """The models of model values, none of them NULL, in their order."""
    given: dict[str, Any] = {"group": np.arange(len(values))}
    for field in MODEL_FIELDS:
        if field.kind in COLUMNS:
            given[field.name] = COLUMNS[field.kind](values.field(field.name))
    given["coef"] = with_weights_of_payloads(given["coef"], values)
    return Models(**given)


def with_weights_of_payloads(coef: Lists, values: "pa.StructArray") -> Lists:
    """The coefficients, those of models that have them in their payload alone too."""
    lacking = np.flatnonzero(np.diff(coef.offsets) == 0)
    if not len(lacking):
        return coef
    parts = [coef.values[a:b] for a, b in zip(coef.offsets[:-1], coef.offsets[1:], strict=True)]
    payloads = values.field("payload")
    for place in lacking.tolist():
        payload = payloads[place].as_py()
        if payload:
            found = trees_of_payload(payload) or topics_of_payload(payload) or []
            parts[place] = np.array(found, np.float64)
    return Lists.of_parts(parts)


def text(column: "pa.Array") -> Strings:
    """Texts by dictionary."""
    return Strings(*pool_values(column.to_pylist(), str))


def texts(column: "pa.Array") -> Names:
    """Lists of texts by dictionary."""
    return Names(*pool_values(column.to_pylist(), tuple))


def pool_values(values: Sequence[Any], kind: Callable[[Any], Any]) -> tuple[tuple[Any, ...], Any]:
    """The distinct values, and the index of each, -1 for None."""
    places: dict[Any, int] = {}
    code = [-1 if one is None else places.setdefault(kind(one), len(places)) for one in values]
    return tuple(places), np.array(code, np.int32)


def number(column: "pa.Array") -> Any:
    """Doubles (n,), NaN for NULL."""
    return column.fill_null(math.nan).to_numpy(zero_copy_only=False)


def numbers(column: "pa.Array") -> Lists:
    """Lists of doubles; one that is NULL is empty, and a NULL in one is NaN."""
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Lists(number(column.flatten()), offsets)


def count(column: "pa.Array") -> Any:
    """Whole numbers (n,), 0 for NULL."""
    return column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def truth(column: "pa.Array") -> Any:
    """Booleans (n,) as bytes."""
    return column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8)


COLUMNS: dict[str, Callable[[Any], Any]] = {
    "TEXT": text,
    "TEXTS": texts,
    "NUMBER": number,
    "NUMBERS": numbers,
    "COUNT": count,
    "TRUTH": truth,
}
"""Functions that read a field, by its kind."""
