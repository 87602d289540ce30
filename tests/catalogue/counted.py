"""How many generated cases a run of the tests tried: one line at its end."""

import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

EXAMPLES, CASES = "examples", "cases"
"""Names of the counts in the properties of a report, which processes of xdist send."""


class Counted:
    """Counts what hypothesis calls, and the tests that are cases of a parametrized one."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Iterator[None]:
        """Counts the calls of a property's body, or the test itself if it has parameters."""
        handle = getattr(pyfuncitem.obj, "hypothesis", None)
        if handle is None:
            if hasattr(pyfuncitem, "callspec"):
                pyfuncitem.user_properties.append((CASES, 1))
            return (yield)
        body, calls = handle.inner_test, 0

        @functools.wraps(body)
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            return body(*args, **kwargs)

        handle.inner_test = counted
        try:
            return (yield)
        finally:
            handle.inner_test = body
            pyfuncitem.user_properties.append((EXAMPLES, calls))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds what a test tried, here or in another process."""
        if report.when == "call" and report.outcome != "rerun":
            for name, value in report.user_properties:
                if name in (EXAMPLES, CASES):
                    self.total[name] += int(str(value))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Prints the line, where anything was generated."""
        examples, cases = self.total[EXAMPLES], self.total[CASES]
        if examples or cases:
            terminalreporter.write_line(
                f"{examples + cases:,} generated cases: {examples:,} examples of hypothesis and "
                f"{cases:,} parametrized tests"
            )
