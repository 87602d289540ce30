"""Paths as models store them, as JSON."""

import ctypes
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.paths.fitting import Weights
from tuskml.kernels.paths.structures import Chosen


def kept_paths(
    points: NDArray[np.void],
    weights: Sequence[Weights],
    chosen: NDArray[np.intp],
    threads: int,
    ids: NDArray[np.int64] | None = None,
) -> tuple[str, ...]:
    """One JSON text per group.

    It has numbers by penalty, and by penalty the indices, from 1 on, and values of nonzero
    weights. Numbers that JSON lacks are null. points: (G, length), POINT; chosen: (G,), indices of
    the models' penalties, from 0 on; ids: of the features, (d,), if these are numbers of ids.
    """
    points = np.ascontiguousarray(points)
    places = np.ascontiguousarray(chosen, np.int64)
    number = np.concatenate([one.feature for one in weights])
    feature = number.astype(np.int64) if ids is None else ids[number]
    value = np.concatenate([one.value for one in weights])
    handle = ctypes.c_void_p()
    choice = Chosen(
        *points.shape, pointer(points), pointer(places), pointer(feature), pointer(value)
    )
    check_code(library().tk_path_texts_new(choice, threads, ctypes.addressof(handle)))
    try:
        return tuple(_text(handle, group) for group in range(len(points)))
    finally:
        library().tk_path_texts_free(handle)


def _text(handle: ctypes.c_void_p, group: int) -> str:
    size = ctypes.c_int64()
    at = library().tk_path_text(handle, group, ctypes.addressof(size))
    return ctypes.string_at(at, size.value).decode("ascii")
