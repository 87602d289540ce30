"""Conformal intervals in both databases: the distances of held-out labels, and how many they hold."""

# ruff: noqa: E501, SQL is read better on one line

import json
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from sklearn.linear_model import LinearRegression

RANDOM = np.random.default_rng(6)
N, FOLDS = 240, 6
X = RANDOM.normal(size=(N, 3))
Y = X @ [1, -2, 0.5] + np.abs(X[:, 0]) * RANDOM.normal(size=N)
F = np.arange(N) % FOLDS
W = 1.0 + np.arange(N) % 3
Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def there(file_session: Any) -> Any:
    columns = [list(map(float, c)) for c in (Y, *X.T, F, W)]
    arrays = ", ".join(["%s::double precision[]"] * 6)
    file_session.execute(
        f"CREATE TABLE t AS SELECT * FROM unnest({arrays}) AS r(y, a, b, c, f, w)", columns
    )
    return file_session


@pytest.fixture(params=["here", "there"])
def ask(request: pytest.FixtureRequest, con: duckdb.DuckDBPyConnection) -> Ask:
    if request.param == "there":
        database = request.getfixturevalue("there")
        return lambda sql: database.execute(sql).fetchall()
    listed = ", ".join(f"unnest(?::DOUBLE[]) AS {name}" for name in ("y", "a", "b", "c", "f", "w"))
    con.execute(
        f"CREATE TABLE t AS SELECT {listed}", [list(map(float, c)) for c in (Y, *X.T, F, W)]
    )
    return lambda sql: con.execute(sql).fetchall()


def options(**more: Any) -> str:
    return f"'{json.dumps({'conformal': True, **more})}'"


def spread(ask: Ask, call: str) -> Any:
    """Levels and distances that a model keeps."""
    ((found,),) = ask(f"SELECT (train_model({call})).spread FROM t")
    return np.array(found).reshape(2, -1)


LINEAR = "'linear', y, {x}, "
NAMED = "(SELECT r FROM (SELECT a, b, c, f) AS r)"


def row(ask: Ask) -> str:
    """A row with names, of which `fold_by` takes one."""
    try:
        ask("SELECT {'a': 1}")
    except psycopg.Error:
        return NAMED
    return "{'a': a, 'b': b, 'c': c, 'f': f}"


def out_of_fold() -> Any:
    """The distances by leaving one fold out."""
    found = np.empty(N)
    for fold in range(FOLDS):
        kept = fold != F
        fitted = LinearRegression().fit(X[kept], Y[kept])
        found[~kept] = np.abs(Y[~kept] - fitted.predict(X[~kept]))
    return found


def test_they_are_the_distances_of_the_folds(ask: Ask) -> None:
    given = options(folds=FOLDS, fold_by="f", epsilon=1e-10)
    levels, distances = spread(ask, LINEAR.format(x=row(ask)) + given)
    np.testing.assert_allclose(levels, np.arange(1, N + 1) / (N + 1))
    np.testing.assert_allclose(distances, np.sort(out_of_fold()), rtol=1e-6)


def test_an_interval_reaches_as_far_as_its_level_needs(ask: Ask) -> None:
    given = options(folds=FOLDS, fold_by="f", epsilon=1e-10)
    model = f"(SELECT train_model({LINEAR.format(x=row(ask))}{given}) AS m FROM t) AS q"
    sorted_ones = np.sort(out_of_fold())
    for level in (0.5, 0.9, 240 / 241):
        one = row(ask).replace(
            "SELECT a, b, c, f", "SELECT 1.0 AS a, 2.0 AS b, 3.0 AS c, 0.0 AS f"
        )
        one = one.replace(
            "'a': a, 'b': b, 'c': c, 'f': f", "'a': 1.0, 'b': 2.0, 'c': 3.0, 'f': 0.0"
        )
        sql = f"SELECT (i).fit, (i).std_err, (i).lower, (i).prediction_lower, (i).prediction_upper FROM (SELECT predict_interval(m, {one}, {level!r}) AS i FROM {model}) AS s"
        ((fit, error, lower, low, high),) = ask(sql)
        assert error is None
        assert lower is None
        reach = sorted_ones[int(np.ceil(level * (N + 1) - 1e-9)) - 1]
        assert high - fit == pytest.approx(reach)
        assert fit - low == pytest.approx(reach)
    sql = sql.replace(repr(level), "0.999")
    assert ask(sql)[0][3:] == (None, None), "more rows are needed for such a level"


