"""Topics of documents: tokens per second and the likelihood over time, compared with tomotopy.

python scripts/bench/run.py lda --contender tuskml --topics 100 --scale 0.2
PEERS/bin/python scripts/bench/topics/lda.py --contender tomotopy --topics 100 --scale 0.2
python scripts/bench/run.py lda --corpus docstrings --topics 100 --sweeps 300

PEERS is an environment with tomotopy. A contender runs in a process of its own, on documents that
are the same for both. Scale 1 has 50 million tokens. With --kept and --wait several processes can
read their documents first, and then sweep one after the other on a quiet machine. The seconds are
those of the sweeps alone, after the documents were read. A line of JSON per look has the sweeps,
the seconds, the tokens per second of the sweeps since the last look, log p(w, z) per token, by the
same formula, and the bytes per token that the process has more than before it had the documents
for the contender: of ours the packed rows too.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import corpora
import numpy as np

WHOLE = 50_000_000
Step = Callable[[int], None]
Likelihood = Callable[[], float]


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contender", choices=["tuskml", "tomotopy"], default="tuskml")
    parser.add_argument("--corpus", choices=["planted", "docstrings"], default="planted")
    parser.add_argument("--scale", type=float, default=0.1, help="of 50 million tokens")
    parser.add_argument("--words", type=int, default=50_000)
    parser.add_argument("--planted-topics", type=int, default=100)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--beta", type=float, default=0.01)
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--every", type=int, default=10, help="sweeps between two looks")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--kept", type=Path, help="a file of the planted documents, made if absent"
    )
    parser.add_argument("--wait", type=Path, help="sweeps begin when this file exists")
    return parser.parse_args()


def main() -> None:
    """Trains, and prints how it goes."""
    args = arguments()
    corpus = corpora.docstrings() if args.corpus == "docstrings" else planted(args)
    before = resident()
    contender = {"tuskml": ours, "tomotopy": tomotopy}[args.contender]
    step, likelihood = contender(corpus, args)
    tokens, seconds = len(corpus[0]), 0.0
    print(json.dumps({"ready": args.contender, "topics": args.topics}), flush=True)
    while args.wait and not args.wait.exists():
        time.sleep(0.05)
    for sweeps in range(args.every, args.sweeps + 1, args.every):
        began, used = time.perf_counter(), time.process_time()
        step(args.every)
        took, processors = time.perf_counter() - began, time.process_time() - used
        seconds += took
        told = {
            "contender": args.contender,
            "topics": args.topics,
            "tokens": tokens,
            "documents": len(corpus[1]) - 1,
            "sweeps": sweeps,
            "seconds": round(seconds, 3),
            "tokens_per_second": round(tokens * args.every / took),
            "tokens_per_processor_second": round(tokens * args.every / processors),
            "likelihood_per_token": round(likelihood(), 5),
            "bytes_per_token": round((resident() - before) / tokens, 2),
        }
        print(json.dumps(told), flush=True)


def planted(args: argparse.Namespace) -> corpora.Corpus:
    """Documents of planted topics, from a file if there is one."""
    if args.kept and args.kept.exists():
        kept = np.load(args.kept)
        return kept["word"], kept["start"], args.words
    tokens = int(WHOLE * args.scale)
    corpus = corpora.planted(tokens, args.words, args.planted_topics)
    if args.kept:
        np.savez(args.kept, word=corpus[0], start=corpus[1])
    return corpus


def resident() -> int:
    """The bytes of this process that are in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def entries(corpus: corpora.Corpus) -> Iterator[tuple[Any, Any, Any]]:
    """Yields for ranges of documents the start of each among the entries, ids and counts."""
    word, start, words = corpus
    for first in range(0, len(start) - 1, 20_000):
        last = min(first + 20_000, len(start) - 1)
        tokens = word[start[first] : start[last]].astype(np.int64)
        document = np.repeat(np.arange(last - first), np.diff(start[first : last + 1]))
        key, count = np.unique(document * words + tokens, return_counts=True)
        begin = np.searchsorted(key, np.arange(last - first + 1) * words)
        yield begin, key % words, count


def ours(corpus: corpora.Corpus, args: argparse.Namespace) -> tuple[Step, Likelihood]:
    """The kernels on rows in the packer's layout."""
    from rowblock import linked_entries

    from tuskml.kernels.passes import Pass
    from tuskml.kernels.topics import Prior, Sampler

    group, kept = linked_entries(entries(corpus), corpus[2])
    rows = Pass(group, 0, None, None, True, args.threads)
    prior = Prior(args.topics, args.alpha, args.beta)
    sampler = Sampler(rows, prior, args.seed, 0)
    tokens = len(corpus[0])

    def step(n: int, kept: object = kept) -> None:
        sampler.sweep(rows, n)

    return step, lambda: float(sampler.likelihood(rows)[0] / tokens)


def tomotopy(corpus: corpora.Corpus, args: argparse.Namespace) -> tuple[Step, Likelihood]:
    """tomotopy's LDAModel, whose alpha stays."""
    import tomotopy as peer

    model = peer.LDAModel(k=args.topics, alpha=args.alpha, eta=args.beta, seed=args.seed)
    model.optim_interval = 0
    word, start, words = corpus
    names = [str(number) for number in range(words)]
    for first, last in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
        model.add_doc([names[number] for number in word[first:last].tolist()])
    model.train(0)
    return lambda n: model.train(n, workers=args.threads), lambda: float(model.ll_per_word)


if __name__ == "__main__":
    main()
