"""Held-out rows of a class that training did not see are wrong predictions in every metric."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

RANDOM = np.random.default_rng(11)
N = 200
FOLD = np.repeat([0, 1], N // 2)
X = RANDOM.normal(size=N)
SEEN = np.where(X + RANDOM.normal(size=N) > 0, "b", "a")
LAST = (FOLD == 1) & (RANDOM.random(N) < 0.4)
TASKS: dict[str, dict[str, Any]] = {
    "logistic": {"l2": [0.1]},
    "gbdt": {"objective": "logistic", "trees": [5]},
    "mlp": {"objective": "logistic", "max_iter": [5], "layers": [4]},
    "random_forest": {"objective": "gini", "trees": [5]},
}
METRICS = [
    "log_loss",
    "brier",
    "accuracy",
    "auc",
    "average_precision",
    "precision_score",
    "recall_score",
    "f1_score",
]


def metric_of(con: duckdb.DuckDBPyConnection, task: str, metric: str, y: np.ndarray) -> Any:
    """Of the second fold, in time: its metric, and P(b) and the class for its rows by a model of the
    first fold.
    """
    con.register("given", pd.DataFrame({"y": y, "x": X, "f": FOLD}))
    options = {**TASKS[task], "time_by": "f", "folds": 1 + 1, "metric": metric}
    first = f"SELECT train_model('{task}', y, {{'x': x, 'f': f}}, '{json.dumps(options)}').trials FROM given"
    fold = json.loads(con.execute(first).fetchall()[0][0])["trials"][0]["folds"][-1]
    plain = {
        name: one[0] if isinstance(one, list) and name != "layers" else one
        for name, one in TASKS[task].items()
    }
    model = f"(SELECT train_model('{task}', y, {{'x': x}}, '{json.dumps(plain)}') AS m FROM given WHERE f = 0)"
    scored = f"SELECT predict_proba(m, {{'x': x}}), predict_class(m, {{'x': x}}), decision(m, {{'x': x}}) FROM given, {model} WHERE f = 1"
    p, found, margin = (np.array(one) for one in zip(*con.execute(scored).fetchall(), strict=True))
    return fold["metric"], p, found, margin


def truth(
    metric: str, y: np.ndarray, p: np.ndarray, predicted: np.ndarray, margin: np.ndarray
) -> float:
    """The metric, where a row of class c is a false positive and a false negative of b."""
    new, high = y == "c", y == "b"
    if metric == "accuracy":
        return float((y == predicted).mean())
    if metric == "log_loss":
        eps = np.finfo(float).eps
        return float(
            -np.log(np.clip(np.where(new, 0, np.where(high, p, 1 - p)), eps, 1 - eps)).mean()
        )
    if metric == "brier":
        return float(np.where(new, 1 + p**2 + (1 - p) ** 2, (p - high) ** 2).mean())
    if metric in ("auc", "average_precision"):
        labels = np.concatenate([high[~new], np.ones(new.sum()), np.zeros(new.sum())])
        scores = np.concatenate(
            [margin[~new], np.full(new.sum(), -1e300), np.full(new.sum(), 1e300)]
        )
        score = roc_auc_score if metric == "auc" else average_precision_score
        return float(score(labels, scores))
    hit = (high & (predicted == "b")).sum()
    false = (~new & ~high & (predicted == "b")).sum() + new.sum()
    missed = (high & (predicted == "a")).sum() + new.sum()
    precision, recall = hit / max(hit + false, 1), hit / max(hit + missed, 1)
    return {
        "precision_score": float(precision),
        "recall_score": float(recall),
        "f1_score": float(2 * hit / max(2 * hit + false + missed, 1)),
    }[metric]


@pytest.mark.parametrize("task", list(TASKS))
@pytest.mark.parametrize("metric", METRICS)
def test_a_new_class_is_wrong(con: Any, task: str, metric: str) -> None:
    y = np.where(LAST, "c", SEEN)
    found, *predicted = metric_of(con, task, metric, y)
    assert found == pytest.approx(truth(metric, y[FOLD == 1], *predicted), rel=1e-9)
    only = np.where(FOLD == 1, "c", SEEN)
    found, *predicted = metric_of(con, task, metric, only)
    assert found == pytest.approx(truth(metric, only[FOLD == 1], *predicted), rel=1e-9)
    worst = {"log_loss": -np.log(np.finfo(float).eps), "brier": 1.5}
    assert found >= worst[metric] - 1e-9 if metric in worst else found == pytest.approx(0, abs=0.5)


@pytest.mark.parametrize("metric", METRICS)
def test_a_model_of_one_class_is_wrong_about_all_others(con: Any, metric: str) -> None:
    y = np.where(FOLD == 0, "a", SEEN)
    con.register("given", pd.DataFrame({"y": y, "x": X, "f": FOLD}))
    options = {"l2": [0.1], "time_by": "f", "folds": 2, "metric": metric}
    sql = f"SELECT train_model('logistic', y, {{'x': x, 'f': f}}, '{json.dumps(options)}').trials FROM given"
    found = json.loads(con.execute(sql).fetchall()[0][0])["trials"][0]["folds"][-1]
    right = (y[FOLD == 1] == "a").mean()
    expected = {
        "accuracy": right,
        "log_loss": log_loss(y[FOLD == 1], np.tile([1.0, 0.0], (N // 2, 1)), labels=["a", "b"]),
        "brier": 2 * (1 - right),
        "auc": 0.0,
    }
    assert found["status"] == "one class"
    if metric in expected:
        assert found["metric"] == pytest.approx(expected[metric], rel=1e-9)
    else:
        assert found["metric"] < 0.7


@pytest.mark.parametrize("task", ["logistic", "gbdt", "mlp"])
def test_a_new_class_of_many_is_wrong(con: Any, task: str) -> None:
    y = np.where(LAST, "d", np.where(X > 1, "c", SEEN))
    con.register("given", pd.DataFrame({"y": y, "x": X, "f": FOLD}))
    for metric in ("log_loss", "brier", "accuracy"):
        options = {**TASKS[task], "time_by": "f", "folds": 2, "metric": metric}
        sql = f"SELECT train_model('{task}', y, {{'x': x, 'f': f}}, '{json.dumps(options)}').trials FROM given"
        found = json.loads(con.execute(sql).fetchall()[0][0])["trials"][0]["folds"][-1]["metric"]
        plain = {
            name: one[0] if isinstance(one, list) and name != "layers" else one
            for name, one in TASKS[task].items()
        }
        model = f"(SELECT train_model('{task}', y, {{'x': x}}, '{json.dumps(plain)}') AS m FROM given WHERE f = 0)"
        scores = f"SELECT y, predict_probas(m, {{'x': x}}), predict_class(m, {{'x': x}}) FROM given, {model} WHERE f = 1"
        rows = con.execute(scores).fetchall()
        eps = np.finfo(float).eps
        chances = [dict(p).get(label, 0.0) for label, p, _ in rows]
        expected = {
            "log_loss": np.mean([-np.log(min(max(p, eps), 1 - eps)) for p in chances]),
            "brier": np.mean([sum((q - (k == label)) ** 2 for k, q in p.items()) + (label not in p) for label, p, _ in rows]),
            "accuracy": np.mean([label == one for label, _, one in rows]),
        }  # fmt: skip
        assert found == pytest.approx(expected[metric], rel=1e-9)
