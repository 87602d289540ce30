"""Searches in both databases: the winners, trials and metrics, against scikit-learn on equal folds."""

# ruff: noqa: E501, SQL is read better on one line

import json
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from rows import account, block
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, PredefinedSplit

from tuskml.kernels.rows.cells import deal
from tuskml.kernels.segments import chunks
from tuskml.learners.held_out import count_held_out

L2 = [1.0, 0.1, 0.01, 0.001]
GROUPS, ROWS = 24, 90


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups (n,), labels (n,) and features (n, 4), the groups' signals of different strength."""
    random = np.random.default_rng(7)
    g = np.repeat(np.arange(GROUPS), ROWS)
    x = random.normal(size=(len(g), 4))
    strength = random.uniform(0, 2, size=(GROUPS, 4))
    margin = (x * strength[g]).sum(axis=1)
    return g, (margin + random.logistic(size=len(g)) > 0.3).astype(float), x


G, Y, X = table()


class Here:
    """DuckDB."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con, self.x = con, "[a, b, c, d]"

    def put(self, name: str, columns: dict[str, np.ndarray]) -> None:
        frame = {key: np.asarray(value) for key, value in columns.items()}
        self.con.register("given", pd.DataFrame(frame))
        self.con.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self.con.execute(sql.replace("{x}", self.x)).fetchall()


class There:
    """PostgreSQL."""

    def __init__(self, connection: Any) -> None:
        self.con, self.x = connection, "ARRAY[a, b, c, d]"

    def put(self, name: str, columns: dict[str, np.ndarray]) -> None:
        types = {"f": "float8", "i": "bigint", "U": "text", "O": "text"}
        kinds = [f"{key} {types[np.asarray(value).dtype.kind]}" for key, value in columns.items()]
        self.con.execute(f"CREATE TEMP TABLE {name} ({', '.join(kinds)})")
        rows = zip(*(np.asarray(value).tolist() for value in columns.values()), strict=True)
        with self.con.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.con.execute(sql.replace("{x}", self.x)).fetchall()
        return found


@pytest.fixture(params=["here", "there"])
def db(request: pytest.FixtureRequest) -> Any:
    database: Any
    if request.param == "here":
        database = Here(request.getfixturevalue("con"))
    else:
        database = There(request.getfixturevalue("post"))
    columns = {"g": G, "y": Y} | {name: X[:, k] for k, name in enumerate("abcd")}
    database.put("t", columns)
    return database


def searched(
    db: Any,
    options: dict[str, Any],
    task: str = "logistic",
    y: str = "y",
    x: str = "{x}",
    source: str = "t",
) -> dict[int, dict[str, Any]]:
    """By group the model's fields that searches are about."""
    sql = f"""SELECT g, (m).task, (m).status, (m).options, (m).trials, (m).coef, (m).intercept, (m).loss, (m).n_rows FROM (
        SELECT g, train_model('{task}', {y}, {x}, '{json.dumps(options)}') AS m FROM {source} GROUP BY g) AS f ORDER BY g"""
    names = ("task", "status", "options", "trials", "coef", "intercept", "loss", "n_rows")
    found = {}
    for g, *values in db.ask(sql):
        one = dict(zip(names, values, strict=True))
        one["options"] = json.loads(one["options"])
        one["trials"] = json.loads(one["trials"]) if one["trials"] else None
        found[int(g)] = one
    return found


def folds_of(
    x: np.ndarray, y: np.ndarray, folds: int, seed: int = 0, *, by_label: bool = True
) -> np.ndarray:
    """The fold of each row, as searches deal them."""
    return dealt_to(x, y, folds, seed=seed, by_label=by_label)


def held_out(x: np.ndarray, y: np.ndarray, share: float) -> np.ndarray:
    """Which rows `validation` holds out."""
    return dealt_to(x, y, 2, held=count_held_out(np.array([len(y)]), share)) == 1


def dealt_to(x: np.ndarray, y: np.ndarray, folds: int, **how: Any) -> np.ndarray:
    """The fold of each row."""
    place = {row.tobytes(): k for k, row in enumerate(np.ascontiguousarray(x))}
    out = np.full(len(y), -1)
    with deal(block(x, y), folds, memory=account(), **how) as cells:
        for fold in range(folds):
            for _, rows, _ in chunks(cells.link([fold])[0]):
                for row in rows:
                    out[place[np.ascontiguousarray(row).tobytes()]] = fold
    assert (out >= 0).all()
    return out


