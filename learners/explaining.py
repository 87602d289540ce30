"""An explanation of a training as data: the part that all learners share.

`document` is the schema of the option `format: json`, which docs/sql/plans.md describes;
`format_explanation` writes the same as text, `tuskml.plots.plot_plan` draws it.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import KINDS, row_bytes
from tuskml.kernels.segments import rows_given
from tuskml.learners.options.table import Options

VERSION = 1
Document = dict[str, Any]


def sole_candidate(
    algorithm: str, least: float, most: float, start: float, each: float, memory: int
) -> dict[str, Any]:
    """The one plan of a learner that does not choose, as `explain_training` lists candidates.

    least, most: its iterations, usually the latter; start, each: seconds before the first one and
    of each; memory: bytes.
    """
    span = {"low": least, "point": most, "high": most}
    return {
        "algorithm": algorithm,
        "chosen": True,
        "refusal": None,
        "iterations": span,
        "seconds_per_iteration": each,
        "seconds": {name: start + each * count for name, count in span.items()},
        "memory_bytes": memory,
        "store_requests": 0,
        "store_bytes": 0,
        "tried": None,
    }


def plan_document(
    options: Any, description: str, because: str, order: str, max_iter: int, **more: Any
) -> Document:
    """The plan of a learner that does not choose, by its options; more: members that differ."""
    return {
        "algorithm": options.algorithm,
        "description": description,
        "because": because,
        "order": order,
        "threads": options.threads,
        "max_iter": max_iter,
        "epsilon": 0.0,
        "converge": "loss",
        "time": options.time,
    } | more


def reason_for_algorithm(options: Options) -> str:
    """The reason why an algorithm that has a default is taken."""
    asked = "algorithm" in options.given
    return "asked for" if asked else "the default of the option `algorithm`"


def document(
    groups: NDArray[np.void], task: str, objective: str, reading: float | None, **more: Any
) -> Document:
    """The explanation of groups (`passes.GROUP`) that train together, of JSON's types.

    reading: seconds spent reading their rows; more: what the learner adds to the schema: model,
    plan, device, cannot, candidates, actual.
    """
    return {
        "explanation": VERSION,
        "task": task,
        "objective": objective,
        "groups": len(groups),
        "rows": int(rows_given(groups).sum()),
        "rows_merged": int((rows_given(groups) - groups["n_rows"]).sum()),
        "rows_skipped": int(groups["n_skipped"].sum()),
        "features": int(groups["dim"].max()),
        "storage": KINDS[groups["kind"][0]],
        "bytes": row_bytes(groups),
        "model": None,
        "plan": None,
        "device": None,
        "reading_seconds": reading,
        "cannot": None,
        "candidates": [],
        "actual": None,
        "source": None,
    } | more


TOLD = 0.2
"""Seconds of reading rows that are worth a line."""


def text_of(explanation: Document) -> str:
    """Formats rows, objective, choice, stopping rule, candidates and the actual training."""
    groups, merged = explanation["groups"], explanation["rows_merged"]
    lines = [
        f"{explanation['task']}: minimise {explanation['objective']}",
        f"  rows      {explanation['rows']:,} x {explanation['features']:,} features, "
        + (f"{groups:,} groups, " if groups > 1 else "")
        + f"{explanation['storage']}, {explanation['rows_skipped']:,} skipped"
        + (f", merged into {explanation['rows'] - merged:,}" if merged else ""),
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
    lines += table(explanation["candidates"]) + source_lines(explanation["source"])
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


def format_explanation(
    explanation: Document, form: str, as_text: Callable[[Document], str] = text_of
) -> str:
    """Formats the explanation as text or as JSON."""
    if form == "json":
        return json.dumps(explanation, allow_nan=False)
    return as_text(explanation)


def reading(explanation: Document) -> str:
    """A sentence on the seconds of reading the rows, with those of the training where they are
    expected.
    """
    seconds = explanation["reading_seconds"]
    told = f"reading the rows took {format_seconds(seconds)}"
    chosen = next((one for one in explanation["candidates"] if one["chosen"]), None)
    if chosen is None or chosen["seconds"] is None or explanation["actual"] is not None:
        return told
    total = format_seconds(seconds + chosen["seconds"]["point"])
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
        f"{span} iterations, {format_seconds(found['seconds_per_iteration'])} each, "
        f"{format_seconds(found['seconds'])} in all"
    )
    if groups == 1:
        return text + ("" if found["groups_converged"] else ", not converged")
    return f"{text}, {found['groups_converged']:,} of {groups:,} groups converged"


def table(candidates: list[Document]) -> list[str]:
    """The candidates: iterations and their interval, seconds per iteration and in all, memory."""
    return in_columns(("iterations", "each", "total", "memory"), candidates, cells_of)


def cells_of(one: Document) -> list[str]:
    """The cells of a feasible candidate: expected iterations, seconds, memory and a note."""
    low, point, high = (one["iterations"][end] for end in ("low", "point", "high"))
    span = two_digits(round(point))
    if low < high:
        span += f" ({two_digits(round(low))}..{two_digits(round(high))})"
    note = ["chosen"] if one["chosen"] else []
    note += ["tried on a sample"] if one["tried"] else []
    each = format_seconds(one["seconds_per_iteration"])
    total = format_seconds(one["seconds"]["point"])
    memory = f"{one['memory_bytes'] / 2**20:,.1f} MiB"
    return [span, each, total, memory, ", ".join(note)]


# What plans take that read a table or files, all rows or a part: as lines of text.


def source_table(candidates: Sequence[Document]) -> list[str]:
    """The plans: seconds, those of reading, bytes and rows that are read."""
    return in_columns(("total", "reading", "reads", "rows"), candidates, source_cells)


def source_cells(one: Document) -> list[str]:
    """The cells of a feasible plan: expected seconds, reading seconds, bytes, rows and a note."""
    return [
        format_seconds(one["seconds"]["point"]),
        format_seconds(one["reading_seconds"]),
        format_bytes(one["read_bytes"]),
        f"{one['read_rows']:,}",
        "chosen" if one["chosen"] else one["never"] or "",
    ]


def source_lines(source: Document | None) -> list[str]:
    """The reason why all rows of a source were read, and the plans that were compared before."""
    if source is None:
        return []
    told = (
        f"  source    {source['row_groups']:,} partitions of {source['storage']}, "
        f"{format_bytes(source['bytes'])}; all rows are read: {source['because']}"
    )
    return [told, *source_table(source["candidates"])]


# Candidates as lines of text, in columns; plans that are refused for one reason share a line.


Cells = Callable[[Document], list[str]]
"""A function to the cells that follow the name of a feasible candidate: one for each column, and a
note.
"""


def in_columns(head: Sequence[str], candidates: Sequence[Document], cells: Cells) -> list[str]:
    """The candidates as lines, below head, the columns' names; no lines without candidates."""
    if not candidates:
        return []
    possible = [["", *head, ""]]
    possible += [[c["algorithm"], *cells(c)] for c in candidates if c["refusal"] is None]
    refused = [
        [", ".join(names), *[""] * len(head), f"not possible: {why}"]
        for why, names in by_reason(candidates).items()
    ]
    aligned = [*possible, *(row for row in refused if ", " not in row[0])]
    widths = [max(len(row[column]) for row in aligned) for column in range(1 + len(head))]
    return [line(row, widths) for row in [*possible, *refused]]


