"""`connection.interrupt()` ends trainings as `tuskml.cancel()` does.

DuckDB notes an interrupt in a flag of the connection and looks at it between the tasks of a
statement. A training is one long task, and DuckDB's C interface does not show the flag. So the
call itself is heard: whatever connection it is of, it ends all trainings of the process, since
DuckDB does not say which connection's statement a training belongs to.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

import duckdb

from tuskml.schedule.pool import hold_in_forks

_lock = hold_in_forks(threading.Lock())


def share_interrupts() -> None:
    """Wraps `interrupt` of all connections of this process, once."""
    with _lock:
        for owner in (duckdb.DuckDBPyConnection, duckdb):
            real = getattr(owner, "interrupt", None)
            if real is not None and not hasattr(real, "ends_trainings"):
                setattr(owner, "interrupt", _ending_trainings(real))  # noqa: B010, mypy


def _ending_trainings(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def interrupt(*given: Any, **named: Any) -> Any:
        try:
            return real(*given, **named)
        finally:
            from tuskml.kernels.library import cancel  # slow to import

            cancel()

    interrupt.ends_trainings = True  # type: ignore[attr-defined]
    return interrupt
