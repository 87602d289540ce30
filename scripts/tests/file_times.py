"""A plugin of pytest that adds up how long the tests of each file take, fixtures included.

PYTHONPATH=scripts/tests pytest -p file_times -n 2 --dist loadfile

At the end it prints the slowest files, with set-up and tear-down apart, and of each process of
pytest-xdist when it was done, which tells whether one stood idle for the other.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

SHOWN = 50


class Times:
    """Seconds of files, by phase, and the end of each process."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.phases: dict[str, Counter[str]] = {}
        self.tests: Counter[str] = Counter()
        self.ended: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Adds the seconds of a phase of a test, in any process."""
        file = report.nodeid.split("::", 1)[0]
        self.phases.setdefault(file, Counter())[report.when] += report.duration
        self.tests[file] += report.when == "call"
        self.ended[getattr(report, "worker_id", "alone")] = time.monotonic() - self.began

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The slowest first."""
        terminalreporter.section("seconds of files")
        terminalreporter.write_line("   all  setup   call  tests  file")
        files = sorted(self.phases.items(), key=lambda item: -item[1].total())
        for file, phases in files[:SHOWN]:
            called, all_of_it = phases["call"], phases.total()
            terminalreporter.write_line(
                f"{all_of_it:6.1f} {all_of_it - called:6.1f} {called:6.1f} "
                f"{self.tests[file]:6}  {file}"
            )
        total = sum(phases.total() for phases in self.phases.values())
        terminalreporter.write_line(f"{total:6.1f} of all files")
        for process, seconds in sorted(self.ended.items()):
            terminalreporter.write_line(f"{process} was done after {seconds:.1f} s")


def pytest_configure(config: pytest.Config) -> None:
    """Registers in the process that reports, not in those that test."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times(), "file-times")
