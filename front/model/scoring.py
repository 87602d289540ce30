"""Rows from Python for the scorers of SQL's `decision`, `predict` and `predict_proba`."""

import datetime
import json
import math
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError
from tuskml.learners.classes import EXACT
from tuskml.learners.registry import TASKS, learner_of
from tuskml.learners.tasks import weighs_features
from tuskml.model import scorers
from tuskml.model.answers import Answers, Kind, answers_of
from tuskml.model.fields import Fields

Floats = NDArray[np.float64]
ListKind = Literal["predict_probas", "explain_prediction", "predict_interval"]
NAME = r'\s*(?:[^\W\d]\w*|"[^"]+")\s*'
LITERAL = re.compile(rf"\s*(?:array\s*)?\[({NAME}(?:,{NAME})*)\]\s*", re.IGNORECASE)
"""An array of columns as SQL writes it, `[a, b]` or `ARRAY[a, b]`."""


def answers(model: Fields) -> Answers:
    """Returns how a model predicts."""
    return answers_of(model.task, model.options, bool(model.classes))


def classes_of(model: Fields) -> tuple[float, float]:
    """The lower and the higher class, of one class twice the same; raises DataError for other
    models.
    """
    classes = model.classes or []
    if len(classes) not in (1, 2):
        raise DataError("the model has no classes, expected a list of one or two numbers")
    return classes[0], classes[-1]


def score_rows(model: Fields, kind: Kind, X: Any, device: str = "cpu") -> Floats:
    """The answer of SQL's function of this name for each row, of shape (n,), by the same C.

    A missing number is NaN in the answer, as NULL is in SQL. Raises DataError if the model cannot
    answer, or the rows do not fit it.
    """
    if device != "cpu":
        return of_margins(model, kind, margins_on(device, model, X))
    if model.preparation is not None:
        columns = prepare_columns(model, X)
        return scorers.answers_by_name(model.payload, kind, columns, len(X))
    if hasattr(X, "tocsr") and takes_sparse(model.task):
        return scorers.sparse(model.payload, kind, X)
    x = matrix(model, X)
    check_width(model, x)
    return scorers.dense(model.payload, kind, x)


def takes_sparse(task: str) -> bool:
    """Returns whether the scorers read sparse rows of a task without writing them out."""
    known = TASKS.get(task)
    return weighs_features(task) or (known is not None and learner_of(known).facts.takes_sparse)


def probabilities(model: Fields, X: Any) -> Floats:
    """The probabilities of all classes, of shape (n, classes); NaN where a number is missing."""
    return score_lists(model, "predict_probas", X, len(model.classes or ()))


def score_lists(
    model: Fields, kind: ListKind, X: Any, columns: int, level: float = math.nan
) -> Floats:
    """The lists that SQL's function answers for rows, of shape (n, columns); level: of
    intervals.
    """
    size = columns, level
    if model.preparation is not None:
        return scorers.answers_by_name(
            model.payload, kind, prepare_columns(model, X), len(X), *size
        )
    if hasattr(X, "tocsr"):
        return scorers.sparse(model.payload, kind, X, *size)
    x = matrix(model, X)
    check_width(model, x)
    return scorers.dense(model.payload, kind, x, *size)


def check_width(model: Fields, x: NDArray[Any]) -> None:
    """Raises DataError unless rows have as many numbers as the model has features."""
    n = 2 if answers(model).factorizes else model.width
    if n not in (0, x.shape[1]):
        raise DataError(f"the model has {n} features, X has {x.shape[1]} columns")


def prepare_columns(model: Fields, X: Any) -> dict[str, NDArray[Any]]:
    """The columns of a data frame that a model of rows with names needs, by name."""
    if not hasattr(X, "columns"):
        raise DataError("the model was trained on rows with names, expected X to be a data frame")
    there = {str(name): name for name in X.columns}
    kinds = source_kinds(model.preparation or "")
    for name in kinds:
        if name not in there:
            raise DataError(f"X has no column {name!r}, which the model was trained on")
    return {name: cells(name, X[there[name]], kind) for name, kind in kinds.items()}


