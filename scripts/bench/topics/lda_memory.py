"""Topics of documents that exceed the memory of a statement: bytes that the training takes.

python scripts/bench/run.py lda_memory --tokens 20000000 --topics 100 --limit 32 --group 160

The documents are rows `sparse(ids, counts)` of a DuckDB file. A line of JSON has what the account
held at most, and the bytes of tokens (a word of 4 bytes and a topic of 2) and counts (4 bytes of
each topic of a frequent word, 4 of each token of a rare one), the largest resident memory of the
process beyond what it had before the training, and the seconds. --limit: MiB of the account,
beyond which tokens lie in the spill file. --group: MiB of a memory cgroup that the training runs
in, to which the page cache is charged too.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import corpora
import memory_group
import numpy as np
from lda import entries, resident


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=5_000_000)
    parser.add_argument("--words", type=int, default=50_000)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--sweeps", type=int, default=3)
    parser.add_argument("--limit", type=int, default=1 << 20)
    parser.add_argument("--group", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--file", default="", help="where the documents are")
    parser.add_argument("--join", default="", help="the cgroup of the process that trains")
    return parser.parse_args()


def main() -> None:
    """Writes the documents, and trains on them in a process of its own."""
    args = arguments()
    if args.join or args.file:
        train(args)
        return
    with TemporaryDirectory() as folder:
        file = str(Path(folder) / "docs.duckdb")
        write(file, args)
        runner = str(Path(__file__).parents[1] / "run.py")
        again = [sys.executable, runner, "lda_memory", *sys.argv[1:], "--file", file]
        if not args.group:
            subprocess.run(again, check=True)
            return
        with memory_group.limited(args.group << 20) as group:
            subprocess.run([*again, "--join", str(group.path)], check=True)
            print(json.dumps({"limit_was_hit": group.failures, "killed": group.killed}))


def write(file: str, args: argparse.Namespace) -> None:
    """A table of documents."""
    import pyarrow as pa

    import tuskml

    corpus = corpora.planted(args.tokens, args.words, 100)
    with tuskml.connect(file) as con:
        con.execute("CREATE TABLE docs (ids INT[], n FLOAT[])")
        for begin, ids, counts in entries(corpus):
            offsets = pa.array(begin.astype(np.int32))
            part = pa.table(
                {
                    "ids": pa.ListArray.from_arrays(offsets, pa.array(ids.astype(np.int32))),
                    "n": pa.ListArray.from_arrays(offsets, pa.array(counts.astype(np.float32))),
                }
            )
            con.execute("INSERT INTO docs SELECT * FROM part")
            assert len(part)


def train(args: argparse.Namespace) -> None:
    """Trains, and prints the memory and seconds."""
    import tuskml

    with TemporaryDirectory() as folder, tuskml.connect(args.file, read_only=True) as con:
        con.execute("SET memory_limit = '32MiB'; SET threads = 2")
        told = sizes(con, args.topics)
        limit = args.limit << 20
        con.execute("SELECT tuskml_set_memory(?, ?)", [limit, folder]).fetchall()
        if args.join:
            memory_group.join(Path(args.join))
        options = {"topics": args.topics, "max_iter": args.sweeps, "threads": args.threads}
        before, began, used = resident(), time.perf_counter(), time.process_time()
        with watched() as peak:
            found = con.execute(
                "SELECT m.loss, m.seconds FROM (SELECT train_model('lda', NULL, sparse(ids, n), "
                f"'{json.dumps(options)}') AS m FROM docs)"
            ).fetchone()
        seconds, processors = time.perf_counter() - began, time.process_time() - used
        (account,) = con.execute("SELECT tuskml_memory()").fetchone()
    both = told["tokens_and_counts"]
    told |= {
        "topics": args.topics,
        "limit_mib": args.limit,
        "group_mib": args.group,
        "account_over_both": round(account["peak"] / both, 3),
        "resident_over_both": round((peak[0] - before) / both, 3),
        "seconds": round(seconds, 2),
        "processor_seconds": round(processors, 2),
        "training_seconds": round(found[1], 2),
        "loss": found[0],
    }
    print(json.dumps(told), flush=True)


def sizes(con: Any, topics: int) -> dict[str, int]:
    """Tokens and entries of the documents, and the bytes of tokens and counts."""
    tokens, entries = con.execute(
        "SELECT sum(list_sum(n))::BIGINT, sum(len(ids))::BIGINT FROM docs"
    ).fetchone()
    words = con.execute(
        "SELECT sum(n) FROM (SELECT unnest(ids) AS w, unnest(n) AS n FROM docs) GROUP BY w"
    ).fetchnumpy()
    counts = 4 * int(np.minimum(np.asarray(next(iter(words.values()))), topics).sum())
    return {"tokens": tokens, "entries": entries, "tokens_and_counts": 6 * tokens + counts}


@contextmanager
def watched() -> Iterator[list[int]]:
    """The largest resident memory within the context, as a list of one number."""
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


if __name__ == "__main__":
    main()
