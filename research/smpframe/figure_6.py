"""Figure 6: progress by data of rotation beside that of copies which are brought together.

Topics (6a to 6c) and their workers are simulated, as a parameter server (YahooLDA) is no part of
the product. Factorization by rotation (6d to 6f) is the product's; the bulk-synchronous one beside
it is simulated.
"""

import math
from collections.abc import Iterator

import corpora
import numpy as np
import parameter_server
import rotated_factorization as mf

import tuskml
from research import report
from research.report import Found

SWEEPS, MOST = 10, 30
"""Sweeps of rotation with 8 workers, whose objective the others must reach, and their limit."""


def find(scale: float) -> Iterator[Found]:
    """Sweeps to the same log-likelihood per token with few workers and with many; objectives."""
    word, start, words = corpora.planted(max(6_000, round(60_000 * scale)), 2_000, 20, mean=60)

    def objectives(kind: str, workers: int) -> list[float]:
        rows, clocks = word.astype(np.int64), workers if kind == "rotation" else 1
        sampler = parameter_server.Simulated(rows, start, words, 20, workers)
        found: list[float] = []
        while len(found) < MOST and (len(found) < SWEEPS or found[-1] < goal):
            sampler.sweep(kind, clocks)
            found.append(sampler.objective())
        return found

    goal = -math.inf
    goal = objectives("rotation", 8)[-1]
    for kind, paper, least, most in (
        ("rotation", "1", 0.0, 1.15),
        ("server", "above 1", 1.2, None),
    ):
        found = objectives(kind, 64)
        sweeps = len(found) if found[-1] >= goal else math.inf
        what = f"sweeps of topics by {kind}, 64 workers, over rotation with 8"
        yield Found(what, paper, sweeps / SWEEPS, least=least, most=most)
    user, item, y = data = mf.ratings()
    with tuskml.connect() as con:
        con.register("given", {"u": user.astype(float), "i": item.astype(float), "y": y})
        con.execute("CREATE TABLE data AS SELECT * FROM given")
        step = mf.STEPS[-1]
        one, many = (mf.rotated(con, workers, step)[0][-1] for workers in (1, 32))
        yield Found("factorization by rotation, 32 threads over 1", "same", many / one, most=1.01)
    bulk = mf.bulk_synchronous(data, 32, step)[-1]
    over = bulk / one if math.isfinite(bulk) else math.inf
    yield Found("bulk-synchronous, 32 workers, over rotation", "diverges", over, least=2.0)


if __name__ == "__main__":
    report.main(find)
