"""Local, complete or partial pooling, chosen by a group's held-out rows.

Local: each group's own model. Complete: one model of all groups, with the group as a category.
Partial: each group's model is drawn to that one, with a strength that held-out rows of all groups
choose. All three are trained without each fold in turn and judged by it; the strength by which
partial pooling is judged on a fold was chosen on the others. The best one of each group is trained
on all its rows.

Newton's method finds the weights.

Complete pooling: one vector of weights w for all groups, an intercept b + u_g for each. Minimise

    sum_g sum_i loss(w.x_i + b + u_g, y_i) + n l2/2 ||w||^2 + 1/2 sum_g u_g^2:

the group is a category, whose effects u_g are normal with variance 1, or with that of the
residuals where the loss is squared. Each Newton step is one pass over all groups; the effects are
eliminated from its system.

Partial pooling: weights v_g for each group, drawn to those of complete pooling. Minimise

    sum_i loss(v_g.z_i, y_i) + k/2 ||v_g - v0_g||^2

over standardised features z with a 1 behind them: the posterior mode of normal differences with
variance 1/k, in the same units (A. Gelman, J. Hill, Data analysis using regression and
multilevel/hierarchical models, 2007, 12 and 13). k, the strength, says how many rows the weights
of complete pooling are worth.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels import passes
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.rows.written import WrittenRows, copy_to_cells
from tuskml.learners.classes import class_fields
from tuskml.learners.held_out import HeldOut
from tuskml.learners.learner import Arrays
from tuskml.learners.linear.options import OPTIONS
from tuskml.learners.linear.planner.planning import first_plan
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.result import options_json, task_members
from tuskml.learners.linear.training import train
from tuskml.learners.models import (
    Lists,
    Models,
    Strings,
    join_models,
    labels_lost_of,
    with_leaks,
    with_lost_labels,
)
from tuskml.learners.options.table import refuse_pooled
from tuskml.schedule import budget

FOLDS = 5
STRENGTHS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
LOCAL, COMPLETE, PARTIAL = range(3)
LEAST_ROWS = 2


def train_pooled(rows: Arrays, request: Request) -> Models:
    """The best of three models of each group, in the order of the groups."""
    began = time.monotonic()
    cells = copy_to_cells(
        rows.x, rows.y, rows.group, folds_of(rows, request), (rows.n_groups, FOLDS)
    )
    found = Pooling(cells, rows, request)
    models = found.choose(found.judge(), began)
    groups = cells.cells.link(range(FOLDS))
    lost = labels_lost_of(groups, np.zeros(len(groups), bool))
    return with_lost_labels(with_leaks(models, groups), lost[models.group])


def refuse(request: Request) -> None:
    """Raises OptionError for options that complete and partial pooling do not support."""
    task, options = request.task, request.options
    if task.test is None or not (task.quadratic or task.classifies):
        raise OptionError(
            f"option 'pooled' is not available with task '{task.name}', expected 'linear' or "
            "'logistic'"
        )
    refuse_pooled(OPTIONS.by_name, options)


def folds_of(rows: Arrays, request: Request) -> NDArray[np.intp]:
    """The fold to which a search deals each row, (n,), of FOLDS in each group."""
    whole = copy_to_cells(
        rows.x, rows.y, rows.group, np.zeros_like(rows.group), (rows.n_groups, 1)
    )
    groups = whole.cells.cells.ravel()
    threads = request.options.threads or budget.threads()
    fold = np.empty_like(rows.group)
    fold[np.argsort(rows.group, kind="stable")] = HeldOut(FOLDS).stretch_of(
        groups, request.options.seed, threads, by_label=request.task.classifies
    )
    return fold


@dataclass(frozen=True)
class Pooling:
    """Trainings on the rows of G groups, in cells of FOLDS folds."""

    kept: WrittenRows
    rows: Arrays
    request: Request

    @property
    def size_of_loss(self) -> float:
        """About how large a row's loss is."""
        return float(self.rows.y.var()) if self.request.task.quadratic else 1.0

    def judge(self) -> Floats:
        """Sums of losses of held-out rows: of local, of complete and of partial pooling by
        strength, (2 + K, G, FOLDS); infinite where there is no model.
        """
        cells, g = self.kept.cells, self.rows.n_groups
        sets = [[one for one in range(FOLDS) if one != out] for out in range(FOLDS)]
        common = cells.in_common(sets)
        assert common is not None
        problem = self.problem(common.ravel(), common=True)
        held = self.problem(cells.cells.ravel())
        local = self.local(problem.rows.groups, common=True)
        weights = [problem.from_caller(local.weights), *self.by_strength(problem, FOLDS)]
        losses = np.array([values_at(held, v).reshape(g, FOLDS) for v in weights])
        losses[0][~local.trained.reshape(g, FOLDS)] = np.inf
        return np.where(np.isfinite(losses), losses, np.inf)

    def problem(self, groups: NDArray[np.void], common: bool = False) -> Problem:
        """The losses on some rows, by weights of features standardised over all groups."""
        x, n = self.rows.x, len(groups)
        threads = self.request.options.threads or budget.threads()
        task = self.request.task
        positive = np.ones(n) * self.rows.y.max() if task.classifies else None
        shift, deviation = x.mean(axis=0), x.std(axis=0)
        scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
        rows = Pass(groups, task.loss, positive, None, True, threads, common=common)
        rows = replace(rows, cancel_mark=passes.cancel_mark())
        return Problem(rows, task, 0.0, 0.0, np.tile(shift, (n, 1)), np.tile(scale, (n, 1)))

    def by_strength(self, problem: Problem, sets: int) -> list[Floats]:
        """Weights of complete pooling, and of partial pooling by each strength."""
        size = self.size_of_loss
        found = [pool_completely(problem, sets, self.request.options.l2, size)]
        for strength in STRENGTHS:
            found.append(pool_partially(problem, found[0], strength, size, found[-1]))
        return found

    def local(self, groups: NDArray[np.void], common: bool = False) -> "Local":
        """Ordinary trainings of the groups that have enough rows."""
        places = np.flatnonzero(groups["n_rows"] >= LEAST_ROWS)
        asked = replace(self.request, common=common)
        weights = np.zeros((len(groups), self.rows.x.shape[1] + 1))
        parts = [
            models.renumber(places[models.group]) for models in train(groups[places], asked, 0)
        ]
        for models in parts:
            d = weights.shape[1] - 1
            weights[models.group, :d] = models.coef.values.reshape(len(models.group), d)
            weights[models.group, d] = models.intercept
        trained = np.zeros(len(groups), bool)
        trained[places] = np.isfinite(weights[places]).all(axis=1)
        return Local(np.nan_to_num(weights), trained, parts)

    def choose(self, losses: Floats, began: float) -> Models:
        """The models with the least losses, on all rows."""
        strength = strengths(losses)
        judged = np.array(
            [
                losses[0],
                losses[1],
                np.take_along_axis(losses[2:], strength[None, None, :FOLDS], axis=0)[0],
            ]
        ).sum(axis=2)
        which = np.argmin(judged[[COMPLETE, PARTIAL, LOCAL]], axis=0)
        which = np.array([COMPLETE, PARTIAL, LOCAL])[which]
        groups = self.kept.cells.link(range(FOLDS)).copy()
        problem = self.problem(groups)
        last = int(strength[FOLDS])
        found = self.by_strength(problem, 1)[: last + 2]
        told = PoolingResult(
            self.request,
            problem,
            which,
            judged / groups["n_rows"],
            STRENGTHS[last],
            {COMPLETE: found[0], PARTIAL: found[-1]},
            began,
        )
        return make_models(told, self.local(groups).parts)


