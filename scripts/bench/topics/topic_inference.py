"""Topics of documents that were not trained on: predict_topics by SQL compared with tomotopy's
infer.

python scripts/bench/run.py topic_inference --topics 100

Both train on the same docstrings, or on documents of planted topics, and say the topics of others.
Seconds of ours are those of a statement over a table of lists of words; tomotopy's are those of
`infer` alone, after its documents were made. The quality of both is the perplexity of one half of
each document by the topics of its other half (Wallach et al. 2009), by each one's own words of
topics.
"""

import argparse
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import corpora
import numpy as np
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).resolve().parents[3] / "tests" / "helpers"))

Documents = list[list[str]]


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", choices=["planted", "docstrings"], default="docstrings")
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--held-out", type=int, default=2_000)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=100, help="of tomotopy's inference")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    return parser.parse_args()


def main() -> None:
    """Trains, infers, and prints a line of each contender and repetition."""
    args = arguments()
    if args.corpus == "docstrings":
        word, start, _ = corpora.docstrings(args.documents)
    else:
        word, start, _ = corpora.planted(args.documents * 150, 50_000, 100)
    names = np.char.add("w", word.astype(str))
    whole = [names[a:b].tolist() for a, b in pairwise(start)]
    trained, held = whole[args.held_out :], whole[: args.held_out]
    ours, theirs = Ours(trained, held, args), Theirs(trained, held, args)
    for number in range(args.repeat):
        for contender in (ours, theirs):
            contender.prepare()
            began, used = time.perf_counter(), time.process_time()
            contender.infer()
            seconds, processors = time.perf_counter() - began, time.process_time() - used
            told = {
                "contender": type(contender).__name__.lower(),
                "topics": args.topics,
                "threads": args.threads,
                "documents": len(held),
                "seconds": round(seconds, 4),
                "processor_seconds": round(processors, 4),
                "microseconds_per_document": round(1e6 * seconds / len(held), 2),
                "perplexity": None if number else round(contender.perplexity(), 2),
            }
            print(json.dumps(told), flush=True)


def halves(document: list[str]) -> tuple[list[str], list[str]]:
    """Every other token, and the others."""
    return document[::2], document[1::2]


def perplexity_of(
    held: Documents, theta: NDArray[np.float64], phi: NDArray[np.float64], place: dict[str, int]
) -> float:
    """theta: by the first halves, (documents, K); phi: (K, words)."""
    log, n = 0.0, 0
    for document, share in zip(held, theta, strict=True):
        ids = [place[word] for word in halves(document)[1] if word in place]
        log += float(np.log(share @ phi[:, ids]).sum())
        n += len(ids)
    return float(np.exp(-log / n))


class Ours:
    """A statement over a table of documents."""

    def __init__(self, trained: Documents, held: Documents, args: argparse.Namespace) -> None:
        import tuskml

        self.held = held
        self.con = tuskml.connect(":memory:")
        self.con.execute(f"SET threads = {args.threads}")
        fill(self.con, "docs", trained)
        fill(self.con, "held", held)
        fill(self.con, "half", [halves(one)[0] for one in held])
        options = {"topics": args.topics, "max_iter": args.sweeps, "seed": 1}
        options |= getattr(args, "more", {})
        began = time.perf_counter()
        self.con.execute(
            f"CREATE TABLE m AS SELECT train_model('lda', NULL, words, '{json.dumps(options)}') "
            "AS model FROM docs"
        )
        self.seconds = time.perf_counter() - began

    def prepare(self) -> None:
        """The table has all that it takes."""

    def infer(self) -> None:
        """Writes the topics of all documents into a table."""
        self.con.execute(
            "CREATE OR REPLACE TABLE found AS SELECT predict_topics(model, words) AS t "
            "FROM held, m"
        )

    def perplexity(self) -> float:
        """The perplexity of the second halves by the topics of the first ones."""
        from topic_blob import read

        from tuskml.learners.topics.training import topics_of_payload

        rows = self.con.execute("SELECT predict_topics(model, words) FROM half, m ORDER BY i")
        theta = np.array([row[0] for row in rows.fetchall()])
        ((payload,),) = self.con.execute("SELECT model.payload FROM m").fetchall()
        topics = read(np.array(topics_of_payload(bytes(payload))).view(np.uint8))
        place = {word: at for at, word in enumerate(topics.words or ())}
        return perplexity_of(self.held, theta, topics.phi, place)


class Theirs:
    """tomotopy's LDAModel."""

    def __init__(self, trained: Documents, held: Documents, args: argparse.Namespace) -> None:
        import tomotopy

        self.held, self.given = held, args
        self.model = tomotopy.LDAModel(k=args.topics, alpha=0.1, eta=0.01, seed=1)
        self.model.optim_interval = 0
        for one in trained:
            self.model.add_doc(one)
        self.model.train(args.sweeps, workers=2)
        self.documents: list[Any] = []

    def prepare(self) -> None:
        """Makes the documents, whose tokens have no topics yet."""
        self.documents = [self.model.make_doc(one) for one in self.held]

    def infer(self) -> Any:
        """The topics of the prepared documents."""
        given = self.given
        return self.model.infer(
            self.documents, iterations=given.iterations, workers=given.threads
        )[0]

    def perplexity(self) -> float:
        """The perplexity of the second halves by the topics of the first ones."""
        self.documents = [self.model.make_doc(halves(one)[0]) for one in self.held]
        theta = np.array(self.infer())
        phi = np.array([self.model.get_topic_word_dist(k) for k in range(self.given.topics)])
        place = {word: at for at, word in enumerate(self.model.used_vocabs)}
        return perplexity_of(self.held, theta, phi, place)


def fill(con: Any, table: str, documents: Documents) -> None:
    """A table of numbered documents."""
    import pyarrow as pa

    given = pa.table({"i": list(range(len(documents))), "words": documents})
    con.execute(f"CREATE TABLE {table} AS SELECT * FROM given")
    assert len(given) == len(documents)


if __name__ == "__main__":
    main()