def source_kinds(preparation: str) -> dict[str, str]:
    """The columns of rows that a preparation reads, in order: `text` or `number` (also dates)."""
    kinds: dict[str, str] = {}
    for column in json.loads(preparation)["columns"]:
        if column["kind"] != "product":
            text = column["kind"] in ("category", "levels", "words") and not column.get("numbers")
            kinds[column.get("column", column["name"])] = "text" if text else "number"
    return kinds


def cells(name: str, values: Any, kind: str) -> NDArray[Any]:
    """A column of a frame: numbers as float64, text as objects, and as objects too numbers that
    float64 rounds; None or NaN is a NULL.
    """
    if kind == "text":
        return np.array([as_text(value) for value in list(values)], object)
    column = np.asarray(as_times(values))
    try:
        if column.dtype.kind == "M" or (column.dtype == object and any_dates(column)):
            return days(column.astype("M8[us]"))
        if column.dtype.kind == "m" or (column.dtype == object and any_spans(column)):
            return seconds(column)
        found = column.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"column {name!r} of X has {column.dtype}, the model was trained on numbers"
        ) from None
    if not (np.abs(found) >= EXACT).any():
        return found
    return np.array(
        [exact(*one) for one in zip(column.tolist(), found.tolist(), strict=True)], object
    )


def exact(value: Any, rounded: float) -> int | float | None:
    """A number, whole if its type does not round it; rounded: as float64, NaN for a NULL."""
    if math.isnan(rounded):
        return None
    if isinstance(value, str | Decimal):
        whole = re.fullmatch(r"(-?\d+)(\.0*)?", str(value))
        return int(whole[1]) if whole else rounded
    return int(value) if isinstance(value, int | np.integer) else rounded


def as_times(values: Any) -> Any:
    """A column of pandas whose times have a zone, or that has periods, as times in UTC, or as the
    beginnings of the periods; other columns as they are."""
    dtype = getattr(values, "dtype", None)
    if getattr(dtype, "tz", None) is not None:
        return values.dt.tz_convert(None)
    return values.dt.to_timestamp() if str(dtype).startswith("period") else values


def any_dates(column: NDArray[Any]) -> bool:
    """Returns whether objects are dates, as a frame has a DATE column."""
    known = (one for one in column.tolist() if one is not None)
    return isinstance(next(known, None), datetime.date)


def days(column: NDArray[Any]) -> Floats:
    """Dates and timestamps as days since 1970-01-01, a missing one as NaN."""
    found = column.astype("M8[us]").astype(np.int64) / 86400e6
    return np.asarray(np.where(np.isnat(column), np.nan, found))


def any_spans(column: NDArray[Any]) -> bool:
    """Returns whether objects are times of day or spans of time."""
    known = (one for one in column.tolist() if one is not None)
    return isinstance(next(known, None), datetime.time | datetime.timedelta)


def seconds(column: NDArray[Any]) -> Floats:
    """Times of day and spans of time in seconds, a missing one as NaN."""
    if column.dtype == object:
        spans = [
            datetime.timedelta(
                hours=one.hour,
                minutes=one.minute,
                seconds=one.second,
                microseconds=one.microsecond,
            )
            if isinstance(one, datetime.time)
            else one
            for one in column.tolist()
        ]
        column = np.array(spans, "m8[us]")
    found = column.astype("m8[us]").astype(np.int64) / 1e6
    return np.asarray(np.where(np.isnat(column), np.nan, found))