class Mean(ClassifierMixin, BaseEstimator):
    """scikit-learn's logistic regression with the penalty beside the mean loss, as ours."""

    def __init__(self, l2: float = 1.0) -> None:
        self.l2 = l2

    def fit(self, x: Any, y: Any) -> "Mean":
        self.inner_ = LogisticRegression(C=1 / (self.l2 * len(y)), tol=1e-10, max_iter=10_000)
        self.inner_.fit(x, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, x: Any) -> Any:
        return self.inner_.predict(x)

    def predict_proba(self, x: Any) -> Any:
        return self.inner_.predict_proba(x)

    def decision_function(self, x: Any) -> Any:
        return self.inner_.decision_function(x)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("metric", "scoring", "sign"),
    [
        ("log_loss", "neg_log_loss", -1),
        ("auc", "roc_auc", 1),
        ("accuracy", "accuracy", 1),
        ("f1_score", "f1", 1),
        ("brier", "neg_brier_score", -1),
    ],
)
def test_winners_and_metrics_are_those_of_grid_search(
    db: Any, metric: str, scoring: str, sign: int
) -> None:
    found = searched(db, {"l2": L2, "folds": 4, "metric": metric, "epsilon": 1e-10})
    for g in range(0, GROUPS, 6):
        x, y = X[g == G], Y[g == G]
        folds = folds_of(x, y, 4)
        grid = GridSearchCV(Mean(), {"l2": L2}, scoring=scoring, cv=PredefinedSplit(folds))
        truth = grid.fit(x, y).cv_results_
        trials = found[g]["trials"]["trials"]
        means = [one["metric"] for one in trials]
        assert means == pytest.approx(sign * truth["mean_test_score"], abs=1e-6)
        errors = [one["std_err"] for one in trials]
        assert errors == pytest.approx(truth["std_test_score"] / np.sqrt(3), abs=1e-6)
        split = [[one["folds"][k]["metric"] for one in trials] for k in range(4)]
        for k in range(4):
            assert split[k] == pytest.approx(sign * truth[f"split{k}_test_score"], abs=1e-6)
        score = truth["mean_test_score"]
        assert score[found[g]["trials"]["chosen"]] >= score.max() - 1e-6


@pytest.mark.sample(1)
def test_the_winner_is_trained_again_on_all_rows(db: Any) -> None:
    found = searched(db, {"l2": L2, "folds": 3})
    for g, one in found.items():
        chosen = one["trials"]["trials"][one["trials"]["chosen"]]["configuration"]["l2"]
        assert one["options"]["l2"] == chosen
        plain = searched(db, {"l2": chosen}, source=f"(SELECT * FROM t WHERE g = {g}) AS s")[g]
        assert one["n_rows"] == plain["n_rows"] == ROWS
        assert one["coef"] == pytest.approx(plain["coef"], rel=1e-4, abs=1e-5)
        assert plain["trials"] is None


def test_trials_are_a_table(db: Any) -> None:
    model = """(SELECT train_model('logistic', y, {x}, '{"l2": [1, 0.01], "folds": 3}') FROM t)"""
    found = db.ask(
        f"SELECT configuration, fold, iterations, metric, std_err, seconds, status, rows, chosen FROM model_trials({model})"
    )
    assert [row[1] for row in found] == [None, 0, 1, 2] * 2
    assert [json.loads(row[0]) for row in found] == [{"l2": 1}] * 4 + [{"l2": 0.01}] * 4
    for at in (0, 4):
        folds = found[at + 1 : at + 4]
        assert found[at][3] == pytest.approx(np.mean([row[3] for row in folds]))
        assert found[at][4] == pytest.approx(np.std([row[3] for row in folds], ddof=1) / 3**0.5)
        assert {row[6] for row in folds} == {"ok"}
        assert all(row[2] > 0 for row in folds)
    assert [row[8] for row in found].count(True) == 1
    plain = "(SELECT train_model('logistic', y, {x}) FROM t)"
    with pytest.raises(
        Exception, match="the model is of no search, train it with a list of values"
    ):
        db.ask(f"SELECT * FROM model_trials({plain})")


def test_validation_is_one_set_of_rows(db: Any) -> None:
    found = searched(db, {"l2": L2, "validation": 0.25})
    for g in (0, 5):
        folds = found[g]["trials"]["trials"][0]["folds"]
        assert len(folds) == 1
        x, y = X[g == G], Y[g == G]
        held = held_out(x, y, 0.25)
        losses = [
            log_loss(y[held], Mean(l2).fit(x[~held], y[~held]).predict_proba(x[held])) for l2 in L2
        ]
        metrics = [one["metric"] for one in found[g]["trials"]["trials"]]
        assert metrics[:2] == pytest.approx(losses[:2], abs=1e-5)
        # Where a penalty is weak, a training stops early by these rows.
        assert all(ours < theirs + 1e-5 for ours, theirs in zip(metrics, losses, strict=True))


