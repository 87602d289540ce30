"""The scorers that SQL calls, in C, called by ctypes on arrays (`udas/scalars/calls.h`)."""

import ctypes
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.connection import extension_path
from tuskml.errors import DataError

Floats = NDArray[np.float64]
ANSWERS = ("predict", "predict_proba", "decision", "predict_class", "predict_probas")
"""In the order of C's `tusk_answer`."""


class _Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("length", ctypes.c_size_t)]


class _Numbers(ctypes.Structure):
    _fields_ = [("items", ctypes.c_void_p), ("n", ctypes.c_uint64), ("complete", ctypes.c_bool)]


class _Fields(ctypes.Structure):
    _fields_ = [
        ("task", _Text),
        ("options", _Text),
        ("coef", _Numbers),
        ("classes", _Numbers),
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
    ]


class _Refusal(ctypes.Structure):
    _fields_ = [("sentence", ctypes.c_char * 512), ("sqlstate", ctypes.c_char * 6)]


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(extension_path()))
    refusal = ctypes.POINTER(_Refusal)
    library.tusk_make_payload.restype = ctypes.c_int64
    library.tusk_make_payload.argtypes = [
        ctypes.POINTER(_Fields), ctypes.c_char_p, ctypes.c_int64, refusal,
    ]  # fmt: skip
    library.tusk_answer_rows.argtypes = [
        _Text, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_Rows), ctypes.c_void_p, refusal,
    ]  # fmt: skip
    return library


def _refused(why: _Refusal) -> DataError:
    return DataError(why.sentence.decode(errors="replace"))


def _text(text: str) -> _Text:
    data = text.encode()
    return _Text(data, len(data))


def _numbers(values: Any) -> tuple[_Numbers, Floats]:
    """The list for C, and what keeps it alive; None in it is a NULL."""
    items = np.array(values or [], np.float64)
    complete = not any(value is None for value in values or ())
    return _Numbers(items.ctypes.data, len(items), complete), items


def payload(fields: Mapping[str, Any]) -> bytes:
    """The payload of a model as SQL's `model_payload` makes it.

    fields: task, options (JSON text), coef, classes and intercept. DataError where no prediction
    could use them.
    """
    coef, coef_kept = _numbers(fields["coef"])
    classes, classes_kept = _numbers(fields["classes"])
    intercept = fields["intercept"]
    given = _Fields(
        _text(fields["task"]),
        _text(fields["options"]),
        coef,
        classes,
        intercept is not None,
        intercept or 0.0,
    )
    why = _Refusal()
    make = _library().tusk_make_payload
    size = make(given, None, 0, why)
    if size < 0:
        raise _refused(why)
    out = ctypes.create_string_buffer(size)
    make(given, out, size, why)
    del coef_kept, classes_kept
    return out.raw


def _score(payload: bytes, kind: str, rows: _Rows, columns: int = 0) -> Floats:
    out = np.full((rows.n, columns) if columns else rows.n, np.nan)
    why = _Refusal()
    text = _Text(payload, len(payload))
    answer = ANSWERS.index(kind)
    if not _library().tusk_answer_rows(text, answer, None, rows, out.ctypes.data, why):
        raise _refused(why)
    return out


def dense(payload: bytes, kind: str, x: NDArray[Any], columns: int = 0) -> Floats:
    """One answer a row, of shape (n,), or columns of them; x: (n, d), float32 or float64.

    DataError with SQL's sentence where the model cannot answer.
    """
    wide = x.dtype != np.float32
    x = np.ascontiguousarray(x, np.float64 if wide else np.float32)
    return _score(payload, kind, _Rows(x.ctypes.data, None, None, *x.shape, wide), columns)


def sparse(payload: bytes, kind: str, x: Any, columns: int = 0) -> Floats:
    """The same of a SciPy sparse matrix, whose columns are feature ids."""
    rows = x.tocsr()
    wide = rows.dtype != np.float32
    values = np.ascontiguousarray(rows.data, np.float64 if wide else np.float32)
    ids = np.ascontiguousarray(rows.indices, np.int32)
    begin = np.ascontiguousarray(rows.indptr, np.int64)
    if not len(ids):  # of which C sees that they are there
        ids = np.zeros(1, np.int32)
    given = (values.ctypes.data, ids.ctypes.data, begin.ctypes.data)
    return _score(payload, kind, _Rows(*given, *rows.shape, wide), columns)
