"""The metrics of candidates: SQL's own, with their names there and computed in C."""

import ctypes
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError, one_of
from tuskml.groups.selection.candidates import Candidate
from tuskml.kernels.library import Floats, cancel_mark, library, pointer, raise_if_cancelled
from tuskml.learners.learner import Request
from tuskml.learners.models import Emission, Models
from tuskml.learners.options.table import Options
from tuskml.learners.registry import learner_of
from tuskml.learners.tasks import Task
from tuskml.schedule import pool
from tuskml.udas.refusal import Refusal

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
    "tweedie_deviance": False,
    "perplexity": False,
}
"""Metrics by name, with whether more is better. `udas/scalars/judging` computes them; of more
than two classes precision, recall and F1 are the means over the classes. Perplexity is of topics.
"""


OF_CLASSES = tuple(METRICS)[: tuple(METRICS).index("rmse")]
"""Metrics that compare classes."""
OF_CHANCES = ("log_loss", "brier")
"""Metrics that compare probabilities of classes."""
PARAMETERS = {"pinball": ("quantile", 0.5), "tweedie_deviance": ("power", 1.5)}
"""The option that is a metric's parameter, and its value where no candidate has that option."""


def usual(task: Task, options: Options) -> tuple[str, float]:
    """The default metric of a task, and its parameter."""
    request: Request[Any, Any] = Request(task, options)
    name = learner_of(task).metric(request)
    return name, float(getattr(options, *PARAMETERS[name])) if name in PARAMETERS else 0.0


def parameter_for(candidates: Sequence[Candidate], metric: str) -> float:
    """The parameter of a metric, which candidates that minimise it have as an option.

    Raises OptionError if they have several, whose losses cannot be compared.
    """
    if metric not in PARAMETERS:
        return 0.0
    option, default = PARAMETERS[metric]
    own = {usual(one.task, one.options) for one in candidates}
    found = sorted(parameter for name, parameter in own if name == metric)
    if len(found) > 1:
        raise OptionError(
            f"option '{option}' has the values {', '.join(f'{one:g}' for one in found)}, and "
            f"losses by different values of '{option}' cannot be compared: expected one value"
        )
    return found[0] if found else default


def lacks(candidate: Candidate, metric: str) -> str | None:
    """The reason why a metric cannot judge a candidate: its kind, and the candidate's
    predictions.
    """
    request: Request[Any, Any] = Request(candidate.task, candidate.options)
    classifies = learner_of(candidate.task).classifies(request)
    if not candidate.task.has_labels and metric != "perplexity":
        return f"of labels, and task '{candidate.task.name}' has none"
    if candidate.task.has_labels and metric == "perplexity":
        return f"of documents, and task '{candidate.task.name}' predicts labels"
    if metric in OF_CLASSES and not classifies:
        return f"of classes, and task '{candidate.task.name}' predicts numbers"
    if metric not in OF_CLASSES and classifies:
        return f"of numbers, and task '{candidate.task.name}' predicts classes"
    if metric in OF_CHANCES and usual(candidate.task, candidate.options)[0] == "accuracy":
        return f"of probabilities, and task '{candidate.task.name}' predicts classes alone"
    return None


def fitting(candidates: Sequence[Candidate]) -> str:
    """Describes the metrics that can judge all candidates."""
    found = [name for name in METRICS if not any(lacks(one, name) for one in candidates)]
    return one_of(found) if found else "tasks that all predict numbers, or all classes"


def refuse_metric(candidates: Sequence[Candidate], metric: str) -> None:
    """Raises OptionError for a metric that cannot judge a candidate."""
    for one in candidates:
        why = lacks(one, metric)
        if why is not None:
            raise OptionError(
                f"option 'metric' is '{metric}', which is {why}: expected {fitting(candidates)}"
            )


# Models judged by rows that were held out, with the arithmetic of SQL's metrics in C.


OUT_OF_MEMORY = "out of memory"
"""The library's message then."""


class _Judging(ctypes.Structure):
    """`tusk_judging` (`udas/scalars/judging/judge.h`)."""

    _fields_ = [
        ("metric", ctypes.c_char_p),
        ("parameter", ctypes.c_double),
        ("cancels", ctypes.c_void_p),
        ("mark", ctypes.c_int64),
        ("threads", ctypes.c_int32),
        ("residuals", ctypes.c_void_p),
        ("begin", ctypes.c_void_p),
        ("run", ctypes.c_void_p),
    ]


