"""How the objective fell over the epochs of a candidate's trials, or over trees and iterations."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.models import Models

EPOCHS, POINTS = 8, 12
"""Epochs from which a trial has a curve, and how many points that is thinned to."""


class Curves:
    """The objectives on the rows that trials were trained on, of candidates and groups that train
    by so many epochs.
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
                at = thinned(epochs[0], epochs[-1])  # whole histories of many groups are large
                kept = at, np.interp(at, epochs, objective)
                self._found.setdefault(key, {})[int(fold[i])] = kept

    def text(self, candidate: int, group: int) -> str | None:
        """The mean over the folds as JSON, [epoch, objective] for each point."""
        folds = self._found.get((candidate, group))
        if folds is None:
            return None
        first = max(epochs[0] for epochs, _ in folds.values())
        last = min(epochs[-1] for epochs, _ in folds.values())
        at = thinned(first, last)
        mean = np.mean([np.interp(at, *fold) for fold in folds.values()], axis=0)
        points: list[Any] = [
            [int(epoch), float(f"{value:.6g}")]
            for epoch, value in zip(at.tolist(), mean.tolist(), strict=True)
        ]
        return json.dumps(points)


def thinned(first: float, last: float) -> Floats:
    """Epochs from the first to the last one."""
    return np.asarray(np.unique(np.linspace(first, last, POINTS).round()))


def epochs_of(iterations: int, points: int) -> Floats:
    """The epochs of a history of so many points, which begins at the start or after an epoch."""
    return np.linspace(1.0 if points == iterations else 0.0, iterations, points)
