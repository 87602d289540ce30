"""The results of every candidate in every group, fold by fold, and the winners."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.selection.choosing import LEAST_FOLDS, finalists
from tuskml.groups.selection.metrics import METRICS
from tuskml.groups.selection.search import Search
from tuskml.kernels.passes import Floats
from tuskml.learners.models import MEANINGS, Models
from tuskml.learners.registry import learner_of

NOT_TRIED, TOO_FEW, STOPPED = "not tried", "too few rows", "stopped early"
NO_METRIC = "no metric"
"""The status of usable models whose predictions or held-out rows determine no metric."""
USABLE = tuple(MEANINGS)[: tuple(MEANINGS).index("diverged")]


@dataclass(frozen=True)
class Trials:
    """Trials of C candidates on F sets of held-out rows of G groups.

    metric, seconds: (C, F, G), NaN where there is none; iterations: likewise, 0; status: codes in
    `statuses`; rung: (C, G), the slices of the rows in the last trials of a candidate.
    """

    search: Search
    metric: Floats
    seconds: Floats
    iterations: NDArray[np.int64]
    status: NDArray[np.int32]
    rung: NDArray[np.int32]
    statuses: list[str]
    curves: "Curves"

    @classmethod
    def none(cls, search: Search, n_groups: int) -> "Trials":
        """Before the first trial."""
        shape = len(search.candidates), len(search.sets), n_groups
        return cls(
            search,
            np.full(shape, np.nan),
            np.full(shape, np.nan),
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int32),
            np.zeros((shape[0], n_groups), np.int32),
            [NOT_TRIED],
            Curves(),
        )

    def code(self, status: str) -> int:
        """The code of a status."""
        if status not in self.statuses:
            self.statuses.append(status)
        return self.statuses.index(status)

    def put(
        self,
        candidate: int,
        fold: NDArray[np.intp],
        places: NDArray[np.intp],
        models: Models,
        metric: Floats,
    ) -> None:
        """Notes trained models of some folds of some groups; all arrays are (n,), in one order."""
        codes = np.array([self.code(text) for text in models.status.pool], np.int32)
        self.metric[candidate, fold, places] = metric
        self.seconds[candidate, fold, places] = models.seconds
        self.iterations[candidate, fold, places] = models.iterations
        usable = np.array([text in USABLE for text in models.status.pool], bool)
        lacking = usable[models.status.code] & ~np.isfinite(metric)
        self.status[candidate, fold, places] = codes[models.status.code]
        self.status[candidate, fold[lacking], places[lacking]] = self.code(NO_METRIC)
        self.curves.put(candidate, fold, places, models)

    def refuse(
        self,
        candidate: int,
        fold: NDArray[np.intp],
        places: NDArray[np.intp],
        why: Mapping[int, str],
    ) -> None:
        """Notes of some of these trials why the metric does not judge them."""
        for k, text in why.items():
            self.status[candidate, fold[k], places[k]] = self.code(f"{NO_METRIC}: {text}")

    def stop(self, some: NDArray[np.bool_]) -> None:
        """Notes candidates (C, G) that are not tried on the folds that they were not tried on."""
        untried = self.status == self.code(NOT_TRIED)
        self.status[untried & some[:, None, :]] = self.code(STOPPED)

    def without(self, again: NDArray[np.bool_]) -> "Trials":
        """A copy for trials on more rows of the candidates in `again`, (C, G)."""
        lost = np.broadcast_to(again[:, None, :], self.metric.shape)
        arrays = {
            name: getattr(self, name).copy()
            for name in ("metric", "seconds", "iterations", "status", "rung")
        }
        arrays["metric"][lost] = np.nan
        return replace(self, **arrays)

    def find_unfinished(self) -> NDArray[np.bool_]:
        """Tests for which groups time ended before all requested trials, (G,)."""
        whole = (self.status != 0).all(axis=1)
        if self.search.estimate is not None:
            return np.asarray(whole.sum(axis=0) < sum(self.search.estimate.counts()))
        ended_early = np.zeros(self.rung.shape[1], bool)
        if self.search.halving and not races(self.search):
            full = finalists(len(self.rung), shares(self.search)[0])
            on_all = (self.rung == slices_of(self.search)).sum(axis=0)
            ended_early = (on_all < full) & (self.rung > 0).any(axis=0)
        return np.asarray(~whole.all(axis=0) | ended_early)

    def means(self) -> Floats:
        """The mean over the folds that have a metric, (C, G); NaN where none has."""
        known = np.isfinite(self.metric)
        total = np.where(known, self.metric, 0.0).sum(axis=1)
        count = known.sum(axis=1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def errors(self) -> Floats:
        """The standard error of each mean, (C, G); NaN of fewer than two folds."""
        known = np.isfinite(self.metric)
        count = known.sum(axis=1)
        apart = np.where(known, self.metric - self.means()[:, None, :], 0.0)
        unit = np.abs(apart).max(axis=1, initial=0.0)  # squares of its multiples stay in range
        share = apart / np.where(unit > 0, unit, 1.0)[:, None, :]
        variance = (share**2).sum(axis=1) / np.maximum(count - 1, 1)
        return np.where(count > 1, unit * np.sqrt(variance / np.maximum(count, 1)), np.nan)

    def complete(self) -> NDArray[np.bool_]:
        """Tests which candidates were tried on as many folds and rows as any other, (C, G)."""
        count = np.isfinite(self.metric).sum(axis=1)
        best = self.rung == self.rung.max(axis=0)
        most = np.where(best, count, 0).max(axis=0)
        found: NDArray[np.bool_] = best & (count == most) & (count > 0)
        return found

    def losses(self) -> Floats:
        """The means of complete candidates, the less the better, and infinity, (C, G)."""
        sign = -1.0 if METRICS[self.search.metric] else 1.0
        return np.where(self.complete(), sign * self.means(), np.inf)

    def is_comparable(self) -> NDArray[np.bool_]:
        """Tests which groups have a candidate that could be judged, (G,)."""
        return np.asarray(np.isfinite(self.losses()).any(axis=0))

    def simplest(self) -> NDArray[np.intp]:
        """The candidate of each group by no loss, (G,): the simplest of those that were tried, or
        of all; of equally simple ones the first by task and configuration, in any order of them.
        """
        cost = [learner_of(c.task).trials.complexity(c.options) for c in self.search.candidates]
        names = [(c.task.name, c.shown) for c in self.search.candidates]
        order = sorted(range(len(cost)), key=lambda c: (cost[c], names[c]))
        tried = (self.status != 0).any(axis=1)[order]
        found: NDArray[np.intp] = np.array(order, np.intp)[tried.argmax(axis=0)]
        return found

    def winners(self) -> NDArray[np.intp]:
        """The candidate of each group, (G,); the simplest one where none could be judged.

        With `one_standard_error` the simplest one within the best one's standard error (L. Breiman
        et al., Classification and regression trees, 1984, 3.4.3).
        """
        losses = self.losses()
        judged = np.isfinite(losses).any(axis=0)
        best: NDArray[np.intp] = np.where(judged, losses.argmin(axis=0), self.simplest())
        if not self.search.one_standard_error:
            return best
        groups = np.arange(losses.shape[1])
        error = np.nan_to_num(self.errors()[best, groups])
        near = losses <= losses[best, groups] + error
        simple = np.array(
            [learner_of(c.task).trials.complexity(c.options) for c in self.search.candidates]
        )
        cost = np.where(near & np.isfinite(losses), simple[:, None], np.inf)
        least = np.isfinite(cost) & (cost == cost.min(axis=0))
        chosen: NDArray[np.intp] = np.where(least, losses, np.inf).argmin(axis=0)
        return np.where(judged, chosen, best)

    def texts(self, winners: NDArray[np.intp]) -> list[str]:
        """The value of each model's field `trials`, as JSON; `chosen` is null where no candidate
        could be judged.
        """
        heads, folds, compared = self._heads(), self._folds(), self.is_comparable()
        return [
            f'{{"metric": {json.dumps(self.search.metric)}, '
            f'"chosen": {among.index(int(winners[g])) if compared[g] else "null"}, '
            f'"trials": [{", ".join(heads[g][c] + self._end(folds, c, g) for c in among)}]}}'
            for g, among in enumerate(self._reported(winners))
        ]

    def _reported(self, winners: NDArray[np.intp]) -> list[list[int]]:
        """The reported candidates of each group: all, or those that the group chose."""
        if self.search.estimate is None:
            return [list(range(len(self.search.candidates)))] * len(winners)
        told = (self.status != 0).any(axis=1)
        told[winners, np.arange(len(winners))] = True
        return [np.flatnonzero(told[:, g]).tolist() for g in range(len(winners))]

    def _heads(self) -> list[list[str]]:
        """The beginning of each group's candidates, [G][C]."""
        share = [f"{part!r}" for part in shares(self.search)]
        given = zip(self.means().T, self.errors().T, self.rung.T, strict=True)
        return [
            [
                f'{{"configuration": {one.shown}, {scores(mean, error)}, '
                f'"rows": {share[max(rung - 1, 0)]}, "folds": '
                for one, mean, error, rung in zip(
                    self.search.candidates, *(row.tolist() for row in rows), strict=True
                )
            ]
            for rows in given
        ]

    def _end(self, folds: list[list[str]], c: int, g: int) -> str:
        curve = self.curves.text(c, g)
        return folds[g][c] + ("}" if curve is None else f', "curve": {curve}}}')

    def _folds(self) -> list[list[str]]:
        """The result of every fold of each group's candidates, [G][C]."""
        names = np.array([json.dumps(status) for status in self.statuses], object)
        arrays = self.metric, self.iterations, self.seconds, names[self.status]
        each: Iterator[tuple[Any, ...]] = zip(
            *(array.transpose(2, 0, 1).tolist() for array in arrays), strict=True
        )
        finite = np.isfinite(self.metric) & np.isfinite(self.seconds)
        known: list[list[bool]] = np.all(finite, axis=1).T.tolist()
        whole = f"[{', '.join([FOLD] * self.metric.shape[1])}]"
        return [
            [
                whole % tuple(chain.from_iterable(zip(*one, strict=True)))
                if all_known
                else folds_of(*one)
                for all_known, one in zip(some_known, zip(*group, strict=True), strict=True)
            ]
            for some_known, group in zip(known, each, strict=True)
        ]


