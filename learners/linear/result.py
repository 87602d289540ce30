"""The models of groups, made from the final states of their trainings."""

import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import KINDS, Floats, Pass
from tuskml.kernels.segments import rows_given
from tuskml.learners.classes import class_fields, margin_of_one_class, squares_vanish
from tuskml.learners.explaining import format_seconds
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.inference import outcome
from tuskml.learners.linear.inference.tempered import solver
from tuskml.learners.linear.objective import best_constant
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Index, Problem
from tuskml.learners.linear.request import CLASSIC, FREQUENCY, LinearOptions, Plan, Request
from tuskml.learners.linear.tasks import LinearTask
from tuskml.learners.models import (
    FORMAT,
    LOST,
    MEANINGS,
    Lists,
    Models,
    Strings,
    by_group,
    thin_history,
)


@dataclass(frozen=True)
class Inputs:
    """The data of G groups: rows, LABELS, held-out rows (GROUP) if any, widths, (G,), and if
    requested the number of features of each term, (G, T), -1 after a group's last one.
    """

    rows: Pass
    labels: NDArray[np.void]
    held: NDArray[np.void] | None
    widths: NDArray[np.int64]
    terms: NDArray[np.int64] | None = None

    def of(self, which: Index) -> "Inputs":
        """Selects some of the groups."""
        held = None if self.held is None else self.held[which]
        terms = None if self.terms is None else self.terms[which]
        return Inputs(self.rows.of(which), self.labels[which], held, self.widths[which], terms)


@dataclass(frozen=True)
class TrainingEnd:
    """The end of a training of G groups; ridge (G,): which got one; fit: `model_fit`'s members."""

    problem: Problem
    state: State
    plan: Plan
    seen: outcome.Inference
    ridge: NDArray[np.bool_]
    fit: outcome.Members
    covariance: Lists | None
    ratios: Lists | None
    spread: Lists | None


def models_of(given: Inputs, ended: TrainingEnd, options: str, began: float) -> Models:
    """The models of groups where they ended; options: as JSON."""
    problem, state, plan, seen = ended.problem, ended.state, ended.plan, ended.seen
    labels, widths, groups = given.labels, given.widths, given.rows.groups
    n, task = len(labels), problem.task
    n_rows = rows_given(groups) + (0 if given.held is None else given.held["n_rows"])
    status = judge(problem, state, plan, seen.constant, seen.dependent, seen.parted)
    weights = problem.as_given(state.v)
    lost = settle_lost(problem, state, labels, weights)
    seen.std_err[lost | ~np.isfinite(seen.std_err).any(axis=1)] = np.nan
    noted = outcome.note_members(problem, seen, n_rows, ended.ridge, ended.spread is not None)
    return Models.build(
        groups,
        task.name,
        coef=Lists.of_rows(weights[:, :-1], widths),
        intercept=np.ascontiguousarray(weights[:, -1]),
        std_err=std_err_lists(seen.std_err, widths),
        **(class_fields(classes_of(task, labels)) if task.classifies else {}),
        n_rows=n_rows,
        n_features=widths,
        loss=state.objective,
        history=thin_history(state.history, n),
        iterations=state.iterations,
        converged=state.converged.astype(np.uint8),
        status=with_lost(status, lost),
        plan=plan_lines(ended),
        seconds=n_rows / n_rows.sum() * (time.monotonic() - began),
        options=by_group(Strings.same(options, n), noted | ended.fit),
        **({} if ended.covariance is None else {"covariance": ended.covariance}),
        **({} if ended.ratios is None else {"ratios": ended.ratios}),
        **({} if ended.spread is None else {"spread": without(ended.spread, lost)}),
    )


def without(lists: Lists, lost: NDArray[np.bool_]) -> Lists:
    """The lists, those of lost groups empty."""
    if not lost.any():
        return lists
    places = zip(lists.offsets[:-1], lists.offsets[1:], lost, strict=True)
    return Lists.of_parts([lists.values[a : a if gone else b] for a, b, gone in places])


