"""The scorers that SQL calls, in C, called by ctypes on arrays (`udas/scalars/calls.h`)."""

import ctypes
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.learners.classes import EXACT
from tuskml.udas.duckdb import extension_path
from tuskml.udas.refusal import Refusal

Floats = NDArray[np.float64]
ANSWERS = (
    "predict",
    "predict_proba",
    "decision",
    "predict_class",
    "predict_probas",
    "explain_prediction",
    "predict_interval",
    "marginal_effects",
)
"""The answers, in the order of C's `tusk_answer`."""
MOST_EFFECTS = 1023
"""Features of a model that may have marginal effects (`udas/scalars/explaining/effects.h`)."""


class _Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("length", ctypes.c_size_t)]


class _Numbers(ctypes.Structure):
    _fields_ = [("items", ctypes.c_void_p), ("n", ctypes.c_uint64), ("complete", ctypes.c_bool)]


class _Names(ctypes.Structure):
    _fields_ = [
        ("text_at", ctypes.c_void_p),
        ("names", ctypes.c_void_p),
        ("first", ctypes.c_uint64),
        ("n", ctypes.c_uint64),
    ]


class _Fields(ctypes.Structure):
    _fields_ = [
        ("task", _Text),
        ("options", _Text),
        ("preparation", _Text),
        ("coef", _Numbers),
        ("classes", _Numbers),
        ("spread", _Numbers),
        ("class_names", _Names),
        ("has_intercept", ctypes.c_bool),
        ("intercept", ctypes.c_double),
    ]


class _Rows(ctypes.Structure):
    _fields_ = [
        ("x", ctypes.c_void_p),
        ("ids", ctypes.c_void_p),
        ("begin", ctypes.c_void_p),
        ("n", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("f64", ctypes.c_int32),
        ("wide", ctypes.c_int32),
    ]


class _Column(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("numbers", ctypes.c_void_p),
        ("texts", ctypes.c_void_p),
        ("validity", ctypes.c_void_p),
        ("rounded", ctypes.c_void_p),
        ("digits", ctypes.c_void_p),
    ]


class _WeighedRows(ctypes.Structure):
    _fields_ = [
        ("columns", ctypes.c_void_p),
        ("n_columns", ctypes.c_int64),
        ("n", ctypes.c_int64),
        ("rows", _Rows),
        ("weight", ctypes.c_void_p),
        ("offset", ctypes.c_void_p),
    ]


class _Effect(ctypes.Structure):
    _fields_ = [
        ("feature", ctypes.c_uint64),
        ("effect", ctypes.c_double),
        ("std_err", ctypes.c_double),
    ]


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(extension_path()))
    refusal = ctypes.POINTER(Refusal)
    library.tusk_make_payload.restype = ctypes.c_int64
    library.tusk_make_payload.argtypes = [
        ctypes.POINTER(_Fields),
        ctypes.c_char_p,
        ctypes.c_int64,
        refusal,
    ]
    library.tusk_class_names_are_text.restype = ctypes.c_bool
    library.tusk_class_names_are_text.argtypes = [ctypes.POINTER(_Names), _Numbers]
    library.tusk_answer_rows.argtypes = [
        _Text,
        ctypes.c_int,
        ctypes.c_double,
        ctypes.c_char_p,
        ctypes.POINTER(_Rows),
        ctypes.c_void_p,
        refusal,
    ]
    library.tusk_answer_named.argtypes = [
        _Text,
        ctypes.c_int,
        ctypes.c_double,
        ctypes.POINTER(_Column),
        ctypes.c_int32,
        ctypes.c_int64,
        ctypes.c_void_p,
        refusal,
    ]
    library.tusk_effects_over.restype = ctypes.c_int64
    library.tusk_effects_over.argtypes = [
        _Text,
        ctypes.POINTER(_WeighedRows),
        ctypes.POINTER(_Effect),
        refusal,
    ]
    return library


def _text(text: str | None) -> _Text:
    if text is None:
        return _Text(None, 0)
    data = text.encode()
    return _Text(data, len(data))


def _numbers(values: Any) -> tuple[_Numbers, Floats]:
    """The list for C, and the objects that own its memory; None in it is a NULL."""
    items = np.array(values or [], np.float64)
    complete = not any(value is None for value in values or ())
    return _Numbers(items.ctypes.data, len(items), complete), items


