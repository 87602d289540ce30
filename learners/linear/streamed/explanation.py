"""The explanation of a training by row group: its plans with their expected cost, and the actual
seconds and bytes.
"""

from typing import Any

from tuskml.learners.explaining import (
    VERSION,
    Document,
    format_bytes,
    format_explanation,
    format_seconds,
    plan_lines,
    source_table,
)
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.planner.explanation import objective
from tuskml.learners.linear.request import Plan
from tuskml.learners.linear.result import plan_line
from tuskml.learners.linear.streamed.choosing import StreamedChoice, candidate_document
from tuskml.learners.row_groups import Reader

ORDER = "row groups in random order, their rows shuffled"


def explain_streamed(
    chosen: StreamedChoice, plan: Plan, state: State, seconds: float, reader: Reader
) -> str:
    """Explains the training as text, or as option `format` says."""
    iterations = int(state.iterations[0])
    actual = {
        "iterations": dict.fromkeys(("least", "mean", "most"), iterations),
        "seconds_per_iteration": seconds / max(iterations, 1),
        "seconds": seconds,
        "groups_converged": int(state.converged.sum()),
        "read_bytes": round(reader.bytes_read),
        "read_rows": reader.rows_read,
    }
    return format_explanation(
        document(chosen, plan, actual), chosen.request.options.format, text_of
    )


def document(chosen: StreamedChoice, plan: Plan | None, actual: dict[str, Any] | None) -> Document:
    """The explanation, of JSON's types; plan: None where all rows are read."""
    request, stored = chosen.request, chosen.storage
    return {
        "explanation": VERSION,
        "task": request.task.name,
        "objective": objective(request),
        "groups": 1,
        "rows": stored.n_rows,
        "rows_merged": 0,
        "rows_skipped": 0,
        "features": None,
        "storage": stored.kind,
        "bytes": round(stored.bytes_of_all()),
        "model": None,
        "plan": None if plan is None else plan_document(chosen, plan),
        "device": None,
        "reading_seconds": None,
        "cannot": None,
        "candidates": [candidate_document(one, one is chosen.best) for one in chosen.plans],
        "actual": actual,
        "source": None,
    }


def plan_document(chosen: StreamedChoice, plan: Plan) -> dict[str, Any]:
    """The plan that trains."""
    return {
        "algorithm": plan.algorithm,
        "description": plan_line(plan),
        "because": chosen.why,
        "order": ORDER,
        "threads": plan.threads,
        "max_iter": plan.max_iter,
        "epsilon": plan.epsilon,
        "converge": plan.converge,
        "time": chosen.request.options.time,
    }


def text_of(found: Document) -> str:
    """Formats the explanation as lines."""
    lines = [
        f"{found['task']}: minimise {found['objective']}",
        f"  rows      {found['rows']:,} of {found['storage']}, {format_bytes(found['bytes'])}",
        *plan_lines(found["plan"], found["task"]),
    ]
    took = found["actual"]
    if took is not None:
        lines.append(
            f"  actual    {took['iterations']['least']:,} iterations, "
            f"{format_seconds(took['seconds'])} in all, {format_bytes(took['read_bytes'])} and "
            f"{took['read_rows']:,} rows read"
        )
    return "\n".join(lines + source_table(found["candidates"]))