FOLD = '{"metric": %.12g, "iterations": %d, "seconds": %.12g, "status": %s}'
"""The format of a fold whose numbers are all known: many are written at a time."""


def folds_of(metrics: Any, iterations: Any, seconds: Any, names: Any) -> str:
    """The results of a candidate's folds, as JSON."""
    folds = ", ".join(
        f'{{"metric": {number(metric)}, "iterations": {n}, "seconds": {number(second)}, '
        f'"status": {name}}}'
        for metric, n, second, name in zip(metrics, iterations, seconds, names, strict=True)
    )
    return f"[{folds}]"


def scores(mean: float, error: float) -> str:
    """The members of a candidate that say how well it did."""
    return f'"metric": {number(mean)}, "std_err": {number(error)}'


def number(x: float) -> str:
    """A number in JSON, which has no NaN."""
    return f"{x:.12g}" if math.isfinite(x) else "null"


def races(search: Search) -> bool:
    """Returns whether `halving` tries all candidates on the first fold: there are several
    alike.
    """
    return search.halving and len(search.sets) >= LEAST_FOLDS and not search.dealt.in_time


def slices_of(search: Search) -> int:
    """Slices of the rows, of which `halving` tries all candidates on the first one."""
    if not search.halving or races(search):
        return 1
    return min(6, max(1, int(np.ceil(np.log2(max(len(search.candidates), 1))))))


