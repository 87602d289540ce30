"""Figure 11: gradient descent by operators beside a program that is written by hand.

Processor seconds of 30 iterations of bgd on rows in memory, in turns. The paper compares with
Spark and with Bismarck's abstraction; here the program by hand is NumPy's, of one thread.
"""

from collections.abc import Iterator

import numpy as np

from research import report
from research.ml4all.plans import connected, table, trained
from research.report import Found

ITERATIONS = 30


def find(scale: float) -> Iterator[Found]:
    """The operators' seconds over the program's."""
    with connected() as con:
        table(con, max(20_000, round(200_000 * scale)))
        names = ", ".join(f"x{k}" for k in range(20))
        found = con.execute(f"SELECT {names}, y FROM rows").fetchnumpy()
        x = np.stack([found[f"x{k}"] for k in range(20)], axis=1)
        y = np.where(found["y"], np.float32(1), np.float32(-1))

        def by_hand() -> None:
            w = np.zeros(20, np.float32)
            for k in range(1, ITERATIONS + 1):
                p = 1 / (1 + np.exp(y * (x @ w)))
                w += np.float32(1 / k**0.5) * (x.T @ (y * p)) / len(y)

        def by_operators(iterations: int) -> None:
            trained(
                con, task="logistic", algorithm="bgd", epsilon=0, max_iter=iterations, threads=1
            )

        works = {
            "hand": by_hand,
            "one": lambda: by_operators(1),
            "all": lambda: by_operators(ITERATIONS),
        }
        took = report.in_turns(works, 3)
    ours = (took["all"] - took["one"]) / (ITERATIONS - 1)
    ratio = ours / (took["hand"] / ITERATIONS)
    yield Found("an iteration by operators over one by hand", "about 1", ratio, most=1.1)


if __name__ == "__main__":
    report.main(find)
