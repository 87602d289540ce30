"""Documents of words: their ids become indices of the sorted words of their group."""

import ctypes
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.rows.renumber import Words

Texts = tuple[bytes, NDArray[np.int64]]
"""Words concatenated in UTF-8, and the offset of each, (n + 1,) int64."""


@dataclass
class WordNumbers:
    """Words of groups, by index; None for a group whose ids are not words.

    A context manager that frees them.
    """

    groups: list[Any]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for words in filter(None, self.groups):
            library().tk_charged_free(words.held)
        self.groups = []

    def texts(self, place: int) -> Texts | None:
        """Words of a group in the order of their ids, which is that of their bytes."""
        words = self.groups[place]
        if words is None:
            return None
        held: Any = (ctypes.c_int64 * (words.n + 1)).from_address(words.offsets)
        offsets = np.frombuffer(held, np.int64).copy()
        return ctypes.string_at(words.text, int(offsets[-1])), offsets


def has_words(groups: NDArray[np.void]) -> bool:
    """Returns whether the rows of some of the groups (kernels.GROUP) are documents of words."""
    lib = library()
    contiguous = np.ascontiguousarray(groups)
    first = pointer(contiguous) or 0
    size = contiguous.dtype.itemsize
    return any(
        lib.tk_has_words(first + place * size)
        for place in np.flatnonzero(contiguous["parts"]).tolist()
    )


def number_words(groups: NDArray[np.void], memory: int, mark: int) -> WordNumbers:
    """Numbers the words of each group; overwrites the ids in its rows.

    memory: address of the account that the words are charged to; mark: a `cancel_count`. Raises
    MemoryError, TuskError and Interrupted.
    """
    lib = library()
    contiguous = np.ascontiguousarray(groups)
    first, size = pointer(contiguous) or 0, contiguous.dtype.itemsize
    result = WordNumbers([None] * len(contiguous))
    try:
        for place in range(len(contiguous)):
            at = first + place * size
            if not lib.tk_has_words(at):
                continue
            words = Words()
            check_code(lib.tk_number_words(at, memory, mark, ctypes.byref(words)))
            result.groups[place] = words
    except BaseException:
        result.__exit__()
        raise
    return result
