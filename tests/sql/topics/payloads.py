"""Payloads of topics, read by NumPy, and inference of topics from their definition."""

import itertools
import struct
from dataclasses import dataclass

import numpy as np

HEAD = 64
BLOB = struct.Struct("<IIIIQQdQQQ")


@dataclass
class Topics:
    """counts: (V, K); alpha: (K,); words: (V,) texts, None where words are ids."""

    counts: np.ndarray
    alpha: np.ndarray
    beta: float
    words: list[str] | None

    @property
    def phi(self):
        """p(word | topic), (V, K), of words that occur."""
        occurring = (self.counts > 0).any(axis=1).sum()
        return (self.counts + self.beta) / (self.counts.sum(axis=0) + self.beta * occurring)

    def ids(self, document):
        """Ids of the words of a document that occurred in the training."""
        place = {word: i for i, word in enumerate(self.words)}
        return [place[w] for w in document if w is not None and w in place]

    def theta(self, ids, sweeps=2000):
        """The fixed point of n_dk = sum over tokens of p(k | word, n_d + alpha), in shares."""
        total = len(ids) + self.alpha.sum()
        numerator = self.alpha * (1 + len(ids) / self.alpha.sum())
        phi = self.phi[ids]
        for _ in range(sweeps):
            share = phi * numerator
            before = numerator
            numerator = (share / share.sum(axis=1, keepdims=True)).sum(axis=0) + self.alpha
            if np.abs(numerator - before).max() < 1e-13 * total:
                break
        return numerator / total


def sections(payload):
    """The head of the topics in a payload, and where each section begins."""
    head = BLOB.unpack_from(payload, HEAD)
    _, k, v, flags, n, text = head[:6]
    sizes = [8 * k, 8 * k, 4 * (v + 1), 2 * n, 4 * n]
    if flags & 1:
        sizes += [4 * (v + 1), text]
    starts = np.cumsum([HEAD + BLOB.size, *((size + 7) // 8 * 8 for size in sizes)])
    return head, starts.tolist()


def read(payload):
    """The topics in a payload, by the table in kernels/topics/blob.py."""
    payload = bytes(payload)
    (_, k, v, flags, n, text, beta, *_), at = sections(payload)
    starts = np.frombuffer(payload, np.uint32, v + 1, at[2])
    topic = np.frombuffer(payload, np.uint16, n, at[3])
    count = np.frombuffer(payload, np.float32 if flags & 2 else np.uint32, n, at[4])
    counts = np.zeros((v, k))
    counts[np.repeat(np.arange(v), np.diff(starts)), topic] = count
    words = None
    if flags & 1:
        offset = np.frombuffer(payload, np.uint32, v + 1, at[5])
        letters = payload[at[6] : at[6] + text]
        words = [letters[a:b].decode() for a, b in itertools.pairwise(offset)]
    return Topics(counts, np.frombuffer(payload, np.float64, k, at[0]), beta, words)
