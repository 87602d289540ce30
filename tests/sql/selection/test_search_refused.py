"""Searches that are refused, in both databases alike, each in a sentence."""

# ruff: noqa: E501, SQL is read better on one line

import json
from collections.abc import Callable
from ctypes import c_int
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tuskml.errors import DataError
from tuskml.groups.selection import metrics
from tuskml.kernels.structures import GROUP

pytestmark = pytest.mark.fault(family="bad input by name")

ROWS = "CREATE TEMP TABLE rows AS SELECT i % 2 AS y, 1.0 * i AS a, 1.0 * (i % 7) AS b FROM {series} AS r(i)"
Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(params=["duckdb", "postgres"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Runs SQL, in which {x} stands for the features of the table `rows`."""
    here = request.param == "duckdb"
    connection = request.getfixturevalue("con" if here else "post")
    connection.execute(ROWS.format(series="range(40)" if here else "generate_series(0, 39)"))
    features = "[a, b]" if here else "ARRAY[a, b]::float8[]"
    return lambda sql: list(connection.execute(sql.replace("{x}", features)).fetchall())


REFUSED = {
    '{"l2": []}': "option 'l2' is \\[\\], expected a number",
    '{"l2": [1, -1]}': "option 'l2' is -1, expected",
    '{"l2": [1], "folds": 1}': "option 'folds' is 1, expected a whole number from 2 to 100",
    '{"l2": [1], "metric": "aux"}': "option 'metric' is \"aux\", expected .*did you mean 'auc'",
    '{"l2": [1], "search": {"strategy": "grids"}}': "expected 'grid', 'random', 'halving' or 'tpe'; did you mean 'grid'",
    '{"l2": [1], "search": {"trial": 3}}': "option 'search' has 'trial', expected one of strategy, trials, time; did you mean 'trials'",
    '{"l2": [1], "search": {"trials": 0}}': "'trials' in option 'search' is 0, expected a whole number",
    '{"l2": [1], "search": {"strategy": "tpe"}}': "option 'search' has the strategy 'tpe' without 'trials': expected how many candidates each group tries",
    '{"l2": {"log_uniform": [0, 1]}, "search": {"trials": 3}}': "expected its two ends, the lower first",
    '{"l2": {"uniform": [0, 1]}}': "option 'l2' is a range, whose values are drawn",
    '{"l2": [1], "one_standard_error": 1}': "option 'one_standard_error' is 1, expected true or false",
    '{"l2": [1], "tasks": ["svm"]}': "option 'tasks' is for task 'auto'",
    '{"l2": [1, 2], "store": "s"}': "option 'store' is not available in a search",
    '{"l2": [1, 2], "warm_start": {"coef": [1, 2], "intercept": 0}}': "option 'warm_start' is not available in a search: its model may have seen rows",
    '{"l2": [1, 2], "search": {"strategy": "random"}}': "has the strategy 'random' without 'trials'",
    '{"l2": [1, 2], "search": {"strategy": "grid", "trials": 3}}': "has the strategy 'grid' and 3 'trials', and a grid is tried as a whole",
    '{"l2": [1, 2], "threads": [1, 2]}': "option 'threads' is \\[1, 2\\], and all candidates of a search have the same one",
    '{"l2": [1, 2], "classes": [[0, 1], [1, 2]]}': "option 'classes' is .*, and all candidates of a search have the same one",
    '{"l3": [1, 2]}': "unknown option 'l3'",
    '{"missing": ["skip", "impute"]}': "option 'missing' has 'skip' in its list, and all candidates train on the same rows",
    '{"l2": [1, 2], "fold": 3}': "unknown option 'fold'; did you mean 'folds'",
}


@pytest.mark.parametrize("options", list(REFUSED))
def test_what_cannot_be_searched_is_refused(ask: Ask, options: str) -> None:
    with pytest.raises(Exception, match=REFUSED[options]):
        ask(f"SELECT train_model('logistic', y, {{x}}, '{options}') FROM rows")


REFUSED_OF_TASKS = {
    (
        "poisson",
        '{"l2": [1], "metric": "auc"}',
    ): "option 'metric' is 'auc', which is of classes, and task 'poisson' predicts numbers: expected 'rmse'",
    (
        "svm",
        '{"l2": [1, 2], "metric": "log_loss"}',
    ): "which is of probabilities, and task 'svm' predicts classes alone: expected 'accuracy', 'auc',",
    (
        "auto",
        '{"tasks": ["logistic", "svm"]}',
    ): "have the metrics accuracy, log_loss: expected option 'metric', one that all have: 'accuracy', 'auc',",
    (
        "auto",
        '{"tasks": ["linear", "quantile"]}',
    ): "have the metrics pinball, rmse: expected option 'metric', one that all have: 'rmse', 'mae',",
    (
        "auto",
        '{"tasks": ["linear", "logistic"]}',
    ): "one that all have: tasks that all predict numbers, or all classes",
    (
        "matrix_factorization",
        '{"rank": [1], "metric": "f1_score"}',
    ): "task 'matrix_factorization' predicts numbers",
    (
        "matrix_factorization",
        '{"feedback": "implicit", "rank": [1, 2], "validation": 0.2}',
    ): "option 'validation' is for option 'feedback': 'explicit'",
    (
        "matrix_factorization",
        '{"feedback": ["explicit", "implicit"], "metric": "rmse"}',
    ): "which is of labels, and task 'matrix_factorization' predicts items",
    (
        "quantile",
        '{"quantile": [0.1, 0.9]}',
    ): "option 'quantile' has the values 0.1, 0.9, and losses by different values of 'quantile' cannot be compared",
    (
        "auto",
        '{"tasks": ["linear", {"task": "gbdt", "missing": "impute"}]}',
    ): "option 'missing' stands within task 'gbdt'.*beside option 'tasks'",
}


@pytest.mark.parametrize(("task", "options"), list(REFUSED_OF_TASKS))
def test_what_a_task_cannot_be_searched_for_is_refused(ask: Ask, task: str, options: str) -> None:
    with pytest.raises(Exception, match=REFUSED_OF_TASKS[task, options]):
        ask(f"SELECT train_model('{task}', y, {{x}}, '{options}') FROM rows")


CLASSIFIERS: dict[str, dict[str, Any]] = {
    "logistic": {"l2": [1, 2]},
    "svm": {"l2": [1, 2]},
    "squared_hinge": {"l2": [1, 2]},
    "sparse_logistic": {"lambda": [1, 2]},
    "gbdt": {"objective": "logistic", "trees": [1, 2]},
    "random_forest": {"objective": "gini", "trees": [1, 2]},
    "mlp": {"objective": "logistic", "max_iter": [1, 2]},
    "fm": {"objective": "logistic", "rank": [1, 2]},
}


@pytest.mark.parametrize("task", CLASSIFIERS)
@pytest.mark.parametrize(
    "metric", ["rmse", "mae", "r2", "mape", "pinball", "poisson_deviance", "tweedie_deviance"]
)
def test_metrics_of_numbers_judge_no_classes(ask: Ask, task: str, metric: str) -> None:
    """Classes may be texts, whose places in the alphabet are no numbers to compare."""
    options = json.dumps(CLASSIFIERS[task] | {"metric": metric})
    for label in ("a % 2", "CASE a % 2 WHEN 0 THEN 'no' ELSE 'yes' END"):
        with pytest.raises(Exception, match=f"'{metric}', which is of numbers, and task '{task}'"):
            ask(f"SELECT train_model('{task}', {label}, {{x}}, '{options}') FROM rows")


NOT_TAKEN = {
    'train_model(\'logistic\', CASE y WHEN 0 THEN b::int % 3 ELSE b::int % 2 END, {x}, \'{"l2": [1, 2], "folds": 2, "metric": "auc"}\')': "a group has more than two classes, expected log_loss, brier",
    'train_model(\'linear\', CASE y WHEN 0 THEN -1 ELSE 1 + a * a END, {x}, \'{"l2": [1, 2], "folds": 2, "metric": "gamma_deviance"}\')': "label is -1, expected a number above 0",
}


@pytest.mark.parametrize("call", list(NOT_TAKEN))
def test_a_group_whose_labels_a_metric_does_not_take_is_not_compared(ask: Ask, call: str) -> None:
    """The other group is, and the trials say why."""
    models = f"(SELECT y, {call} AS m FROM rows GROUP BY y) AS s"
    found = ask(f"SELECT y, (m).status, (m).trials FROM {models} ORDER BY y")
    assert [row[1] for row in found] == ["not compared", "ok"]
    trials = [json.loads(row[2]) if isinstance(row[2], str) else row[2] for row in found]
    told = [{fold["status"] for one in its["trials"] for fold in one["folds"]} for its in trials]
    assert all(NOT_TAKEN[call] in status for status in told[0])
    assert told[1] <= {"ok", "no metric"}


def test_no_group_is_to_blame_where_memory_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the labels are refused with is a reason of their group; this ends the statement."""
    told = b"label is 0"

    def judge(*given: Any) -> int:
        given[4]._obj.sentence = told
        return 0

    monkeypatch.setattr(metrics, "Emission", lambda models: SimpleNamespace(struct=c_int()))
    library: Any = SimpleNamespace(tusk_judge=judge)
    models: Any = None
    asked = library, models, np.zeros(1, GROUP), ("auc", 0.0), 1
    assert metrics.judge(*asked)[1] == {0: "label is 0"}
    told = b"out of memory"
    with pytest.raises(DataError, match="option 'metric' is 'auc': out of memory"):
        metrics.judge(*asked)


def test_auto_needs_tasks(ask: Ask) -> None:
    with pytest.raises(Exception, match="task 'auto' needs option 'tasks'"):
        ask("SELECT train_model('auto', y, {x}) FROM rows")
    with pytest.raises(Exception, match="expected option 'metric'"):
        ask("""SELECT train_model('auto', y, {x}, '{"tasks": ["logistic", "svm"]}') FROM rows""")
