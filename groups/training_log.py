"""A line of JSON for each training, through the logger `tuskml.training`; off by default.

The same facts make the spans of a training (`tracing`).
"""

import importlib
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
from tuskml.groups.last_training import short
from tuskml.learners.models import Models
from tuskml.schedule import phases

TRACES_VARIABLE = "TUSKML_TRACES"
PACKAGE = "opentelemetry.trace"
NAMES = {"reading": "pack", "planning": "plan", "training": "train", "emitting": "emit"}
MOST_SPANS = 64
"""Spans of a training's phases, so that a training of many groups makes few; the last one of a
longer training represents the rest of it.
"""
Interval = tuple[str, float, float]
"""A phase, and when it began and ended by `time.perf_counter`."""


class _Traces:
    tracer: Any = None


_traces = _Traces()


def is_on() -> bool:
    """Returns whether trainings make spans."""
    return _traces.tracer is not None


def follow_environment() -> None:
    """Makes spans from now on if `TUSKML_TRACES` is `on`.

    Raises OptionError for another value than that or `off`, and where the package is missing.
    """
    value = os.environ.get(TRACES_VARIABLE, "off")
    if value not in ("on", "off"):
        raise OptionError(f"{TRACES_VARIABLE} is {value!r}, expected on or off")
    if value == "off":
        _traces.tracer = None
    elif _traces.tracer is None:
        try:
            trace = importlib.import_module(PACKAGE)
        except ImportError as error:
            raise OptionError(
                f"{TRACES_VARIABLE} is 'on', and OpenTelemetry is not installed: "
                "pip install 'tuskml[otel]'"
            ) from error
        _traces.tracer = trace.get_tracer("tuskml")


def record(
    fields: dict[str, Any],
    noted: list[Interval],
    whole: tuple[float, float],
    error: BaseException | None,
) -> None:
    """Makes the spans of a training that has ended.

    fields: of its log line. noted: its phases, one after the other. whole: when it began and
    ended, by `time.perf_counter`; its rows came before that.
    """
    offset = time.time_ns() - round(time.perf_counter() * 1e9)
    began = whole[0] - (fields["seconds"]["reading"] or 0.0)
    trace = importlib.import_module(PACKAGE)
    attributes = {
        f"tuskml.{name}": fields[name] for name in ("task", "groups", "rows", "database")
    }
    attributes |= {
        "tuskml.algorithm": list(fields["plans"]),
        "tuskml.status": list(fields["statuses"]),
        "tuskml.statement": fields["statement"],
    }
    span = _traces.tracer.start_span(
        "tuskml.training", start_time=offset + round(began * 1e9), attributes=attributes
    )
    within = trace.set_span_in_context(span)
    for name, start, end in [("reading", began, whole[0]), *phases_of(noted, whole)]:
        if end > start:
            part = _traces.tracer.start_span(
                f"tuskml.{NAMES[name]}", context=within, start_time=offset + round(start * 1e9)
            )
            part.end(offset + round(end * 1e9))
    if error is not None:
        span.set_status(trace.StatusCode.ERROR, type(error).__name__)
    span.end(offset + round(whole[1] * 1e9))


def phases_of(noted: list[Interval], whole: tuple[float, float]) -> Iterator[Interval]:
    """Yields phases without gaps from begin to end: time in no other phase is training."""
    last, made = whole[0], 0
    for name, start, end in noted:
        if made >= MOST_SPANS - 2:
            break
        if start > last:
            yield "training", last, start
        yield name, start, end
        last, made = end, made + 2
    if last < whole[1]:
        yield "training", last, whole[1]


VARIABLE = "TUSKML_LOG_LEVEL"
LEVELS = {"off": logging.CRITICAL + 1, "error": logging.ERROR, "info": logging.INFO}
MOST_PLANS = 16
"""Plans that a line names, so that it stays short; the line says how many models have others."""
log = logging.getLogger("tuskml.training")
log.setLevel(LEVELS["off"])


class Line:
    """The log line of a running training."""

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
    if not (log.isEnabledFor(logging.ERROR) or is_on()):
        yield
        return
    database = (batch.program or b"").decode(errors="replace")
    line = _work.line = Line(task.decode(errors="replace"), groups, batch.statement, database)
    seconds = {} if reading is None else {"reading": reading}
    intervals: list[Interval] = []
    began, error = time.perf_counter(), None
    try:
        with phases.measured(seconds, intervals if is_on() else None):
            yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        _work.line = None
        ended = time.perf_counter()
        line.end(seconds, ended - began)
        line.write(error)
        if is_on():
            record(line.fields, intervals, (began, ended), error)


def note(models: Models) -> None:
    """Notes models of the training in work that have been trained."""
    if _work.line is not None:
        _work.line.add(models)


def set_level(name: str, source: str) -> None:
    """Sets the level of the log, by `LEVELS`; source: the name's origin, for the error."""
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
        """Writes the line, unless standard error is closed."""
        try:
            sys.stderr.write(record.getMessage() + "\n")
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):  # no standard error, or a closed one
            pass
