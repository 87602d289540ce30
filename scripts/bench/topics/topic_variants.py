"""Samplers of topics compared with that of `lda`: F+LDA, and LightLDA with alias tables, by
likelihood.

python scripts/bench/run.py topic_variants --topics 100 --seconds 8

The others are in variants.cpp, which g++ compiles with the options of our kernels. All have one
thread, the same tokens, alpha 0.1 and beta 0.01. A line of JSON per look has the sweeps, the
seconds of processors of the sweeps so far, tokens per such second, and log p(w, z) per token.
"""

import argparse
import ctypes
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import corpora
import lda
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

ALPHA, BETA = 0.1, 0.01
MODES = {"F+LDA": 0, "LightLDA, 1 cycle": 1, "LightLDA, 4 cycles": 4}
POINTERS = ("word", "document", "start", "of_word", "order", "topic", "n_kw", "n_k")


class State(ctypes.Structure):
    """`State` of variants.cpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("tokens", "documents")),
        *((name, ctypes.c_int32) for name in ("words", "topics")),
        *((name, ctypes.c_double) for name in ("alpha", "beta")),
        *((name, ctypes.c_void_p) for name in POINTERS),
        ("seed", ctypes.c_uint64),
    ]


class Variant:
    """A sampler of variants.cpp: its tokens and counts."""

    def __init__(self, library: ctypes.CDLL, mode: int, corpus: corpora.Corpus, k: int) -> None:
        word, start, words = corpus
        rng, n = np.random.default_rng(1), len(word)
        self.kept: dict[str, NDArray[Any]] = {
            "word": word.astype(np.int32),
            "document": np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start)),
            "start": start.astype(np.int64),
            "of_word": np.concatenate([[0], np.bincount(word, minlength=words).cumsum()]),
            "order": np.argsort(word, kind="stable"),
            "topic": rng.integers(k, size=n).astype(np.uint16),
            "n_kw": np.zeros((words, k), np.int32),
            "n_k": np.zeros(k, np.int32),
        }
        np.add.at(self.kept["n_kw"], (word, self.kept["topic"]), 1)
        np.add.at(self.kept["n_k"], self.kept["topic"], 1)
        at = [self.kept[name].ctypes.data for name in POINTERS]
        self.state = State(n, len(start) - 1, words, k, ALPHA, BETA, *at, 1)
        self.library, self.mode, self.topics = library, mode, k

    def step(self, sweeps: int) -> None:
        """Draws each token `sweeps` times."""
        self.library.sweep(ctypes.byref(self.state), self.mode, sweeps)

    def likelihood(self) -> float:
        """log p(w, z) per token, of topics that are counted anew."""
        word, document, k = self.kept["word"], self.kept["document"], self.topics
        topic = self.kept["topic"].astype(np.int64)
        n_kw = np.unique(word * np.int64(k) + topic, return_counts=True)[1]
        assert (self.kept["n_kw"][self.kept["n_kw"] > 0] == n_kw).all()
        n_dk = np.unique(document * np.int64(k) + topic, return_counts=True)[1]
        n_d, n_k = np.diff(self.kept["start"]), np.bincount(topic, minlength=k)
        whole = BETA * len(np.unique(word))
        log = (gammaln(n_kw + BETA) - gammaln(BETA)).sum()
        log += (gammaln(whole) - gammaln(n_k + whole)).sum()
        log += (gammaln(n_dk + ALPHA) - gammaln(ALPHA)).sum()
        log += (gammaln(k * ALPHA) - gammaln(n_d + k * ALPHA)).sum()
        return float(log / len(word))


def main() -> None:
    """Sweeps with each sampler for some seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--documents", type=int, default=8000)
    parser.add_argument("--seconds", type=float, default=8.0, help="of processors, of each")
    parser.add_argument("--looks", type=int, default=8)
    parser.add_argument("--kept", type=Path, help="a file of the documents, made if absent")
    args = parser.parse_args()
    corpus = documents(args)
    ours = argparse.Namespace(topics=args.topics, alpha=ALPHA, beta=BETA, threads=1, seed=1)
    watch("lda", *lda.ours(corpus, ours), len(corpus[0]), args)
    with TemporaryDirectory() as folder:
        library = ctypes.CDLL(compiled(folder))
        for name, mode in MODES.items():
            one = Variant(library, mode, corpus, args.topics)
            watch(name, one.step, one.likelihood, len(corpus[0]), args)


def documents(args: argparse.Namespace) -> corpora.Corpus:
    """Docstrings, from a file if there is one."""
    if args.kept and args.kept.exists():
        kept = np.load(args.kept)
        return kept["word"], kept["start"], int(kept["words"])
    word, start, words = corpora.docstrings(args.documents)
    if args.kept:
        np.savez(args.kept, word=word, start=start, words=words)
    return word, start, words


def compiled(folder: str) -> str:
    """The library of variants.cpp."""
    out, source = f"{folder}/variants.so", str(Path(__file__).with_name("variants.cpp"))
    options = ["-O3", "-march=native", "-std=c++20", "-shared", "-fPIC"]
    subprocess.run(["g++", *options, "-o", out, source], check=True)
    return out


def watch(
    name: str,
    step: Callable[[int], None],
    likelihood: Callable[[], float],
    tokens: int,
    args: argparse.Namespace,
) -> None:
    """Sweeps until the seconds are over, with looks at the likelihood in between."""
    sweeps, used, each = 0, 0.0, 1
    for look in range(1, args.looks + 1):
        while used < args.seconds * look / args.looks:
            began = time.process_time()
            step(each)
            used += time.process_time() - began
            sweeps += each
        told = {
            "sampler": name,
            "topics": args.topics,
            "sweeps": sweeps,
            "processor_seconds": round(used, 2),
            "tokens_per_second": round(tokens * sweeps / used),
            "likelihood_per_token": round(likelihood(), 4),
        }
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
