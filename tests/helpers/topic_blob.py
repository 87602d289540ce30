"""A model of topics as the bytes of its payload, written by `native/topics/write.cpp`.

Little-endian. Each section begins at a multiple of 8 bytes, and zeros fill the gaps. No 8 bytes
are a NaN, so that the bytes may pass as doubles.

* the head, `HEAD`;
* alpha, K doubles, and the totals n_k, K doubles;
* starts, (V + 1) x uint32: the entries of word w are those from starts[w] to starts[w + 1];
* the topics of the entries, uint16, rising within a word, and their counts n_kw, uint32, or
  with the flag `HAS_SHARES` float, as variational Bayes counts;
* with the flag `HAS_WORDS`: offsets, (V + 1) x uint32, and the text of the words, UTF-8, sorted
  by its bytes.

phi_kw = (n_kw + beta) / (n_k + beta W) for a word that occurs.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION, HAS_WORDS, HAS_SHARES = 1, 1, 2
HEAD = np.dtype(
    [
        ("version", "<u4"),
        ("topics", "<u4"),
        ("table", "<u4"),
        ("flags", "<u4"),
        ("entries", "<u8"),
        ("text", "<u8"),
        ("beta", "<f8"),
        ("tokens", "<u8"),
        ("words", "<u8"),
        ("documents", "<u8"),
    ]
)
"""topics: K; table: V, the words that have numbers; words: W, those of them that occur."""


@dataclass(frozen=True)
class Topics:
    """A model of topics. words: by their numbers, None where features are ids."""

    head: NDArray[np.void]
    alpha: NDArray[np.float64]
    totals: NDArray[np.float64]
    starts: NDArray[np.uint32]
    topics: NDArray[np.uint16]
    counts: NDArray[np.uint32] | NDArray[np.float32]
    words: tuple[str, ...] | None

    @property
    def n_kw(self) -> NDArray[Any]:
        """All counts, (K, V): int64, or float64 of shares."""
        kind = np.float64 if self.head["flags"] & HAS_SHARES else np.int64
        out = np.zeros((len(self.alpha), len(self.starts) - 1), kind)
        out[self.topics, np.repeat(np.arange(out.shape[1]), self.listed)] = self.counts
        return out

    @property
    def listed(self) -> NDArray[np.int64]:
        """The number of topics of each word, (V,)."""
        starts = self.starts.astype(np.int64)
        return starts[1:] - starts[:-1]

    @property
    def phi(self) -> NDArray[np.float64]:
        """The words of each topic, (K, V); 0 of words that do not occur."""
        beta, n = float(self.head["beta"]), int(self.head["words"])
        found = (self.n_kw + beta) / (self.totals[:, None] + beta * n)
        return np.asarray(np.where(self.listed > 0, found, 0.0))


def read(blob: NDArray[np.uint8]) -> Topics:
    """A model from its bytes. Raises ValueError for another version, or a length that does not
    fit.
    """
    given = np.ascontiguousarray(blob).view(np.uint8)
    if given.size < HEAD.itemsize or given[:4].view("<u4")[0] != VERSION:
        raise ValueError(f"the bytes are no model of topics of version {VERSION}")
    head = given[: HEAD.itemsize].view(HEAD)[0]
    at = HEAD.itemsize

    def section(dtype: str, n: int) -> NDArray[Any]:
        nonlocal at
        size = n * np.dtype(dtype).itemsize
        found = given[at : at + size].view(dtype)
        at += -(-size // 8) * 8
        return found

    k, table, entries = (int(head[name]) for name in ("topics", "table", "entries"))
    alpha, totals = section("<f8", k), section("<f8", k)
    starts = section("<u4", table + 1)
    topics = section("<u2", entries)
    counts = section("<f4" if head["flags"] & HAS_SHARES else "<u4", entries)
    words = None
    if head["flags"] & HAS_WORDS:
        offsets = section("<u4", table + 1)
        text = section("u1", int(head["text"])).tobytes()
        words = tuple(text[a:b].decode() for a, b in itertools.pairwise(offsets))
    if at != given.size:
        raise ValueError(f"a model of topics of {at} bytes has {given.size}")
    return Topics(head, alpha, totals, starts, topics, counts, words)
