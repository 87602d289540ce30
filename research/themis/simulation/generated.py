"""Traces that are drawn with the shapes of published ones.

The files themselves are read by `traces.py`. What the papers report, and what is drawn from it:

* Thesis, section 3.2.2: 85 apps of hyper-parameter searches at Microsoft. A task takes 3.75 GPU
  hours in the median, many are more than 10 times shorter or longer; 10 % of the apps have one
  job, the others 75 in the median. `searches` draws these with fewer jobs, as the thesis scales
  its workload down too.
* Philly (M. Jeon et al., ATC 2019; compared in Helios, table 2): 1.75 GPUs and 28,329 s a job on
  average, at most 128 GPUs.
* Helios (Q. Hu et al., SC 2021): 3.72 GPUs and 6,652 s on average, 206 s in the median, at most
  2,048 GPUs.
* Acme (Q. Hu et al., NSDI 2024), cluster Seren: 5.7 GPUs on average, 2 minutes in the median; few
  jobs have almost all GPU time.

Durations are lognormal with these medians and means. Sizes are powers of two whose weights fall
geometrically so that the mean is met. Arrivals are a Poisson process with the hours of a day.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from research.themis.simulation.apps import (
    NO_SLOWDOWN,
    Spec,
    Stage,
    successive_halving,
)
from tuskml.schedule.fair.auction import Slowdowns

NETWORK = Slowdowns(1.0, 1.29, 1.6)
"""Of a network-intensive model: VGG16 on 4 GPUs of 2 machines has 80.4 of 103.6 images a second
(thesis, table 3.1); between racks it is taken to lose as much again."""
DAY = 86_400.0


@dataclass(frozen=True)
class Shape:
    """The shape of a job: median and mean of its seconds, mean and most of its workers."""

    median: float
    mean: float
    workers: float
    most: int


SHAPES = {
    "philly": Shape(13 * 60.0, 28_329.0, 1.75, 128),
    "helios": Shape(206.0, 6_652.0, 3.72, 2_048),
    "acme": Shape(120.0, 3_600.0, 5.7, 1_024),
}
"""The median of Philly, and the mean and the most of Acme, are assumptions."""


def searches(
    n: int,
    load: float,
    workers: int,
    seed: int,
    network: float = 0.5,
    jobs: float = 12.0,
    longest: float = 10.0,
) -> list[Spec]:
    """Apps of which nine in ten are successive halvings, as the thesis' second workload has them.

    load: work that arrives over what a given number of workers do; network: the part of
    network-intensive apps; jobs: of a search in the median; longest: times the median that a job
    may take.
    """
    draw = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        several = int(np.clip(draw.lognormal(math.log(jobs), 0.8), 2, 64))
        if draw.random() < 0.1:
            several = 1
        most = int(draw.choice([1, 2, 4], p=[0.6, 0.25, 0.15]))
        seconds = min(draw.lognormal(math.log(3.75 * 3600), 1.0), 3.75 * 3600 * longest)
        stages = successive_halving(several, most, seconds / (several.bit_length()))
        by = NETWORK if draw.random() < network else NO_SLOWDOWN
        made.append((tuple(stages), by, seconds))
    return arriving(made, load * workers, draw)


Made = tuple[tuple[Stage, ...], Slowdowns, float]


def arriving(made: Sequence[Made], rate: float, draw: np.random.Generator) -> list[Spec]:
    """The apps at random times of days, on average so much work a second."""
    whole = sum(stage.work for stages, _, _ in made for stage in stages) / rate
    times = draw.uniform(0, whole, len(made))
    times = np.sort(times + 0.1 * DAY * np.sin(2 * np.pi * times / DAY))  # fewer come at night
    times = (times - times.min(initial=0)) * (whole / max(np.ptp(times), 1e-9))
    return [
        Spec(float(time), stages, by, seconds / 3)
        for time, (stages, by, seconds) in zip(times.tolist(), made, strict=True)
    ]


def jobs_like(
    name: str, n: int, load: float, workers: int, seed: int, shortest: float = 0.0
) -> list[Spec]:
    """Apps of one job each, as in "philly", "helios" or "acme"; shortest: seconds, or 0."""
    shape, draw = SHAPES[name], np.random.default_rng(seed)
    spread = math.sqrt(2 * math.log(shape.mean / shape.median))
    seconds = np.maximum(draw.lognormal(math.log(shape.median), spread, n), shortest)
    most = min(shape.most, workers // 4)
    sizes = np.array([2**k for k in range(most.bit_length()) if 2**k <= most])
    weights = weights_for(shape.workers, len(sizes))
    wide = draw.choice(sizes, n, p=weights)
    by = [NETWORK if sensitive else NO_SLOWDOWN for sensitive in draw.random(n) < 0.5]
    made = [
        ((Stage(1, one * size, size),), each, one * size)
        for one, size, each in zip(seconds.tolist(), wide.tolist(), by, strict=True)
    ]
    return arriving(made, load * workers, draw)


@lru_cache
def weights_for(mean: float, n: int) -> tuple[float, ...]:
    """Returns the weights of 1, 2, 4, ...: a geometric series with this mean."""
    low, high = 0.0, 1.0
    for _ in range(100):
        ratio = (low + high) / 2
        weights = ratio ** np.arange(n)
        if (weights * 2.0 ** np.arange(n)).sum() / weights.sum() > mean:
            high = ratio
        else:
            low = ratio
    return tuple((weights / weights.sum()).tolist())
