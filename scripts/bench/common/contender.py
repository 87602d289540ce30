"""The words of the benchmarks: settings, contender, outcome, goal, benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

TUSKML = "tuskml"
"""The name of the contender that the ratios are taken against."""


@dataclass(frozen=True)
class Settings:
    """The options of the command line."""

    data_dir: Path
    scale: float = 1.0
    threads: int = 2
    layout: str = "list"

    def rows(self, full: int) -> int:
        """A full-size row (or group) count at the chosen scale."""
        return max(1, round(full * self.scale))


@dataclass
class Outcome:
    """One timed run: seconds in all, those of the training if known, and a check of quality;
    `peak_bytes` if another process than the contender's did the work.
    """

    seconds: float
    train: float | None = None
    quality: Callable[[], dict[str, float | str]] = dict
    peak_bytes: int | None = None


Run = Callable[[], Outcome]


@dataclass(frozen=True)
class Contender:
    """A system under test: `setup` runs untimed in its own process, and returns the timed run."""

    name: str
    setup: Callable[[Settings], Run]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """A system that cannot run here: seconds measured once, at full size, on such a machine."""

    name: str
    seconds: float
    quality: dict[str, float | str] = field(default_factory=dict)

    def summary(self, settings: Settings) -> Summary:
        """The figure, unless the run is of another size."""
        if settings.scale != 1:
            return Summary(self.name, problem="recorded at scale 1 only")
        quality = dict(self.quality)
        return Summary(self.name, seconds=self.seconds, quality=quality, recorded=True)


@dataclass
class Summary:
    """The summary of one contender's runs; `problem` is the reason for a missing figure."""

    name: str
    runs: list[float] = field(default_factory=list)
    trains: list[float] = field(default_factory=list)
    seconds: float | None = None
    train: float | None = None
    peak_bytes: int | None = None
    quality: dict[str, float | str] = field(default_factory=dict)
    problem: str | None = None
    recorded: bool = False


Results = Mapping[str, Summary]


@dataclass(frozen=True)
class Goal:
    """A target: `value` computes the figure reached, None if it cannot be known."""

    text: str
    asked: float
    value: Callable[[Results], float | None]
    at_least: bool = True

    def met(self, reached: float) -> bool:
        """Returns whether the figure reached is as good as the target."""
        return reached >= self.asked if self.at_least else reached <= self.asked


@dataclass(frozen=True)
class Benchmark:
    """One row of the table: its contenders, interleaved, and the goals read off their results.

    `fresh` starts a new process for every run (for work whose memory must not pile up) and skips
    the warm-up; `around` holds what the run needs, such as a server, and gives notes on it;
    `prepare` makes the data before any process starts; `recorded` are figures from other sources.
    """

    name: str
    title: str
    contenders: tuple[Contender, ...]
    goals: tuple[Goal, ...]
    prepare: Callable[[Settings], object] = lambda settings: None
    around: Callable[[Settings], AbstractContextManager[Sequence[str]]] = lambda _: nullcontext(())
    fresh: bool = False
    recorded: tuple[Recorded, ...] = ()
    notes: tuple[str, ...] = ()