@pytest.mark.parametrize("name", ["conformal", "one_standard_error"])
@pytest.mark.parametrize("task", ["logistic", "gbdt"])
def test_options_of_a_search_at_their_defaults_are_none(db: Any, task: str, name: str) -> None:
    y = "y" if task == "logistic" else "2.0 * y"
    assert searched(db, {name: False}, task, y) == searched(db, {}, task, y)


def test_the_simplest_within_one_standard_error(db: Any) -> None:
    usual = searched(db, {"l2": L2, "folds": 5})
    simple = searched(db, {"l2": L2, "folds": 5, "one_standard_error": True})
    stronger = 0
    for g, one in simple.items():
        trials = one["trials"]["trials"]
        best = min(range(4), key=lambda k: trials[k]["metric"])
        within = [
            k
            for k in range(4)
            if trials[k]["metric"] <= trials[best]["metric"] + trials[best]["std_err"]
        ]
        assert one["options"]["l2"] == max(L2[k] for k in within)
        assert usual[g]["options"]["l2"] == L2[best]
        stronger += one["options"]["l2"] > usual[g]["options"]["l2"]
    assert stronger > 0


def test_random_labels_are_judged_as_chance(db: Any) -> None:
    random = np.random.default_rng(3)
    groups, n = 60, 80
    g = np.repeat(np.arange(groups), n)
    x = random.normal(size=(groups * n, 4))
    db.put(
        "noise",
        {"g": g, "y": random.integers(0, 2, groups * n).astype(float)}
        | {name: x[:, k] for k, name in enumerate("abcd")},
    )
    found = searched(db, {"l2": [1.0], "metric": "auc", "folds": 5}, source="noise")
    means = np.array([one["trials"]["trials"][0]["metric"] for one in found.values()])
    assert abs(means.mean() - 0.5) < 3 * means.std(ddof=1) / np.sqrt(groups)


def test_halving_tries_all_on_one_fold_and_some_on_the_others(db: Any) -> None:
    """These have the metrics of the whole grid, the best of the first fold is one of them, and the
    best of them wins."""
    l2 = [10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003]
    whole = searched(db, {"l2": l2, "folds": 3})
    halved = searched(db, {"l2": l2, "folds": 3, "search": {"strategy": "halving"}})
    for g, one in halved.items():
        ours, all_of_it = (found["trials"] for found in (one["trials"], whole[g]["trials"]))
        first = [trial["folds"][0]["metric"] for trial in all_of_it]
        tried = []
        for k, trial in enumerate(ours):
            assert trial["rows"] == 1.0
            assert trial["folds"][0]["metric"] == pytest.approx(first[k], abs=1e-6)
            if [fold["status"] for fold in trial["folds"][1:]] != ["stopped early"] * 2:
                tried.append(k)
                assert trial["metric"] == pytest.approx(all_of_it[k]["metric"], abs=1e-6)
        assert len(tried) == 3
        assert min(range(len(l2)), key=lambda k: first[k]) in tried
        assert one["trials"]["chosen"] == min(tried, key=lambda k: all_of_it[k]["metric"])


def test_halving_of_two_folds_ends_on_all_rows_of_the_best(db: Any) -> None:
    l2 = [10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003]
    halved = searched(db, {"l2": l2, "folds": 2, "search": {"strategy": "halving"}})
    for one in halved.values():
        trials = one["trials"]["trials"]
        assert sorted(trial["rows"] for trial in trials) == [0.25] * 5 + [1.0] * 3
        assert trials[one["trials"]["chosen"]]["rows"] == 1.0


def test_draws_lie_in_their_range(db: Any) -> None:
    options = {"l2": {"log_uniform": [1e-4, 1.0]}, "search": {"trials": 6}, "folds": 2, "seed": 5}
    found = searched(db, options)
    drawn = [trial["configuration"]["l2"] for trial in found[0]["trials"]["trials"]]
    assert len(set(drawn)) == 6
    assert all(1e-4 <= one <= 1 for one in drawn)
    assert searched(db, options)[0]["trials"]["trials"][0]["configuration"]["l2"] == drawn[0]
    other = searched(db, options | {"seed": 6})
    assert other[0]["trials"]["trials"][0]["configuration"]["l2"] != drawn[0]


def test_tasks_compete(db: Any) -> None:
    options = {
        "tasks": ["logistic", {"task": "gbdt", "num_leaves": [3, 7]}],
        "trees": 15,
        "folds": 3,
    }
    found = searched(db, options, task="auto")
    for one in found.values():
        shown = [trial["configuration"] for trial in one["trials"]["trials"]]
        assert shown == [
            {"task": "logistic"},
            {"task": "gbdt", "num_leaves": 3},
            {"task": "gbdt", "num_leaves": 7},
        ]
        assert one["task"] == shown[one["trials"]["chosen"]]["task"]
        metrics = [trial["metric"] for trial in one["trials"]["trials"]]
        assert one["trials"]["chosen"] == int(np.argmin(metrics))


