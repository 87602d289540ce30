"""`explain_training`: what would run for a group, and why."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.groups import factorization
from tuskml.groups.planning import Request, by_statistics, decide, first_plan, with_elsewhere
from tuskml.groups.trainer import describe, start
from tuskml.optimizer.choice import Candidate, Choice
from tuskml.optimizer.costs import Question
from tuskml.optimizer.elsewhere import ELSEWHERE
from tuskml.optimizer.space import FAMILIES
from tuskml.udas import kernels
from tuskml.udas.kernels import KINDS, Pass
from tuskml.udas.plan import Plan, shown_seconds, two_digits


def explain(groups: NDArray[np.void], request: Request) -> Iterator[str]:
    """The plan of each group, as text."""
    for group in np.split(groups, len(groups)):
        if request.task.factorizes:
            yield factorization.explain(group, request.options)
            continue
        chosen = considered(group, request)
        yield explain_one(group, request, chosen)


def considered(group: NDArray[np.void], request: Request) -> Choice:
    """The choice as a training would make it."""
    if request.options.store is not None:
        from tuskml.groups.stored import considered_stored  # takes a while to import

        return considered_stored(group, request)
    plan, question = first_plan(group, request)
    if question is None:
        return Choice(plan, ())
    if request.options.ordered or request.options.validation > 0:
        return with_elsewhere(by_statistics(plan, question), question)
    chosen = tried(group, request, plan, question)
    if len(chosen.candidates) < len(FAMILIES):  # a training would not have looked at all of them
        chosen = replace(chosen, candidates=by_statistics(plan, question).candidates)
    return with_elsewhere(chosen, question)


def tried(group: NDArray[np.void], request: Request, plan: Plan, question: Question) -> Choice:
    """The choice after a look at the rows; labels that a training would refuse are not tried."""
    group = group.copy()
    group["dim"] = np.maximum(group["dim"], 1)
    task, options = request.task, request.options
    intercept, mark = options.fit_intercept, kernels.cancel_count()
    rows = Pass(group, task.loss, None, None, intercept, plan.threads, cancel_mark=mark)
    labels = rows.labels()
    if task.classifies and (labels["third_row"][0] or labels["low"][0] == labels["high"][0]):
        return by_statistics(plan, question)
    with kernels.watching_sigint():
        problem = describe(rows, labels, plan, request)
        return decide(problem, start(problem, labels, options), plan, question)


def explain_one(group: NDArray[np.void], request: Request, chosen: Choice) -> str:
    """Rows, objective, choice, stopping rule and candidates of one group's training."""
    options, task, plan = request.options, request.task, chosen.plan
    rows, skipped = int(group["n_rows"][0]), int(group["n_skipped"][0])
    penalty = "".join(
        f" + {weight:g}{term}"
        for weight, term in ((options.l2 / 2, " ||w||^2"), (options.l1, " ||w||_1"))
        if weight
    )
    stop = f"after {plan.max_iter} iterations"
    if plan.epsilon:
        stop = f"when the {plan.converge} criterion is at most {plan.epsilon:g}, or {stop}"
    if options.time is not None:
        stop += f", or after {options.time:g} s"
    lines = [
        f"{task.name}: minimise mean {task.formula}{penalty}, m = w.x"
        + (" + b" if options.fit_intercept else ""),
        f"  rows      {rows:,} x {int(group['dim'][0]):,} features, {KINDS[group['kind'][0]]}, "
        f"{skipped:,} skipped",
        f"  plan      {plan.describe()}",
        f"  because   {plan.reason}",
        f"  order     {row_order(plan)}",
        f"  stops     {stop}",
    ]
    if chosen.note is not None:
        lines.append(f"  cannot    {chosen.note}")
    return "\n".join(lines + table(chosen))


def table(chosen: Choice) -> list[str]:
    """The candidates: iterations and their interval, seconds an iteration and in all, memory."""
    if not chosen.candidates:
        return []
    head = ["", "iterations", "each", "total", "memory", ""]
    rows = [head, *(line_of(one, chosen.plan) for one in by_total(chosen.candidates))]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        )
        + ("  " + row[5] if row[5] else "")
        for row in rows
    ]


def by_total(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    """Those that may run first, the cheapest of them first; those of packed rows before others."""

    def place(one: Candidate) -> tuple[bool, bool, float]:
        return one.refusal is not None, one.plan.algorithm in ELSEWHERE, one.seconds.point

    return sorted(candidates, key=place)


def line_of(one: Candidate, plan: Plan) -> list[str]:
    """One candidate's cells."""
    name, counted = one.plan.algorithm, one.counted
    if one.refusal is not None:
        return [name, "", "", "", "", f"not possible: {one.refusal}"]
    span = two_digits(counted.point)
    if counted.low < counted.high:
        span += f" ({two_digits(counted.low)}..{two_digits(counted.high)})"
    note = ["chosen"] if name == plan.algorithm else []
    note += ["tried on a sample"] if one.seen else []
    each, total = shown_seconds(one.cost.iteration), shown_seconds(one.seconds.point)
    memory = f"{one.cost.memory / 2**20:,.1f} MiB"
    return [name, span, each, total, memory, ", ".join(note)]


def row_order(plan: Plan) -> str:
    """In which order rows are read."""
    first = "by a hash of each row" if plan.canonical else "as delivered"
    return first + (", partitions shuffled each epoch" if plan.shuffle else "")
