"""Calibrated probabilities in both databases, beside scikit-learn's."""

# ruff: noqa: E501, SQL is read better on one line

import json
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.calibration import CalibratedClassifierCV
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit

import tuskml
from tuskml.errors import DataError, OptionError
from tuskml.estimators import TuskClassifier
from tuskml.export_onnx import to_onnx
from tuskml.formats.plain_sql import model_to_sql
from tuskml.groups.selection.held_rows import sigmoid, steps

RANDOM = np.random.default_rng(8)
N, FOLDS = 300, 5
X = RANDOM.normal(size=(N, 3))
Y = X @ [1, -2, 0.5] + RANDOM.logistic(size=N) > 0.3
F = np.arange(N) % FOLDS
W = 1.0 + np.arange(N) % 3
METHODS = {"platt": "sigmoid", "isotonic": "isotonic"}
TASKS = (
    "logistic",
    "svm",
    "squared_hinge",
    "sparse_logistic",
    "gbdt",
    "random_forest",
    "mlp",
    "fm",
)
Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def there(file_session: Any) -> Any:
    columns = [*(list(map(float, c)) for c in (*X.T, F, W)), list(map(bool, Y))]
    arrays = ", ".join([*["%s::double precision[]"] * 5, "%s::boolean[]"])
    file_session.execute(
        f"CREATE TABLE t AS SELECT * FROM unnest({arrays}) AS r(a, b, c, f, w, y)", columns
    )
    return file_session


@pytest.fixture(params=["here", "there"])
def ask(request: pytest.FixtureRequest, con: duckdb.DuckDBPyConnection) -> Ask:
    if request.param == "there":
        database = request.getfixturevalue("there")
        return lambda sql: database.execute(sql).fetchall()
    columns = [*(list(map(float, c)) for c in (*X.T, F, W)), list(map(bool, Y))]
    listed = ", ".join(f"unnest(?::DOUBLE[]) AS {name}" for name in "abcfw")
    con.execute(f"CREATE TABLE t AS SELECT {listed}, unnest(?::BOOLEAN[]) AS y", columns)
    return lambda sql: con.execute(sql).fetchall()


def trained(task: str, method: str, features: str = "ARRAY[a, b, c]", **more: Any) -> str:
    """A query of the model `m`."""
    weight = more.pop("weight", "")
    label = more.pop("label", "y")
    options = json.dumps({"calibration": method, **more})
    return f"(SELECT train_model('{task}', {label}, {features}, '{options}'{weight}) AS m FROM t) AS q"


@pytest.mark.parametrize("weight", ["", ", w"])
@pytest.mark.parametrize("method", METHODS)
def test_probabilities_are_those_of_scikit_learn(ask: Ask, method: str, weight: str) -> None:
    """One map by the margins of models that did not see the row: `ensemble=False` there."""
    row = "(SELECT r FROM (SELECT a, b, c, f) AS r)"
    with_row = f"(SELECT a, b, c, {row} AS r FROM t) AS rows"
    model = trained("logistic", method, row, fold_by="f", epsilon=1e-10, weight=weight)
    found = [p for (p,) in ask(f"SELECT predict_proba(m, r) FROM {with_row}, {model} ORDER BY a")]
    expected = CalibratedClassifierCV(
        LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000),
        method=METHODS[method],
        cv=PredefinedSplit(F),
        ensemble=False,
    ).fit(X, Y, sample_weight=W if weight else None)
    order = np.argsort(X[:, 0])
    np.testing.assert_allclose(found, expected.predict_proba(X[order])[:, 1], atol=2e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TASKS)
