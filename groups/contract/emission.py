"""Models as the database's C reads them (`tusk_models` in `udas/rowblock/batch.h`)."""

import ctypes
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import address_of
from tuskml.learners.models import Lists, Models, Names, Strings
from tuskml.udas.model_fields import MODEL_FIELDS

MEMBERS: dict[str, tuple[str, ...]] = {
    "TEXT": ("pool", "code"),
    "TEXTS": ("pool", "begin", "code"),
    "NUMBER": ("values",),
    "NUMBERS": ("values", "offsets"),
    "COUNT": ("values",),
    "TRUTH": ("values",),
}
"""The pointers that C has of a field, by its kind."""
NUMBERS = {"NUMBER": np.float64, "COUNT": np.int64, "TRUTH": np.uint8}
"""The type of an array of numbers, by kind."""
FIELDS = [field for field in MODEL_FIELDS if field.kind in MEMBERS]
"""The fields that the trainer fills; C makes the payload of them."""


class _Models(ctypes.Structure):
    _fields_ = [
        ("n", ctypes.c_int64),
        ("group", ctypes.c_void_p),
        *(
            (f"{field.name}_{member}", ctypes.c_void_p)
            for field in FIELDS
            for member in MEMBERS[field.kind]
        ),
    ]


class Emission:
    """A `Models` in the layout that the database's C reads; keeps the pointers' targets alive."""

    def __init__(self, models: Models) -> None:
        self.columns = list(columns_of(models))
        self.struct = _Models(len(models.group), *map(address_of, self.columns))


def columns_of(models: Models) -> Iterator[NDArray[Any]]:
    """Yields the arrays of `_Models`' pointers, in their order."""
    yield np.ascontiguousarray(models.group, np.int64)
    for field in FIELDS:
        value = getattr(models, field.name)
        if isinstance(value, Lists):
            yield np.ascontiguousarray(value.values, np.float64)
            yield np.ascontiguousarray(value.offsets, np.int64)
        elif isinstance(value, Strings):
            yield encoded(value.pool)
            yield np.ascontiguousarray(value.code, np.int32)
        elif isinstance(value, Names):
            yield encoded(tuple(name for names in value.pool for name in names))
            yield np.cumsum([0, *map(len, value.pool)], dtype=np.int64)
            yield np.ascontiguousarray(value.code, np.int32)
        else:
            yield np.ascontiguousarray(value, NUMBERS[field.kind])


@functools.lru_cache(256)
def encoded(pool: tuple[str, ...]) -> NDArray[np.uintp]:
    """Pointers to strings for C, which live as long as the array."""
    strings: Any = (ctypes.c_char_p * max(1, len(pool)))(*(text.encode() for text in pool))
    return np.frombuffer(strings, np.uintp)
