"""Figure 5: in how many iterations the weights of a lasso converge, by the dynamic engine."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scheduled_data import problem
from scheduled_lasso import Random
from simulated_workers import Inline

from research import report
from research.report import Found
from research.smpframe.updates import ROWS
from tuskml.learners.paths.scheduled import Lasso, Rows
from tuskml.schedule import Dynamic

MOST = 30


class InTurn(Random):
    """One weight after the other."""

    def __init__(self, n: int) -> None:
        super().__init__(n, 1)
        self.next = -1

    def pick(self) -> Any:
        """The next one."""
        self.next = (self.next + 1) % self.n
        return np.array([self.next])


def find(scale: float) -> Iterator[Found]:
    """The part of the weights that stay within a thousandth of the largest from an iteration on,
    an iteration being an update of each.
    """
    d = max(200, round(800 * scale))
    for share in (0.3, 0.1):
        data = problem(ROWS, d, share)
        kept: list[Any] = []

        def after(n: int, w: Any, kept: list[Any] = kept) -> bool:
            kept.extend([w.copy()] if n % d == 0 else [])
            return False

        program = Lasso(data.penalty, np.ones(d), InTurn(d))
        worker = Inline(program, Rows(data.x, data.y))
        Dynamic(MOST * d, after=after).run(program, np.zeros(d), [0], worker)
        w = np.array(kept)
        away = np.abs(w - w[-1]) > 1e-3 * np.abs(w[-1]).max()
        last = np.where(away.any(axis=0), len(w) - away[::-1].argmax(axis=0), 0)
        part = float(100 * (last < 5).mean())
        what = f"weights that converge in fewer than 5 iterations, lambda {share:g} of the largest"
        yield Found(what, "above 85 %", part, "{:.0f} %", least=85)


if __name__ == "__main__":
    report.main(find)
