"""Models as the database's C reads them (`tusk_models` in `udas/rowblock/batch.h`)."""

import ctypes
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import address_of
from tuskml.learners.models import Lists, Models, Names, Strings
from tuskml.udas.model_fields import MODEL_FIELDS


class _Lists(ctypes.Structure):
    _fields_ = [("values", ctypes.c_void_p), ("offsets", ctypes.c_void_p)]


class _Strings(ctypes.Structure):
    _fields_ = [("pool", ctypes.POINTER(ctypes.c_char_p)), ("code", ctypes.c_void_p)]


class _Names(ctypes.Structure):
    _fields_ = [
        ("pool", ctypes.POINTER(ctypes.c_char_p)),
        ("begin", ctypes.c_void_p),
        ("code", ctypes.c_void_p),
    ]


COLUMNS: dict[str, tuple[Any, Any]] = {
    "TEXT": (_Strings, None),
    "TEXTS": (_Names, None),
    "NUMBER": (ctypes.c_void_p, np.float64),
    "NUMBERS": (_Lists, None),
    "COUNT": (ctypes.c_void_p, np.int64),
    "TRUTH": (ctypes.c_void_p, np.uint8),
}
"""By kind of a field what C has of it, and the type of an array of numbers."""
GIVEN = {field.name: COLUMNS[field.kind] for field in MODEL_FIELDS if field.kind in COLUMNS}
"""The fields that the trainer gives; C makes the payload of them."""


class _Models(ctypes.Structure):
    _fields_ = [
        ("n", ctypes.c_int64),
        ("group", ctypes.c_void_p),
        *((name, kind) for name, (kind, _) in GIVEN.items()),
    ]


class Emission:
    """A `Models` as the database's C reads it; keeps alive what the pointers point at."""

    def __init__(self, models: Models) -> None:
        self.alive: list[Any] = []
        self.struct = _Models(len(models.group))
        self.struct.group = self._array(models.group, np.int64)
        for name, (_, dtype) in GIVEN.items():
            setattr(self.struct, name, self._field(getattr(models, name), dtype))

    def _field(self, value: Any, dtype: Any) -> Any:
        if isinstance(value, Lists):
            return _Lists(
                self._array(value.values, np.float64), self._array(value.offsets, np.int64)
            )
        if isinstance(value, Strings):
            pool = encoded(value.pool)
            self.alive.append(pool)
            return _Strings(pool, self._array(value.code, np.int32))
        if isinstance(value, Names):
            pool = encoded(tuple(name for names in value.pool for name in names))
            self.alive.append(pool)
            begin = np.cumsum([0, *map(len, value.pool)])
            return _Names(pool, self._array(begin, np.int64), self._array(value.code, np.int32))
        return self._array(value, dtype)

    def _array(self, values: NDArray[Any], dtype: Any) -> int:
        array = np.ascontiguousarray(values, dtype)
        self.alive.append(array)
        return address_of(array)


@functools.lru_cache(256)
def encoded(pool: tuple[str, ...]) -> Any:
    """Strings for C."""
    return (ctypes.c_char_p * max(1, len(pool)))(*(text.encode() for text in pool))
