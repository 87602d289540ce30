"""The choice between reading all rows of a source and some row groups, and of the plan.

The plans that `auto` compares are in `plans.py`; a plan named by options is taken. Its expected
cost is recorded in the model's `options` with the actual one, and with option `explain` in its
`plan`.

The explanation shows the plans with their expected cost, and the actual seconds and bytes.
"""

from dataclasses import dataclass, replace
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
from tuskml.learners.linear.algorithms.parts.epochs import DRAWN
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.planner.explanation import objective
from tuskml.learners.linear.request import LinearOptions, Plan, Request
from tuskml.learners.linear.result import plan_line
from tuskml.learners.linear.streamed import skipping
from tuskml.learners.linear.streamed.plans import (
    EAGER,
    LAZY,
    Source,
    SourcePlan,
    all_plans,
    because,
    best_part,
)
from tuskml.learners.machine.reading import SPILL
from tuskml.learners.row_groups import Layout, Reader, Storage


@dataclass(frozen=True)
class StreamedChoice:
    """The plan of a training by row group, and its alternatives.

    request: with the plan's algorithm and sampler; best: None for a plan that options name.
    """

    request: Request
    storage: Storage
    plans: tuple[SourcePlan, ...] = ()
    best: SourcePlan | None = None

    @property
    def why(self) -> str:
        """The reason for the choice, in words."""
        return "asked for" if self.best is None else because(self.best, self.plans)

    @property
    def transform(self) -> str:
        """The transform: whether rows are transformed before they are sampled."""
        return EAGER if self.storage.kind == SPILL else LAZY

    def reading(self, seconds: float, bytes_read: float) -> dict[str, Any]:
        """Seconds and bytes of reading for the model's options, with the expected ones."""
        found: dict[str, Any] = {"seconds": round(seconds, 4), "bytes": round(bytes_read)}
        if self.best is not None:
            found["seconds_estimated"] = round(self.best.seconds, 4)
            found["bytes_estimated"] = round(self.best.n_bytes)
        return found


def choose(
    storage: Storage,
    request: Request,
    n_features: int,
    layout: Layout | None,
    forced: LinearOptions,
) -> StreamedChoice | None:
    """The plan by row group; None to read all rows.

    layout: of the first chunk, None where that is not possible; forced: the options in force if
    none, or one, names a plan.
    """
    asked = replace(request, options=forced)
    if not skipping.may_skip(request) and not forced.explain:
        return StreamedChoice(asked, storage)
    plans = plans_of(storage, request, n_features, layout)
    if not skipping.may_skip(request):
        return StreamedChoice(asked, storage, plans)
    best = best_part(plans)
    if best is None:
        return None
    sampler = best.way.sampler if best.way.sampler in DRAWN else None
    options = replace(forced, algorithm=best.way.algorithm, sampler=sampler)
    return StreamedChoice(replace(request, options=options), storage, plans, best)


def plans_of(
    storage: Storage, request: Request, n_features: int, layout: Layout | None
) -> tuple[SourcePlan, ...]:
    """Every plan of a training whose rows are a table or files."""
    why = skipping.why_not(request)
    if why is None and skipping.is_too_far(request, storage.sizes, layout):
        why = skipping.too_far(request, storage.sizes, layout)
    return all_plans(Source.of(storage, request, n_features), layout, why)


def candidate_document(one: SourcePlan, chosen: bool) -> dict[str, Any]:
    """One plan, of JSON's types: as a candidate on packed rows, with the bytes that it reads."""
    possible = one.refusal is None
    return {
        "algorithm": one.name,
        "chosen": chosen,
        "refusal": one.refusal,
        "never": one.never if possible else None,
        "iterations": None,
        "seconds_per_iteration": None,
        "seconds": dict.fromkeys(("low", "point", "high"), one.seconds) if possible else None,
        "reading_seconds": one.reading if possible else None,
        "read_bytes": round(one.n_bytes) if possible else None,
        "read_rows": round(one.n_rows) if possible else None,
        "memory_bytes": None,
        "store_requests": 0 if possible else None,
        "store_bytes": 0 if possible else None,
        "tried": None,
    }


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