def as_text(value: Any) -> str | None:
    """A value of a category as SQL has it; None for a missing one."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return str(value)


def of_margins(model: Fields, kind: Kind, m: Floats) -> Floats:
    """Converts margins to answers: those of a model of the margin alone, with weight 1."""
    alone = replace(model, coef=[1.0], intercept=0.0)
    return scorers.dense(alone.payload, kind, m[:, None])


def margins_on(device: str, model: Fields, X: Any) -> Floats:
    """Margins computed on the GPU, of an array in its memory or the host's; raises DataError
    if it cannot.
    """
    from tuskml.kernels.gpu import predictions

    if device != "gpu":
        raise OptionError(f"device is {device!r}, expected 'cpu' or 'gpu'")
    if model.intercept is None:
        raise DataError("the GPU predicts models of two classes or numbers: expected device 'cpu'")
    if not weighs_features(model.task) or hasattr(X, "tocsr"):
        what = "X is a sparse matrix" if hasattr(X, "tocsr") else f"the model is '{model.task}'"
        raise DataError(
            f"the GPU predicts dense features of linear models, {what}: expected device 'cpu'"
        )
    coef = np.asarray(model.weights(), np.float64)
    if not hasattr(X, "dtype") or X.dtype not in (np.float32, np.float64):
        X = matrix(model, X)
    if X.ndim == 2 and X.shape[1] != len(coef):
        raise DataError(f"the model has {len(coef)} features, X has {X.shape[1]} columns")
    return predictions.decision(X, coef, model.intercept)


def matrix(model: Fields, X: Any) -> NDArray[Any]:
    """Rows of float32 or float64, of shape (n, d); of a frame the columns of the features."""
    if hasattr(X, "tocsr"):
        X = X.toarray()
    try:
        x = np.asarray(frame_rows(model, X) if hasattr(X, "columns") else X)
        if x.dtype != np.float32:
            x = x.astype(np.float64, copy=False)
    except DataError:
        raise
    except (TypeError, ValueError) as error:
        raise DataError(f"X is no array of numbers ({error})") from error
    if x.ndim != 2:
        raise DataError(f"X has {x.ndim} dimensions, expected two: rows and features")
    return x


def frame_rows(model: Fields, X: Any) -> Any:
    """The model's features in a data frame: a column each, or one column of arrays."""
    there = [str(name) for name in X.columns]
    array, names = array_name(model), column_names(model)
    if array in there and (len(names) != 1 or any(hasattr(row, "__len__") for row in X[array])):
        return stack_arrays(X[array], len(names))
    for name in names:
        if name not in there:
            arrays = f" a column {array!r} of arrays," if array and array != name else ""
            raise DataError(
                f"X has no column {name!r}: expected one for each of the model's features,{arrays}"
                " or an array without names; tuskml.predict computes features that are SQL "
                "expressions"
            )
    return X[list(names)]


def stack_arrays(column: Any, width: int) -> Floats:
    """A column of arrays as rows, of shape (n, width), a missing array as NaN."""
    rows = []
    for place, array in enumerate(column):
        missing = not hasattr(array, "__len__")
        row = np.full(width, np.nan) if missing else np.asarray(array, np.float64).ravel()
        if len(row) != width:
            raise DataError(f"row {place} of X has {len(row)} features, the model has {width}")
        rows.append(row)
    return np.array(rows, np.float64).reshape(len(rows), width)


def array_name(model: Fields) -> str | None:
    """The one SQL expression, maybe a column, that was an array of all features; else None."""
    one = len(model.features) == 1 and not answers(model).factorizes
    return model.features[0] if one else None


def column_names(model: Fields) -> tuple[str, ...]:
    """The columns that a data frame needs where it has no column of arrays.

    A model that was trained on one array needs the items of `[a, b]` where that is how it was
    written, else `features[1]`, `features[2]`, ...
    """
    array = array_name(model)
    written = LITERAL.fullmatch(array) if array else None
    items = [item.strip().strip('"') for item in written[1].split(",")] if written else []
    if len(items) == len(model.feature_names):
        return tuple(items)
    return model.feature_names if array else model.features or model.feature_names
