"""Figure 8: one barrier a rotation against one after each step, by the static engine.

The product's engine and threads; the computation of a block is a pause of random length.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from research import report
from research.report import Found
from tuskml.schedule import Program, Static
from tuskml.schedule.programs import program as engines

WORKERS, SPREAD = 8, 0.5
"""The standard deviation of a block's log seconds."""


class Pauses(Program):
    """A block is a number; an update waits."""

    def schedule(self, A: Any, D: Sequence[Any]) -> Sequence[Any]:
        return range(len(D))

    def update(self, p: int, S_p: Any, D_p: Any, A: Any) -> Any:
        time.sleep(float(D_p.lognormal(np.log(0.004), SPREAD)))
        return A

    def aggregate(self, R: Sequence[Any], A: Any) -> Any:
        return A


class Micro(Static):
    """Waits for all workers after each step."""

    def rotate(self, program: Program, A: Any, D: Any, workers: Any) -> Any:
        for step in range(workers.count):
            held = [(p - step) % workers.count for p in range(workers.count)]
            workers.get([workers.update(p, block, A) for p, block in enumerate(held)])
        return A


def find(scale: float, off: bool = False) -> Iterator[Found]:
    """Seconds with micro over those with macro synchronisation. off: micro in both places."""
    rotations = max(5, round(30 * scale))
    with ExitStack() as stack:
        works = {}
        for name, engine in (("micro", Micro), ("macro", Micro if off else Static)):
            data = [np.random.default_rng(p) for p in range(WORKERS)]
            program = Pauses()
            workers = stack.enter_context(engines.threads(program, data))
            works[name] = partial(engine(rotations).run, program, None, data, workers)
        took = report.in_turns(works, 3, report.wall_seconds)
    ratio = took["micro"] / took["macro"]
    yield Found("micro over macro synchronisation", "1.3", ratio, least=1.3)


if __name__ == "__main__":
    report.main(find)
