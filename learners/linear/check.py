"""Checks of a linear training: labels, weights, offsets and combinations of options."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OperatorError, OptionError, RowsError, one_of
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.structures import OFFSETS, WEIGHTS
from tuskml.learners.classes import LabelRange
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.algorithms.parts.epochs import DRAWN
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.options import refuse_unfit
from tuskml.learners.linear.own.operators import base_of, refuse_sampler
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import LinearOptions, Request
from tuskml.learners.linear.tasks import LINEAR, LINKS, POSITIVE, LinearTask
from tuskml.learners.linear.tasks import with_link as linked_task
from tuskml.learners.tasks import takes_offsets

LEAST_MEAN = 1e-9
"""Least mean of labels whose logarithm is taken."""


def label_range(task: LinearTask) -> LabelRange | None:
    """The labels that a task of numbers allows; None if all."""
    if not task.general or (task.low, task.high) == (-math.inf, math.inf):
        return None
    if task.least is not None:
        says = f"'{task.name}' needs a label {task.least}"
        return LabelRange(says, task.low, task.high, above=task.least == POSITIVE)
    between = f"at least {task.low:g}" if task.high == math.inf else f"at most {task.high:g}"
    if math.isfinite(task.low) and math.isfinite(task.high):
        between = f"between {task.low:g} and {task.high:g}"
    return LabelRange(f"'{task.name}' needs labels of {between}", task.low, task.high)


def refuse_labels(task: LinearTask, labels: NDArray[np.void]) -> None:
    """Raises RowsError for labels of parts, or of a stream, that the task does not have."""
    allowed = None if task.classifies else label_range(task)
    if allowed is None:
        return
    for end in (labels["low"], labels["high"]):
        bad = end[~allowed.holds(end)]
        if len(bad):
            raise RowsError(allowed.refusal(float(bad[0])))


def constant(task: LinearTask, mean: Floats) -> Floats:
    """The margin whose response is the mean of numbers."""
    if task.response == "exp":
        return np.asarray(np.log(np.where(mean > 0, mean, LEAST_MEAN)))
    if task.response in ("logistic", "probit", "cloglog"):
        share = np.clip(mean, LEAST_MEAN, 1 - LEAST_MEAN)
        return OF_SHARE[task.response](share)
    if task.response in OF_MEAN:
        positive = np.where(mean > 0, mean, LEAST_MEAN)
        return OF_MEAN[task.response](mean if task.name == "linear" else positive)
    return mean


def normal_quantile(share: Floats) -> Floats:
    """The quantiles of the normal distribution."""
    from scipy.special import ndtri  # slow to import, seldom needed

    return np.asarray(ndtri(share))


OF_SHARE: dict[str, Callable[[Floats], Floats]] = {
    "logistic": lambda share: np.asarray(np.log(share / (1 - share))),
    "probit": normal_quantile,
    "cloglog": lambda share: np.asarray(np.log(-np.log1p(-share))),
}
"""The margins of shares of the higher class, by response."""
OF_MEAN: dict[str, Callable[[Floats], Floats]] = {
    "inverse": lambda mean: np.asarray(1 / np.where(mean != 0, mean, LEAST_MEAN)),
    "square": lambda mean: np.asarray(np.sqrt(mean)),
    "inverse_root": lambda mean: np.asarray(mean**-2.0),
}
"""The margins of means, by response."""


def refuse_lost(problem: Problem, state: State) -> None:
    """Raises OperatorError if a custom loss is not finite at the final weights."""
    lost = state.objective[~np.isfinite(state.objective)]
    if problem.task.own is not None and len(lost):
        raise OperatorError(
            f"task '{problem.task.name}': the mean loss is {lost[0]:g}, expected a finite number"
        )


# Rows with weights and offsets: the trainings that accept them, and their meaning.
#
# The weighted objective is sum(w_i loss_i) / sum(w_i) + the penalty, so that a weight of 2 equals
# the row twice, also in standard errors (frequency weights, McCullagh and Nelder, Generalized
# linear models, 1989, 2.2). An offset is added to a row's margin: for counts it is the logarithm
# of the exposure (the same, 6.3). Only passes over rows in memory add offsets, so that a task with
# them trains as one whose loss only these passes have.


DOMAIN = ("identity", "inverse", "sqrt", "inverse_squared")
"""Links of other tasks than `linear` that not every margin has, such as 0, where a training would
start that has no intercept."""


def with_link(request: Request) -> Request:
    """The request with the link of its options. Raises OptionError for one that its task lacks."""
    task, options = request.task, request.options
    if options.link is None:
        return request
    if options.link not in LINKS[task.name]:
        raise OptionError(
            f"link '{options.link}' is not available with task '{task.name}', expected "
            f"{one_of(LINKS[task.name])}"
        )
    linked = replace(request, task=linked_task(task, options.link))
    if linked.task.link is None:
        return request
    if not options.fit_intercept and (options.link in DOMAIN):
        raise OptionError(
            f"link '{options.link}' is not available without an intercept, since a margin of 0 "
            "has no mean, expected 'fit_intercept' true"
        )
    known = ALGORITHMS.get(options.algorithm)
    if options.custom or (known is not None and known.stochastic):
        possible = [name for name, one in ALGORITHMS.items() if not one.stochastic]
        raise OptionError(
            f"link '{options.link}' is not available with algorithm '{options.algorithm}', "
            f"expected {one_of(['auto', *(n for n in possible if not is_refused(n, task))])}"
        )
    return linked


def is_refused(algorithm: str, task: LinearTask) -> bool:
    """Returns whether an algorithm does not train a task."""
    return ALGORITHMS[algorithm].refusal(task) is not None


def with_extras(groups: NDArray[np.void], request: Request) -> Request:
    """The request about rows (passes.GROUP) that may have weights or offsets. Raises OptionError
    if it cannot take them.
    """
    if not (groups["extras"] & (WEIGHTS | OFFSETS)).any():
        return request
    task, options = request.task, request.options
    offsets = (groups["extras"] & OFFSETS).any()
    if offsets and not takes_offsets(task.name):
        able = [name for name in LINEAR if takes_offsets(name)]
        raise OptionError(
            f"offset is not available with task '{task.name}', expected {one_of(able)}"
        )
    if options.custom:
        raise OptionError("weight is not available with an operator of your own")
    if not offsets:
        return request
    known, found = ALGORITHMS.get(options.algorithm), replace(task, offset=True)
    if known is not None and known.refusal(found) is not None:
        raise OptionError(
            f"offset is not available with algorithm '{options.algorithm}', expected "
            f"{one_of(['auto', *(name for name in ALGORITHMS if not is_refused(name, found))])}"
        )
    if options.sampler in DRAWN:
        raise OptionError(
            f"offset is not available with sampler '{options.sampler}', expected "
            "'shuffled-partition' or 'sequential'"
        )
    return replace(request, task=found)


def refuse_many(rows: Pass, task: LinearTask) -> None:
    """Raises OptionError if groups of more than two classes have offsets, or another link."""
    if task.link is not None:
        raise OptionError(
            f"link '{task.link}' is not available with more than two classes, expected two "
            "classes or link 'logit'"
        )
    if (rows.groups["extras"] & OFFSETS).any():
        raise OptionError(
            "offset is not available with more than two classes, whose margins would all have it, "
            "expected two classes"
        )


def refuse_together(task: LinearTask, options: LinearOptions) -> None:
    """Raises an error if algorithm, task and sampler cannot go together."""
    if options.custom or options.sampler in DRAWN:
        refuse_sampler(options)
    if options.sampler in DRAWN and task.general:
        raise OptionError(
            f"sampler '{options.sampler}' is not available with task '{task.name}', whose steps "
            "are not compiled, expected 'shuffled-partition' or a sampler of your own"
        )
    algorithm = options.algorithm
    known = ALGORITHMS.get(base_of(algorithm) if options.custom else algorithm)
    reason = None if known is None else known.refusal(task)
    if reason is not None:
        possible = ["auto", *(name for name, one in ALGORITHMS.items() if not one.refusal(task))]
        raise OptionError(
            f"algorithm '{algorithm}' is not available with task '{task.name}', {reason}, "
            f"expected {one_of(possible)}"
        )
    refuse_unfit(options, task)


def many_classes(
    task: LinearTask, options: LinearOptions, labels: NDArray[np.void]
) -> NDArray[np.bool_]:
    """Tests which groups (G,) have more than two classes and a task that allows them."""
    if not task.multinomial or options.classes is not None:
        return np.zeros(len(labels), bool)
    return np.asarray(labels["third_row"] > 0)