def shares(search: Search) -> Sequence[float]:
    """The shares of the training rows, by the number of slices."""
    rungs = slices_of(search)
    return [2.0 ** (rung + 1 - rungs) for rung in range(rungs)]


# The objectives over the epochs of a candidate's trials, or over trees and iterations.

EPOCHS, POINTS = 8, 12
"""Epochs from which a trial has a curve, and how many points that is thinned to."""


class Curves:
    """The objectives on the training rows of trials, for candidates and groups that train by
    `epochs` epochs.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], dict[int, tuple[Floats, Floats]]] = {}

    def put(
        self, candidate: int, fold: NDArray[np.intp], places: NDArray[np.intp], models: Models
    ) -> None:
        """Notes the histories of trained models of some folds of some groups, (n,)."""
        values, ends = models.history.values, models.history.offsets
        long = (np.diff(ends) >= EPOCHS) & (models.iterations >= EPOCHS)
        for i in np.flatnonzero(long).tolist():
            objective = values[ends[i] : ends[i + 1]]
            if np.isfinite(objective).all():
                key = candidate, int(places[i])
                epochs = epochs_of(int(models.iterations[i]), len(objective))
                at = thin_epochs(epochs[0], epochs[-1])  # whole histories of many groups are large
                kept = at, np.interp(at, epochs, objective)
                self._found.setdefault(key, {})[int(fold[i])] = kept

    def text(self, candidate: int, group: int) -> str | None:
        """The mean over the folds as JSON, [epoch, objective] for each point."""
        folds = self._found.get((candidate, group))
        if folds is None:
            return None
        first = max(epochs[0] for epochs, _ in folds.values())
        last = min(epochs[-1] for epochs, _ in folds.values())
        at = thin_epochs(first, last)
        mean = np.mean([np.interp(at, *fold) for fold in folds.values()], axis=0)
        points: list[Any] = [
            [int(epoch), float(f"{value:.6g}")]
            for epoch, value in zip(at.tolist(), mean.tolist(), strict=True)
        ]
        return json.dumps(points)


def thin_epochs(first: float, last: float) -> Floats:
    """Epochs from the first to the last one."""
    return np.asarray(np.unique(np.linspace(first, last, POINTS).round()))


def epochs_of(iterations: int, points: int) -> Floats:
    """The epochs of a history of `points` points, which starts at the start or after an epoch."""
    return np.linspace(1.0 if points == iterations else 0.0, iterations, points)
