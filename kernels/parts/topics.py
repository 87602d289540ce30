"""A part of a group's documents, which blocks of words with their counts visit.

The part keeps the topics of its tokens between messages. A message names how many visits came
before; where they did not come here, as on a worker that has taken the part over, the reply has no
array, and the part must be opened anew.
"""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.parts.message import Array
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.segments import chunks
from tuskml.kernels.structures import KERNELS
from tuskml.kernels.topics import Spec, create_topics

KEPT = "topics"
"""Key of the part in the state kept with the rows."""
Given = Mapping[str, Any]


@KERNELS.structure("tk_topic_table")
class Table(ctypes.Structure):
    """The C structure `tk_topic_table`."""


@KERNELS.structure("tk_topics_visit")
class Visit(ctypes.Structure):
    """The C structure `tk_topics_visit`."""


def count_words(
    rows: Pass, arrays: list[Any], given: Given, beside: Beside
) -> list[NDArray[Any] | None]:
    """The words of the part in the order of its ids, as text and offsets, or None for ids; of each
    the documents and the tokens, (V,).
    """
    texts = beside.words
    n = int(rows.groups["dim"][0]) if texts is None else len(texts[1]) - 1
    documents, tokens = np.zeros(n, np.int64), np.zeros(n)
    for _, (_, ids, counts), _ in chunks(rows.groups[0]):
        documents += np.bincount(ids[counts > 0], minlength=n)
        tokens += np.bincount(ids, counts, minlength=n)
    text, offsets = (None, None) if texts is None else texts
    held = None if text is None else np.frombuffer(text, np.uint8)
    return [held, offsets, documents, tokens.astype(np.int64)]


class TopicsPart:
    """The documents of a part and the topics of their tokens.

    spec: parts has the number of blocks; frequency: tokens of each word of the group, (V,); rank:
    the places of the part's words among these, (dim,), None: their ids.
    """

    def __init__(
        self,
        rows: Pass,
        spec: Spec,
        frequency: NDArray[np.uint32],
        rank: NDArray[np.uint32] | None,
        memory: int,
    ) -> None:
        table = Table(len(frequency), pointer(frequency), pointer(rank))
        call = library().tk_topics_new_part
        about, self._handle = create_topics(call, rows, spec, ctypes.byref(table), memory)
        self.tokens, self.documents = int(about["tokens"][0]), int(about["documents"][0])
        self.visits = 0

    def places(self, block: int) -> NDArray[np.uint32]:
        """The places of a block's words in the table."""
        out = np.empty(library().tk_topics_block_words(self._handle, block), np.uint32)
        library().tk_topics_block_places(self._handle, block, pointer(out))
        return out

    def visit(self, rows: Pass, arrays: Sequence[Any], sweep: int, block: int) -> list[Array]:
        """Draws the topics of the tokens with words of a block, whose counts and the totals it
        returns; sweep 0: counts them."""
        listed, topic, times, alpha, totals = arrays
        where = sweep, block, pointer(listed), pointer(topic), pointer(times), pointer(alpha)
        call = library().tk_topics_visit_block
        check_code(call(self._handle, rows.struct, Visit(*where), pointer(totals)))
        n = library().tk_topics_block_counts(self._handle, block)
        topic, times = np.empty(n, np.uint16), np.empty(n, np.uint32)
        out = pointer(listed), pointer(topic), pointer(times)
        library().tk_topics_block(self._handle, block, *out)
        self.visits += 1
        return [listed, topic, times, totals]

    def topics(self) -> NDArray[np.uint16]:
        """The topics of all tokens."""
        out = np.empty(self.tokens, np.uint16)
        library().tk_topics_state(self._handle, 0, pointer(out))
        return out

    def set_topics(self, topics: NDArray[np.uint16]) -> None:
        """Sets the topics of all tokens."""
        library().tk_topics_state(self._handle, 1, pointer(topics))

    def sums(self, call: Any, rows: Pass, alpha: Floats, n: int) -> Floats:
        """The n sums over documents that a native function computes."""
        out = np.empty(n)
        check_code(call(self._handle, rows.struct, pointer(alpha), pointer(out)))
        return out

    def close(self) -> None:
        """Frees the tokens."""
        library().tk_topics_free(self._handle)
        self._handle = ctypes.c_void_p()


def open_part(rows: Pass, arrays: list[Any], given: Given, beside: Beside) -> list[Array]:
    """Reads the documents. The topics of their tokens are random, or those of `arrays`; returns
    the number of tokens and of documents with tokens."""
    frequency, rank, topics, seed = arrays
    if KEPT in beside.kept:
        beside.kept.pop(KEPT).close()
    spec = Spec(given["topics"], given["blocks"], 0.0, given["beta"], int(seed[0]))
    part = beside.kept[KEPT] = TopicsPart(rows, spec, frequency, rank, beside.memory)
    if topics is not None:
        part.set_topics(topics)
    return [np.array([part.tokens, part.documents])]


def answer(rows: Pass, arrays: list[Any], given: Given, beside: Beside) -> list[Array]:
    """The reply of an open part; none if it is not open, or other visits came before."""
    part = beside.kept.get(KEPT)
    if not isinstance(part, TopicsPart) or part.visits != given["visits"]:
        return []
    what = given["what"]
    if what == "visit":
        return part.visit(rows, arrays, given["sweep"], given["block"])
    if what == "state":
        return [part.topics()]
    if what == "places":
        return [part.places(block) for block in range(given["blocks"])]
    (alpha,) = arrays
    if what == "likelihood":
        return [part.sums(library().tk_topics_documents, rows, alpha, 1)]
    return [part.sums(library().tk_topics_alpha_terms, rows, alpha, len(alpha) + 1)]
