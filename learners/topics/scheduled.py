"""Collapsed Gibbs sampling as a program of the static engine: blocks of words rotate over workers.

Each worker has documents, and the topics of their tokens. A block of words rotates with its counts
n_kw, so no two workers change the counts of a word at the same time. A worker knows the
totals n_k at the start of the rotation, and its own changes. Source: J. K. Kim et al., SMPFRAME,
CMU-PDL-15-103, 2015, section 4.2. The model of documents is in `kernels/native/topics/api.h`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.kernels.topics import Prior
from tuskml.schedule import Program, ranges

Ints = NDArray[np.int64]


class Counts(NamedTuple):
    """n_kw of all words or of a block, (K, words), and n_k, (K,), after `rotations` rotations."""

    words: Ints
    totals: Ints
    rotations: int


@dataclass
class Documents:
    """The data of a worker: of each token its document, its word and its topic, (tokens,); n_dk of
    the documents, (documents, K); and the worker's changes of the totals in a rotation.
    """

    document: Ints
    word: Ints
    topic: Ints
    n_dk: Ints
    added: Ints
    rotation: int = -1
    tokens_of: dict[int, Ints] = field(default_factory=dict)


class WordRotation(Program):
    """The topics of documents whose words are numbers below `words`. Results depend on the seed
    and the number of workers, and not on which worker is faster."""

    def __init__(self, prior: Prior, words: int, seed: int = 0) -> None:
        self.prior, self.words, self.seed = prior, words, seed

    def deal(
        self, documents: Sequence[Sequence[int]], workers: int
    ) -> tuple[Counts, list[Documents]]:
        """Gives each token a random topic: the initial model, and each worker's part."""
        rng, k = np.random.default_rng(self.seed), self.prior.topics
        parts, counts = [], np.zeros((k, self.words), np.int64)
        for part in ranges(len(documents), workers):
            lengths = [len(one) for one in documents[part]]
            document = np.repeat(np.arange(len(lengths)), lengths)
            word = np.array([w for one in documents[part] for w in one], np.int64)
            topic = rng.integers(k, size=len(word))
            n_dk = np.zeros((len(lengths), k), np.int64)
            np.add.at(n_dk, (document, topic), 1)
            np.add.at(counts, (topic, word), 1)
            parts.append(Documents(document, word, topic, n_dk, np.zeros(k, np.int64)))
        return Counts(counts, counts.sum(axis=1), 0), parts

    def schedule(self, A: Counts, D: Sequence[Documents]) -> list[slice]:
        return ranges(self.words, len(D))

    def part(self, S_p: slice, A: Counts) -> Counts:
        return A._replace(words=A.words[:, S_p])

    def update(self, p: int, S_p: slice, D_p: Documents, A: Counts) -> Counts:
        if D_p.rotation != A.rotations:
            D_p.rotation, D_p.added = A.rotations, np.zeros_like(D_p.added)
        if S_p.start not in D_p.tokens_of:
            inside = (D_p.word >= S_p.start) & (D_p.word < S_p.stop)
            D_p.tokens_of[S_p.start] = np.flatnonzero(inside)
        tokens = D_p.tokens_of[S_p.start]
        drawn = np.random.default_rng([self.seed, A.rotations, p, S_p.start]).random(len(tokens))
        words, totals = A.words.copy(), A.totals + D_p.added
        for token, u in zip(tokens.tolist(), drawn.tolist(), strict=True):
            n_d, n_w = D_p.n_dk[D_p.document[token]], words[:, D_p.word[token] - S_p.start]
            self.draw(D_p.topic, token, (n_d, n_w, totals), u)
        D_p.added = totals - A.totals
        return A._replace(words=words)

    def draw(self, topic: Ints, token: int, counts: tuple[Ints, Ints, Ints], u: float) -> None:
        """Draws a token's topic by n_d, n_w and n_k, each (K,), and counts it; u: in [0, 1)."""
        n_d, n_w, n_k = counts
        for one in counts:
            one[topic[token]] -= 1
        smoothing = self.prior.beta * self.words
        weight: Floats = (n_d + self.prior.alpha) * (n_w + self.prior.beta) / (n_k + smoothing)
        ends = weight.cumsum()
        topic[token] = min(int(ends.searchsorted(u * ends[-1], "right")), len(ends) - 1)
        for one in counts:
            one[topic[token]] += 1

    def aggregate(self, R: Sequence[Counts], A: Counts) -> Counts:
        words = np.concatenate([one.words for one in R], axis=1)
        return Counts(words, words.sum(axis=1), A.rotations + 1)

    def weight(self, S_p: slice) -> float:
        return float(S_p.stop - S_p.start)

    def local(self, p: int, D_p: Documents) -> Any:
        return D_p.document, D_p.word, D_p.topic
