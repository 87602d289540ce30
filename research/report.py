"""The command line of each reproduction: the paper's figure beside the one that is found here.

A command is a module with a generator of `Found` by the size of the problem, 1 for `--small`.
`--record` keeps what it printed in `research/results`, from which scripts/docs/papers.py writes
the tables of research/README.md and docs/papers.md.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine

RESULTS = Path(__file__).parent / "results"
SIZES = {"tiny": 0.1, "small": 1.0, "large": 10.0}
COLUMNS = ("what", "paper", "here", "reached", "date", "machine")


@dataclass(frozen=True)
class Found:
    """A figure; paper: what the paper says; here: what was found, shown by `form`.

    It is reached within `least` and `most`. With neither it is only shown.
    """

    what: str
    paper: str
    here: float
    form: str = "{:.3g}"
    least: float | None = None
    most: float | None = None

    @property
    def reached(self) -> str:
        """Returns yes, no, or nothing for a figure without a limit."""
        if self.least is None and self.most is None:
            return ""
        above = self.least is None or self.here >= self.least
        return "yes" if above and (self.most is None or self.here <= self.most) else "no"

    def shown(self) -> dict[str, str]:
        """The cells that are kept."""
        here = self.form.format(self.here)
        return {"what": self.what, "paper": self.paper, "here": here, "reached": self.reached}


def main(find: Callable[..., Iterable[Found]], *, simulated: bool = False) -> None:
    """Prints and perhaps keeps what `find` yields. Where it takes `off`, which switches the
    paper's mechanism off, there is an option --off.
    """
    module = sys.modules[find.__module__]
    parser = argparse.ArgumentParser(
        description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = parser.add_mutually_exclusive_group()
    for name, scale in SIZES.items():
        text = f"{scale:g} times the small size" + ", the default" * (name == "small")
        sizes.add_argument(f"--{name}", action="store_const", const=name, dest="size", help=text)
    parser.set_defaults(size="small")
    if "off" in inspect.signature(find).parameters:
        parser.add_argument("--off", action="store_true", help="without the paper's mechanism")
    parser.add_argument("--record", action="store_true", help="keep the figures for the manual")
    given = parser.parse_args()
    os.environ.setdefault("TUSKML_SHARES", "off")  # two workers whatever else this user trains
    facts = machine.facts()
    date = str(facts["date"])[:10]
    where = "a simulation" if simulated else machine.hardware(facts)
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|", flush=True)
    lines = []
    off = {"off": True} if getattr(given, "off", False) else {}
    for one in find(SIZES[given.size], **off):
        lines.append(one.shown())
        print(f"| {' | '.join([*lines[-1].values(), date, where])} |", flush=True)
    if given.record:
        run = {"date": date, "machine": where, "size": given.size, "lines": lines}
        record(Path(module.__file__ or ""), run)


def record(file: Path, run: dict[str, Any]) -> None:
    """Keeps a run of a module in the results of its paper."""
    path = RESULTS / f"{file.parent.name}.json"
    paper = json.loads(path.read_text())
    (row,) = (row for row in paper["rows"] if row.get("command") == file.stem)
    row["run"] = run
    path.write_text(json.dumps(paper, indent=1, ensure_ascii=False) + "\n")


def processor_seconds(work: Callable[[], object]) -> float:
    """The seconds of this process's processors during a call, whatever else the machine does."""
    began = time.process_time()
    work()
    return time.process_time() - began


def in_turns(
    works: dict[str, Callable[[], object]],
    repeat: int,
    clock: Callable[[Callable[[], object]], float] = processor_seconds,
) -> dict[str, float]:
    """The median of each one's seconds; they take turns after one that does not count."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeat + 1):
        for name, work in works.items():
            took = clock(work)
            if turn:
                found[name].append(took)
    return {name: statistics.median(each) for name, each in found.items()}


def wall_seconds(work: Callable[[], object]) -> float:
    """The seconds of a call by the clock."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@contextmanager
def quietly() -> Iterator[None]:
    """Prints nothing of what programs of scripts/bench print."""
    before, sys.stdout = sys.stdout, open(os.devnull, "w")  # noqa: SIM115
    try:
        yield
    finally:
        sys.stdout.close()
        sys.stdout = before
