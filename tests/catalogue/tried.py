"""The catalogue of faults: how much of it a run tries, and what it found.

A test of the catalogue is marked `fault(family="...")`, one of FAMILIES. It is one case, unless it
counts its cases with the fixture `tally`. TUSKML_FAULTS=all tries every case, else a twentieth
of them. `--faults-json FILE` writes what was found, which scripts/docs/faults.py prints as a
table.
"""

import json
import os
import platform
import re
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

PART = 20
"""A run that is not of the whole catalogue tries one of this many cases."""
WHOLE = os.environ.get("TUSKML_FAULTS") == "all"
FAMILIES = (
    "bad input by name",
    "bad input by chance",
    "cancels",
    "failing I/O",
    "kills and power loss",
    "damaged files",
    "concurrency",
    "security",
    "memory limits",
    "open files",
    "full disks",
    "leaks",
    "upgrades",
)
PROPERTY = "fault"


def some(cases: Iterable[Any], first: int = 0) -> list[Any]:
    """All cases, or every twentieth of them from the one at `first`."""
    return list(cases)[slice(None) if WHOLE else slice(first, None, PART)]


def times(n: int, part: int = PART) -> int:
    """How often something is tried that is tried n times in all: n, or a twentieth of it."""
    return n if WHOLE else max(1, n // part)


@dataclass
class Tally:
    """What a test tried: cases, and how many of them broke which promise."""

    family: str
    tried: int = 0
    lost: int = 0
    """Work that was acknowledged, and is not there."""
    wrong: int = 0
    """Another answer than the right one or the error that is promised."""
    down: int = 0
    """Processes or servers that ended."""
    seconds: list[float] = field(default_factory=list)
    """How long each cancel took."""

    def took(self, seconds: float) -> None:
        """A cancel that was answered."""
        self.tried += 1
        self.seconds.append(round(seconds, 4))


def family_of(item: pytest.Item) -> str | None:
    """The family that a test belongs to."""
    marker = item.get_closest_marker("fault")
    if marker is None:
        return None
    family = marker.kwargs["family"]
    if family not in FAMILIES:
        raise ValueError(f"no family {family!r} of faults, expected one of {FAMILIES}")
    return str(family)


class Catalogue:
    """Adds up what tests tried; in the process that starts the others, if there are several."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.began = time.time()
        self.found: dict[str, dict[str, Any]] = {}
        self.outcomes: dict[str, set[str]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Each test of the catalogue has a tally, which travels with its reports."""
        if family := family_of(item):
            item.user_properties.append((PROPERTY, asdict(Tally(family))))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of each phase of a test; that of the last one has all of its tally."""
        for name, value in report.user_properties:
            if name == PROPERTY:
                self.found[report.nodeid] = dict(value)  # type: ignore[call-overload]
                self.outcomes.setdefault(report.nodeid, set()).add(report.outcome)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Writes the file, in the process that knows of all tests."""
        if self.path and not hasattr(session.config, "workerinput"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(self.summary(), indent=1))

    def summary(self) -> dict[str, Any]:
        """What the file says."""
        families: dict[str, dict[str, Any]] = {}
        for test, found in self.found.items():
            into = families.setdefault(found["family"], vars(Total()).copy())
            add(into, found, self.outcomes[test])
        return {
            "whole": WHOLE,
            "date": time.strftime("%Y-%m-%d", time.gmtime(self.began)),
            "minutes": round((time.time() - self.began) / 60, 1),
            "machine": machine(),
            "families": {name: families[name] for name in FAMILIES if name in families},
        }


@dataclass
class Total:
    """Of a family."""

    tests: int = 0
    skipped: int = 0
    failed: int = 0
    tried: int = 0
    lost: int = 0
    wrong: int = 0
    down: int = 0
    seconds: tuple[float, ...] = ()


def add(total: dict[str, Any], found: dict[str, Any], outcomes: set[str]) -> None:
    """A test that counts nothing is one case; one that fails without saying why is wrong."""
    if "skipped" in outcomes:
        total["skipped"] += 1
        return
    failed = "failed" in outcomes
    total["tests"] += 1
    total["failed"] += failed
    total["tried"] += found["tried"] or 1
    for name in ("lost", "down"):
        total[name] += found[name]
    total["wrong"] += found["wrong"] or (failed and not found["lost"] and not found["down"])
    total["seconds"] = [*total["seconds"], *found["seconds"]]


def machine() -> str:
    """The processor and how many there are."""
    found = re.search(r"model name\s*: (.*)", read("/proc/cpuinfo"))
    return f"{found[1] if found else platform.machine()}, {os.cpu_count()} cores"


def read(path: str) -> str:
    """A file's text, or nothing."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterable[Tally]:
    """Counts cases of the test; whatever it counts until it ends."""
    family = family_of(request.node)
    assert family is not None, "the test is not marked fault(family=...)"
    counted = Tally(family)
    yield counted
    for name, value in request.node.user_properties:
        if name == PROPERTY:
            value.update(asdict(counted))
