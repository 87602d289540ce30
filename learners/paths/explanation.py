"""The explanation of a training along a path of penalties."""

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.paths import LOGISTIC, needs_sums
from tuskml.learners.explaining import Document, document
from tuskml.learners.learner import Request
from tuskml.learners.paths.options import Path, PathOptions, PathTask
from tuskml.learners.paths.outcome import plan_of
from tuskml.learners.paths.training import pass_of, rules_of
from tuskml.schedule import budget


def explain(group: NDArray[np.void], request: Request[PathTask, PathOptions]) -> Document:
    """Explains the training of one group."""
    options, rows, rules = request.options, pass_of(group, request), rules_of(request)
    together = None
    if options.groups is not None:
        together = np.zeros((1, rows.n_features), np.int32)
    by_sums = bool(needs_sums(rows, rules, together)[0])
    return document(
        group,
        request.task.name,
        objective(request),
        request.reading,
        plan={
            "algorithm": "equations" if by_sums else "coordinate descent",
            "description": plan_of(request, by_sums=by_sums),
            "because": reason(request.task, by_sums=by_sums),
            "order": order(options),
            "threads": budget.threads(options.threads),
            "max_iter": options.epochs,
            "epsilon": options.tol,
            "converge": "duality gap",
            "time": options.time,
        },
    )


def objective(request: Request[PathTask, PathOptions]) -> str:
    """The objective of each penalty as a formula."""
    options = request.options
    penalty = "lambda" if options.penalty is None else f"{options.penalty:g}"
    size = "|s w|" if options.standardize else "|w|"
    first = f"{size} by group" if options.groups is not None else size
    inner = first if options.alpha == 1 else f"({options.alpha:g} {first}"
    if options.alpha != 1:
        inner += f" + {(1 - options.alpha) / 2:g} {size}^2)"
    return f"mean {request.task.formula} + {penalty} {inner}"


def reason(task: PathTask, *, by_sums: bool) -> str:
    """The reason why this plan."""
    if by_sums:
        return (
            "few dense features are fitted without their rows, which are read once for all folds"
        )
    if task.loss == LOGISTIC:
        return "most weights are 0, and the logistic loss is approximated by squares in turn"
    return "most weights are 0, so that few columns are read"


def order(options: PathOptions) -> str:
    """Describes the order in which penalties are fitted, and the choice of one."""
    if options.penalty is not None:
        return "one penalty"
    path = options.path or Path()
    how = "the last one is taken"
    if path.times:
        how = "the one with the least loss of rows that are held out is taken"
        if path.one_standard_error:
            how = "the largest one within one standard error of the least held-out loss is taken"
    return f"penalties from the largest on, {how}"
