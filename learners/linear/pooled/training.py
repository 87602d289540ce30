"""Local, complete or partial pooling, chosen by a group's held-out rows.

Local: each group's own model. Complete: one model of all groups, with the group as a category.
Partial: each group's model is drawn to that one, with a strength that held-out rows of all groups
choose. All three are trained without each fold in turn and judged by it; the strength by which
partial pooling is judged on a fold was chosen on the others. The best one of each group is trained
on all its rows.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels import passes
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.rows.written import Written, written
from tuskml.learners.held_out import HeldOut
from tuskml.learners.learner import Arrays
from tuskml.learners.linear.options import OPTIONS
from tuskml.learners.linear.pooled.descent import completely, partially, values_at
from tuskml.learners.linear.pooled.models import Pooled, pooled_models
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.training import train
from tuskml.learners.models import Models, lost_labels, with_leaks, with_lost_labels
from tuskml.learners.options.table import refuse_pooled
from tuskml.schedule import budget

FOLDS = 5
STRENGTHS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
LOCAL, COMPLETE, PARTIAL = range(3)
LEAST_ROWS = 2


def train_pooled(rows: Arrays, request: Request) -> Models:
    """The best of three models of each group, in the order of the groups. Raises OptionError."""
    refuse(request)
    began = time.monotonic()
    cells = written(rows.x, rows.y, rows.group, folds_of(rows, request), (rows.n_groups, FOLDS))
    found = Pooling(cells, rows, request)
    models = found.chosen(found.judged(), began)
    groups = cells.cells.linked(range(FOLDS))
    lost = lost_labels(groups, np.zeros(len(groups), bool))
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
    whole = written(rows.x, rows.y, rows.group, np.zeros_like(rows.group), (rows.n_groups, 1))
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

    kept: Written
    rows: Arrays
    request: Request

    @property
    def size_of_loss(self) -> float:
        """About how large a row's loss is."""
        return float(self.rows.y.var()) if self.request.task.quadratic else 1.0

    def judged(self) -> Floats:
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
        found = [completely(problem, sets, self.request.options.l2, size)]
        for strength in STRENGTHS:
            found.append(partially(problem, found[0], strength, size, found[-1]))
        return found

    def local(self, groups: NDArray[np.void], common: bool = False) -> "Local":
        """Ordinary trainings of the groups that have enough rows."""
        places = np.flatnonzero(groups["n_rows"] >= LEAST_ROWS)
        asked = replace(self.request, common=common)
        weights = np.zeros((len(groups), self.rows.x.shape[1] + 1))
        parts = [
            models.numbered(places[models.group]) for models in train(groups[places], asked, 0)
        ]
        for models in parts:
            d = weights.shape[1] - 1
            weights[models.group, :d] = models.coef.values.reshape(len(models.group), d)
            weights[models.group, d] = models.intercept
        trained = np.zeros(len(groups), bool)
        trained[places] = np.isfinite(weights[places]).all(axis=1)
        return Local(np.nan_to_num(weights), trained, parts)

    def chosen(self, losses: Floats, began: float) -> Models:
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
        groups = self.kept.cells.linked(range(FOLDS)).copy()
        problem = self.problem(groups)
        last = int(strength[FOLDS])
        found = self.by_strength(problem, 1)[: last + 2]
        told = Pooled(
            self.request,
            problem,
            which,
            judged / groups["n_rows"],
            STRENGTHS[last],
            {COMPLETE: found[0], PARTIAL: found[-1]},
            began,
        )
        return pooled_models(told, self.local(groups).parts)


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
