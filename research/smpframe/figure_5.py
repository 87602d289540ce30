"""Figure 5: in how many iterations the weights of a lasso converge, by the dynamic engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
from scheduled_data import problem

from research import report
from research.report import Found
from research.smpframe.updates import ROWS, Fit, train
from tuskml.learners.paths import scheduled


class InTurn(scheduled.Random):
    """One weight after the other."""

    next = -1

    def pick(self) -> Any:
        """The next one."""
        self.next = (self.next + 1) % len(self.features)
        return self.features[[self.next]]


class Noted(Fit):
    """A fit that keeps the weights after each iteration, which is an update of each."""

    def make_order(self) -> Any:
        """Each weight in turn."""
        self.kept: list[Any] = []
        return InTurn(np.flatnonzero(self.norm > 0), 1, 0)

    def aggregate(self, R: Any, A: None) -> None:
        """Keeps the weights where an iteration ends."""
        super().aggregate(R, A)
        if self.counts.updates % len(self.w) == 0:
            self.kept.append(self.w.copy())


def find(scale: float) -> Iterator[Found]:
    """The part of the weights that stay within a thousandth of the largest from an iteration on,
    an iteration being an update of each.
    """
    d = max(200, round(800 * scale))
    for share in (0.3, 0.1):
        data = problem(ROWS, d, share)
        with patch.object(scheduled, "DEPTH", 1):
            fit = train(data, "random", 1, Noted, tol=1e-6)
        assert isinstance(fit, Noted)
        w = np.array(fit.kept)
        away = np.abs(w - w[-1]) > 1e-3 * np.abs(w[-1]).max()
        last = np.where(away.any(axis=0), len(w) - away[::-1].argmax(axis=0), 0)
        part = float(100 * (last < 5).mean())
        what = f"weights that converge in fewer than 5 iterations, lambda {share:g} of the largest"
        yield Found(what, "above 85 %", part, "{:.0f} %", least=85)


if __name__ == "__main__":
    report.main(find)
