"""A line of JSON for each training, through the logger `tuskml.training`; off by default.

The same facts make the spans of a training (`tracing`).
"""

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tuskml.errors import OptionError
from tuskml.groups import tracing
from tuskml.groups.last_training import short
from tuskml.learners.models import Models
from tuskml.schedule import phases

VARIABLE = "TUSKML_LOG_LEVEL"
LEVELS = {"off": logging.CRITICAL + 1, "error": logging.ERROR, "info": logging.INFO}
MOST_PLANS = 16
"""Plans that a line names, so that it stays short; the line says how many models have others."""
log = logging.getLogger("tuskml.training")
log.setLevel(LEVELS["off"])


class Line:
    """What is noted of a training in work."""

    def __init__(self, task: str, groups: int, statement: int, database: str) -> None:
        self.fields: dict[str, Any] = {
            "task": task,
            "groups": groups,
            "rows": 0,
            "plans": {},
            "statuses": {},
            "statement": statement,
            "database": database,
            "process": os.getpid(),
        }

    def add(self, models: Models) -> None:
        """Takes in models that have been trained."""
        self.fields["rows"] += int(models.n_rows.sum())
        plans, statuses = self.fields["plans"], self.fields["statuses"]
        for code, number in zip(*np.unique(models.plan.code, return_counts=True), strict=True):
            plan = short(models.plan.pool[code])
            if plan not in plans and len(plans) == MOST_PLANS:
                plan = "other plans"
            plans[plan] = plans.get(plan, 0) + int(number)
        for code, number in zip(*np.unique(models.status.code, return_counts=True), strict=True):
            status = models.status.pool[code]
            statuses[status] = statuses.get(status, 0) + int(number)

    def end(self, seconds: dict[str, float], whole: float) -> None:
        """Notes how long the phases and the whole training took."""
        known = {name: round(seconds.get(name, 0.0), 6) for name in ("planning", "emitting")}
        training = max(whole - sum(known.values()), 0.0)
        reading = seconds.get("reading")
        self.fields["seconds"] = {
            "reading": None if reading is None else round(reading, 6),
            "planning": known["planning"],
            "training": round(training, 6),
            "emitting": known["emitting"],
        }

    def write(self, error: BaseException | None) -> None:
        """Hands the line to the logger."""
        level, event = logging.INFO, "training"
        if error is not None:
            level, event = logging.ERROR, "training failed"
            self.fields["error"] = str(error)[:1000] or type(error).__name__
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        head = {"time": now, "level": logging.getLevelName(level).lower(), "event": event}
        log.log(level, "%s", json.dumps(head | self.fields, ensure_ascii=False))


class _Work(threading.local):
    line: Line | None = None


_work = _Work()


@contextmanager
def training(batch: Any, task: bytes, groups: int, reading: float | None) -> Iterator[None]:
    """Logs and traces the training that the context is, of some groups of a batch from a database.

    reading: seconds that its rows took to come, None where that is unknown.
    """
    if not (log.isEnabledFor(logging.ERROR) or tracing.is_on()):
        yield
        return
    database = (batch.program or b"").decode(errors="replace")
    line = _work.line = Line(task.decode(errors="replace"), groups, batch.statement, database)
    seconds = {} if reading is None else {"reading": reading}
    intervals: list[tracing.Interval] = []
    began, error = time.perf_counter(), None
    try:
        with phases.measured(seconds, intervals if tracing.is_on() else None):
            yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        _work.line = None
        ended = time.perf_counter()
        line.end(seconds, ended - began)
        line.write(error)
        if tracing.is_on():
            tracing.record(line.fields, intervals, (began, ended), error)


def note(models: Models) -> None:
    """Notes models of the training in work that have been trained."""
    if _work.line is not None:
        _work.line.add(models)


def set_level(name: str, source: str) -> None:
    """Logs what `LEVELS` says; source: where the name was given, for the error."""
    if name not in LEVELS:
        raise OptionError(f"{source} is {name!r}, expected off, error or info")
    log.setLevel(LEVELS[name])


def to_standard_error() -> None:
    """Follows the environment variable, if there is one: lines go to standard error."""
    name = os.environ.get(VARIABLE)
    if name is not None:
        set_level(name, VARIABLE)
        to_handler(StandardError())


def to_handler(handler: logging.Handler) -> None:
    """Makes a handler the only one."""
    log.handlers = [handler]
    log.propagate = False


class StandardError(logging.Handler):
    """Writes each line at once, so that those of several processes do not mix."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the line, or leaves it where standard error is closed."""
        try:
            sys.stderr.write(record.getMessage() + "\n")
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):  # no standard error, or a closed one
            pass