def plan_lines(ended: TrainingEnd) -> Strings:
    """The plan text of each group, with the algorithm of the ridge where rows separate."""
    line = plan_line(ended.plan)
    if not ended.ridge.any():
        return Strings.same(line, len(ended.ridge))
    pool = (line, f"{line}, then a ridge by {solver(ended.problem).name}")
    return Strings(pool, ended.ridge.astype(np.int32))


def classes_of(task: LinearTask, labels: NDArray[np.void]) -> Lists:
    """The two labels in rising order; none for numbers."""
    n = len(labels)
    if not task.classifies:
        return Lists.none(n)
    pairs = np.stack([labels["low"], labels["high"]], axis=1)
    return Lists.of_rows(pairs, np.full(n, 2, np.int64))


def one_class(
    rows: Pass,
    labels: NDArray[np.void],
    widths: NDArray[np.int64],
    plan: Plan,
    request: Request,
) -> Models:
    """Models of groups with a single class: a constant that is certain of that class. For a custom
    task, whose loss may not allow an infinite margin, it is the smoothed log-odds.
    """
    n, both = len(labels), request.options.classes
    intercept = margin_of_one_class(request.options, labels)
    odds = np.log(2.0 * labels["weight"] + 1.0)  # those of n + 1/2 to 1/2
    if request.task.own is not None:
        intercept = np.sign(intercept) * odds
    classes = Lists(np.ascontiguousarray(labels["low"]), np.arange(n + 1))
    if both is not None:
        classes = Lists.of_rows(np.tile(both, (n, 1)), np.full(n, 2, np.int64))
    return Models.build(
        rows.groups,
        request.task.name,
        coef=Lists.of_rows(np.zeros((n, int(widths.max()))), widths),
        intercept=intercept,
        **class_fields(classes),
        n_features=widths,
        loss=loss_of_one_class(request.task, odds),
        status="one class",
        plan="constant",
        options=options_json(request.options, plan, task_members(request.task, request.options)),
    )


STATUSES = tuple(MEANINGS)
"""Statuses in rising order of importance."""


def judge(
    problem: Problem,
    state: State,
    plan: Plan,
    constant: NDArray[np.bool_],
    dependent: NDArray[np.bool_],
    parted: NDArray[np.bool_],
    classes: int = 2,
) -> Strings:
    """The status of each group; also clears `converged` for groups without an optimum.

    constant, dependent, parted: as in `outcome.Inference`.
    """
    code = np.zeros(len(state.v), np.int32)

    def mark(where: NDArray[np.bool_], status: str) -> None:
        np.maximum(code, np.where(where, STATUSES.index(status), 0), out=code)

    mark(constant, "constant feature")
    mark(state.converged & dependent, "collinear features")
    mark(find_rounded(problem) | find_lost_digits(problem, state.v), "rounded feature")
    if plan.epsilon > 0:
        mark(~state.converged, "not converged")
    if state.out_of_time:
        mark(~state.converged & state.running, "time limit")
    code[state.stopped & ~state.converged] = STATUSES.index("early stop")
    mark(state.diverged, "diverged")
    if not problem.l2 and not problem.l1:
        mark(fewer_rows(problem, classes), "too few rows")
    mark(parted, "separable")
    state.converged[parted] = False
    return Strings(STATUSES, code)


def fewer_rows(problem: Problem, classes: int) -> NDArray[np.bool_]:
    """Groups (G,) with fewer rows than weights, of all classes but the first: those of features
    that never occur in sparse rows are none.
    """
    rows, times, intercept = problem.rows, classes - 1, int(problem.rows.fit_intercept)
    few = rows_given(rows.groups) < times * (problem.d + intercept)
    which = np.flatnonzero(few)
    if rows.sparse and len(which):
        part = rows.of(which)
        seen = (part.counts_of_features[0] > 0).sum(axis=1)
        few[which] = rows_given(part.groups) < times * (seen + intercept)
    return np.asarray(few)


# Features that lost digits: as 32-bit floats, or in sums whose terms are far from zero.

