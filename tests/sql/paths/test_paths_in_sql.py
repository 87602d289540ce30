"""The lasso and its kin in both databases: models, paths, predictions, groups and sentences."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Lasso

ROWS = """SELECT i, i % 3 AS g, sin(i * 1.7) AS a, sin(i * 1.7) * 0.5 + cos(i * 2.9) AS b, cos(i * 0.37) AS c,
    CASE i % 4 WHEN 0 THEN 'low' WHEN 1 THEN 'mid' ELSE 'top' END AS k,
    2 * sin(i * 1.7) - cos(i * 2.9) + 0.3 * sin(i * 11.3) + (i % 4) AS y FROM generate_series(1, 90) AS r(i)"""
LIST = {"duck": "[a, b, c]", "post": "ARRAY[a, b, c]"}
SPARSE = {"duck": "sparse([0, 1, 2], [a, b, c])", "post": "sparse(ARRAY[0, 1, 2], ARRAY[a, b, c])"}
NAMED = {"duck": "{'a': a, 'k': k}", "post": "q"}


@pytest.fixture
def ask(session: tuple[str, Any]) -> Any:
    """Answers of a database to SQL in which {x} is a list and {sparse} the same sparse."""
    name, connection = session
    temporary = "TEMP " if name == "post" else ""
    connection.execute(f"CREATE {temporary}TABLE t AS {ROWS}")

    def asked(sql: str) -> list[tuple[Any, ...]]:
        given = sql.replace("{x}", LIST[name]).replace("{sparse}", SPARSE[name])
        found: list[tuple[Any, ...]] = connection.execute(given).fetchall()
        return found

    return asked


def rows(ask: Any) -> tuple[Any, Any]:
    """Features (90, 3) and labels of the table."""
    found = np.array(ask("SELECT a, b, c, y FROM t ORDER BY i"), float)
    return found[:, :3], found[:, 3]


@pytest.mark.parametrize("features", ["{x}", "{sparse}"])
def test_the_lasso_is_scikit_learn_s(ask: Any, features: str) -> None:
    x, y = rows(ask)
    reference = Lasso(alpha=0.1, tol=1e-12).fit(x, y)
    ((coef, intercept, loss, status, trials),) = ask(
        f"""SELECT (m).coef, (m).intercept, (m).loss, (m).status, (m).trials FROM (
        SELECT train_model('lasso', y, {features}, '{{"lambda": 0.1, "tol": 1e-12}}') AS m FROM t) AS f"""
    )
    assert coef == pytest.approx(reference.coef_, abs=1e-6)
    assert intercept == pytest.approx(reference.intercept_, abs=1e-6)
    half = ((y - reference.predict(x)) ** 2).mean() / 2
    assert loss == pytest.approx(half + 0.1 * np.abs(reference.coef_).sum(), rel=1e-9)
    assert (status, trials) == ("ok", None)
    predicted = ask(
        f"""SELECT predict(m, {features}) FROM t, (SELECT train_model('lasso', y, {features}, '{{"lambda": 0.1, "tol": 1e-12}}') AS m FROM t) AS f ORDER BY i"""
    )
    assert np.ravel(predicted) == pytest.approx(reference.predict(x), abs=1e-5)


@pytest.mark.parametrize("features", ["{x}", "{sparse}"])
@pytest.mark.parametrize("task", ["lasso", "elastic_net"])
def test_a_constant_label_converges(ask: Any, task: str, features: str) -> None:
    """Sums of labels such as 0.1 are rounded, which is no loss that tolerances are shares of."""
    found = ask(
        f"""SELECT label, (m).status, (m).coef, (m).intercept FROM (SELECT label, train_model('{task}', label, {features}) AS m
        FROM t, (VALUES (0.0), (0.1), (3.3), (-1.1e9), (1.7e-20)) AS v(label) GROUP BY label) AS f"""
    )
    for label, status, coef, intercept in found:
        assert (status, coef) == ("ok", [0, 0, 0])
        assert intercept == pytest.approx(float(label), rel=1e-12)


def test_a_path_is_a_table_and_chooses(ask: Any) -> None:
    x, y = rows(ask)
    model = """SELECT train_model('lasso', y, {x}, '{"path": {"length": 20, "ratio": 0.01, "folds": 3}, "tol": 1e-10}') AS m FROM t"""
    found = ask(
        f"SELECT step, penalty, loss, gap, held_out, held_out_error, intercept, n_weights, features, weights, chosen FROM model_path(({model}))"
    )
    largest = np.abs((x - x.mean(axis=0)).T @ (y - y.mean())).max() / len(y)
    assert [one[0] for one in found] == list(range(1, 21))
    assert [one[1] for one in found] == pytest.approx(np.geomspace(largest, largest / 100, 20))
    assert found[0][7:10] == (0, [], [])
    for _, penalty, loss, gap, _, _, intercept, count, features, weights, _ in found:
        coef = np.zeros(3)
        coef[np.array(features, int) - 1] = weights
        residual = y - x @ coef - intercept
        assert count == len(features) == (coef != 0).sum()
        assert loss == pytest.approx(residual @ residual / 180 + penalty * np.abs(coef).sum())
        assert 0 <= gap <= 1e-10 * (y.var() / 2)
    ((coef, options),) = ask(f"SELECT (m).coef, (m).options FROM ({model}) AS f")
    (chosen,) = [one for one in found if one[10]]
    assert chosen[4] == min(one[4] for one in found)
    assert json.loads(options)["lambda"] == pytest.approx(chosen[1])
    assert [w for w in coef if w] == pytest.approx(chosen[9])


def test_one_standard_error_is_simpler(ask: Any) -> None:
    sql = 'SELECT (m).options FROM (SELECT train_model(\'{task}\', {y}, {x}, \'{"path": {"length": 30, "folds": 3, "one_standard_error": {how}}}\') AS m FROM t) AS f'
    for task, y in (("lasso", "y"), ("elastic_net", "y"), ("sparse_logistic", "y > 2")):
        least, simpler = (
            json.loads(ask(sql.replace("{task}", task).replace("{y}", y).replace("{how}", how))[0][0])["lambda"]
            for how in ("false", "true")
        )  # fmt: skip
        assert simpler >= least


def test_each_group_has_its_own_path(ask: Any) -> None:
    found = ask(
        "SELECT g, (m).status, (m).options FROM (SELECT g, train_model('lasso', y, {x}) AS m FROM t GROUP BY g) AS f ORDER BY g"
    )
    assert [(g, status) for g, status, _ in found] == [(0, "ok"), (1, "ok"), (2, "ok")]
    assert len({json.loads(options)["lambda"] for _, _, options in found}) == 3


def test_classes_have_probabilities(ask: Any) -> None:
    model = "SELECT train_model('sparse_logistic', y > 2, {x}, '{\"lambda\": 0.02}') AS m FROM t"
    found = np.array(
        ask(
            f"SELECT predict_proba(m, {{x}}), decision(m, {{x}}), CASE WHEN predict(m, {{x}}) = 1 THEN 1 ELSE 0 END FROM t, ({model}) AS f"
        ),
        float,
    )
    assert found[:, 0] == pytest.approx(1 / (1 + np.exp(-found[:, 1])))
    assert ((found[:, 0] > 0.5) == found[:, 2]).all()


def test_one_class_is_a_constant_model(ask: Any) -> None:
    found = ask(
        "SELECT (m).status, (m).coef FROM (SELECT train_model('sparse_logistic', y > 100, {x}) AS m FROM t) AS f"
    )
    assert found == [("one class", [0.0, 0.0, 0.0])]


def test_rows_by_name_and_features_without_a_penalty(session: tuple[str, Any], ask: Any) -> None:
    name, _ = session
    source = "t" if name == "duck" else "(SELECT y, q FROM t, LATERAL (SELECT t.a, t.k) AS q) AS u"
    sql = f'SELECT (m).features, (m).coef FROM (SELECT train_model(\'lasso\', y, {NAMED[name]}, \'{{"lambda": 10, "unpenalized": ["a"]}}\') AS m FROM {source}) AS f'
    ((features, coef),) = ask(sql)
    assert features[0] == "a"
    assert coef[0] != 0
    assert not any(coef[1:])


def test_a_group_may_lack_a_feature_without_a_penalty(session: tuple[str, Any], ask: Any) -> None:
    short = {"duck": "sparse([0, 1], [a, b])", "post": "sparse(ARRAY[0, 1], ARRAY[a, b])"}
    features = f"CASE WHEN g = 0 THEN {short[session[0]]} ELSE {{sparse}} END"
    found = ask(
        f"""SELECT g, (m).status, (m).coef FROM (SELECT g, train_model('lasso', y, {features}, '{{"lambda": 10, "unpenalized": [3]}}') AS m FROM t GROUP BY g) AS f ORDER BY g"""
    )
    assert [status for _, status, _ in found] == ["ok"] * 3
    assert found[0][2] == [0, 0]
    assert all(coef[2] != 0 for _, _, coef in found[1:])


@pytest.mark.parametrize(("call", "sentence"), [
    ("'lasso', y, {x}, '{\"lambda\": 1, \"path\": {}}'", "options 'lambda' and 'path' are both given, 1 the former: expected one of them"),
    ("'lasso', y, {x}, '{\"alpha\": 1}'", "option 'alpha' is not available with task 'lasso', which has lambda, path,"),
    ("'lasso', y, {x}, '{\"unpenalized\": [4]}'", "option 'unpenalized' has 4, expected places from 1 to 3, the number of features"),
    ("'lasso', y, {x}, '{\"unpenalized\": [\"a\"]}'", "option 'unpenalized' has 'a', and features have no names"),
    ("'lasso', y, {x}, '{\"unpenalized\": [\"uses\"], \"feature_names\": [\"use\", \"b\", \"c\"]}'", "option 'unpenalized' has 'uses', expected one of use, b, c; did you mean 'use'?"),
    ("'sparse_logistic', y, {x}, '{\"invalid\": \"error\"}'", "'sparse_logistic' needs two classes"),
    ("'lasso', y, {x}, '{\"path\": {\"folds\": 0, \"one_standard_error\": true}}'", "option 'path' is"),
    ("'lasso', y, {x}, '{\"path\": {\"values\": [1], \"ratio\": 0.1}}'", "option 'path' is"),
])  # fmt: skip
def test_what_cannot_be_is_a_sentence(ask: Any, call: str, sentence: str) -> None:
    with pytest.raises(Exception, match=re.escape(sentence)):
        ask(f"SELECT train_model({call}) FROM t")


def test_other_models_have_no_path_and_paths_no_trials(ask: Any) -> None:
    with pytest.raises(Exception, match="model_path: the model is of no path"):
        ask("SELECT * FROM model_path((SELECT train_model('linear', y, {x}) FROM t))")
    with pytest.raises(Exception, match="model_trials: the model is of no search"):
        ask("SELECT * FROM model_trials((SELECT train_model('lasso', y, {x}) FROM t))")
    assert ask("SELECT * FROM model_path(NULL)") == []
