"""The metrics of candidates: SQL's own, with their names there and computed in C."""

import ctypes
import math
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
    "silhouette": True,
    "ndcg": True,
}
"""Metrics by name, with whether more is better. `udas/scalars/judging` computes them, and
`ranked.py` that of items; of more than two classes precision, recall and F1 are the means over the
classes.
"""
OF_OTHERS = {"perplexity": "documents", "silhouette": "clusters", "ndcg": "items"}
"""What metrics judge that compare neither labels nor classes: the task's own metric alone."""


OF_CLASSES = tuple(METRICS)[: tuple(METRICS).index("rmse")]
"""Metrics that compare classes."""
RANKED = ("auc", "average_precision")
COUNTED = ("precision_score", "recall_score", "f1_score")
"""Metrics that are no mean over rows, of margins and of predicted classes."""
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
    own = usual(candidate.task, candidate.options)[0]
    if own in OF_OTHERS or metric in OF_OTHERS:
        if metric == own:
            return None
        judged = OF_OTHERS.get(metric, "labels")
        predicts = OF_OTHERS.get(own, "labels") if candidate.task.has_labels else ""
        return f"of {judged}, and task '{candidate.task.name}' " + (
            f"predicts {predicts}" if predicts else "has none"
        )
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
        ("rows", ctypes.c_void_p),
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
    found = _of_option("conformal", "rmse", database, models, held, threads)
    return [np.column_stack([np.abs(one[:, 0] - one[:, 1]), one[:, 2]]) for one in found]


def margins(
    database: ctypes.CDLL, models: Models, held: NDArray[np.void], threads: int
) -> list[Floats]:
    """The margin and the weight, negative for the lower class, (rows, 2), of the rows of each
    model's group, without those of which the model does not know the class; arguments as of
    `judge`. Raises DataError if a label or memory forbids it.
    """
    found = _of_option("calibration", "auc", database, models, held, threads)
    return [
        np.column_stack([one[:, 1], np.where(one[:, 0] > 0, one[:, 2], -one[:, 2])])
        for one in found
    ]


def _of_option(
    option: str,
    metric: str,
    database: ctypes.CDLL,
    models: Models,
    held: NDArray[np.void],
    threads: int,
) -> list[Floats]:
    """The rows of each model's group that an option of a search keeps, without unknown ones."""
    rows, begin, why = judged_rows(database, models, held, metric, threads)
    if why is not None:
        raise DataError(f"option '{option}': {why}")
    parts = [rows[a:b] for a, b in pairwise(begin.tolist())]
    return [part[np.isfinite(part).all(axis=1)] for part in parts]


def judged_rows(
    database: ctypes.CDLL, models: Models, held: NDArray[np.void], metric: str, threads: int
) -> tuple[Floats, NDArray[np.int64], str | None]:
    """The label, the answer and the weight of the rows of all groups, (rows, 3), as `judge.h` has
    them; where those of each begin, (n + 1,); and why the metric does not judge a model, or None.
    Arguments as of `judge`.
    """
    begin = np.concatenate([[0], np.cumsum(held["n_rows"])]).astype(np.int64)
    found, unused = np.full((int(begin[-1]), 3), np.nan), np.empty(len(held))
    why = _judge(database, models, held, (metric, 0.0), threads, unused, (found, begin))
    return found, begin, why


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

    rows: gets those of `judged_rows`, and where those of each model begin.
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


# Metrics of rows that lie in parts: the rows of each part, equal ones added, are enough.


def tally(rows: Floats) -> Floats:
    """The distinct labels and answers of `judged_rows`, with the sum of their weights, (k, 3)."""
    label = np.where(np.isnan(rows[:, 0]), -np.inf, rows[:, 0])
    order = np.lexsort((label, rows[:, 1]))
    label, answer, weight = label[order], rows[order, 1], rows[order, 2]
    new = np.r_[True, (np.diff(answer) != 0) | (label[1:] != label[:-1])][: len(rows)]
    first = np.flatnonzero(new)
    return np.column_stack([label[first], answer[first], np.add.reduceat(weight, first)])


def of_rows(rows: Floats, metric: str, of_two: bool) -> float:
    """A metric of classes by the tallies of all parts; NaN where they do not determine it.

    of_two: whether the classes are 0 and 1. A row of a class that the model does not know, -inf,
    is then a false negative and a false positive, as in `judge.c`.
    """
    if not np.isfinite(rows[:, 1]).all():
        return math.nan
    unknown = np.isneginf(rows[:, 0])
    ranks = metric in RANKED
    least, most = (-np.inf, np.inf) if ranks else (0.0, 1.0)
    n, lost = int(unknown.sum()), rows[unknown, 2]
    rows = np.concatenate(
        [
            rows[~unknown],
            np.column_stack([np.ones(n), np.full(n, least), lost]),
            np.column_stack([np.zeros(n), np.full(n, most), lost]),
        ]
    )
    return ranking(rows, metric) if ranks else counted(rows, metric, of_two)


def ranking(rows: Floats, metric: str) -> float:
    """The area under the curve, or the average precision, of labels 0 and 1 by their answers."""
    answers, place = np.unique(rows[:, 1], return_inverse=True)
    high, low = (
        np.bincount(place, rows[:, 2] * (rows[:, 0] == label), len(answers)) for label in (1, 0)
    )
    above, below = high.sum(), low.sum()
    if not above or (metric == "auc" and not below):
        return math.nan
    if metric == "auc":
        return float((high * (np.cumsum(low) - low / 2)).sum() / (above * below))
    first = np.cumsum(high[::-1])
    return float((high[::-1] * first / np.cumsum((high + low)[::-1])).sum() / above)


def counted(rows: Floats, metric: str, of_two: bool) -> float:
    """The precision, recall or F1 of class 1 of two, or the mean over the classes."""
    label, answer, weight = rows.T
    classes = np.array([1.0]) if of_two else np.unique(rows[:, :2])
    both, labels, answers = (
        np.array([weight[some].sum() for some in found])
        for found in zip(
            *(((label == c) & (answer == c), label == c, answer == c) for c in classes),
            strict=True,
        )
    )
    whole = {
        "precision_score": answers,
        "recall_score": labels,
        "f1_score": (labels + answers) / 2,
    }[metric]
    if of_two and not whole[0]:
        return math.nan
    return float(np.divide(both, whole, where=whole > 0, out=np.zeros_like(both)).mean())
