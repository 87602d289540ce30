"""The metrics that candidates are judged by: SQL's own, by their names there."""

from collections.abc import Sequence
from typing import Any

from tuskml.errors import OptionError, one_of
from tuskml.groups.selection.candidates import Candidate
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


OF_CLASSES = tuple(METRICS)[: tuple(METRICS).index("rmse")]
"""Those that compare classes."""


def usual(task: Task, options: Options) -> tuple[str, float]:
    """The metric of a task that is given none, and its parameter."""
    request: Request[Any, Any] = Request(task, options)
    name = learner_of(task).metric(request)
    return name, float(getattr(options, "quantile", 0.5)) if name == "pinball" else 0.0


def parameter_for(candidates: Sequence[Candidate], metric: str) -> float:
    """The parameter of a metric, which candidates that minimise it have as an option.

    OptionError where they have several: losses of different quantiles cannot be compared.
    """
    if metric != "pinball":
        return 0.0
    own = {usual(one.task, one.options) for one in candidates}
    found = sorted(parameter for name, parameter in own if name == metric)
    if len(found) > 1:
        raise OptionError(
            f"option 'quantile' has the values {', '.join(f'{one:g}' for one in found)}, and "
            "losses of different quantiles cannot be compared: expected one value"
        )
    return found[0] if found else 0.5


def refuse_numbers(candidates: Sequence[Candidate], metric: str) -> None:
    """OptionError for a metric of classes where a candidate predicts numbers."""
    if metric not in OF_CLASSES:
        return
    for one in candidates:
        if not learner_of(one.task).classifies(Request(one.task, one.options)):
            numbers = one_of([name for name in METRICS if name not in OF_CLASSES])
            raise OptionError(
                f"option 'metric' is '{metric}', which is of classes, and task '{one.task.name}' "
                f"predicts numbers: expected {numbers}"
            )
