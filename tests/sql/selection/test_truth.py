"""Winners against exhaustive searches of scikit-learn, and metrics of labels that are noise."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, ParameterSampler, PredefinedSplit

from tuskml.groups.selection.trials import Trials

sys.path.append(str(Path(__file__).parent))

from test_search import Mean, folds_of

L2 = [3.0, 0.3, 0.03, 0.003, 0.0]
N, D = 60, 4


def table(con: duckdb.DuckDBPyConnection, groups: int) -> pd.DataFrame:
    """Groups of N rows whose signals differ in strength, labels as numbers and as classes."""
    random = np.random.default_rng(11)
    g = np.repeat(np.arange(groups), N)
    x = random.normal(size=(len(g), D))
    margin = (x * random.uniform(0, 1.5, (groups, D))[g]).sum(axis=1)
    frame = pd.DataFrame({"g": g, "z": margin + random.normal(size=len(g))})
    frame["y"] = (margin + random.logistic(size=len(g)) > 0).astype(float)
    for k in range(D):
        frame[f"x{k}"] = x[:, k]
    con.register("given", frame)
    con.execute("CREATE TABLE t AS SELECT * FROM given")
    return frame


def searched(
    con: duckdb.DuckDBPyConnection, task: str, label: str, options: dict[str, Any]
) -> dict[int, Any]:
    """The trials of each group."""
    x = ", ".join(f"x{k}" for k in range(D))
    call = f"train_model('{task}', {label}, [{x}], '{json.dumps(options)}')"
    sql = f"SELECT g, ({call}).trials FROM t GROUP BY g"
    return {g: json.loads(text) for g, text in con.execute(sql).fetchall()}


class Quick(Mean):
    """The same by Newton's method, which takes a fraction of the time of L-BFGS here."""

    def fit(self, x: Any, y: Any) -> "Quick":
        inner = LogisticRegression(
            C=1 / (self.l2 * len(y)), tol=1e-10, max_iter=100, solver="newton-cholesky"
        )
        self.inner_ = inner.fit(x, y)
        self.classes_ = inner.classes_
        return self


class Penalised(Ridge):
    """scikit-learn's ridge with the penalty beside the mean loss, as ours."""

    def __init__(self, l2: float = 1.0) -> None:
        self.l2 = l2
        super().__init__()

    def fit(self, x: Any, y: Any, sample_weight: Any = None) -> Any:
        self.alpha = self.l2 * len(y)
        return super().fit(x, y)


def agreement(
    con: duckdb.DuckDBPyConnection, groups: int, values: list[float], *, classes: bool
) -> float:
    """The share of groups whose winner is scikit-learn's, up to metrics equal to 1e-6; metrics are
    the same to 1e-6 in all of them."""
    frame = table(con, groups)
    task, label = ("logistic", "y") if classes else ("linear", "z")
    scoring = "neg_log_loss" if classes else "neg_root_mean_squared_error"
    found = searched(con, task, label, {"l2": values, "folds": 3, "epsilon": 1e-10})
    same = 0
    for g, part in frame.groupby("g"):
        x, y = part[[f"x{k}" for k in range(D)]].to_numpy(), part[label].to_numpy()
        split = PredefinedSplit(folds_of(x, y, 3) if classes else by_number(x, y))
        model = Quick() if classes else Penalised()
        grid = GridSearchCV(model, {"l2": values}, scoring=scoring, cv=split, refit=False)
        truth = -grid.fit(x, y).cv_results_["mean_test_score"]
        trials = found[int(g)]
        assert [one["metric"] for one in trials["trials"]] == pytest.approx(truth, abs=1e-6)
        same += truth[trials["chosen"]] <= truth.min() + 1e-6
    return same / groups