def _names(names: Sequence[str | None] | None) -> tuple[_Names, Any]:
    """The names for C, and the objects that own their memory."""
    items = (_Text * len(names or ()))(*map(_text, names or ()))
    text_at = ctypes.cast(_library().tusk_text_in, ctypes.c_void_p)
    return _Names(text_at, ctypes.cast(items, ctypes.c_void_p), 0, len(items)), items


def has_text_classes(classes: Sequence[float] | None, names: Sequence[str | None] | None) -> bool:
    """Returns whether a class has a name that is not its number; `predict` of SQL refuses such
    models.
    """
    numbers, numbers_kept = _numbers(classes)
    given, names_kept = _names(names)
    found: bool = _library().tusk_class_names_are_text(given, numbers)
    del numbers_kept, names_kept
    return found


def payload(fields: Mapping[str, Any]) -> bytes:
    """The payload of a model as SQL's `model_payload` makes it.

    fields: task, options (JSON text), preparation, coef, classes, spread, class_names and
    intercept.
    Raises DataError if no prediction could use them.
    """
    coef, coef_kept = _numbers(fields["coef"])
    classes, classes_kept = _numbers(fields["classes"])
    spread, spread_kept = _numbers(fields["spread"])
    names, names_kept = _names(fields["class_names"])
    intercept = fields["intercept"]
    given = _Fields(
        _text(fields["task"]),
        _text(fields["options"]),
        _text(fields["preparation"]),
        coef,
        classes,
        spread,
        names,
        intercept is not None,
        intercept or 0.0,
    )
    why = Refusal()
    make = _library().tusk_make_payload
    size = make(given, None, 0, why)
    if size < 0:
        raise DataError(why.text)
    out = ctypes.create_string_buffer(size)
    make(given, out, size, why)
    del coef_kept, classes_kept, spread_kept, names_kept
    return out.raw


def _score(payload: bytes, kind: str, rows: _Rows, columns: int, level: float) -> Floats:
    out = np.full((rows.n, columns) if columns else rows.n, np.nan)
    why = Refusal()
    text = _Text(payload, len(payload))
    answer = ANSWERS.index(kind)
    given = text, answer, level, None, rows
    if not _library().tusk_answer_rows(*given, out.ctypes.data, why):
        raise DataError(why.text)
    return out


def dense(
    payload: bytes, kind: str, x: NDArray[Any], columns: int = 0, level: float = math.nan
) -> Floats:
    """One answer a row, of shape (n,), or columns of them; x: (n, d), float32 or float64; level:
    of intervals.

    Raises DataError with SQL's sentence if the model cannot answer.
    """
    kept: list[Any] = []
    return _score(payload, kind, _dense_rows(x, kept), columns, level)


def sparse(payload: bytes, kind: str, x: Any, columns: int = 0, level: float = math.nan) -> Floats:
    """The answers to a SciPy sparse matrix, whose columns are feature ids."""
    kept: list[Any] = []
    return _score(payload, kind, _sparse_rows(x, kept), columns, level)


def _dense_rows(x: NDArray[Any], kept: list[Any]) -> _Rows:
    """Rows for C; kept: collects the arrays that its pointers refer to."""
    wide = x.dtype != np.float32
    x = np.ascontiguousarray(x, np.float64 if wide else np.float32)
    kept.append(x)
    return _Rows(x.ctypes.data, None, None, *x.shape, wide, 0)


def _sparse_rows(x: Any, kept: list[Any]) -> _Rows:
    """The same of a SciPy sparse matrix."""
    rows = x.tocsr()
    f64 = rows.dtype != np.float32
    values = np.ascontiguousarray(rows.data, np.float64 if f64 else np.float32)
    wide = rows.indices.dtype == np.int64
    ids = np.ascontiguousarray(rows.indices, np.int64 if wide else np.int32)
    begin = np.ascontiguousarray(rows.indptr, np.int64)
    if not len(ids):  # of which C sees that they are there
        ids = np.zeros(1, ids.dtype)
    kept += [values, ids, begin]
    given = (values.ctypes.data, ids.ctypes.data, begin.ctypes.data)
    return _Rows(*given, *rows.shape, f64, wide)