def test_every_task_of_two_classes_has_them(ask: Ask, task: str, method: str) -> None:
    """Also one without probabilities of its own; the class is the likelier one."""
    sql = f"SELECT predict_proba(m, ARRAY[a, b, c]), CAST(predict_class(m, ARRAY[a, b, c]) AS text), CAST(predict_proba(m, ARRAY[a, b, c], 'false') AS float), decision(m, ARRAY[a, b, c]) FROM t, {trained(task, method, seed=3)}"
    p, classes, other, margin = map(np.array, zip(*ask(sql), strict=True))
    assert ((p >= 0) & (p <= 1)).all()
    np.testing.assert_allclose(other, 1 - p, atol=1e-6)
    np.testing.assert_array_equal(classes == "true", p >= 0.5)
    order = np.argsort(margin)
    assert (np.diff(p[order]) >= -1e-12).all(), "probabilities rise with the margin"


def test_trees_that_know_their_rows_by_heart_say_what_new_rows_do(ask: Ask) -> None:
    more = {"trees": 200, "min_child_rows": 1, "learning_rate": 0.5, "seed": 1}
    calibrated = trained("gbdt", "platt", **more).replace("FROM t", "FROM t WHERE f < 3")
    plain = calibrated.replace('"calibration": "platt", ', "")
    loss = "SELECT log_loss(y, predict_proba(m, ARRAY[a, b, c])) FROM t, {} WHERE f >= 3"
    ((better,),), ((worse,),) = (ask(loss.format(one)) for one in (calibrated, plain))
    assert better < 0.8 * worse


def test_the_winner_of_a_search_is_calibrated(ask: Ask) -> None:
    sql = "SELECT (m).spread FROM {}"
    alone = ask(sql.format(trained("logistic", "platt", folds=4, l2=0.1)))
    both = ask(sql.format(trained("logistic", "platt", folds=4, l2=[0.1, 1e4])))
    np.testing.assert_allclose(both[0][0], alone[0][0], rtol=1e-3)


def test_without_rows_to_hold_out_no_probability_is_known(ask: Ask) -> None:
    few = "(SELECT * FROM t WHERE y LIMIT 1) UNION ALL (SELECT * FROM t WHERE NOT y LIMIT 1)"
    model = trained("svm", "platt").replace(" FROM t", f" FROM ({few}) AS two_rows")
    sql = f"SELECT predict_proba(m, ARRAY[1, 1, 1]), decision(m, ARRAY[1, 1, 1]) FROM {model}"
    ((p, margin),) = ask(sql)
    assert p is None
    assert margin is not None
    one = trained("svm", "platt").replace("FROM t", "FROM t WHERE y")
    ((status, p),) = ask(f"SELECT (m).status, predict_proba(m, ARRAY[1, 1, 1]) FROM {one}")
    assert (status, p) == ("one class", 1.0)


@pytest.mark.parametrize(
    ("task", "more", "sentence"),
    [
        ("linear", {"label": "a"}, "the task is 'linear' of numbers"),
        ("gbdt", {"label": "a"}, "the task is 'gbdt' of numbers"),
        ("logistic", {"intervals": "covariance"}, "'calibration' and 'intervals' are both given"),
        ("logistic", {"conformal": True}, "'conformal' and 'calibration' are both given"),
        ("logistic", {"method": "plat"}, "expected 'platt' or 'isotonic'"),
    ],
)
def test_what_has_no_probabilities_is_refused(
    ask: Ask, task: str, more: dict[str, Any], sentence: str
) -> None:
    given = {"method": "platt", **more}
    with pytest.raises(Exception, match=sentence):
        ask(f"SELECT 1 FROM {trained(task, **given)} WHERE (m).status = ''")


def test_three_classes_are_invalid_rows_and_intervals_are_refused(ask: Ask) -> None:
    model = trained(
        "logistic", "platt", label="CASE WHEN f < 2 THEN 'x' WHEN y THEN 'a' ELSE 'b' END"
    )
    ((status, plan),) = ask(f"SELECT (m).status, (m).plan FROM {model}")
    assert status == "invalid rows"
    assert "option 'calibration' is about two classes, the labels are of 3" in plan
    with pytest.raises(Exception, match="calibrated probabilities, which have no interval"):
        ask(f"SELECT predict_interval(m, ARRAY[1, 1, 1]) FROM {trained('logistic', 'platt')}")