def test_a_model_of_trees_is_judged_by_its_predictions(db: Any) -> None:
    sql = """SELECT (m).trials FROM (SELECT train_model('gbdt', y, {x}, '{"objective": "logistic", "trees": [5, 20], "metric": "auc", "validation": 0.5}') AS m FROM t WHERE g = 0) AS f"""
    x, y = X[G == 0], Y[G == 0]
    held = held_out(x, y, 0.5)
    trials = json.loads(db.ask(sql)[0][0])["trials"]
    kept = {"g": np.zeros((~held).sum()), "y": y[~held]} | {
        name: x[~held, k] for k, name in enumerate("abcd")
    }
    out = {"n": np.arange(held.sum()), "y": y[held]} | {
        name: x[held, k] for k, name in enumerate("abcd")
    }
    db.put("kept", kept)
    db.put("out", out)
    for trial in trials:
        options = json.dumps({"objective": "logistic", "trees": trial["folds"][0]["iterations"]})
        rows = db.ask(
            f"SELECT y, predict_proba((SELECT train_model('gbdt', y, {{x}}, '{options}') FROM kept), {{x}}) FROM out ORDER BY n"
        )
        label, score = np.array(rows).T
        assert trial["metric"] == pytest.approx(roc_auc_score(label, score), abs=1e-9)


def statuses(one: dict[str, Any]) -> Sequence[str]:
    return [fold["status"] for trial in one["trials"]["trials"] for fold in trial["folds"]]


def test_a_trial_that_fails_is_a_row_of_trials(db: Any) -> None:
    few = {"g": np.array([0, 0, 1, 1, 1, 1, 2]), "y": np.array([0, 1, 0, 0, 0, 1.0, 1])}
    db.put("few", few | {name: np.array([0.1, 0.9, 0.3, 0.2, 0.6, 0.8, 0.5]) for name in "abcd"})
    found = searched(db, {"l2": [1.0, 0.1], "folds": 4}, source="few")
    assert "too few rows" in statuses(found[0])
    assert "one class" in statuses(found[1])
    assert set(statuses(found[2])) == {"too few rows"}
    assert found[2]["status"] == "one class"
    assert found[0]["status"] != "too few rows"


def test_predictions_without_a_metric_are_a_status_of_their_trial(db: Any) -> None:
    """A deviance of counts is not defined for predictions below 0, which lines reach."""
    random = np.random.default_rng(3)
    x = random.normal(size=(200, 4))
    y = random.poisson(np.exp(1.5 * x[:, 0])).astype(float)
    db.put("counts", {"g": np.zeros(200), "y": y} | {c: x[:, k] for k, c in enumerate("abcd")})
    options = {"tasks": ["linear", "poisson"], "metric": "poisson_deviance", "folds": 3}
    found = searched(db, options, task="auto", source="counts")[0]
    line, counts = found["trials"]["trials"]
    assert found["trials"]["chosen"] == 1
    assert {fold["status"] for fold in line["folds"]} == {"no metric"}
    assert line["metric"] is None
    assert {fold["status"] for fold in counts["folds"]} == {"ok"}
    assert counts["metric"] > 0


def test_numbers_counts_and_many_classes(db: Any) -> None:
    random = np.random.default_rng(11)
    n = 240
    x = random.normal(size=(n, 4))
    counts = random.poisson(np.exp(0.4 * x[:, 0])).astype(float)
    three = (x[:, 0] + random.normal(size=n) > 0).astype(float) + (x[:, 1] > 0.4)
    names = np.array(["low", "mid", "top"])[three.astype(int)]
    columns = {
        "g": np.zeros(n),
        "y": x[:, 0] + random.normal(size=n),
        "n": counts,
        "k": three,
        "s": names,
    }
    db.put("other", columns | {name: x[:, k] for k, name in enumerate("abcd")})
    of = {
        "linear": ("y", "rmse"),
        "poisson": ("n", "poisson_deviance"),
        "quantile": ("y", "pinball"),
        "huber": ("y", "mae"),
    }
    for task, (y, metric) in of.items():
        found = searched(db, {"l2": [1.0, 0.01], "folds": 3}, task=task, y=y, source="other")[0]
        assert found["trials"]["metric"] == metric
        assert all(trial["metric"] > 0 for trial in found["trials"]["trials"])
    by_number = searched(db, {"l2": [1.0, 0.01], "folds": 3}, y="k", source="other")[0]
    by_name = searched(db, {"l2": [1.0, 0.01], "folds": 3}, y="s", source="other")[0]
    first = [trial["metric"] for trial in by_number["trials"]["trials"]]
    assert first == pytest.approx([trial["metric"] for trial in by_name["trials"]["trials"]])
    assert first[1] < first[0] < np.log(3)
