"""Histograms of the features of groups, before any preparation of their rows."""

import ctypes
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.rows.renumber import HistogramOf


def name_list(names: Sequence[str]) -> tuple[bytes | None, int]:
    """Names for the kernel, each with a 0 behind it, and their number."""
    return "".join(f"{name}\0" for name in names).encode() if names else None, len(names)


def histograms(
    groups: NDArray[np.void],
    threads: int,
    mark: int,
    *,
    skips: bool,
    categories: Sequence[str] = (),
    words: Sequence[str] = (),
    apart: Sequence[str] = (),
    features: Sequence[str] = (),
) -> list[str]:
    """A histogram as JSON of each of the groups (kernels.GROUP), whose rows are not sparse.

    mark: a `cancel_count`; skips: whether the training leaves out rows with a NULL; categories:
    columns of numbers that are categories; words: columns of which only NULLs count; apart:
    columns that are no features; features: names of the features of lists. Raises MemoryError and
    Interrupted.
    """
    lists = (part for names in (categories, words, apart, features) for part in name_list(names))
    contiguous, handle = np.ascontiguousarray(groups), ctypes.c_void_p()
    how, text = HistogramOf(threads, skips, mark, *lists), ctypes.c_void_p()
    try:
        check_code(
            library().tk_histogram(pointer(contiguous), len(contiguous), how, ctypes.byref(handle))
        )
        found = []
        for group in range(len(contiguous)):
            size = library().tk_histogram_text(handle, group, ctypes.byref(text))
            found.append(ctypes.string_at(text.value or 0, size).decode())
        return found
    finally:
        library().tk_histogram_free(handle)