def strengths(losses: Floats) -> NDArray[np.intp]:
    """The strength by which each fold is judged, chosen on the others, and behind these that of
    all folds, (FOLDS + 1,).
    """
    total = losses[2:].sum(axis=1)
    without = np.concatenate([total.sum(axis=1)[:, None] - total, total.sum(axis=1)[:, None]], 1)
    return np.asarray(without.argmin(axis=0))


@dataclass(frozen=True)
class Local:
    """Ordinary models: weights (V, p) in the caller's units, which there are, and the models."""

    weights: Floats
    trained: NDArray[np.bool_]
    parts: Sequence[Models]


MOST_STEPS = 50
TOLERANCE = 1e-8
"""Share of a Newton step's predicted decrease, per row and relative to the size of a loss."""
MOST_HALVINGS = 30
ROUNDING = 1e-12


@dataclass(frozen=True)
class Sums:
    """Sums over the rows of each group at some weights: value (V,), gradient (V, p), curvature
    (V, p, p), by standardised weights.
    """

    value: Floats
    gradient: Floats
    curvature: Floats


def sums_at(problem: Problem, v: Floats) -> Sums:
    """Sums of one pass at v (V, p); 0 for groups without rows."""
    with np.errstate(all="ignore"):  # of groups without rows
        found = problem.evaluate(v, curvature=True)
    n = problem.rows.groups["n_rows"].astype(np.float64)
    some = n > 0
    packed = np.asarray(found.hessian)
    p = v.shape[1]
    full = np.zeros((len(v), p, p))
    low = np.tril_indices(p)
    full[:, low[0], low[1]] = full[:, low[1], low[0]] = packed
    return Sums(
        np.where(some, found.objective * n, 0.0),
        np.where(some[:, None], found.gradient * n[:, None], 0.0),
        np.where(some[:, None, None], full * n[:, None, None], 0.0),
    )


