"""Trains a group whose rows lie in parts, each on another worker, by scheduled updates.

The objective, the penalties of a path and the held-out rows that choose one are those of training
in one place (`training.py`).
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.parts.dealing import dealing_of
from tuskml.kernels.parts.paths import PathRows
from tuskml.kernels.parts.sharded import Parts, ShardedPass, of_parts
from tuskml.kernels.paths import LOGISTIC, POINT, Weights
from tuskml.learners.classes import check_classes, positive_class
from tuskml.learners.learner import Request
from tuskml.learners.models import Models, Strings
from tuskml.learners.paths.options import PathOptions, PathTask
from tuskml.learners.paths.outcome import PathFits, models_of, one_class_models
from tuskml.learners.paths.scheduled import Counts, Problem, ScheduledFit
from tuskml.learners.paths.training import make_held_out, path_of, refuse_rows, shares_of
from tuskml.schedule import budget

Asked = Request[PathTask, PathOptions]


def train_by_parts(parts: Parts, request: Asked) -> Models | None:
    """The model of the group; None where it has no usable row."""
    began = time.monotonic()
    groups = of_parts(parts)
    if groups is None:
        return None
    refuse_rows(groups, request.task.name, False)
    options = request.options
    rows = ShardedPass(
        groups,
        request.task.loss,
        fit_intercept=options.fit_intercept,
        threads=budget.threads(options.threads),
        cancel_mark=passes.cancel_mark(),
        parts=parts,
        classifies=request.task.classifies,
    )
    labels = rows.labels()
    check_classes(request.task, options, labels)
    if request.task.loss == LOGISTIC:
        if labels["low"] == labels["high"]:
            return one_class_models(groups, labels, request)
        rows = replace(rows, positive=positive_class(options, labels))
    with np.errstate(all="ignore"):  # values that are not finite are found at the end
        path = ScheduledPath(rows, request, began)
        points, weights = path.fit(labels)
        fitted = PathFits(points[None], [weights], np.array(path.shares[:1]))
        models = models_of(rows, labels, fitted, request)
    seconds = np.array([time.monotonic() - began])
    return replace(models, plan=Strings.same(path.plan(), 1), seconds=seconds)


class ScheduledPath:
    """The fits of a group along its penalties: of all rows, and of those of each fold."""

    def __init__(self, rows: ShardedPass, request: Asked, began: float) -> None:
        self.rows, self.request = rows, request
        self.counts: list[Counts] = []
        limit = request.options.time
        self.until = math.inf if limit is None else began + limit
        shares = shares_of(rows.labels(), request)[0].tolist()
        self.shares: tuple[float, float, float] = (shares[0], shares[1], shares[2])

    def over(self) -> bool:
        """Returns whether the time is over."""
        return time.monotonic() >= self.until

    def fit(self, labels: NDArray[np.void]) -> tuple[NDArray[np.void], Weights]:
        """The points (POINT, (length,)) and the weights of all rows, in the caller's units."""
        path = path_of(self.request.options)
        held_out = make_held_out(self.request)
        if held_out is not None:
            by_label = self.request.task.classifies
            seed = self.request.options.seed
            assert self.rows.parts is not None
            dealing = dealing_of(self.rows, seed, held_out.folds, by_label)
            self.rows.parts.deal(dealing.messages)
        points, every, penalties = self.follow(self.rows, labels, None)
        if held_out is not None:
            self.judge(points, penalties, held_out.folds)
        start = np.cumsum([0, *(len(one[0]) for one in every)], dtype=np.int64)
        empty = [(np.zeros(0, np.int32), np.zeros(0))]
        feature, value = (np.concatenate(one) for one in zip(*empty, *every, strict=True))
        assert len(points) == path.length
        return points, Weights(start, feature, value)

    def follow(
        self, rows: ShardedPass, labels: NDArray[np.void], penalties: Sequence[float] | None
    ) -> tuple[
        NDArray[np.void], list[tuple[NDArray[np.int32], NDArray[np.float64]]], Sequence[float]
    ]:
        """Fits some rows: the points, nonzero weights by penalty, and the penalties.

        labels: of these rows (LABELS, (1,)).
        """
        options, path = self.request.options, path_of(self.request.options)
        points = np.zeros(path.length, POINT)
        for name, kind in POINT.fields.items():  # type: ignore[union-attr]
            if kind[0] == np.float64:
                points[name] = math.nan
        every: list[tuple[NDArray[np.int32], NDArray[np.float64]]] = []
        logistic = self.request.task.loss == LOGISTIC
        mean = labels["weight_high"] / labels["weight"] if logistic else labels["mean"]
        if logistic and rows.positive is not None and rows.positive[0] != labels["high"][0]:
            mean = 1 - mean
        problem = Problem(
            loss=self.request.task.loss,
            mean=float(mean[0]),
            intercept=options.fit_intercept,
            standardize=options.standardize,
            positive=options.positive,
            tolerance=options.tol,
            max_epochs=options.epochs,
            alphas=self.shares,
            schedule=options.schedule,
            seed=options.seed,
            over=self.over,
        )
        with ScheduledFit(PathRows(rows), problem) as fit:
            if penalties is None:
                penalties = path.values or falling(fit.largest_lambda(), path.length, path.ratio)
            for place, penalty in enumerate(penalties):
                if self.over():
                    break
                points[place] = fit.solve(penalty)
                support = np.flatnonzero(fit.w).astype(np.int32)
                every.append((support, fit.w[support] * fit.scale[support]))
        self.counts.append(fit.counts)
        return points, every, penalties

    def judge(self, points: NDArray[np.void], penalties: Sequence[float], folds: int) -> None:
        """Fills the losses of held-out rows, the mean over folds and its standard error."""
        weight, loss = [], []
        for fold in range(folds):
            kept = tuple(one for one in range(folds) if one != fold)
            training, held = (replace(self.rows, folds=some) for some in (kept, (fold,)))
            counts = [int(one.counts().sum()) for one in (training, held)]
            if not all(counts):
                continue
            labels = training.labels()
            fitted, every, _ = self.follow(training, labels, penalties)
            weight.append(float(held.labels()["weight"][0]))
            loss.append(self.losses(held, fitted, every))
        if not weight:
            return
        share = np.array(weight) / sum(weight)
        each = np.array(loss)
        points["held"] = share @ each
        squares = share @ (each - points["held"]) ** 2
        points["held_error"] = np.sqrt(squares / max(len(weight) - 1, 1))

    def losses(
        self,
        held: ShardedPass,
        points: NDArray[np.void],
        every: Sequence[tuple[NDArray[np.int32], NDArray[np.float64]]],
    ) -> list[float]:
        """The mean loss, or squared error, of held-out rows by penalty; NaN where the time was
        over.
        """
        judge = replace(held, loss_only=True)
        weights = np.zeros((1, held.n_features + 1))
        found = [math.nan] * len(points)
        for place, (feature, value) in enumerate(every):
            weights[:] = 0
            weights[0, feature], weights[0, -1] = value, points["intercept"][place]
            loss, total = judge.gradient(weights)[0]
            squared = self.request.task.loss != LOGISTIC
            found[place] = float(loss / total * (2 if squared else 1))
        return found

    def plan(self) -> str:
        """Describes what ran in one line."""
        options, path = self.request.options, path_of(self.request.options)
        total = {
            name: sum(getattr(one, name) for one in self.counts)
            for name in ("iterations", "updates", "looks", "halvings")
        }
        most = max(one.at_once for one in self.counts)
        assert self.rows.parts is not None
        n = min(self.rows.parts.workers, len(self.rows.parts.counts))
        parts = [
            f"coordinate descent by scheduled updates, schedule '{options.schedule}'",
            f"{total['iterations']:,} iterations",
            f"{total['updates']:,} updates, at most {most} at once",
            f"{total['looks']:,} passes over all features",
            f"{len(self.rows.parts.counts):,} parts on {n:,} workers",
        ]
        if options.penalty is None:
            parts.insert(1, f"a path of {path.length} penalties")
        if len(self.counts) > 1:
            parts.insert(2, f"{len(self.counts) - 1} folds")
        if total["halvings"]:
            times = "once" if total["halvings"] == 1 else f"{total['halvings']} times"
            parts.append(f"updates at once halved {times}, to keep the objective falling")
        return ", ".join(parts)


def falling(largest: float, length: int, ratio: float) -> list[float]:
    """The penalties of a path from the largest on."""
    largest = largest if largest > 0 else 1.0  # no feature is correlated with the labels
    return [
        largest * ratio ** (place / (length - 1) if length > 1 else 1) for place in range(length)
    ]
