"""Table 3: million tokens a second of topic models, per core."""

from collections.abc import Iterator

import corpora
import pyarrow as pa

import tuskml
from research import report
from research.report import Found

PAPER = 43 / (25 * 16)
"""Millions of SMP-LDA on 25 machines of 16 cores, NYTimes, 1,000 topics."""


def find(scale: float) -> Iterator[Found]:
    """Tokens of a processor second of `lda` in SQL, 100 topics, sampling alone."""
    word, start, _ = corpora.planted(max(50_000, round(1_000_000 * scale)), 20_000, 100, mean=200)
    with tuskml.connect(threads=2) as con:
        lists = pa.ListArray.from_arrays(pa.array(start, pa.int32()), pa.array(word))
        con.register("given", pa.table({"tokens": lists}))
        con.execute("CREATE TABLE documents AS SELECT tokens::VARCHAR[] AS tokens FROM given")

        def train(sweeps: int) -> None:
            text = f'{{"topics": 100, "max_iter": {sweeps}}}'
            con.execute(
                f"SELECT train_model('lda', NULL::INTEGER, tokens, '{text}') FROM documents"
            )

        took = report.in_turns({"few": lambda: train(5), "many": lambda: train(25)}, 3)
    speed = len(word) * 20 / (took["many"] - took["few"]) / 1e6
    yield Found("million tokens a second of one core", f"{PAPER:.2f}", speed, least=PAPER)


if __name__ == "__main__":
    report.main(find)
