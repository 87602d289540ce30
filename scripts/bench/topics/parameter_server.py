"""Rotation compared with a parameter server: the objective by data, with simulated workers.

python scripts/bench/run.py parameter_server --workers 8,32 --sweeps 30

Collapsed Gibbs sampling of the same documents from the same topics. All workers take a step at the
same time, so that many can be simulated on one processor. `server`: each worker has the documents
of its part and a copy of all counts, which the workers bring together `clocks` times a sweep, as
parameter servers do (Yahoo! LDA); in between it sees its own changes alone. `rotation`: workers
hold disjoint blocks of words, which rotate, and copies of the topics' totals alone (J. K. Kim et
al., SMPFRAME, CMU-PDL-15-103, 2015, section 4.2). A line of JSON has the objective by data (OvD),
log p(w, z) per token after each number of sweeps, and what the data a second would wait for: the
numbers that a worker sends and receives in a sweep.
"""

import argparse
import json
from typing import Any

import corpora
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

ALPHA, BETA = 0.1, 0.01
Ints = NDArray[np.int64]


def main() -> None:
    """Prints a line for each kind of scheduling and number of workers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=60_000)
    parser.add_argument("--words", type=int, default=2_000)
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--workers", default="8,32,128")
    parser.add_argument("--sweeps", type=int, default=30)
    args = parser.parse_args()
    word, start, words = corpora.planted(args.tokens, args.words, args.topics, mean=60)
    for workers in map(int, args.workers.split(",")):
        for kind, clocks in (("rotation", workers), ("server", workers), ("server", 1)):
            sampler = Simulated(word.astype(np.int64), start, words, args.topics, workers)
            curve = [sampler.objective()]
            for _ in range(args.sweeps):
                sampler.sweep(kind, clocks)
                curve.append(sampler.objective())
            block = words // workers * args.topics + args.topics
            sent = block * workers if kind == "rotation" else words * args.topics * clocks
            told: dict[str, Any] = {"kind": kind, "workers": workers, "clocks": clocks}
            told["objective"] = [round(one, 4) for one in curve]
            print(json.dumps(told | {"numbers_sent_a_sweep": sent}), flush=True)


class Simulated:
    """The topics of all tokens, and their counts."""

    def __init__(self, word: Ints, start: Ints, words: int, topics: int, workers: int) -> None:
        self.rng = np.random.default_rng(1)
        self.word, self.workers, self.k = word, workers, topics
        self.document = np.repeat(np.arange(len(start) - 1), np.diff(start))
        self.topic = self.rng.integers(topics, size=len(word))
        self.n_dk = np.zeros((len(start) - 1, topics), np.int64)
        self.n_wk = np.zeros((words, topics), np.int64)
        np.add.at(self.n_dk, (self.document, self.topic), 1)
        np.add.at(self.n_wk, (word, self.topic), 1)
        order = np.argsort(-np.bincount(word, minlength=words), kind="stable")
        block = np.empty(words, np.int64)
        block[order] = np.arange(words) % workers
        self.block = block[word]
        self.part = self.document * workers // (len(start) - 1)

    def objective(self) -> float:
        """log p(w, z) per token."""
        n_k, n_d = self.n_wk.sum(axis=0), self.n_dk.sum(axis=1)
        words, k = len(self.n_wk), self.k
        log = gammaln(self.n_wk + BETA).sum() - self.n_wk.size * gammaln(BETA)
        log += k * gammaln(words * BETA) - gammaln(n_k + words * BETA).sum()
        log += gammaln(self.n_dk + ALPHA).sum() - self.n_dk.size * gammaln(ALPHA)
        log += len(n_d) * gammaln(k * ALPHA) - gammaln(n_d + k * ALPHA).sum()
        return float(log / len(self.word))

    def sweep(self, kind: str, clocks: int) -> None:
        """Draws each token once, in as many rounds as there are clocks."""
        tokens = np.arange(len(self.word))
        for clock in range(clocks):
            if kind == "rotation":
                mine = (self.part + clock) % self.workers == self.block
            else:
                mine = tokens % clocks == clock
            self.round(tokens[mine], shared=kind == "rotation")

    def round(self, tokens: Ints, shared: bool) -> None:
        """Each worker draws its tokens of these, one after the other, in parallel with the
        others.
        """
        own = [tokens[self.part[tokens] == p] for p in range(self.workers)]
        copies = 1 if shared else self.workers
        n_wk = np.repeat(self.n_wk[None], copies, axis=0)
        before, totals = (
            self.n_wk.sum(axis=0),
            np.repeat(self.n_wk.sum(axis=0)[None], self.workers, axis=0),
        )
        for step in range(max(map(len, own))):
            at = np.array([p for p, one in enumerate(own) if step < len(one)])
            token = np.array([own[p][step] for p in at])
            copy = at % copies
            d, w, old = self.document[token], self.word[token], self.topic[token]
            self.n_dk[d, old] -= 1
            n_wk[copy, w, old] -= 1
            totals[at, old] -= 1
            weight = (self.n_dk[d] + ALPHA) * (n_wk[copy, w] + BETA)
            ends = np.cumsum(weight / (totals[at] + len(self.n_wk) * BETA), axis=1)
            new = (ends < (self.rng.random(len(at)) * ends[:, -1])[:, None]).sum(axis=1)
            self.topic[token] = new
            self.n_dk[d, new] += 1
            n_wk[copy, w, new] += 1
            totals[at, new] += 1
        self.n_wk = self.n_wk + (n_wk - self.n_wk[None]).sum(axis=0)
        assert (self.n_wk.sum(axis=0) - before).sum() == 0


if __name__ == "__main__":
    main()
