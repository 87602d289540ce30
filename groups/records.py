"""Records of trainings: of the last statement for Python, and lines of the log and spans.

Models are noted as they leave the trainer, by plan: what is kept does not grow with the groups.
The log (`tuskml.training`, a line of JSON for each training) and spans (OpenTelemetry) are off
by default.
"""

import importlib
import json
import logging
import os
import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels.passes import row_bytes
from tuskml.learners import events
from tuskml.learners.models import Models
from tuskml.schedule.pool import hold_in_forks

MOST_STATEMENTS, MOST_PLANS = 16, 64
OTHERS = "other plans"
ESTIMATE = re.compile(r", estimated [\d,.]+ iterations, [\d,.]+ (ms|s|min|h)")
STRIDE = re.compile(r"started on 1/\d+ of the rows")


@dataclass
class PlanRecord:
    """The results of the groups of one plan; estimates if there were some for all of them."""

    task: str
    algorithm: str
    plan: str
    groups: int = 0
    rows: int = 0
    bytes: int = 0
    batches: int = 0
    iterations: int = 0
    least: int = 2**62
    most: int = 0
    longest: int = 0
    seconds: float = 0.0
    estimated: int = 0
    estimated_iterations: float = 0.0
    estimated_seconds: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)

    def add(self, models: Models, size: int, members: dict[str, Any]) -> None:
        """Adds a batch of models, all of this plan, which trained together."""
        n = len(models.group)
        self.groups += n
        self.batches += 1
        self.rows += int(models.n_rows.sum())
        self.bytes += size
        self.iterations += int(models.iterations.sum())
        self.least = min(self.least, int(models.iterations.min()))
        self.most = max(self.most, int(models.iterations.max()))
        self.longest += int(models.iterations.max())
        self.seconds += float(models.seconds.sum())
        codes, counts = np.unique(models.status.code, return_counts=True)
        for code, number in zip(codes, counts, strict=True):
            status = models.status.pool[code]
            self.statuses[status] = self.statuses.get(status, 0) + int(number)
        told = members.get("estimated")
        if told is not None:
            self.estimated += 1
            self.estimated_iterations += told["iterations"]
            self.estimated_seconds += told["seconds"]

    def document(self) -> dict[str, Any]:
        """Returns its figures as a JSON object."""
        estimated = None
        if self.estimated == self.batches:
            iterations = self.estimated_iterations / self.batches
            estimated = {
                "iterations": iterations,
                "seconds": self.estimated_seconds,
                "seconds_per_iteration": self.estimated_seconds
                / max(1, self.estimated_iterations),
            }
        return {
            "task": self.task,
            "algorithm": self.algorithm,
            "plan": self.plan,
            "groups": self.groups,
            "batches": self.batches,
            "rows": self.rows,
            "bytes": self.bytes,
            "statuses": dict(self.statuses),
            "estimated": estimated,
            "actual": {
                "iterations": {
                    "least": self.least,
                    "mean": self.iterations / self.groups,
                    "most": self.most,
                },
                "seconds": self.seconds,
                "seconds_per_iteration": self.seconds / max(1, self.longest),
            },
        }


@dataclass
class Statement:
    """The plans of one statement, and of its last stored model the counters and their estimate."""

    plans: dict[tuple[str, str], PlanRecord] = field(default_factory=dict)
    counters: dict[str, Any] | None = None
    store_estimate: dict[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        """Returns its figures as a JSON object."""
        plans = [plan.document() for plan in self.plans.values()]
        found = {name: sum(plan[name] for plan in plans) for name in ("groups", "rows", "bytes")}
        seconds = sum(plan["actual"]["seconds"] for plan in plans)
        return (
            found
            | {"seconds": seconds, "plans": plans, "counters": self.counters}
            | {"store_estimate": self.store_estimate}
        )


_statements: OrderedDict[int, Statement] = OrderedDict()
_lock = hold_in_forks(threading.Lock())
_unnumbered = count(-1, -1)


def note(models: Models, groups: NDArray[np.void] | None, statement: int = 0) -> None:
    """Records the results of models.

    groups: theirs, None if their rows were not all packed, as double, at one time; statement: its
    number, 0 for one of its own.
    """
    if not len(models.group):
        return
    parts = list(by_plan(models))
    with _lock:
        number = statement or next(_unnumbered)
        record = _statements.setdefault(number, Statement())
        _statements.move_to_end(number)
        while len(_statements) > MOST_STATEMENTS:
            _statements.popitem(last=False)
        for key, algorithm, which, members in parts:
            found = record.plans.get(key)
            if found is None:
                if len(record.plans) >= MOST_PLANS:
                    key, algorithm = (key[0], OTHERS), OTHERS  # noqa: PLW2901
                found = record.plans.setdefault(key, PlanRecord(key[0], algorithm, key[1]))
            theirs = some(models, which)
            found.add(theirs, bytes_of(theirs, None if groups is None else groups[which]), members)
            record.counters = members.get("counters", record.counters)
            record.store_estimate = members.get("store_estimate", record.store_estimate)


def bytes_of(models: Models, groups: NDArray[np.void] | None) -> int:
    """Bytes of the packed rows."""
    if groups is None:
        return int((models.n_rows * (8 * models.n_features + 8)).sum())
    return row_bytes(groups)


def by_plan(models: Models) -> Any:
    """(task and plan, algorithm, which models, options) of models that trained together."""
    for code in np.unique(models.plan.code):
        which = np.flatnonzero(models.plan.code == code)
        members = json.loads(models.options.pool[models.options.code[which[0]]])
        task = models.task.pool[models.task.code[which[0]]]
        plan = short(models.plan.pool[code])
        yield (task, plan), members.get("algorithm", plan), which, members


def some(models: Models, which: NDArray[np.intp]) -> Models:
    """Selects some of the models, with the fields that records keep."""
    if len(which) == len(models.group):
        return models
    names = ("group", "n_rows", "n_features", "iterations", "seconds")
    status = replace(models.status, code=models.status.code[which])
    return replace(models, status=status, **{name: getattr(models, name)[which] for name in names})


def short(plan: str) -> str:
    """A model's plan in one line, without the parts that differ from batch to batch."""
    if plan.startswith("{"):
        plan = json.loads(plan)["plan"]["description"]
    elif "\n" in plan:  # with an explanation, or the time on a cluster after it
        first, *lines = plan.splitlines()
        plan = next((line[10:].strip() for line in lines if line[:8] == "  plan  "), first)
    return STRIDE.sub("started on some of the rows", ESTIMATE.sub("", plan))


def last_training() -> dict[str, Any] | None:
    """The trainings of the last statement in this process; None before the first.

    `groups`, `rows`, `bytes` of the packed rows and `seconds` of work, summed over `plans`: for
    each plan its task, algorithm and description, groups, batches of groups that trained together,
    statuses by number of groups, what was `estimated` (None if nothing was) and the `actual`
    iterations per group, seconds, and seconds per iteration of a batch. `counters`: for a model in
    a store, its requests, and `store_estimate`: the expected ones. The model value has both. At
    most 64 plans are listed.
    """
    with _lock:
        if not _statements:
            return None
        return next(reversed(_statements.values())).document()


# The log and the spans.

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
MOST_LOGGED = 16
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
            if plan not in plans and len(plans) == MOST_LOGGED:
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
        with events.measure_phases(seconds, intervals if is_on() else None):
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


def log_models(models: Models) -> None:
    """Adds models to the line of the training in work."""
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
