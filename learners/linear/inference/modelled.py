"""The models of groups, of what is known where their trainings ended."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Pass
from tuskml.learners.classes import margin_of_one_class, named_classes
from tuskml.learners.linear.check import loss_of_one_class, task_members
from tuskml.learners.linear.inference import finite, outcome
from tuskml.learners.linear.inference.tempered import solver
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.planner.report import plan_line, resolved
from tuskml.learners.linear.problem import Index, Problem
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.tasks import LinearTask
from tuskml.learners.models import Lists, Models, Strings, by_group, thinned


@dataclass(frozen=True)
class Inputs:
    """What G groups train on: rows, LABELS, held-out rows (GROUP) if any, widths, (G,), and where
    it is asked for how many features each term has, (G, T), -1 behind a group's last one."""

    rows: Pass
    labels: NDArray[np.void]
    held: NDArray[np.void] | None
    widths: NDArray[np.int64]
    terms: NDArray[np.int64] | None = None

    def of(self, which: Index) -> "Inputs":
        """The same for some of the groups."""
        held = None if self.held is None else self.held[which]
        terms = None if self.terms is None else self.terms[which]
        return Inputs(self.rows.of(which), self.labels[which], held, self.widths[which], terms)


@dataclass(frozen=True)
class Ended:
    """How a training of G groups ended; ridge (G,): which got one; fit: `model_fit`'s members."""

    problem: Problem
    state: State
    plan: Plan
    seen: outcome.Inference
    ridge: NDArray[np.bool_]
    fit: outcome.Members
    covariance: Lists | None
    ratios: Lists | None


def models_of(given: Inputs, ended: Ended, options: str, began: float) -> Models:
    """The models of groups where they ended; options: as JSON."""
    problem, state, plan, seen = ended.problem, ended.state, ended.plan, ended.seen
    labels, widths, groups = given.labels, given.widths, given.rows.groups
    n, task = len(labels), problem.task
    n_rows = groups["n_rows"] + (0 if given.held is None else given.held["n_rows"])
    status = outcome.judge(problem, state, plan, seen)
    weights = problem.as_given(state.v)
    lost = finite.settle_lost(problem, state, labels, weights)
    seen.std_err[lost | ~np.isfinite(seen.std_err).any(axis=1)] = np.nan
    noted = outcome.noted(problem, seen, n_rows, ended.ridge)
    return Models.built(
        groups,
        task.name,
        coef=Lists.of_rows(weights[:, :-1], widths),
        intercept=np.ascontiguousarray(weights[:, -1]),
        std_err=finite.std_err_lists(seen.std_err, widths),
        **named_classes(classes_of(task, labels)),
        n_rows=n_rows,
        n_features=widths,
        loss=state.objective,
        history=thinned(state.history, n),
        iterations=state.iterations,
        converged=state.converged.astype(np.uint8),
        status=finite.with_lost(status, lost),
        plan=plan_lines(ended),
        seconds=n_rows / n_rows.sum() * (time.monotonic() - began),
        options=by_group(options, n, noted | ended.fit),
        **({} if ended.covariance is None else {"covariance": ended.covariance}),
        **({} if ended.ratios is None else {"ratios": ended.ratios}),
    )


def plan_lines(ended: Ended) -> Strings:
    """What ran, for each group: where rows separate also what found the weights with the ridge."""
    line = plan_line(ended.plan)
    pool = (line, f"{line}, then a ridge by {solver(ended.problem).name}")
    return Strings(pool, ended.ridge.astype(np.int32))


def classes_of(task: LinearTask, labels: NDArray[np.void]) -> Lists:
    """The two labels in rising order; none for numbers."""
    n = len(labels)
    if not task.classifies:
        return Lists(np.empty(0), np.zeros(n + 1, np.int64))
    pairs = np.stack([labels["low"], labels["high"]], axis=1)
    return Lists.of_rows(pairs, np.full(n, 2, np.int64))


def one_class(
    rows: Pass,
    labels: NDArray[np.void],
    widths: NDArray[np.int64],
    plan: Plan,
    request: Request,
) -> Models:
    """Groups with a single class: the constant model, which is certain of that class. Of a task of
    a user's own, for whose loss no margin may be too large, it has the smoothed log-odds.
    """
    n, both = len(labels), request.options.classes
    intercept = margin_of_one_class(request.options, labels)
    odds = np.log(2.0 * labels["weight"] + 1.0)  # those of n + 1/2 to 1/2
    if request.task.own is not None:
        intercept = np.sign(intercept) * odds
    classes = Lists(np.ascontiguousarray(labels["low"]), np.arange(n + 1))
    if both is not None:
        classes = Lists.of_rows(np.tile(both, (n, 1)), np.full(n, 2, np.int64))
    return Models.built(
        rows.groups,
        request.task.name,
        coef=Lists.of_rows(np.zeros((n, int(widths.max()))), widths),
        intercept=intercept,
        **named_classes(classes),
        n_features=widths,
        loss=loss_of_one_class(request.task, odds),
        status="one class",
        plan="constant",
        options=resolved(request.options, plan, task_members(request.task, request.options)),
    )