EXACT_IN_FLOAT = 2.0**24
"""Up to which 32-bit floats hold every whole number."""
ROUNDED_SHARE = 1e-4
"""Share of a feature's variance by its rounding, which moves a slope by as much."""


def find_rounded(problem: Problem) -> NDArray[np.bool_]:
    """Tests which groups, (G,), have a feature whose 32-bit floats lost much of its variation.

    DuckDB makes a FLOAT[] of `[FLOAT, BIGINT]`. A step u between floats is an error of variance
    u^2 / 12, and such errors in a feature shrink its slope by their share of its variance (Fuller,
    Measurement Error Models, 1987, 1.1).
    """
    if KINDS[problem.rows.groups["kind"][0]] != "dense float32":
        return np.zeros(problem.rows.n_groups, bool)
    center = np.minimum(np.abs(problem.centre), np.finfo(np.float32).max).astype(np.float32)
    error = (np.spacing(center).astype(float) * problem.scale) ** 2 / 12
    lost: NDArray[np.bool_] = np.any((center > EXACT_IN_FLOAT) & (error > ROUNDED_SHARE), axis=1)
    return lost


def find_lost_digits(problem: Problem, v: Floats) -> NDArray[np.bool_]:
    """Tests which groups, (G,), have predictions that lose digits: the terms of w.x + b, of
    features in original units, are so large that their sum is rounded to steps which are not
    small.
    """
    each = problem.as_given(v).reshape(len(v), -1, problem.d + 1)
    terms = np.abs(each[:, :, :-1] * problem.centre[:, None, :]).max(axis=2, initial=0.0)
    size = np.maximum(terms, np.abs(each[:, :, -1])).max(axis=1)
    unit = 1.0 if problem.weight_unit is None else problem.weight_unit
    lost: NDArray[np.bool_] = np.isfinite(size) & (np.spacing(size) > LOST * unit)
    return lost


# Models whose numbers do not fit in a double, and the constant models that replace them.
#
# Squares of residuals leave the doubles where labels are beyond about 1e150 or, all of them, below
# 1e-150, sums do where features are near 1e308, and weights where features hardly vary. Such a
# group gets the constant model and a status that says so, and no loss, history or standard
# errors. The history of other groups leaves out what is not finite.

OUT_OF_RANGE = STATUSES.index("out of range")


def settle_lost(
    problem: Problem, state: State, labels: NDArray[np.void], weights: Floats
) -> NDArray[np.bool_]:
    """Tests which groups (G,) have numbers that overflow doubles; these get the constant model,
    and no loss.

    weights: (G, p), in the caller's units, the intercept last.
    """
    lost = ~(np.isfinite(weights).all(axis=1) & np.isfinite(state.objective))
    if problem.task.quadratic:
        lost |= squares_vanish(labels)
    if lost.any():
        weights[lost] = 0.0
        if problem.rows.fit_intercept:
            origin = 0.0 if problem.rows.origin is None else problem.rows.origin[:, -1]
            weights[lost, -1] = (constants(problem, labels) + origin)[lost]
        state.converged[lost] = False
        state.objective[lost] = np.nan
    for entry in state.history:
        entry[lost | ~np.isfinite(entry)] = np.nan  # steps that were taken back
    return lost


def constants(problem: Problem, labels: NDArray[np.void]) -> Floats:
    """The best constant (G,), of numbers that do not add up to one the middle, else 0."""
    best = best_constant(problem, labels)
    if problem.task.quadratic:
        best = np.where(np.isfinite(best), best, labels["low"] / 2 + labels["high"] / 2)
    return np.where(np.isfinite(best), best, 0.0)


def with_lost(status: Strings, lost: NDArray[np.bool_]) -> Strings:
    """Replaces the statuses of lost groups."""
    return Strings(status.pool, np.where(lost, OUT_OF_RANGE, status.code).astype(np.int32))


