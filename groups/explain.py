"""`explain_training`: what would run for a group, and why."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tuskml.groups import factorization
from tuskml.groups.trainer import Request, plan_for
from tuskml.udas.kernels import KINDS
from tuskml.udas.plan import Plan


def explain(groups: NDArray[np.void], request: Request) -> Iterator[str]:
    """The plan of each group, as text."""
    for group in np.split(groups, len(groups)):
        if request.task.factorizes:
            yield factorization.explain(group, request.options)
            continue
        yield explain_one(group, request, plan_for(group, request))


def explain_one(group: NDArray[np.void], request: Request, plan: Plan) -> str:
    """Rows, objective, choice and stopping rule of one group's training."""
    options, task = request.options, request.task
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
    return "\n".join(lines)


def row_order(plan: Plan) -> str:
    """In which order rows are read."""
    first = "by a hash of each row" if plan.canonical else "as delivered"
    return first + (", partitions shuffled each epoch" if plan.shuffle else "")
