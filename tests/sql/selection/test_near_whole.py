"""Trials of large groups start where the whole group ended: fewer passes, and the same metrics."""

import json
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from tuskml.groups.selection import nearness
from tuskml.groups.selection.folds import Preparation
from tuskml.kernels.passes import GROUP, Pass
from tuskml.learners.linear import training
from tuskml.learners.linear.algorithms.parts import kept_curvature
from tuskml.learners.near import NearWhole

SIZES, D = (1200, 500, 80), 5
GRID = {"l2": [0.3, 0.01, 1e-4], "class_weight": ["balanced", [1, 3]], "folds": 4}


@pytest.fixture
def rows(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Groups of which the last one is too small to start its folds from; x4 is rarely not 0."""
    random = np.random.default_rng(4)
    g = np.repeat(np.arange(len(SIZES)), SIZES)
    x = random.normal(size=(len(g), D)) * 10.0 ** np.arange(D) + 3
    x[:, 4] = np.arange(len(g)) % 400 == 0
    margin = 0.3 * (x[:, 0] - 3) + random.uniform(-1, 1, len(SIZES))[g] * (x[:, 1] - 3) / 10
    y = margin + random.logistic(size=len(g)) > 0.3
    given = pd.DataFrame({"g": g, "y": y, "z": random.poisson(np.exp(margin)), "x": list(x)})
    con.register("given", given)
    con.execute("CREATE TABLE t AS SELECT * FROM given")
    return con


def metrics(
    con: duckdb.DuckDBPyConnection, task: str = "logistic", label: str = "y", **more: Any
) -> np.ndarray:
    """(groups, candidates, folds)."""
    options = {name: value for name, value in (GRID | more).items() if value is not None}
    return told(con, "metric", task, label, options)


def told(
    con: duckdb.DuckDBPyConnection, what: str, task: str, label: str, options: dict[str, Any]
) -> np.ndarray:
    """What is told of each fold, (groups, candidates, folds)."""
    call = f"train_model('{task}', {label}, x, '{json.dumps(options)}')"
    found = con.execute(f"SELECT ({call}).trials FROM t GROUP BY g ORDER BY g").fetchall()
    folds = [[one["folds"] for one in json.loads(text)["trials"]] for (text,) in found]
    return np.array([[[fold[what] for fold in one] for one in group] for group in folds])


def alone(monkeypatch: pytest.MonkeyPatch, con: Any, *given: Any, **more: Any) -> np.ndarray:
    """The same where no group is large."""
    with monkeypatch.context() as patch:
        patch.setattr(nearness, "CLOSE", 1e9)
        return metrics(con, *given, **more)


def test_folds_end_where_they_would_from_elsewhere(
    rows: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = metrics(rows)
    assert found == pytest.approx(alone(monkeypatch, rows), abs=1e-7)
    assert found.std(axis=2).min() > 1e-4


def test_counts_do_so_too(
    rows: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: Any = {"class_weight": None}
    found = metrics(rows, "poisson", "z", **given)
    assert found == pytest.approx(alone(monkeypatch, rows, "poisson", "z", **given), abs=1e-7)


def test_threads_change_no_bit(rows: duckdb.DuckDBPyConnection) -> None:
    one, three = (metrics(rows, threads=threads) for threads in (1, 3))
    assert (one == three).all()


def test_halves_of_the_rows_start_from_the_same_half_of_the_group(
    rows: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    how: dict[str, Any] = {"search": {"strategy": "halving"}}
    assert metrics(rows, **how) == pytest.approx(alone(monkeypatch, rows, **how), abs=1e-7)


def test_curvatures_of_folds_are_summed_once_for_all_folds(
    rows: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is in three of four sets, each of which had a curvature of its own, and several."""
    read: list[int] = []
    summed = Pass.curvature

    def counted(self: Pass, *given: Any) -> Any:
        read.append(int(self.groups["n_rows"].sum()))
        return summed(self, *given)

    monkeypatch.setattr(Pass, "curvature", counted)
    one: dict[str, Any] = {"l2": [0.01], "class_weight": None}
    metrics(rows, **one)
    here = sum(read)
    read.clear()
    alone(monkeypatch, rows, **one)
    assert here < 0.7 * sum(read)


def test_a_trial_that_does_not_converge_from_there_is_repeated(
    rows: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was left at may know of the rows that it is judged by."""
    expected, trained = alone(monkeypatch, rows), Preparation.train
    spoilt: list[int] = []

    def spoiling(
        self: Preparation, number: int, groups: Any, places: Any, *more: Any, **how: Any
    ) -> Any:
        models = trained(self, number, groups, places, *more, **how)
        if not (more and isinstance(more[0], NearWhole)):
            return models
        lost = np.flatnonzero(models.group % 2 == 0)
        spoilt.append(len(lost))
        models.converged[lost] = 0
        intercept = models.intercept.copy()
        intercept[lost[more[0].close[places[models.group[lost]]]]] = 9.0
        return replace(models, intercept=intercept)

    monkeypatch.setattr(Preparation, "train", spoiling)
    assert metrics(rows) == pytest.approx(expected, abs=1e-7)
    assert sum(spoilt) > 10


def test_groups_are_close_from_their_rows_for_each_weight_on(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where trials start changes none of their ends, on either side of that edge."""
    edge = nearness.CLOSE * (D + 1)
    groups = np.zeros(3, GROUP)
    groups["n_rows"], groups["dim"] = [edge - 1, edge, edge + 1], D
    assert nearness.close(groups).tolist() == [False, True, True]
    random = np.random.default_rng(8)
    g = np.repeat(np.arange(3), groups["n_rows"])
    x = random.normal(size=(len(g), D))
    y = x[:, 0] + random.logistic(size=len(g)) > 0
    con.register("given", pd.DataFrame({"g": g, "y": y, "x": list(x)}))
    con.execute("CREATE TABLE t AS SELECT * FROM given")
    assert metrics(con) == pytest.approx(alone(monkeypatch, con), abs=1e-7)


def test_several_classes_are_trained_on_all_rows_but_once(
    rows: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is learnt there for their folds."""
    sets: list[Any] = []
    trained = Preparation.train

    def noted(self: Preparation, *given: Any, **how: Any) -> Any:
        sets.append(given[3:])
        return trained(self, *given, **how)

    monkeypatch.setattr(Preparation, "train", noted)
    metrics(rows, label="z % 3", class_weight=None)
    wholes = [given for given in sets if given and len(given) == 1]
    assert len(wholes) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0.1},
        {"converge": "weights", "algorithm": "bgd", "epsilon": 0.01},
        {"algorithm": "lbfgs", "l1": 1e-3},
        {"validation": 0.3},
    ],
    ids=["tolerance", "criterion", "algorithm", "early stop"],
)
def test_nothing_starts_from_rows_held_out_where_that_might_stay(
    rows: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    assert (metrics(rows, **given) == alone(monkeypatch, rows, **given)).all()


def test_collinear_features_of_a_fold_tell_nothing_of_rows_held_out(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row alone tells two features apart: what it says must not judge it."""
    random = np.random.default_rng(5)
    x = random.normal(size=(200, 3))
    x[:, 1] = x[:, 0]
    z = random.poisson(np.exp(0.3 * x[:, 0]))
    x[7, 1], z[7] = x[7, 1] + 3, 15
    con.register("given", pd.DataFrame({"g": 0, "z": z, "x": list(x)}))
    con.execute("CREATE TABLE t AS SELECT * FROM given")
    for algorithm in ("newton", "lbfgs", "bgd", "newton_cg"):
        given: Any = {"l2": [1e-4, 1e-9], "class_weight": None, "algorithm": algorithm}
        expected = alone(monkeypatch, con, "poisson", "z", **given)
        assert metrics(con, "poisson", "z", **given) == pytest.approx(expected, rel=1e-3)


def test_classes_that_rows_separate(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all rows or of some folds: these are trained again, from nothing of other rows."""
    random = np.random.default_rng(5)
    x = random.normal(size=(60, 3))
    y = x[:, 0] > 0
    y[np.abs(x[:, 0]).argmin()] ^= True
    y[x[:, 0].argmax()] = False
    for number, label in enumerate((y, x[:, 0] > 0)):
        con.register("given", pd.DataFrame({"g": 0, "y": label, "x": list(x)}))
        con.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM given")
        given: Any = {"l2": [0, 1e-3], "class_weight": None}
        expected = alone(monkeypatch, con, **given)
        assert metrics(con, **given) == pytest.approx(expected, abs=1e-6), number


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("task", "seeds"),
    [("logistic", (7, 48, 3)), ("poisson", (36, 6)), ("negative_binomial", (4, 36, 6))],
)
def test_folds_that_separate_say_so(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, task: str, seeds: Any
) -> None:
    """A feature tells rows apart once the few rows of the other side are held out."""
    found = []
    for seed in seeds:
        random = np.random.default_rng(seed)
        x = random.normal(size=(600, 3))
        some = np.sort(random.choice(600, 12 * (few := random.integers(1, 5)), replace=False))
        x[:, 2] = 0
        x[some, 2] = 1
        counts = random.poisson(np.exp(x[:, 0] / 2)).astype(float)
        y = (counts > 0).astype(float) if task == "logistic" else counts
        y[some], y[some[:few]] = 0, 1 if task == "logistic" else 2
        con.register("given", pd.DataFrame({"g": 0, "y": y, "x": list(x)}))
        con.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM given")
        options = {"l2": [0, 0.1], "folds": 5}
        statuses = told(con, "status", task, "y", options)
        with monkeypatch.context() as patch:
            patch.setattr(nearness, "CLOSE", 1e9)
            assert (statuses == told(con, "status", task, "y", options)).all(), seed
        found += statuses[:, 0].ravel().tolist()
    assert "separable" in found


def test_no_training_of_a_batch_converges(
    rows: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where their time is over: they leave nothing."""
    expected, leave = alone(monkeypatch, rows), training.leave

    def lost(problem: Any, state: Any, near: Any) -> None:
        if near is not None:
            state.converged[:] = False
        leave(problem, state, near)

    monkeypatch.setattr(training, "leave", lost)
    assert metrics(rows) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("task", ["logistic", "linear"])
def test_models_without_an_intercept_start_without_one(
    rows: duckdb.DuckDBPyConnection, task: str
) -> None:
    label, given = ("y", {"l2": [0.1]}) if task == "logistic" else ("z", {"l2": [0.1]})
    more: Any = {"class_weight": None, "algorithm": "newton"}
    each = [metrics(rows, task, label, **given, **more, fit_intercept=f) for f in (True, False)]
    for first in (0, 1):
        order = [not first, bool(first)]
        both = metrics(rows, task, label, **given, **more, fit_intercept=order)
        expected = np.concatenate([each[first], each[1 - first]], axis=1)
        assert both == pytest.approx(expected, abs=1e-6)


def test_the_first_step_of_a_fold_reads_no_row(
    rows: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums of the folds tell it, and it saves about a pass of each trial."""
    read: list[int] = []
    summed = Pass.gradient

    def counted(self: Pass, weights: Any) -> Any:
        read.append(int(self.groups["n_rows"].sum()))
        return summed(self, weights)

    monkeypatch.setattr(Pass, "gradient", counted)
    monkeypatch.setattr(kept_curvature, "MOST_ROWS", 0)  # its passes are not counted
    found = metrics(rows)
    here = sum(read)
    read.clear()
    with monkeypatch.context() as patch:
        patch.setattr(training, "take_newton_step", lambda problem, v, near: (problem, v))
        assert metrics(rows) == pytest.approx(found, abs=1e-7)
    trials = len(GRID["l2"]) * len(GRID["class_weight"]) * GRID["folds"]
    each = sum(SIZES[:2]) * (GRID["folds"] - 1) / GRID["folds"]  # rows of a trial of large groups
    assert trials * each / 2 < sum(read) - here <= trials * each  # some take one more step


def test_steps_that_diverge_do_not_start_at_the_optimum_of_other_candidates(
    rows: duckdb.DuckDBPyConnection,
) -> None:
    """There a step of any size seems to converge at once, and the model of all rows would not.

    What diverges becomes a constant; what separates has the limit of its predictions.
    """
    given = {"algorithm": ["sgd", "newton"], "step": [1e6], "l2": None, "class_weight": None}
    found = metrics(rows, **given)
    statuses = told(
        rows,
        "status",
        "logistic",
        "y",
        {"folds": 4, "algorithm": ["sgd", "newton"], "step": [1e6]},
    )
    diverged = statuses[:, 0] == "diverged"
    assert diverged.sum() == 9
    assert (statuses[:, 0][~diverged] == "separable").all()
    assert (found[:, 0] != found[:, 1])[diverged].all()
    ended = metrics(rows, **given | {"algorithm": ["newton", "sgd"]})
    assert np.array_equal(ended[:, ::-1], found)