def test_a_row_of_weight_two_is_two_rows(ask: Ask) -> None:
    levels, distances = spread(
        ask, LINEAR.format(x="ARRAY[a, b, c]") + options(folds=3, seed=2) + ", w"
    )
    assert levels[-1] == pytest.approx(W.sum() / (W.sum() + 1))
    steps = np.diff(levels, prepend=0) * (W.sum() + 1)
    np.testing.assert_allclose(np.sort(steps), np.sort(W), rtol=1e-9)
    assert (np.diff(distances) >= 0).all()


@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("gbdt", {"trees": 20}),
        ("random_forest", {"trees": 10}),
        ("lasso", {}),
        ("mlp", {"max_iter": 5}),
        ("linear", {"l2": [0.01, 0.1]}),
        ("gbdt", {"trees": 20, "validation": 0.2}),
        ("gbdt", {"trees": [5, 20], "folds": 3}),
    ],
)
def test_every_task_of_numbers_has_them(ask: Ask, task: str, more: dict[str, Any]) -> None:
    """Three quarters of the rows that the model saw lie within the interval of half of the others."""
    features = "ARRAY[a, b, c]"
    model = f"(SELECT train_model('{task}', y, {features}, {options(**more)}) AS m FROM t) AS q"
    sql = f"SELECT avg(CASE WHEN y BETWEEN (i).prediction_lower AND (i).prediction_upper THEN 1.0 ELSE 0 END), min((i).prediction_upper - (i).prediction_lower) FROM (SELECT y, predict_interval(m, {features}, 0.9) AS i FROM t, {model}) AS s"
    ((share, width),) = ask(sql)
    assert share > 0.8
    assert width > 0


def test_the_winner_of_a_search_keeps_its_own(ask: Ask) -> None:
    """A search whose other candidates predict nothing has the distances of the one that does."""
    given = {"folds": FOLDS, "fold_by": "f", "epsilon": 1e-10}
    alone = spread(ask, LINEAR.format(x=row(ask)) + options(**given))
    both = spread(ask, LINEAR.format(x=row(ask)) + options(**given, l2=[0.0, 1e6]))
    np.testing.assert_allclose(both, alone, rtol=1e-6)


def test_a_large_group_keeps_some_of_them(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE large AS SELECT i % 1000 / 500.0 AS x, (i * 7919) % 10007 / 10007.0 AS y FROM range(20000) t(i)"
    )
    ((found,),) = con.execute(
        f"SELECT (train_model('linear', y, [x], {options()})).spread FROM large"
    ).fetchall()
    levels, distances = np.array(found).reshape(2, -1)
    assert 1000 <= len(levels) <= 1024
    assert np.diff(levels).max() < 0.0025
    assert levels[-1] == 20000 / 20001
    assert (np.diff(distances) >= 0).all()


def test_a_group_of_two_rows_has_a_model_without_intervals(ask: Ask) -> None:
    sql = f"SELECT f, count(*), (predict_interval(train_model('lasso', y, ARRAY[a, b], {options()}), ARRAY[0.0, 0.0], 0.9)).prediction_upper FROM (SELECT * FROM t WHERE f = 1 OR (f = 0 AND y > (SELECT max(y) FROM t WHERE f = 0) - 1e-9)) AS r GROUP BY f ORDER BY f"
    found = ask(sql)
    assert found[0][1:] == (1, None)
    assert found[1][2] is not None


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("'logistic', y > 0, ARRAY[a]", "option 'conformal' is about predictions of numbers"),
        ("'gbdt', y > 0, ARRAY[a]", "option 'conformal' is about predictions of numbers"),
        ("'svm', y > 0, ARRAY[a]", "option 'conformal' is about predictions of numbers"),
    ],
)
def test_classes_have_none(ask: Ask, call: str, sentence: str) -> None:
    with pytest.raises((duckdb.Error, psycopg.Error), match=sentence):
        ask(f"SELECT train_model({call}, {options()}) FROM t")


def test_both_ways_are_not_for_one_model(ask: Ask) -> None:
    with pytest.raises(
        (duckdb.Error, psycopg.Error), match="'conformal' and 'intervals' are both given"
    ):
        ask(f"SELECT train_model('linear', y, ARRAY[a], {options(intervals='covariance')}) FROM t")
