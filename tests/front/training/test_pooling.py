"""`train` with `pooled`: local, complete or partial pooling, by rows that were held out."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LinearRegression

import tuskml
from tuskml import DataError, OptionError, train
from tuskml.kernels.rows.written import copy_to_cells
from tuskml.learners.learner import Arrays, Request
from tuskml.learners.linear.pooled import FOLDS, Pooling, folds_of
from tuskml.learners.registry import options_of, task_named

D = 3
FEATURES = [f"x{k}" for k in range(D)]
ROWS = """CREATE TABLE t AS
SELECT i % 6 AS g, i % 7 + sin(i) AS y, cos(i) AS x0, i % 7 AS x1, sin(3 * i) AS x2
FROM generate_series(0, 119) AS r(i)"""
WAYS = ["local", "complete", "partial"]


def frame(task: str, spread: float, groups: int = 20, n: int = 15, seed: int = 0) -> pd.DataFrame:
    """Rows of groups whose weights differ by so much from those that they share."""
    random = np.random.default_rng(seed)
    weights = random.normal(size=D) + spread * random.normal(size=(groups, D))
    g = np.repeat(np.arange(groups), n)
    x = random.normal(size=(len(g), D))
    margin = (x * weights[g]).sum(axis=1) + 0.5 * random.normal(size=groups)[g]
    noise = random.logistic(size=len(g)) if task == "logistic" else random.normal(size=len(g))
    y = margin + noise if task == "linear" else (margin + noise > 0) * 1.0
    return pd.DataFrame({"g": g, "y": y} | {f"x{k}": x[:, k] for k in range(D)})


def pooled(con: Any, task: str, source: Any, **more: Any) -> Any:
    given = {"label": "y", "features": FEATURES, "group_by": "g", "pooled": True}
    return train(con, task, source=source, **given | more)


def ways(models: Any) -> list[str]:
    return [WAYS[model.trials["chosen"]] for model in models.values()]


def losses(models: Any) -> np.ndarray:
    """The mean over groups of each way's metric."""
    found = [[one["metric"] for one in model.trials["trials"]] for model in models.values()]
    return np.array(found, float).mean(axis=0)


@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_pooling_wins_where_groups_are_alike(con: Any, task: str) -> None:
    models = pooled(con, task, frame(task, 0.0))
    local, complete, _ = losses(models)
    assert complete < local
    assert ways(models).count("local") < len(models) / 4


@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_local_models_win_where_groups_differ(con: Any, task: str) -> None:
    models = pooled(con, task, frame(task, 4.0, n=300))
    local, complete, partial = losses(models)
    assert local < 0.7 * complete
    assert local < 1.05 * partial
    assert "complete" not in ways(models)
    assert "local" in ways(models)


@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_partial_pooling_wins_between_them(con: Any, task: str) -> None:
    models = pooled(con, task, frame(task, 0.5, groups=40, n=25))
    local, complete, partial = losses(models)
    assert partial < min(local, complete)


def test_what_was_said_holds_on_rows_that_nobody_saw(con: Any) -> None:
    """Groups that are alike: the chosen models are better than local ones on new rows."""
    rows = frame("linear", 0.1, n=1000)
    known, new = rows.groupby("g").head(12), rows.groupby("g").tail(900)
    chosen, local = pooled(con, "linear", known), pooled(con, "linear", known, pooled=False)

    def error(models: Any) -> float:
        parts = [
            (models[g].predict(part[FEATURES].to_numpy()) - part["y"]).pow(2)
            for g, part in new.groupby("g")
        ]
        return float(np.sqrt(pd.concat(parts).mean()))

    said = [[one["metric"] ** 2 for one in m.trials["trials"]] for m in chosen.values()]
    assert error(chosen) < error(local)
    assert np.sqrt(np.mean(said, axis=0)).min() == pytest.approx(error(chosen), rel=0.15)


def pooling(task: str, rows: pd.DataFrame, options: str = "{}") -> Pooling:
    found = task_named(task)
    request = Request(found, options_of(found, options))
    x, y = rows[FEATURES].to_numpy(), rows["y"].to_numpy()
    given = Arrays(x, y, rows["g"].to_numpy(), int(rows["g"].max()) + 1)
    cells = copy_to_cells(x, y, given.group, folds_of(given, request), (given.n_groups, FOLDS))
    return Pooling(cells, given, request)


def loss(task: str, margin: np.ndarray, y: np.ndarray) -> float:
    if task == "linear":
        return float(((margin - y) ** 2).sum() / 2)
    return float(np.logaddexp(0, -(2 * y - 1) * margin).sum())


