"""Topics of documents by online variational Bayes (`native/topics/online/api.h`)."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import RowsError
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.topics.sampling import REFUSED, Prior, Words, addresses, refusal
from tuskml.kernels.topics.structures import ABOUT, OnlineSpec


@dataclass(frozen=True)
class Steps:
    """Options of the steps of lambda.

    batch: documents of a step; its size is (offset + t)^-decay at step t. A document is done when
    its gamma changes by less than `tolerance`, the mean over topics, or after `most` updates.
    """

    batch: int
    offset: float
    decay: float
    tolerance: float = 1e-3
    most: int = 100


class Online:
    """Topics of the documents of G groups, like `Sampler`, by online variational Bayes.

    A context manager that frees them. Raises DataError, Interrupted, MemoryError and TuskError.
    """

    def __init__(
        self,
        rows: Pass,
        prior: Prior,
        steps: Steps,
        seed: int,
        memory: int,
        words: Sequence[Words | None] = (),
        spends: bool = False,
    ) -> None:
        numbers = prior.alpha, prior.beta, steps.offset, steps.decay, steps.tolerance
        drawn = seed & (2**64 - 1)
        spec = OnlineSpec(prior.topics, steps.batch, *numbers, steps.most, drawn, spends)
        self.about = np.zeros(rows.n_groups, ABOUT)
        self._topics = prior.topics
        self._words = list(words)
        table = addresses(words)
        self._handle = ctypes.c_void_p()
        code = library().tk_online_new(
            rows.struct,
            spec,
            pointer(table) if len(table) else None,
            memory or None,
            pointer(self.about),
            ctypes.addressof(self._handle),
        )
        if code == REFUSED:
            raise RowsError(refusal(self.about))
        check_code(code)

    def pass_over(self, rows: Pass, passes: int = 1) -> None:
        """Reads all documents `passes` times, batch by batch. Raises OutOfTime at the deadline of
        the pass.
        """
        for _ in range(passes):
            check_code(library().tk_online_pass(self._handle, rows.struct))

    def likelihood(self, rows: Pass) -> Floats:
        """The bound of log p(w | alpha, beta) of each group, (G,)."""
        out = np.empty(len(self.about))
        check_code(library().tk_online_bound(self._handle, rows.struct, pointer(out)))
        return out

    def blob(self, group: int) -> NDArray[np.uint8]:
        """A group's model as bytes, in the layout of `blob.py`, with shares."""
        out = np.empty(library().tk_online_bytes(self._handle, group), np.uint8)
        check_code(library().tk_online_write(self._handle, group, pointer(out)))
        return out

    def topic_words(self, group: int, dim: int) -> Floats:
        """lambda of a group with ids below `dim`, (K, dim): the parameters of the topics' words;
        0 of ids that do not occur."""
        out = np.zeros((self._topics, dim))
        library().tk_online_lambda(self._handle, group, 0, pointer(out))
        return out

    def set_topic_words(self, group: int, values: Floats) -> None:
        """Replaces the random initial lambda by these values, (K, dim)."""
        copy = np.array(values)
        library().tk_online_lambda(self._handle, group, 1, pointer(copy))

    def close(self) -> None:
        """Frees the tokens."""
        if self._handle:
            library().tk_online_free(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
