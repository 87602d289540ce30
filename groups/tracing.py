"""Spans of OpenTelemetry about trainings, where the environment asks for them; off by default.

They say how much was trained, by what plan and how long each phase took: no value of a row, no
name of a feature, and of an error its type alone.
"""

import importlib
import os
import time
from collections.abc import Iterator
from typing import Any

from tuskml.errors import OptionError

VARIABLE = "TUSKML_TRACES"
PACKAGE = "opentelemetry.trace"
NAMES = {"reading": "pack", "planning": "plan", "training": "train", "emitting": "emit"}
MOST_SPANS = 64
"""Spans of a training's phases, so that a training of many groups makes few; the last one of a
training with more stands for the rest of it."""
Interval = tuple[str, float, float]
"""A phase, and when it began and ended by `time.perf_counter`."""


class _Traces:
    tracer: Any = None


_traces = _Traces()


def is_on() -> bool:
    """Whether trainings make spans."""
    return _traces.tracer is not None


def follow_environment() -> None:
    """Makes spans from now on if `TUSKML_TRACES` is `on`.

    OptionError for another value than that or `off`, and where the package is missing.
    """
    value = os.environ.get(VARIABLE, "off")
    if value not in ("on", "off"):
        raise OptionError(f"{VARIABLE} is {value!r}, expected on or off")
    if value == "off":
        _traces.tracer = None
    elif _traces.tracer is None:
        try:
            trace = importlib.import_module(PACKAGE)
        except ImportError as error:
            raise OptionError(
                f"{VARIABLE} is 'on', and OpenTelemetry is not installed: "
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
    """Phases without gaps from begin to end: what no other phase takes is training."""
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