def by_number(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The folds of rows whose labels are numbers."""
    return folds_of(x, y, 3, by_label=False)


@pytest.mark.sample(1)
@pytest.mark.parametrize("classes", [True, False])
def test_winners_are_those_of_grid_search(con: duckdb.DuckDBPyConnection, classes: bool) -> None:
    values = L2[:-1] if classes else L2
    assert agreement(con, 8, values, classes=classes) == 1


@pytest.mark.nightly
@pytest.mark.parametrize("classes", [True, False])
def test_winners_of_a_thousand_groups(con: duckdb.DuckDBPyConnection, classes: bool) -> None:
    values = L2[:-1] if classes else L2
    assert agreement(con, 1000, values, classes=classes) >= 0.99


def test_winners_of_draws_are_those_of_the_same_draws(con: duckdb.DuckDBPyConnection) -> None:
    """As RandomizedSearchCV does, which evaluates what ParameterSampler draws."""
    space = {"l2": list(np.geomspace(1e-4, 10, 40))}
    draws = [one["l2"] for one in ParameterSampler(space, 6, random_state=3)]
    assert agreement(con, 6, draws, classes=False) == 1


def noise(con: duckdb.DuckDBPyConnection, groups: int, n: int) -> None:
    """Labels by chance, a category of many levels among the features, and a fifth held out."""
    random = np.random.default_rng(2)
    g = np.repeat(np.arange(groups), n)
    frame = pd.DataFrame(
        {"g": g, "y": random.integers(0, 2, len(g)), "fold": np.tile(np.arange(n), groups) % 5}
    )
    for name in "ab":
        frame[name] = random.normal(size=len(g))
    frame["c"] = [f"level {k}" for k in random.integers(0, 12, len(g))]
    con.register("given", frame)
    con.execute("CREATE TABLE noise AS SELECT * FROM given")


OPTIONS = {
    "tasks": [{"task": "logistic", "l2": [1.0, 0.01]}, {"task": "gbdt", "trees": [5, 20]}],
    "metric": "auc",
    "folds": 4,
}


def test_labels_by_chance_are_predicted_by_chance(con: duckdb.DuckDBPyConnection) -> None:
    """Nested resampling: the winner of four fifths of the rows, judged by the last fifth.

    A winner's own metric is the best of several, and is above chance for that reason; each
    candidate's is not.
    """
    noise(con, 60, 100)
    call = f"train_model('auto', y, {{'a': a, 'b': b, 'c': c}}, '{json.dumps(OPTIONS)}')"
    con.execute(
        f"CREATE TABLE m AS SELECT g, {call} AS model FROM noise WHERE fold > 0 GROUP BY g"
    )
    sql = "SELECT g, auc(y, predict_proba(model, {'a': a, 'b': b, 'c': c})) FROM noise JOIN m USING (g) WHERE fold = 0 GROUP BY g"
    outer = np.array([value for _, value in con.execute(sql).fetchall() if value is not None])
    assert abs(outer.mean() - 0.5) < 3 * outer.std(ddof=1) / np.sqrt(len(outer))
    trials = [
        json.loads(text)["trials"]
        for (text,) in con.execute("SELECT model.trials FROM m").fetchall()
    ]
    for k in range(4):
        own = np.array([one[k]["metric"] for one in trials])
        assert abs(own.mean() - 0.5) < 3 * own.std(ddof=1) / np.sqrt(len(own))


def test_the_simplest_task_within_one_standard_error(session: tuple[str, Any]) -> None:
    """On straight lines a linear model, which is simpler than trees and nets."""
    name, connection = session
    series = "range(200)" if name == "duck" else "generate_series(0, 199)"
    connection.execute(
        f"CREATE TABLE line AS SELECT 1.0 * (i % 23) AS a, 1.0 * (i * 7 % 19) AS b, (i % 23) + 3.0 * (i * 31 % 17) > 28 AS y FROM {series} AS r(i)"
    )
    x = "[a, b]" if name == "duck" else "ARRAY[a, b]::float8[]"
    options = {"tasks": ["gbdt", {"task": "mlp", "max_iter": 5}, "logistic"], "folds": 5}
    for simple in (False, True):
        text = json.dumps(options | {"one_standard_error": simple})
        sql = f"SELECT (m).task, (m).trials FROM (SELECT train_model('auto', y, {x}, '{text}') AS m FROM line) AS f"
        ((task, trials),) = connection.execute(sql).fetchall()
        found = json.loads(trials)
        rows = found["trials"]
        assert [row["configuration"]["task"] for row in rows] == ["gbdt", "mlp", "logistic"]
        assert task == rows[found["chosen"]]["configuration"]["task"]
        best = min(rows, key=lambda row: row["metric"])
        within = [row["metric"] <= best["metric"] + best["std_err"] for row in rows]
        assert task == ("logistic" if simple and within[2] else best["configuration"]["task"])


def test_metrics_are_means_over_folds(con: duckdb.DuckDBPyConnection) -> None:
    """The metric of a fold is that of its rows, by scikit-learn, with an unpenalised constant."""
    frame = table(con, 1)
    x, y = frame[[f"x{k}" for k in range(D)]].to_numpy(), frame["y"].to_numpy()
    folds = folds_of(x, y, 4)
    for metric, truth in (("log_loss", log_loss), ("auc", roc_auc_score)):
        trials = searched(
            con, "logistic", "y", {"l2": [0.1], "folds": 4, "metric": metric, "epsilon": 1e-10}
        )
        own = trials[0]["trials"][0]
        expected = []
        for fold in range(4):
            kept = folds != fold
            p = Mean(0.1).fit(x[kept], y[kept]).predict_proba(x[~kept])[:, 1]
            expected.append(truth(y[~kept], p))
        assert [one["metric"] for one in own["folds"]] == pytest.approx(expected, abs=1e-6)
        assert own["metric"] == pytest.approx(np.mean(expected), abs=1e-6)


@pytest.mark.parametrize("unit", [1.0, 1e-200, 1e200])
def test_standard_errors_are_in_the_unit_of_the_metric(unit: float) -> None:
    """Squares of distances from the mean would be 0 or infinite."""
    metric = np.array([1.0, 2.0, 4.0]).reshape(1, 3, 1)  # candidates, folds, groups
    expected = metric.std(ddof=1) / np.sqrt(3)
    trials = object.__new__(Trials)
    object.__setattr__(trials, "metric", metric * unit)
    assert trials.errors() / unit == pytest.approx(np.array([[expected]]), rel=1e-12)