def values_at(problem: Problem, v: Floats) -> Floats:
    """Sums of losses alone, (V,)."""
    n = problem.rows.groups["n_rows"]
    with np.errstate(all="ignore"):
        return np.where(n > 0, problem.objective(v) * n, 0.0)


def pool_completely(problem: Problem, sets: int, l2: float, size_of_loss: float) -> Floats:
    """Weights (G * S, p) of complete pooling in each of S sets of rows of the groups.

    Neighbours among the problem's groups are the sets of one group.
    """
    p = problem.d + 1
    n = problem.rows.groups["n_rows"].reshape(-1, sets).sum(axis=0)
    ridge = np.zeros((sets, p))
    ridge[:, :-1] = n[:, None] * l2 * problem.scale[:sets] ** 2
    shared, own = np.zeros((sets, p)), np.zeros((problem.n_groups // sets, sets))

    def weights(shared: Floats, own: Floats) -> Floats:
        v = np.repeat(shared[None], len(own), axis=0)
        v[:, :, -1] += own
        return np.asarray(v.reshape(-1, p))

    def penalties(shared: Floats, own: Floats) -> Floats:
        return np.asarray((ridge * shared**2).sum(axis=1) + (own**2).sum(axis=0)) / 2

    for _ in range(MOST_STEPS):
        found = sums_at(problem, weights(shared, own))
        total = found.value.reshape(-1, sets).sum(axis=0) + penalties(shared, own)
        slope = found.gradient.reshape(-1, sets, p)
        pull, own_pull = slope.sum(axis=0) + ridge * shared, slope[:, :, -1] + own
        step, steps = _arrow(found.curvature.reshape(-1, sets, p, p), ridge, pull, own_pull)
        promised = (step * pull).sum(axis=1) + (steps * own_pull).sum(axis=0)
        size = (promised > TOLERANCE * size_of_loss * n).astype(float)
        if not size.any():
            break
        for _ in range(MOST_HALVINGS):
            near, apart = shared - size[:, None] * step, own - size * steps
            there = values_at(problem, weights(near, apart)).reshape(-1, sets).sum(axis=0)
            worse = there + penalties(near, apart) > total + ROUNDING * np.abs(total)
            if not (worse & (size > 0)).any():
                break
            size[worse] /= 2
        shared, own = near, apart
    return weights(shared, own)


def _arrow(
    curvature: Floats, ridge: Floats, pull: Floats, own_pull: Floats
) -> tuple[Floats, Floats]:
    """Newton's steps of the shared weights (S, p) and of the effects (G, S).

    curvature: (G, S, p, p); pull, own_pull: their gradients. The system is an arrow: an effect
    meets the shared weights and itself alone.
    """
    p = pull.shape[1]
    across = curvature[:, :, -1]
    pivot = across[:, :, -1] + 1.0
    left = curvature.sum(axis=0) - np.einsum("gsi,gsj,gs->sij", across, across, 1 / pivot)
    left[:, np.arange(p), np.arange(p)] += ridge
    right = pull - np.einsum("gsi,gs->si", across, own_pull / pivot)
    step = solve_systems(left, right)
    return step, (own_pull - np.einsum("gsi,si->gs", across, step)) / pivot


def pool_partially(
    problem: Problem, centre: Floats, strength: float, size_of_loss: float, start: Floats
) -> Floats:
    """Weights (V, p) that are drawn to `centre`, beginning at `start`."""
    v = start.copy()
    p = v.shape[1]
    least = TOLERANCE * size_of_loss * np.maximum(problem.rows.groups["n_rows"], 1)
    going = np.arange(len(v))
    for _ in range(MOST_STEPS):
        part, middle, here = problem.of(going), centre[going], v[going]
        found = sums_at(part, here)
        left = found.curvature + strength * np.eye(p)
        right = found.gradient + strength * (here - middle)
        step = solve_systems(left, right)
        promised = (step * right).sum(axis=1)
        size = (promised > least[going]).astype(float)
        total = found.value + strength * ((here - middle) ** 2).sum(axis=1) / 2
        moved = here
        for _ in range(MOST_HALVINGS):
            moved = here - size[:, None] * step
            there = values_at(part, moved) + strength * ((moved - middle) ** 2).sum(axis=1) / 2
            worse = (there > total + ROUNDING * np.abs(total)) & (size > 0)
            if not worse.any():
                break
            size[worse] /= 2
        v[going] = moved
        going = going[size > 0]
        if not len(going):
            break
    return v


def solve_systems(left: Floats, right: Floats) -> Floats:
    """The solutions (V, p) of systems (V, p, p); a feature that never varies gets 0."""
    p = right.shape[1]
    zero = left[:, np.arange(p), np.arange(p)] <= 0
    fixed: NDArray[np.float64] = left.copy()
    fixed[:, np.arange(p), np.arange(p)] += zero
    return np.asarray(np.linalg.solve(fixed, np.where(zero, 0.0, right)[:, :, None])[:, :, 0])


NAMES = ("local", "complete", "partial")


@dataclass(frozen=True)
class PoolingResult:
    """The results of pooling G groups: which, (G,), the index of the best model in NAMES; the mean
    losses of held-out rows of each, (3, G); weights (G, p) of complete and partial pooling on all
    rows, by index in NAMES; strength: of partial pooling.
    """

    request: Request
    problem: Problem
    which: NDArray[np.intp]
    losses: Floats
    strength: float
    weights: Mapping[int, Floats]
    began: float


def make_models(told: PoolingResult, local: Sequence[Models]) -> Models:
    """The models of all groups, in their order; local: those of groups with enough rows."""
    parts = []
    for models in local:
        own = np.flatnonzero(told.which[models.group] == 0)
        if len(own):
            parts.append(models.of(own))
    for which, v in told.weights.items():
        places = np.flatnonzero(told.which == which)
        if len(places):
            parts.append(models_from_others(told, which, places, v))
    together = join_models(parts)
    found = together.of(np.argsort(together.group))
    texts = trials(told)
    return replace(found, trials=Strings(tuple(texts), np.arange(len(texts), dtype=np.int32)))


def models_from_others(
    told: PoolingResult, which: int, places: NDArray[np.intp], v: Floats
) -> Models:
    """The models of some groups that learned from others."""
    problem, task, n = told.problem.of(places), told.request.task, len(places)
    weights = problem.to_caller(v[places])
    d = np.full(n, problem.d)
    classes = Lists.none(n)
    if task.classifies:
        assert told.request.options.classes is not None
        classes = Lists.of_rows(np.tile(told.request.options.classes, (n, 1)), np.full(n, 2))
    loss = problem.objective(v[places])
    models = Models.build(
        problem.rows.groups,
        task.name,
        coef=Lists.of_rows(weights[:, :-1], d),
        intercept=np.ascontiguousarray(weights[:, -1]),
        **class_fields(classes),
        loss=loss,
        history=Lists(loss, np.arange(n + 1)),
        converged=np.ones(n, np.uint8),
        status="ok",
        plan=plan(told, which),
        seconds=np.full(n, (time.monotonic() - told.began) / len(told.which)),
        options=options(told, which),
    )
    return models.renumber(places)


def plan(told: PoolingResult, which: int) -> str:
    """Describes how a model was made, in one line."""
    strength = f", strength {told.strength:g}" if NAMES[which] == "partial" else ""
    return f"{NAMES[which]} pooling of {len(told.which)} groups{strength}"


def options(told: PoolingResult, which: int) -> str:
    """The model's options as JSON, and how it was pooled."""
    request = told.request
    first, _ = first_plan(told.problem.rows.groups, request, 0)
    text = options_json(request.options, first, task_members(request.task, request.options))
    more = {"pooling": NAMES[which]}
    return f"{text[:-1]}, {json.dumps(more)[1:]}"


def trials(told: PoolingResult) -> list[str]:
    """The value of each model's field `trials`: the metric of each way on held-out rows."""
    quadratic = told.request.task.quadratic
    metric = np.sqrt(2 * told.losses) if quadratic else told.losses
    shown = [{"pooling": name} for name in NAMES]
    shown[2] |= {"strength": f"{told.strength:g}"}
    return [
        json.dumps(
            {
                "metric": "rmse" if quadratic else "log_loss",
                "chosen": int(told.which[g]),
                "trials": [
                    {
                        "configuration": one,
                        "metric": float(metric[k, g]) if np.isfinite(metric[k, g]) else None,
                        "std_err": None,
                        "rows": 1.0,
                        "folds": [],
                    }
                    for k, one in enumerate(shown)
                ],
            }
        )
        for g in range(metric.shape[1])
    ]
