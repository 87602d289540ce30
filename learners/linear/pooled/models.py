"""The chosen models of pooled groups, each with the losses of its alternatives."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.classes import named_classes
from tuskml.learners.linear.planner.planning import first_plan
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.result import resolved, task_members
from tuskml.learners.models import Lists, Models, Strings, joined

NAMES = ("local", "complete", "partial")


@dataclass(frozen=True)
class Pooled:
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


def pooled_models(told: Pooled, local: Sequence[Models]) -> Models:
    """The models of all groups, in their order; local: those of groups with enough rows."""
    parts = []
    for models in local:
        own = np.flatnonzero(told.which[models.group] == 0)
        if len(own):
            parts.append(models.of(own))
    for which, v in told.weights.items():
        places = np.flatnonzero(told.which == which)
        if len(places):
            parts.append(shared(told, which, places, v))
    together = joined(parts)
    found = together.of(np.argsort(together.group))
    texts = trials(told)
    return replace(found, trials=Strings(tuple(texts), np.arange(len(texts), dtype=np.int32)))


def shared(told: Pooled, which: int, places: NDArray[np.intp], v: Floats) -> Models:
    """The models of some groups that learned from others."""
    problem, task, n = told.problem.of(places), told.request.task, len(places)
    weights = problem.to_caller(v[places])
    d = np.full(n, problem.d)
    classes = Lists(np.empty(0), np.zeros(n + 1, np.int64))
    if task.classifies:
        assert told.request.options.classes is not None
        classes = Lists.of_rows(np.tile(told.request.options.classes, (n, 1)), np.full(n, 2))
    loss = problem.objective(v[places])
    models = Models.built(
        problem.rows.groups,
        task.name,
        coef=Lists.of_rows(weights[:, :-1], d),
        intercept=np.ascontiguousarray(weights[:, -1]),
        **named_classes(classes),
        loss=loss,
        history=Lists(loss, np.arange(n + 1)),
        converged=np.ones(n, np.uint8),
        status="ok",
        plan=plan(told, which),
        seconds=np.full(n, (time.monotonic() - told.began) / len(told.which)),
        options=options(told, which),
    )
    return models.numbered(places)


def plan(told: Pooled, which: int) -> str:
    """Describes how a model was made, in one line."""
    strength = f", strength {told.strength:g}" if NAMES[which] == "partial" else ""
    return f"{NAMES[which]} pooling of {len(told.which)} groups{strength}"


def options(told: Pooled, which: int) -> str:
    """The model's options as JSON, and how it was pooled."""
    request = told.request
    first, _ = first_plan(told.problem.rows.groups, request, 0)
    text = resolved(request.options, first, task_members(request.task, request.options))
    more = {"pooling": NAMES[which]}
    return f"{text[:-1]}, {json.dumps(more)[1:]}"


def trials(told: Pooled) -> list[str]:
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