def judge(
    database: ctypes.CDLL,
    models: Models,
    held: NDArray[np.void],
    metric: tuple[str, float],
    threads: int,
) -> tuple[Floats, dict[int, str]]:
    """The metric of each model by the rows of its group, (n,), NaN where they do not determine it;
    and by index the reason why the metric cannot judge a model, as it does not allow the group's
    labels.

    database: its library; held: GROUP of shape (n,), in the order of the models; metric: its name
    and parameter. Raises DataError if memory is out, and Interrupted.
    """
    out = np.full(len(held), np.nan)
    why = _judge(database, models, held, metric, threads, out)
    if why is None:
        return out, {}
    if len(held) == 1:
        return out, {0: why}
    found: dict[int, str] = {}
    for some in np.array_split(np.arange(len(held)), 2):
        out[some], refused = judge(database, models.of(some), held[some], metric, threads)
        found |= {int(some[place]): text for place, text in refused.items()}
    return out, found


def residuals(
    database: ctypes.CDLL, models: Models, held: NDArray[np.void], threads: int
) -> list[Floats]:
    """The absolute residual and the weight, (rows, 2), of the rows of each model's group that it
    predicts; arguments as of `judge`. Raises DataError if a label or memory forbids it.
    """
    return _by_row("conformal", database, models, held, threads)


def margins(
    database: ctypes.CDLL, models: Models, held: NDArray[np.void], threads: int
) -> list[Floats]:
    """The margin and the weight, negative for the lower class, (rows, 2), of the rows of each
    model's group, without those of which the model does not know the class; arguments as of
    `judge`. Raises DataError if a label or memory forbids it.
    """
    return _by_row("calibration", database, models, held, threads)


BY_ROW = {"conformal": "rmse", "calibration": "auc"}
"""The metric whose numbers of each row an option of a search keeps."""


def _by_row(
    option: str, database: ctypes.CDLL, models: Models, held: NDArray[np.void], threads: int
) -> list[Floats]:
    """Two numbers of each row, which the library writes while it computes the option's metric."""
    begin = np.concatenate([[0], np.cumsum(held["n_rows"])]).astype(np.int64)
    found, unused = np.full((int(begin[-1]), 2), np.nan), np.empty(len(held))
    why = _judge(database, models, held, (BY_ROW[option], 0.0), threads, unused, (found, begin))
    if why is not None:
        raise DataError(f"option '{option}': {why}")
    parts = [found[a:b] for a, b in pairwise(begin.tolist())]
    return [part[np.isfinite(part).all(axis=1)] for part in parts]


def _judge(
    database: ctypes.CDLL,
    models: Models,
    held: NDArray[np.void],
    metric: tuple[str, float],
    threads: int,
    out: Floats,
    rows: tuple[Floats, NDArray[np.int64]] | None = None,
) -> str | None:
    """Fills out (n,) with the metrics; why one of the models has none, or None.

    rows: gets the residual or margin and the weight of each row, (rows, 2), and where those of
    each model begin.
    """
    emission, why = Emission(models), Refusal()
    mark, (name, parameter) = cancel_mark(), metric
    cancels = ctypes.cast(library().tk_cancel_count, ctypes.c_void_p)
    run = ctypes.c_void_p.from_address(pool.functions().value or 0)  # its first member
    each = (None, None) if rows is None else (pointer(rows[0]), pointer(rows[1]))
    how = _Judging(name.encode(), parameter, cancels, mark, threads, *each, run)
    judge: Any = database.tusk_judge
    given = ctypes.byref(emission.struct), ctypes.c_void_p(pointer(held)), ctypes.byref(how)
    done = judge(*given, ctypes.c_void_p(pointer(out)), ctypes.byref(why))
    if done < 0:
        raise_if_cancelled(mark)
    if not done and why.text == OUT_OF_MEMORY:  # which no group is to blame for
        raise DataError(f"option 'metric' is '{name}': {why.text}")
    return None if done else why.text
