"""Rules of re-planning when a GPU, memory and cores come and go, in a simulation.

    python scripts/bench/run.py replanned_rules
    python scripts/bench/run.py replanned_rules --seeds 101-150 --wrong 0.25

No time is measured. Seconds of each plan are the optimizer's estimates on a host of 16 cores, of
the problems of `replanned` with as many rows as make 40 GB. On the GPU a plan takes what its
passes take there, by the figures of an H200 that the planner has (`kernels/gpu/placement.py`) and
scripts/bench/results/gpu.json. A move to the GPU costs the copy of the rows, and the first one the
compilation of kernels too. The GPU is there while a share of the same profile of volatility is
above a threshold, which is drawn. A first plan on the GPU waits for it, a minute at most.

The rules: `greedy` is the policy's, with hysteresis. `worth` moves only where the gain is twice
the cost of the move. `dwell` waits until what was lost by staying is the cost of the move, as one
rents skis until they would be paid. `both` asks for both.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from replanned import ASKED, CORES, PROBLEMS, PROFILES, STEPS, Estimated, estimated, profile

import tuskml
from tuskml.kernels.gpu.placement import BUS_BANDWIDTH, SHAPE, THREAD_BANDWIDTH
from tuskml.learners.linear.planner.replanning import HYSTERESIS

Floats = NDArray[np.float64]
ROWS_BYTES = 40e9
GPU_BANDWIDTH = 0.7 * 4245e9
"""Bytes of rows a second that a pass reads on an H200: of the bandwidth of a copy there."""
PATIENCE = 60.0
"""Seconds for which a training waits for its turn (`schedule/devices.py`)."""
WORTH = 2.0
RULES = ("greedy", "worth", "dwell", "both")
WHAT = ("memory", "gpu")
"""The resources that change in addition to the cores."""


def main() -> None:
    """Prints a line for each profile, what changes, and rule."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", default="1-50", help="of the profiles, the first and the last")
    parser.add_argument("--wrong", type=float, default=0.0, help="by how much estimates are off")
    args = parser.parse_args()
    first, last = map(int, args.seeds.split("-"))
    with tuskml.connect() as con:
        con.execute("SET enable_progress_bar = false")
        known = [Scaled.of(problem, estimated(con, problem, True)) for problem in PROBLEMS]
    for name in PROFILES:
        for what in WHAT:
            cases = [(one, seed) for one in known for seed in range(first, last + 1)]
            every = np.array([ended(one, name, what, seed, args.wrong) for one, seed in cases])
            for rule, found in zip(RULES, (every[:, :1] / every[:, 1:]).T, strict=True):
                told(f"{name} {what} {rule}", found, ASKED[name])


@dataclass
class Scaled:
    """The times of one problem: seconds of each plan (2, CORES + 1, plans) with rows in memory
    and on the disk, and on the GPU (plans,); setup (2, plans): seconds before its first
    iteration.
    """

    seconds: Floats
    gpu: Floats
    setup: Floats

    @classmethod
    def of(cls, problem: tuple[int, int, str, str], found: Estimated) -> Scaled:
        """Scales the times to the bytes of the rows."""
        times = ROWS_BYTES / (problem[0] * (4 * problem[1] + 8))
        seconds = times * found.seconds
        return cls(seconds, seconds[0, 1] * THREAD_BANDWIDTH / GPU_BANDWIDTH, times * found.setup)

    def by(self, share: int, on_disk: int, there: bool) -> Floats:
        """Seconds of the plans on the CPU and then on the GPU, (2 plans,)."""
        gpu = self.gpu if there else np.full(len(self.gpu), np.inf)
        return np.concatenate([self.seconds[on_disk, share], gpu])