@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_weights_are_the_least_of_what_is_minimised(task: str) -> None:
    """Against SciPy's BFGS on the objectives as the documentation has them."""
    rows = frame(task, 0.7, groups=4, n=20)
    found = pooling(task, rows, '{"l2": 0.05}')
    problem = found.problem(found.kept.cells.link(range(FOLDS)).copy())
    complete, *partial = found.by_strength(problem, 1)
    x, y, g = found.rows.x, found.rows.y, found.rows.group
    z = (x - x.mean(axis=0)) / x.std(axis=0)

    def shared(v: np.ndarray) -> float:
        w, b, u = v[:D], v[D], v[D + 1 :]
        ridge = len(y) * 0.05 / 2 * ((w / x.std(axis=0)) ** 2).sum()
        return loss(task, z @ w + b + u[g], y) + ridge + (u**2).sum() / 2

    best = minimize(shared, np.zeros(D + 5), options={"gtol": 1e-8}).x
    assert complete[:, :D] == pytest.approx(np.tile(best[:D], (4, 1)), abs=1e-4)
    assert complete[:, D] == pytest.approx(best[D] + best[D + 1 :], abs=1e-4)
    for strength, weights in ((100.0, partial[2]), (3.0, partial[5])):
        of = g == 2

        def drawn(v: np.ndarray, of: Any = of, strength: float = strength) -> float:
            away = strength / 2 * ((v - complete[2]) ** 2).sum()
            return loss(task, z[of] @ v[:D] + v[D], y[of]) + away

        best = minimize(drawn, np.zeros(D + 1), options={"gtol": 1e-8}).x
        assert weights[2] == pytest.approx(best, abs=1e-4)


def test_the_metric_is_that_of_held_out_rows(con: Any) -> None:
    """Local models by scikit-learn on the same folds."""
    rows = frame("linear", 1.0, groups=5, n=40)
    models = pooled(con, "linear", rows)
    found = pooling("linear", rows)
    fold = folds_of(found.rows, found.request)
    assert (np.bincount(found.rows.group * FOLDS + fold) == 8).all()
    for g in range(5):
        x, y, out = rows[rows.g == g][FEATURES], rows[rows.g == g]["y"], fold[rows.g == g]
        squares = [
            (LinearRegression().fit(x[out != f], y[out != f]).predict(x[out == f]) - y[out == f])
            for f in range(FOLDS)
        ]
        truth = np.sqrt(np.mean(np.concatenate(squares) ** 2))
        assert models[g].trials["trials"][0]["metric"] == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_folds_are_those_of_a_search(con: Any, task: str, seed: int) -> None:
    """Local models are judged on them as a search judges its only candidate."""
    rows = frame(task, 1.0, groups=5, n=40).assign(x0=lambda rows: rows.x0 - 3)
    models = pooled(con, task, rows, l2=0.1, seed=seed)
    searched = pooled(con, task, rows, l2=[0.1], folds=FOLDS, seed=seed, pooled=False)
    power = 2 if task == "linear" else 1
    for g, model in models.items():
        folds = searched[g].trials["trials"][0]["folds"]
        expected = np.mean([fold["metric"] ** power for fold in folds]) ** (1 / power)
        assert model.trials["trials"][0]["metric"] == pytest.approx(expected, rel=1e-4)


def test_the_order_of_rows_does_not_matter(con: Any) -> None:
    rows = frame("logistic", 0.5)
    one = pooled(con, "logistic", rows)
    other = pooled(con, "logistic", rows.sample(frac=1, random_state=1))
    assert ways(one) == ways(other)
    for g in one:
        assert one[g].coef == pytest.approx(other[g].coef, abs=1e-6)


def test_groups_of_one_row_and_of_one_class_learn_from_others(con: Any) -> None:
    rows = frame("logistic", 0.2)
    rows.loc[rows.g == 3, "y"] = 1.0
    lone = rows[rows.g == 5].head(1)
    holes = rows[rows.g == 7].head(2).assign(x1=None)
    models = pooled(con, "logistic", pd.concat([rows[rows.g != 5], lone, holes]))
    assert len(models) == 20
    assert models[5].n_rows == 1
    assert (models[7].n_rows, models[7].n_skipped) == (15, 2)
    assert models[3].classes == models[5].classes == [0, 1]
    assert models[5].status == "ok"
    assert "pooling of 20 groups" in models[5].plan
    proba = models[5].predict_proba(rows[FEATURES].to_numpy())
    assert ((proba > 0) & (proba < 1)).all()