@pytest.mark.parametrize("task", ["gbdt", "random_forest", "svm", "logistic"])
@pytest.mark.parametrize("method", METHODS)
def test_exports_say_them_or_say_so(
    con: duckdb.DuckDBPyConnection, task: str, method: str
) -> None:
    con.execute("CREATE TABLE t AS SELECT i % 7 AS x1, i * 3 % 5 < 2 AS y FROM range(80) AS r(i)")
    con.execute(f"CREATE TABLE models AS SELECT m FROM {trained(task, method, 'ARRAY[x1]')}")
    ((value,),) = con.execute("SELECT m FROM models").fetchall()
    model = tuskml.Model.of(value)
    for export in (to_onnx, *([tuskml.Model.to_lightgbm] if task == "gbdt" else [])):
        with pytest.raises(DataError, match="without option 'calibration'"):
            export(model)
    assert model_to_sql(model, "decision")
    sql = "SELECT list({} ORDER BY x1) FROM t, models"
    ((p, classes),) = con.execute(
        "SELECT list(predict_proba(m, ARRAY[x1]) ORDER BY x1), list(predict_class(m, ARRAY[x1]) ORDER BY x1) FROM t, models"
    ).fetchall()
    again = tuskml.Model.from_json(model.to_json())
    np.testing.assert_array_equal(again.predict_proba(np.sort(np.arange(80) % 7)[:, None]), p)
    if method == "isotonic":
        with pytest.raises(DataError, match="for option calibration 'platt' alone"):
            model_to_sql(model, "predict_proba")
        return
    ((found,),) = con.execute(sql.format(model_to_sql(model, "predict_proba"))).fetchall()
    np.testing.assert_allclose(found, p, rtol=1e-12)
    ((found,),) = con.execute(sql.format(model_to_sql(model, "predict_class"))).fetchall()
    assert found == classes


finite = st.integers(-(10**9), 10**9).map(lambda whole: whole / 1000)
"""Margins; scikit-learn takes those for equal that are closer than 1e-10 of their size."""


def test_estimators_leave_it_to_scikit_learn() -> None:
    with pytest.raises(OptionError, match="CalibratedClassifierCV calibrates an estimator"):
        TuskClassifier(options={"calibration": "platt"}).fit(X, Y)


@given(
    arrays.arrays(float, st.integers(2, 40), elements=st.one_of(finite, st.integers(-3, 3))),
    st.randoms(use_true_random=False),
)
def test_steps_are_isotonic_regression(margin: Any, random: Any) -> None:
    high = np.array([random.random() < 0.5 for _ in margin])
    weight = np.array([random.choice([1.0, 2.0, 0.25]) for _ in margin])
    x, p = steps(margin, high, weight).reshape(2, -1)
    assert (np.diff(x) > 0).all()
    assert (np.diff(p) >= 0).all()
    fitted = IsotonicRegression(out_of_bounds="clip").fit(margin, high, sample_weight=weight)
    np.testing.assert_allclose(np.interp(margin, x, p), fitted.predict(margin), atol=1e-9)


@given(
    arrays.arrays(float, st.integers(1, 40), elements=finite),
    st.randoms(use_true_random=False),
    st.sampled_from([1e-8, 1.0, 1e8]),
)
def test_platt_s_sigmoid_follows_the_unit_of_margins(
    margin: Any, random: Any, unit: float
) -> None:
    high = np.array([random.random() < 0.5 for _ in margin])
    weight = np.ones(len(margin))
    slope, intercept = sigmoid(margin, high, weight)
    scaled = sigmoid(unit * margin, high, weight)
    np.testing.assert_allclose(
        scaled[0] * unit * margin + scaled[1], slope * margin + intercept, rtol=1e-4, atol=1e-5
    )
    p = 1 / (1 + np.exp(-(slope * margin + intercept)))
    target = np.where(high, (high.sum() + 1) / (high.sum() + 2), 1 / ((~high).sum() + 2))
    assert abs((p - target).sum()) <= 1e-6 * len(margin), "the gradient of the intercept"