@dataclass
class Given:
    """The resources of a training, by step of `each` seconds: (STEPS,) each."""

    cores: NDArray[np.int64]
    on_disk: NDArray[np.int64]
    there: NDArray[np.bool_]
    each: float

    @classmethod
    def drawn(cls, one: Scaled, name: str, what: str, seed: int) -> Given:
        """Draws a profile of volatility, which changes the cores and one further resource."""
        draws = np.random.default_rng(seed)
        units = [profile(draws, PROFILES[name], CORES, STEPS) for _ in range(2)]
        threshold = draws.uniform(0.3, 0.9)
        full = units[1][0] * draws.uniform(0.5, 1)  # rows fit into memory at the start
        nothing = np.zeros(STEPS, bool)
        on_disk = (units[1] < full) if what == "memory" else nothing
        there = (units[1] >= threshold * CORES) if what == "gpu" else nothing
        each = float(one.seconds[0, CORES // 2].min()) / 60
        return cls(units[0].astype(np.int64), on_disk.astype(np.int64), there, each)


@dataclass
class Run:
    """A simulated training: the remaining share of its work, the current plan, seconds so far,
    seconds left of moves, and seconds lost by staying.
    """

    one: Scaled
    rule: str
    wrong: Floats
    left: float = 1.0
    running: int | None = None
    took: float = 0.0
    due: float = 0.0
    lost: float = 0.0
    waited: float = 0.0
    compiled: bool = False

    def seconds(self, given: Given) -> float:
        """Seconds until it ends. A profile that ends earlier restarts."""
        steps = zip(given.cores, given.on_disk, given.there, strict=True)
        for share, on_disk, there in itertools.cycle(steps):
            now = self.one.by(int(share), int(on_disk), bool(there))
            self.choose(now, int(on_disk), given.each)
            if self.step(now, given.each):
                return self.took
        raise AssertionError("a profile has steps")

    def step(self, now: Floats, each: float) -> bool:
        """A step by the plan that runs; whether the training has ended."""
        assert self.running is not None
        rate = now[self.running]
        if np.isinf(rate):  # a first plan whose GPU is away
            self.waited += each
            if self.waited < PATIENCE:
                self.took += each
                return False
            rate = self.one.gpu[self.running - len(self.one.gpu)]
        pause = min(self.due, each)
        self.due -= pause
        if self.left * rate <= each - pause:
            self.took += pause + self.left * float(rate)
            return True
        self.left -= (each - pause) / rate
        self.took += each
        return False

    def choose(self, now: Floats, on_disk: int, each: float) -> None:
        """Chooses the next plan."""
        believed = now * self.wrong
        if self.running is None:
            self.move(int(np.argmin(believed + self.cost(on_disk))), on_disk, first=True)
        elif self.rule != "first":
            rest, cost = self.left * believed, self.cost(on_disk) * self.wrong
            cost[self.running] = 0.0
            best, mine = int(np.argmin(rest + cost)), self.running
            if best != mine and (np.isinf(rest[mine]) or self.takes(rest, cost[best], best, each)):
                self.move(best, on_disk)
            elif best == mine:
                self.lost = 0.0

    def takes(self, rest: Floats, cost: float, best: int, each: float) -> bool:
        """Returns whether the rule moves from the plan that runs to the best one."""
        mine = rest[self.running]
        self.lost += each * (1 - min(rest[best] / mine, 1.0))
        better = (rest[best] + cost) * (1 + HYSTERESIS) < mine
        worth = mine - rest[best] >= WORTH * cost
        waited = self.lost >= cost
        chosen = {"greedy": True, "worth": worth, "dwell": waited, "both": worth and waited}
        return bool(better and chosen[self.rule])

    def cost(self, on_disk: int) -> Floats:
        """Seconds of moves to each plan, on the CPU and on the GPU."""
        copied = ROWS_BYTES / BUS_BANDWIDTH + (0.0 if self.compiled else SHAPE)
        setup = self.one.setup[on_disk]
        return np.concatenate([setup, np.full(len(setup), copied)])

    def move(self, to: int, on_disk: int, first: bool = False) -> None:
        """Continues with a plan; the setup of the first one is in its seconds, except for a
        copy.
        """
        gpu = to >= len(self.one.gpu)
        self.due += 0.0 if first and not gpu else float(self.cost(on_disk)[to])
        self.compiled |= gpu
        self.running, self.lost = to, 0.0


def ended(one: Scaled, name: str, what: str, seed: int, wrong: float) -> list[float]:
    """Seconds with the first plan, and with each rule."""
    given = Given.drawn(one, name, what, seed)
    off = np.random.default_rng(seed).uniform(1 - wrong, 1 + wrong, 2 * len(one.gpu))
    return [Run(one, rule, off).seconds(given) for rule in ("first", *RULES)]


def told(name: str, found: Floats, asked: float) -> None:
    """Prints how much sooner trainings ended."""
    spread = ", ".join(f"{one:.2f}" for one in np.percentile(found, [0, 1, 10, 50, 90, 100]))
    slower = (found < 1 / 1.05).mean()
    print(f"{name}: least, 1 %, 10 %, median, 90 %, most {spread} (asked: {asked}); ", end="")
    print(f"{slower:.1%} more than 1.05x slower", flush=True)


if __name__ == "__main__":
    main()