def answers_by_name(
    payload: bytes,
    kind: str,
    given: Mapping[str, NDArray[Any]],
    n: int,
    columns: int = 0,
    level: float = math.nan,
) -> Floats:
    """The answers to columns by name, each of shape (n,): numbers, or objects that are text, or
    numbers of which whole ones are exact.

    None, and NaN in numbers, is a NULL.
    """
    kept: list[Any] = []
    there = _columns(given, kept)
    out = np.full((n, columns) if columns else n, np.nan)
    why = Refusal()
    text = _Text(payload, len(payload))
    answer = ANSWERS.index(kind)
    about = text, answer, level, there, len(given), n
    if not _library().tusk_answer_named(*about, out.ctypes.data, why):
        raise DataError(why.text)
    return out


def effects(
    payload: bytes, rows: Any, n: int, weights: Floats | None, offsets: Floats | None
) -> list[tuple[int, float, float]]:
    """The feature of each average marginal effect, the effect and its standard error, NaN where it
    is not known; none if no row counts.

    rows: n of them, as an array, a SciPy sparse matrix or columns by name. Raises DataError with
    SQL's sentence for a model without effects.
    """
    kept: list[Any] = [weights, offsets]
    given = _WeighedRows(n=n)
    if isinstance(rows, Mapping):
        columns = _columns(rows, kept)
        kept.append(columns)
        given.columns, given.n_columns = ctypes.addressof(columns), len(rows)
    else:
        sparse = hasattr(rows, "tocsr")
        given.rows = _sparse_rows(rows, kept) if sparse else _dense_rows(rows, kept)
    given.weight = None if weights is None else weights.ctypes.data
    given.offset = None if offsets is None else offsets.ctypes.data
    out, why = (_Effect * MOST_EFFECTS)(), Refusal()
    found = _library().tusk_effects_over(_Text(payload, len(payload)), given, out, why)
    if found < 0:
        raise DataError(why.text)
    return [(one.feature, one.effect, one.std_err) for one in out[:found]]


def _columns(given: Mapping[str, NDArray[Any]], kept: list[Any]) -> Any:
    """Columns for C; kept: collects the arrays that their pointers refer to."""
    each = (_column(name, values, kept) for name, values in given.items())
    return (_Column * max(1, len(given)))(*each)


def _column(name: str, values: NDArray[Any], kept: list[Any]) -> _Column:
    """A column for C; kept: collects the arrays that its pointers refer to."""
    if values.dtype != object:
        numbers = np.ascontiguousarray(values, np.float64)
        valid = _bits(~np.isnan(numbers))
        kept += [numbers, valid]
        return _Column(name.encode(), numbers.ctypes.data, None, valid.ctypes.data)
    valid = _bits(np.array([value is not None for value in values], bool))
    kept.append(valid)
    if not any(isinstance(value, int | float) for value in values):
        texts = _texts([b"" if value is None else value.encode() for value in values], kept)
        return _Column(name.encode(), None, texts.ctypes.data, valid.ctypes.data)
    numbers = np.array([np.nan if value is None else float(value) for value in values])
    wide = np.array([isinstance(value, int) and abs(value) >= EXACT for value in values])
    digits = _texts([str(value).encode() for value in values], kept) * wide[:, None]
    kept += [numbers, digits]
    given = numbers.ctypes.data, None, valid.ctypes.data, None, digits.ctypes.data
    return _Column(name.encode(), *given)


def _texts(encoded: Sequence[bytes], kept: list[Any]) -> NDArray[np.uint64]:
    """Texts for C (`tusk_text`), (n, 2)."""
    whole = np.frombuffer(b"".join(encoded) or b"\0", np.uint8)
    sizes = np.array([len(one) for one in encoded], np.uint64)
    begin = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.uint64)
    texts = np.stack([begin + np.uint64(whole.ctypes.data), sizes], axis=1)
    kept += [whole, texts]
    return texts


def _bits(valid: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """A bit per row, in whole words."""
    words = np.zeros(-(-len(valid) // 64) or 1, np.uint64)
    bits = np.packbits(valid, bitorder="little")
    words.view(np.uint8)[: len(bits)] = bits
    return words
