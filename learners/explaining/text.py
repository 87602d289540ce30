"""An explanation as text for a terminal, from the data of `explanation.py`."""

import json
from collections.abc import Callable

from tuskml.learners.explaining import columns, source
from tuskml.learners.explaining.explanation import Document
from tuskml.learners.explaining.shown import shown_seconds, two_digits

TOLD = 0.2
"""Seconds of reading rows that are worth a line."""


def text_of(explanation: Document) -> str:
    """Formats rows, objective, choice, stopping rule, candidates and the actual training."""
    groups = explanation["groups"]
    lines = [
        f"{explanation['task']}: minimise {explanation['objective']}",
        f"  rows      {explanation['rows']:,} x {explanation['features']:,} features, "
        + (f"{groups:,} groups, " if groups > 1 else "")
        + f"{explanation['storage']}, {explanation['rows_skipped']:,} skipped",
    ]
    lines += plan_lines(explanation["plan"], explanation["task"])
    if (explanation["reading_seconds"] or 0.0) > TOLD:
        lines.append(f"  reading   {reading(explanation)}")
    if explanation["device"] is not None:
        lines.append(f"  device    {explanation['device']}")
    if explanation["cannot"] is not None:
        lines.append(f"  cannot    {explanation['cannot']}")
    if explanation["actual"] is not None:
        lines.append(f"  actual    {actual(explanation['actual'], groups)}")
    lines += table(explanation["candidates"]) + source.lines(explanation["source"])
    return "\n".join(lines)


def plan_lines(plan: Document | None, task: str) -> list[str]:
    """Lines on the plan of a learner that chooses between plans; no lines for other learners."""
    if plan is None:
        return []
    return [
        f"  plan      {plan['description']}",
        f"  because   {plan['because']}",
        f"  order     {plan['order']}",
        f"  stops     {stops(plan, task)}",
    ]


def written(explanation: Document, form: str, as_text: Callable[[Document], str] = text_of) -> str:
    """Formats the explanation as text or as JSON."""
    if form == "json":
        return json.dumps(explanation, allow_nan=False)
    return as_text(explanation)


def reading(explanation: Document) -> str:
    """A sentence on the seconds of reading the rows, with those of the training where they are
    expected.
    """
    seconds = explanation["reading_seconds"]
    told = f"reading the rows took {shown_seconds(seconds)}"
    chosen = next((one for one in explanation["candidates"] if one["chosen"]), None)
    if chosen is None or chosen["seconds"] is None or explanation["actual"] is not None:
        return told
    total = shown_seconds(seconds + chosen["seconds"]["point"])
    return f"{told}; a training reads them too, and is expected to take {total} in all"


def stops(plan: Document, task: str) -> str:
    """Describes the stopping rule."""
    stop = f"after {plan['max_iter']} iterations"
    if plan["epsilon"] and task == "svm" and plan["converge"] == "gradient":
        stop = f"when the duality gap is at most {plan['epsilon'] / 2:g}, or {stop}"
    elif plan["epsilon"]:
        stop = f"when the {plan['converge']} criterion is at most {plan['epsilon']:g}, or {stop}"
    return stop if plan["time"] is None else f"{stop}, or after {plan['time']:g} s"


def actual(found: Document, groups: int) -> str:
    """A sentence on the iterations and seconds of the finished training."""
    least, mean, most = (found["iterations"][name] for name in ("least", "mean", "most"))
    span = f"{least:,}" if least == most else f"{two_digits(mean)} ({least:,}..{most:,})"
    text = (
        f"{span} iterations, {shown_seconds(found['seconds_per_iteration'])} each, "
        f"{shown_seconds(found['seconds'])} in all"
    )
    if groups == 1:
        return text + ("" if found["groups_converged"] else ", not converged")
    return f"{text}, {found['groups_converged']:,} of {groups:,} groups converged"


def table(candidates: list[Document]) -> list[str]:
    """The candidates: iterations and their interval, seconds per iteration and in all, memory."""
    return columns.table(("iterations", "each", "total", "memory"), candidates, cells_of)


def cells_of(one: Document) -> list[str]:
    """The cells of a feasible candidate: expected iterations, seconds, memory and a note."""
    low, point, high = (one["iterations"][end] for end in ("low", "point", "high"))
    span = two_digits(round(point))
    if low < high:
        span += f" ({two_digits(round(low))}..{two_digits(round(high))})"
    note = ["chosen"] if one["chosen"] else []
    note += ["tried on a sample"] if one["tried"] else []
    each = shown_seconds(one["seconds_per_iteration"])
    total = shown_seconds(one["seconds"]["point"])
    memory = f"{one['memory_bytes'] / 2**20:,.1f} MiB"
    return [span, each, total, memory, ", ".join(note)]
