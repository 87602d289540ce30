"""Theorems 2.1 and 2.2: competitive ratios under adversarial resources. A simulation."""

from collections.abc import Iterator

import numpy as np

from research import report
from research.qoop.adversaries import NearCompletion, Starving
from research.qoop.model import Queries, Rules, simulate
from research.report import Found

STEPS = 2_000


def find(scale: float, off: bool = False) -> Iterator[Found]:
    """The scheduler of theorem 2.1 forces nearly 2; no drawn query exceeds 4, or 2 where each
    plan takes at most half the work of the one before. off: switches lose what plans did.
    """
    need = 2.0 ** np.arange(6)
    work = 64_000 / need
    _, ratio = simulate(Queries(need[None], work[None]), NearCompletion(), 10 * STEPS, Rules())
    yield Found("ratio forced by theorem 2.1's scheduler", "2", float(ratio.max()), least=1.5)
    draws, k = np.random.default_rng(4), round(1000 * scale)
    need = np.sort(draws.integers(1, 17, (k, 5)), axis=1).astype(float)
    for what, (low, high), most in (
        ("any plans", (0.5, 1.0), 4.0),
        ("plans of half the work", (0.2, 0.5), 2.0),
    ):
        work = 500.0 * np.cumprod(draws.uniform(low, high, (k, 5)), axis=1)
        _, ratio = simulate(Queries(need, work), Starving(draws), STEPS, Rules(backtracks=not off))
        yield Found(f"largest ratio, {what}", f"at most {most:g}", float(ratio.max()), most=most)


if __name__ == "__main__":
    report.main(find, simulated=True)
