"""Topics of documents, by Gibbs sampling or online (`native/topics/api.h`, `online/api.h`)."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import RowsError
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.structures import KERNELS

ABOUT = KERNELS.dtype("tk_topics_about")
"""Dtype of the C structure `tk_topics_about`."""
WORDS = KERNELS.dtype("tk_topic_words")
"""Dtype of the C structure `tk_topic_words`."""


@KERNELS.structure("tk_topics_spec")
class Spec(ctypes.Structure):
    """The C structure `tk_topics_spec`."""


@KERNELS.structure("tk_online_spec")
class OnlineSpec(ctypes.Structure):
    """The C structure `tk_online_spec`."""


MOST_TOPICS = 32_000
MOST_TOKENS = 2**31 - 2**20 - 1
FEW_TOKENS, FEW_PER_COUNT = 2_000_000, 100
BAD_COUNT, TOO_MANY_TOKENS, LARGE_COUNTS = 1, 2, 3
REFUSED = 6

Texts = tuple[bytes, NDArray[np.int64]]
Words = Texts | tuple[bytes, NDArray[np.int64], NDArray[np.uint8] | None]
"""Words in the order of their ids: concatenated UTF-8, the offset of each, (V + 1,), and if some
are left out 1 for these, (V,).
"""


@dataclass(frozen=True)
class Prior:
    """Number of topics K, and the parameters of the Dirichlet distributions of a document's topics
    (alpha) and of a topic's words (beta).
    """

    topics: int
    alpha: float
    beta: float


@dataclass(frozen=True)
class SamplerOrder:
    """Order of the sampler's reads.

    parts: number that documents are dealt to; window: number of tokens drawn before the next ones
    are read; 0: by the number of tokens. spends: the rows are not read again, so the memory of
    large groups is freed.
    """

    parts: int = 0
    window: int = 0
    spends: bool = False


BY_SIZE = SamplerOrder()


class Sampler:
    """Topics of the documents of G groups: sparse rows, whose values are counts of words.

    words: of each group, None if its features are ids; empty: all are ids. memory: the account
    that tokens and counts are charged to. A context manager that frees them. Raises DataError,
    Interrupted, MemoryError and TuskError.
    """

    def __init__(
        self,
        rows: Pass,
        prior: Prior,
        seed: int,
        memory: int,
        words: Sequence[Words | None] = (),
        cut: SamplerOrder = BY_SIZE,
    ) -> None:
        numbers = prior.topics, cut.parts, prior.alpha, prior.beta, seed & (2**64 - 1)
        spec = Spec(*numbers, cut.spends, cut.window)
        self._words = list(words)
        self.about, self._handle = create(library().tk_topics_new, rows, spec, words, memory)

    def sweep(self, rows: Pass, sweeps: int) -> None:
        """Draws the topic of each token `sweeps` times. Raises OutOfTime at the deadline of the
        pass.
        """
        check_code(library().tk_topics_sweep(self._handle, rows.struct, sweeps))

    def likelihood(self, rows: Pass) -> Floats:
        """log p(w, z | alpha, beta) of each group, (G,)."""
        out = np.empty(len(self.about))
        check_code(library().tk_topics_likelihood(self._handle, rows.struct, pointer(out)))
        return out

    def optimize(self, rows: Pass, steps: int = 5) -> None:
        """Optimizes alpha, one number per topic, for the topics of the tokens."""
        check_code(library().tk_topics_optimize(self._handle, rows.struct, steps))

    def blob(self, group: int) -> NDArray[np.uint8]:
        """A group's model as bytes, in the layout of `blob.py`."""
        out = np.empty(library().tk_topics_bytes(self._handle, group), np.uint8)
        check_code(library().tk_topics_write(self._handle, group, pointer(out)))
        return out

    def tokens(
        self, group: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint16]]:
        """Returns the offset of each document, (documents + 1,), and word and topic of each token.

        Words have their numbers in the model.
        """
        about = self.about[group]
        start = np.empty(about["documents"] + 1, np.int64)
        word = np.empty(about["tokens"], np.uint32)
        topic = np.empty(about["tokens"], np.uint16)
        arguments = pointer(start), pointer(word), pointer(topic)
        library().tk_topics_copy(self._handle, group, *arguments)
        return start, word, topic

    def close(self) -> None:
        """Frees the tokens."""
        if self._handle:
            library().tk_topics_free(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def addresses(words: Sequence[Words | None]) -> NDArray[np.void]:
    """`tk_topic_words` of each group."""
    out = np.zeros(len(words), WORDS)
    for place, one in enumerate(words):
        if one is None:
            out[place]["n"] = -1
            continue
        at = ctypes.cast(ctypes.c_char_p(one[0]), ctypes.c_void_p).value
        dropped = one[2] if len(one) > 2 else None
        left_out = None if dropped is None else pointer(dropped)
        out[place] = at or 0, pointer(one[1]), len(one[1]) - 1, left_out or 0
    return out


def create(
    constructor: Callable[..., int],
    rows: Pass,
    spec: ctypes.Structure,
    words: Sequence[Words | None],
    memory: int,
) -> tuple[NDArray[np.void], ctypes.c_void_p]:
    """Creates models of topics; returns ABOUT of each group and the handle. Raises RowsError for
    counts that are none of words.
    """
    table = addresses(words)
    return create_topics(constructor, rows, spec, pointer(table) if len(table) else None, memory)


def create_topics(
    constructor: Callable[..., int], rows: Pass, spec: ctypes.Structure, words: Any, memory: int
) -> tuple[NDArray[np.void], ctypes.c_void_p]:
    """As `create`; words: what the constructor takes for them."""
    about, handle = np.zeros(rows.n_groups, ABOUT), ctypes.c_void_p()
    out = pointer(about), ctypes.addressof(handle)
    code = constructor(rows.struct, spec, words, memory or None, *out)
    if code == REFUSED:
        raise RowsError(refusal(about))
    check_code(code)
    return about, handle


def refusal(about: NDArray[np.void]) -> str:
    """A sentence on the first group whose counts are not counts of words."""
    one = about[np.flatnonzero(about["fault"])[0]]
    if one["fault"] == TOO_MANY_TOKENS:
        return (
            f"a group has {one['tokens']:,} tokens, 'lda' takes at most {MOST_TOKENS:,}: train on "
            "fewer documents"
        )
    if one["fault"] == LARGE_COUNTS:
        return (
            f"a group has {one['tokens']:,} tokens in {one['counts']:,} counts of words, and "
            f"'lda' reads each token by itself: expected at most {FEW_TOKENS:,} tokens, or "
            f"{FEW_PER_COUNT} in a count on average: divide the counts"
        )
    return (
        f"the count of word {one['bad_id']} is {one['bad_count']:.17g} in a document, expected a "
        f"whole number from 0 to {MOST_TOKENS:,}"
    )


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
        self._topics = prior.topics
        self._words = list(words)
        self.about, self._handle = create(library().tk_online_new, rows, spec, words, memory)

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
