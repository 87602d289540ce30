"""A pytest plugin: asks SQL for each metric that scikit-learn's own tests compute."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from shadows import DATABASE, SHADOW, Inexpressible, running
from sklearn import metrics

CLASSES = {
    "accuracy_score": "accuracy",
    "precision_score": "precision_score",
    "recall_score": "recall_score",
    "f1_score": "f1_score",
}
SCORES = {
    "roc_auc_score": "auc",
    "average_precision_score": "average_precision",
    "log_loss": "log_loss",
    "brier_score_loss": "brier",
}
NUMBERS = {
    "root_mean_squared_error": "rmse",
    "mean_absolute_error": "mae",
    "r2_score": "r2",
    "mean_absolute_percentage_error": "mape",
    "mean_pinball_loss": "pinball",
}
MOST_A_TEST = 20
"""Calls that are asked of SQL: some tests minimise a metric."""
USED = {"sample_weight", "average", "alpha", "zero_division", "normalize"}


def column(values: Any) -> list[str] | np.ndarray:
    """A column of texts or of finite numbers."""
    found = np.asarray(values)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found.ravel()
    if found.ndim != 1 or not len(found):
        raise Inexpressible
    if found.dtype.kind in "US" or all(isinstance(one, str) for one in found):
        return [str(one) for one in found]
    if found.dtype.kind not in "biuf" or not np.isfinite(found.astype(float)).all():
        raise Inexpressible
    return found.astype(float)


def call_of(kind: str, function: str, bound: inspect.BoundArguments) -> tuple[str, dict[str, Any]]:
    """The call in SQL, and its rows."""
    given = bound.arguments
    first, second = list(given)[:2]
    usual = bound.signature.parameters
    for name, value in given.items():
        if name in {first, second, *USED}:
            continue
        default = usual[name].default
        if isinstance(value, np.ndarray) or not (value is default or value == default):
            raise Inexpressible
    if given.get("zero_division", "warn") != "warn" or given.get("normalize", True) is not True:
        raise Inexpressible
    label, predicted = column(given[first]), column(given[second])
    if len(label) != len(predicted) or isinstance(label, list) != isinstance(predicted, list):
        raise Inexpressible
    if kind == "score":
        refuse_scores(function, label, predicted)
    rows: dict[str, Any] = {"y": list(label), "p": list(predicted)}
    arguments = ["y", "p", *further(kind, function, given, label, predicted)]
    if (weight := given.get("sample_weight")) is not None:
        rows["w"] = list(column(weight))
        if min(rows["w"]) < 0:
            raise Inexpressible
        arguments.append("w")
    return f"{function}({', '.join(arguments)})", rows


def refuse_scores(function: str, label: Any, predicted: Any) -> None:
    """Labels that are not two numbers, and scores that are no probabilities."""
    if isinstance(label, list) or set(label) - {0.0, 1.0, -1.0} or len(set(label)) != 2:
        raise Inexpressible
    if function in ("log_loss", "brier") and not ((predicted >= 0) & (predicted <= 1)).all():
        raise Inexpressible


def further(
    kind: str, function: str, given: dict[str, Any], label: Any, predicted: Any
) -> Sequence[str]:
    """Arguments between the columns and the weight."""
    if kind == "class" and function != "accuracy":
        average = given["average"]
        if average not in ("binary", "macro", "micro", "weighted"):
            raise Inexpressible
        if average == "binary" and (
            isinstance(label, list) or (set(label) | set(predicted)) - {0.0, 1.0}
        ):
            raise Inexpressible
        return [f"'{average}'"]
    return [f"{given['alpha']!r}::float8"] if function == "pinball" else []


def shadow(name: str, kind: str, function: str) -> None:
    """Puts a function in the place of scikit-learn's that asks SQL too."""
    theirs = getattr(metrics, name)
    signature = inspect.signature(theirs)

    @functools.wraps(theirs)
    def asked(*args: Any, **options: Any) -> Any:
        answer = theirs(*args, **options)
        if SHADOW.is_enough(running(), MOST_A_TEST):
            return answer
        try:
            bound = signature.bind(*args, **options)
            bound.apply_defaults()
            if not np.isscalar(answer):
                raise Inexpressible
            call, rows = call_of(kind, function, bound)
        except Exception:
            SHADOW.not_expressible[function] += 1
            return answer
        SHADOW.asked[function] += 1
        DATABASE.create("shadow", rows)
        try:
            ((ours,),) = DATABASE.execute(f"SELECT {call} FROM shadow")
        except DATABASE.error as error:
            note(call, answer, str(error).splitlines()[0], rows)
            return answer
        agrees = (
            (answer == 0 or np.isnan(answer))
            if ours is None
            else np.isclose(ours, answer, rtol=1e-9, atol=1e-9, equal_nan=True)
        )
        if not agrees:
            note(call, answer, ours, rows)
        return answer

    setattr(metrics, name, asked)


def note(call: str, theirs: Any, ours: Any, rows: dict[str, Any]) -> None:
    """A call whose answers differ, with its first rows."""
    head = {name: values[:6] for name, values in rows.items()}
    SHADOW.note(call, float(theirs), ours, rows=len(rows["y"]), head=head)


for kind, names in (("class", CLASSES), ("score", SCORES), ("number", NUMBERS)):
    for name, function in names.items():
        shadow(name, kind, function)
