"""Conversion of callers' arrays to those that the native half reads."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tuskml.errors import StoreError
from tuskml.kvstore.native import Ids, Weights
from tuskml.partitioner import IndexMap


def model_dtype(given: DTypeLike) -> "np.dtype[Any]":
    """Checks a dtype: float32 or float64."""
    dtype = np.dtype(given)
    if dtype not in (np.float32, np.float64):
        raise StoreError(f"a store's dtype must be float32 or float64, got {dtype}")
    return dtype


def as_keys(given: ArrayLike) -> Ids:
    """Keys as contiguous int64 of one dimension. Raises StoreError for one below 0."""
    array = np.asarray(given)
    if array.size and array.dtype.kind not in "iu":
        raise StoreError(f"keys must be whole numbers, got {array.dtype}")
    keys = np.ascontiguousarray(array, np.int64)
    if keys.ndim != 1 or (keys.size and keys.min() < 0):
        raise StoreError("keys must be of one dimension and at least 0")
    return keys


def as_weights(given: ArrayLike, dtype: "np.dtype[Any]") -> Weights:
    """Weights as a contiguous array of the store's dtype; float64 is not silently narrowed."""
    array = np.asarray(given)
    if not np.can_cast(array.dtype, dtype, "same_kind") or (
        array.dtype == np.float64 != dtype and isinstance(given, np.ndarray)
    ):
        raise StoreError(f"weights must be {dtype}, got {array.dtype}")
    return np.ascontiguousarray(array, dtype)


def even_starts(n: int, width: int) -> Ids:
    """Returns offsets of n partitions of one width, and the end of the last."""
    return np.arange(n + 1, dtype=np.int64) * width


def keys_of(keys: Ids) -> tuple[Ids, Ids]:
    """Distinct values of rising keys, and the offset of each, of shape (n + 1,)."""
    new = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    begins = np.flatnonzero(new)
    return keys[begins], np.append(begins, len(keys))


def located(index: IndexMap, ids: ArrayLike, several: int) -> tuple[Ids, NDArray[np.integer]]:
    """Keys of weights and their indices in payloads, integers of shape (n,).

    several: weights per feature; weight k of feature id has the id id * several + k.
    """
    if several == 1:
        return index.locate(ids)
    features, which = np.divmod(np.asarray(ids, np.int64), several)
    keys, slots = index.locate(features)
    return keys, slots.astype(np.int64) * several + which
