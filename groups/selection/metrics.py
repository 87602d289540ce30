"""The metrics that candidates are judged by: SQL's own, by their names there."""

from typing import Any

from tuskml.learners.learner import Request
from tuskml.learners.options.table import Options
from tuskml.learners.registry import learner_of
from tuskml.learners.tasks import Task

METRICS = {
    "log_loss": False,
    "brier": False,
    "accuracy": True,
    "auc": True,
    "average_precision": True,
    "precision_score": True,
    "recall_score": True,
    "f1_score": True,
    "rmse": False,
    "mae": False,
    "r2": True,
    "mape": False,
    "pinball": False,
    "poisson_deviance": False,
    "gamma_deviance": False,
}
"""By name, whether more is better. `udas/scalars/judging` computes them; of more than two classes
precision, recall and F1 are the means over the classes."""


def usual(task: Task, options: Options) -> tuple[str, float]:
    """The metric of a task that is given none, and its parameter."""
    request: Request[Any, Any] = Request(task, options)
    return metric_named(learner_of(task).metric(request), options)


def metric_named(name: str, options: Options) -> tuple[str, float]:
    """A metric with its parameter, which is an option of the task."""
    return name, float(getattr(options, "quantile", 0.5)) if name == "pinball" else 0.0