def test_postgres_gives_the_same(pg: Any, con: Any) -> None:
    con.execute(ROWS.replace("generate_series(0, 119)", "range(120)"))
    here, there = pooled(con, "linear", "t"), pooled(pg, "linear", "t")
    assert ways(here) == ways(there)
    for g in here:
        assert here[g].coef == pytest.approx(there[g].coef, abs=1e-6)


def test_models_may_go_into_a_table(pg: Any, con: Any) -> None:
    con.execute(ROWS.replace("generate_series(0, 119)", "range(120)"))
    for session in (con, pg):
        session.execute("DROP TABLE IF EXISTS kept")
        assert pooled(session, "linear", "t", into="kept") == 6
        found = session.execute("SELECT g, (model).features, (model).plan FROM kept").fetchall()
        plans = {g: model.plan for g, model in pooled(session, "linear", "t").items()}
        assert {g: plan for g, _, plan in found} == plans
        assert all(names == FEATURES for _, names, _ in found)


REFUSED = {
    "poisson": (
        {},
        OptionError,
        "'pooled' is not available with task 'poisson', expected 'linear'",
    ),
    "gbdt": ({}, OptionError, "option 'pooled' is not available with task 'gbdt'"),
    "linear": (
        {"l1": 0.1},
        OptionError,
        "'l1' is not available with 'pooled', expected l2",
    ),
    "logistic": ({"l2": [1, 2]}, OptionError, "'pooled' is not available in a search"),
}


@pytest.mark.parametrize("task", REFUSED)
def test_what_cannot_be_pooled(con: Any, task: str) -> None:
    options, error, sentence = REFUSED[task]
    with pytest.raises(error, match=sentence):
        pooled(con, task, frame("logistic", 0.0), **options)


def test_pooled_needs_groups_and_two_classes(con: Any) -> None:
    with pytest.raises(OptionError, match="option 'pooled' is given without group_by"):
        pooled(con, "linear", frame("linear", 0.0), group_by=())
    with pytest.raises(OptionError, match="option 'pooled' is 1, expected true or false"):
        pooled(con, "linear", frame("linear", 0.0), pooled=1)
    given: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
        "not available with weight or offset": (OptionError, "linear", {"weight": "y"}),
        "is text, and 'pooled' takes numbers": (DataError, "logistic", {"label": "'a' || y"}),
        "as of text or dates": (DataError, "linear", {"features": ["x0", "'a' || x1"]}),
        "with executor or cluster": (OptionError, "linear", {"executor": "threads"}),
    }
    for sentence, (error, task, more) in given.items():
        with pytest.raises(error, match=sentence):
            pooled(con, task, frame("linear", 0.0), **more)
    with pytest.raises(DataError, match="the labels have 300 classes, expected two"):
        pooled(con, "logistic", frame("linear", 0.0))


def test_nan_is_few_groups_and_a_list_is_none(con: Any) -> None:
    con.execute(ROWS)
    nan = "CASE WHEN g < 3 THEN 'NaN'::DOUBLE ELSE g END AS h"
    models = pooled(con, "linear", "t", group_by=nan)
    assert sorted(model.n_rows for model in models.values()) == [20, 20, 20, 60]
    with pytest.raises(DataError, match="group_by has values of type list"):
        pooled(con, "linear", "t", group_by="[g] AS h")


@pytest.mark.parametrize("label", ["3 * x + g", "3 * x + g + 1.7e9"])
@pytest.mark.parametrize("feature", ["x", "x + 1.7e9"])
def test_rows_far_from_zero(con: Any, label: str, feature: str) -> None:
    """They are copied nearer to it, in memory that no database accounts for."""
    con.execute(
        "CREATE TABLE far AS SELECT i % 5 AS g, (i * 7 % 31)::DOUBLE AS x FROM range(90) r(i)"
    )
    models = pooled(con, "linear", "far", label=label, features=[feature], group_by="g")
    assert len(models) == 5
    assert [model.coef[0] for model in models.values()] == pytest.approx([3.0] * 5, rel=1e-3)


def test_an_aggregate_says_who_can(con: Any) -> None:
    con.register("rows", frame("linear", 0.0))
    with pytest.raises(Exception, match=r"option 'pooled'.*tuskml.train"):
        con.execute("SELECT train_model('linear', y, [x0], '{\"pooled\": true}') FROM rows")
    assert tuskml.train is train
