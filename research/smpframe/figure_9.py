"""Figure 9: words of topic models given to 16 threads in any order, and the heaviest first.

Counted, not timed: the tokens of the fullest thread, by the product's dispatch. Words have tokens
by Zipf's law without the 20 most frequent ones, which are stop words.
"""

from collections.abc import Iterator

import numpy as np

from research import report
from research.report import Found
from tuskml.schedule.placement import greedy_makespan, heaviest_first

THREADS, WORDS, STOP = 16, 100_000, 20
BLOCK = 100_000_000
"""Tokens of a worker."""


def find(scale: float, off: bool = False) -> Iterator[Found]:
    """Makespans in words of 32 blocks; off: any order in both places."""
    draw, found = np.random.default_rng(0), []
    for _ in range(max(5, round(50 * scale))):
        weights = 1 / (STOP + np.arange(1, WORDS + 1))
        tokens = (weights / weights.sum() * BLOCK).astype(np.int64)
        block = draw.permutation(tokens)[: WORDS // 32]  # of one worker at a time
        block = np.append(block, tokens[draw.integers(300)])  # one of the 300 heaviest
        ordered = block if off else block[heaviest_first(block)]
        found.append(
            greedy_makespan(draw.permutation(block), THREADS) / greedy_makespan(ordered, THREADS)
        )
    yield Found(
        "makespan in any order over heaviest first", "1.3", float(np.mean(found)), least=1.3
    )


if __name__ == "__main__":
    report.main(find, simulated=True)