def std_err_lists(std_err: Floats, widths: NDArray[np.int64]) -> Lists:
    """A list per group; none if no element has a meaning."""
    known = ~np.isnan(std_err).all(axis=1)
    return Lists.of_rows(std_err, np.where(known, widths + 1, 0))


def plan_line(plan: Plan) -> str:
    """One line for the model's `plan`."""
    algorithm = ALGORITHMS[plan.family]
    parts = [plan.algorithm if plan.base is None else f"{plan.algorithm} (of {plan.base})"]
    if plan.after is not None:
        parts.append(plan.after)
    if algorithm.batched:
        parts.append(f"batches of {plan.batch_size}")
    if algorithm.stepped:
        parts.append(f"step {plan.schedule}")
    parts += [f"{kind} {name}" for kind, name in plan.own_parts()]
    if plan.sample_stride > 1:
        parts.append(f"started on 1/{plan.sample_stride} of the rows")
    if len(plan.smoothing) > 1:
        parts.append(f"hinge smoothed down to {plan.smoothing[-1]:g}")
    parts.append("1 thread" if plan.threads == 1 else f"{plan.threads} threads")
    if plan.device is not None:
        parts.append(f"on {plan.device}")
    if plan.estimated is not None:
        iterations, seconds = plan.estimated
        parts.append(f"estimated {iterations:.0f} iterations, {format_seconds(seconds)}")
    if plan.unmet is not None:
        parts.append(f"{plan.unmet} is too little for epsilon {plan.epsilon:g}")
    return ", ".join(parts)


def options_json(options: LinearOptions, plan: Plan, more: dict[str, Any] | None = None) -> str:
    """The options that were in force, as JSON; the version comes first, where `predict` looks.

    more: members of a stored model.
    """
    shown: dict[str, Any] = {
        "tuskml": FORMAT,
        "algorithm": plan.algorithm,
        "max_iter": plan.max_iter,
        "epsilon": plan.epsilon,
        "converge": plan.converge,
        "l1": options.l1,
        "l2": options.l2,
        "fit_intercept": options.fit_intercept,
        "threads": plan.threads,
        "seed": options.seed,
        "deterministic": options.keeps_order,
    }
    shown |= dict(plan.own_parts())
    if ALGORITHMS[plan.family].sets_steps:
        shown |= {"step": plan.step, "schedule": plan.schedule, "batch_size": plan.batch_size}
    if plan.device is not None:
        shown["device"] = "gpu"
    if plan.estimated is not None:
        iterations, seconds = plan.estimated
        shown["estimated"] = {
            "iterations": round(iterations),
            "seconds": float(f"{seconds:.2g}"),
        }
    if options.class_weight is not None:
        shown["class_weight"] = getattr(options.class_weight, "as_given", options.class_weight)
    if options.classes is not None:
        shown["classes"] = getattr(options.classes, "as_given", options.classes)
    if options.covariance != CLASSIC:
        shown["covariance"] = options.covariance
    if options.weight_kind != FREQUENCY:
        shown["weight_kind"] = options.weight_kind
    if options.cluster is not None:
        shown["cluster"] = options.cluster
    if options.intervals is not None:
        shown["intervals"] = options.intervals
    if options.validation:
        shown["validation"] = options.validation
    return json.dumps(shown | (more or {}), separators=(",", ":"))


def loss_of_one_class(task: LinearTask, margin: Floats) -> Floats:
    """The loss of a constant margin of the positive class, if it has a certain one 0."""
    if task.own is None or task.own.loss is None:
        return np.zeros(len(margin))
    found = task.own.answer("loss", task.own.loss, margin, np.ones(len(margin)))
    return np.array(np.broadcast_to(found, margin.shape))


def task_members(task: LinearTask, options: LinearOptions) -> dict[str, Any]:
    """Members of a model's options on its task: the parameter, and how a custom one predicts."""
    if task.own is not None:
        return {"response": task.response}
    given = None if task.parameter is None else getattr(options, task.parameter)
    found = {} if given is None else {str(task.parameter): given}
    return found if task.link is None else found | {"link": task.link}
