"""Curves of trials: the objective by epoch, as trainings on the rows of each fold have it."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tuskml.groups.selection.trials import EPOCHS, POINTS, Curves, epochs_of

TREES = {"trees": 20, "num_leaves": 4, "min_child_rows": 5}
RATES = [0.3, 0.1]


def answer(connection: Any, x: str, options: dict[str, Any], rest: str = "") -> tuple[Any, Any]:
    """History and trials of a model of trees."""
    call = f"train_model('gbdt', z, {x}, '{json.dumps(options)}')"
    sql = f"SELECT (m).history, (m).trials FROM (SELECT {call} AS m FROM t {rest}) AS f"
    ((history, trials),) = connection.execute(sql).fetchall()
    return history, json.loads(trials)["trials"] if trials else None


def row(name: str, *columns: str) -> str:
    """Columns as a row by name."""
    if name == "duck":
        return "{" + ", ".join(f"'{one}': {one}" for one in columns) + "}"
    return f"(SELECT q FROM (SELECT {', '.join(columns)}) AS q)"


def test_a_curve_is_the_mean_of_the_histories_of_the_folds(session: tuple[str, Any]) -> None:
    """Each value of a column is a fold, so that others can train on the same rows."""
    name, connection = session
    series = "range(240)" if name == "duck" else "generate_series(0, 239)"
    values = "i % 3 AS fold, 1.0 * (i * 7 % 31) AS a, sin(i * 7 % 31) + 0.1 * (i % 5) AS z"
    connection.execute(f"CREATE TABLE t AS SELECT {values} FROM {series} AS r(i)")
    given = TREES | {"learning_rate": RATES, "folds": 3, "fold_by": "fold"}
    _, trials = answer(connection, row(name, "a", "fold"), given)
    for rate, one in zip(RATES, trials, strict=True):
        epochs, objective = np.array(one["curve"]).T
        assert len(epochs) == POINTS
        assert epochs[[0, -1]].tolist() == [1, 20]
        options = TREES | {"learning_rate": rate}
        histories = [
            answer(connection, row(name, "a"), options, f"WHERE fold <> {out}")[0]
            for out in range(3)
        ]
        truth = np.mean(np.array(histories, float), axis=0)[epochs.astype(int) - 1]
        assert objective == pytest.approx(truth, rel=1e-5)


def test_trials_of_few_iterations_have_none(session: tuple[str, Any]) -> None:
    name, connection = session
    series = "range(60)" if name == "duck" else "generate_series(0, 59)"
    connection.execute(f"CREATE TABLE t AS SELECT 1.0 * i AS a, sin(i) AS z FROM {series} AS r(i)")
    given = TREES | {"trees": [EPOCHS - 1, EPOCHS], "folds": 2}
    _, trials = answer(connection, row(name, "a"), given)
    assert ["curve" in one for one in trials] == [False, True]


@pytest.mark.parametrize(
    ("iterations", "points", "expected"),
    [(3, 3, [1, 2, 3]), (3, 4, [0, 1, 2, 3]), (400, 5, [0, 100, 200, 300, 400])],
)
def test_epochs_of_a_history(iterations: int, points: int, expected: list[float]) -> None:
    assert epochs_of(iterations, points).tolist() == expected


def test_no_more_is_kept_of_a_trial_than_its_curve_shows() -> None:
    history = SimpleNamespace(values=np.linspace(9, 1, 400), offsets=np.array([0, 200, 400]))
    models: Any = SimpleNamespace(history=history, iterations=np.array([200, 200]))
    curves = Curves()
    curves.put(0, np.array([0, 1]), np.array([0, 0]), models)
    kept = [len(part) for fold in curves._found[0, 0].values() for part in fold]
    assert kept == [POINTS] * 4
    assert json.loads(curves.text(0, 0) or "")[0][0] == 1