def by_reason(candidates: Sequence[Document]) -> dict[str, list[str]]:
    """The names of the refused candidates by why they are, in the order in which they come."""
    found: dict[str, list[str]] = {}
    for one in candidates:
        if one["refusal"] is not None:
            found.setdefault(one["refusal"], []).append(one["algorithm"])
    return found


def line(row: Sequence[str], widths: Sequence[int]) -> str:
    """A line of the table: the name to the left, numbers to the right, then the note."""
    name, *numbers, note = row
    if len(name) > widths[0]:  # of several plans, for which no column is wide enough
        return f"  {name}  {note}"
    told = [name.ljust(widths[0])]
    told += [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)]
    return "  " + "  ".join(told) + (f"  {note}" if note else "")


# Numbers as people read them.


def format_seconds(seconds: float) -> str:
    """Two digits and a unit: 0.46 ms, 12 ms, 3.4 s, 25 min, 4.1 h."""
    for size, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= size * (1 if unit == "s" else 2):
            return f"{two_digits(seconds / size)} {unit}"
    return f"{two_digits(seconds * 1e3)} ms"


def two_digits(number: float) -> str:
    """Rounded to two digits, without an exponent."""
    return f"{float(f'{number:.2g}'):,.15g}"


def format_bytes(size: float) -> str:
    """Two digits and a unit."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{two_digits(size / unit)} {name}"
    return f"{size:.0f} bytes"
