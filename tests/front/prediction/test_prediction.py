"""`tuskml.predict` and `tuskml.evaluate` in DuckDB: SQL's predictions, scikit-learn's metrics."""

import datetime
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import sqlalchemy
from sklearn import metrics

import tuskml
from tuskml import DataError, ExtensionError, Models, evaluate, predict, train

ROWS = """
CREATE TABLE trips AS
SELECT i, i % 3 AS city, DATE '2024-01-01' + (i % 2)::INT AS day, hash(i) % 100 / 10.0 AS delay,
       hash(i + 1) % 7 AS hour, hash(i + 3) % 10 + hash(i) % 100 / 10.0 > 8 AS late,
       CASE WHEN late THEN 7 ELSE 3 END AS code,
       3 * (hash(i) % 100) / 10.0 - hash(i + 1) % 7 + hash(i + 5) % 13 AS fare
FROM range(600) t(i)
"""
GIVEN: dict[str, Any] = {"source": "trips", "features": ["delay", "hour"]}
WITH_GROUPS = GIVEN | {"group_by": ["city", "day + 1 AS next"]}


@pytest.fixture
def trips(con):
    con.execute(ROWS)
    return con


@pytest.mark.smoke
def test_predictions_are_those_of_sql(trips) -> None:
    model = train(trips, "logistic", label="late", **GIVEN)
    rows = predict(trips, model, source="trips", kind="predict_proba")
    assert list(rows.columns) == ["i", "city", "day", "delay", "hour", "late", "code", "fare",
                                  "probability"]  # fmt: skip
    assert list(rows["i"]) == list(range(600)), "the source's order"
    trips.execute("CREATE TABLE m AS SELECT train_model('logistic', late, "
                  "[delay::DOUBLE, hour::DOUBLE]) AS model FROM trips")  # fmt: skip
    exact = trips.execute(
        "SELECT predict_proba(model, [delay, hour]) FROM trips, m ORDER BY i"
    ).fetchnumpy()
    np.testing.assert_array_equal(rows["probability"], next(iter(exact.values())))


def test_models_by_group_predict_their_own_rows(trips) -> None:
    models = train(trips, "linear", label="fare", **WITH_GROUPS)
    assert isinstance(models, Models)
    assert models.group_by == ("city", "day + 1 AS next")
    table = predict(trips, models, source="trips", columns=["i", "city", "day"], into="scored")
    assert table == 600
    n = train(trips, "linear", label="fare", into="models", **WITH_GROUPS)
    assert n == 6
    there = predict(trips, "models", columns="i", returns="numpy", **WITH_GROUPS)
    here = trips.execute("SELECT i, prediction FROM scored ORDER BY i").fetchnumpy()
    order = np.argsort(there["i"])
    np.testing.assert_array_equal(there["prediction"][order], here["prediction"])
    one = models[(1, datetime.date(2024, 1, 2))]
    rows = trips.execute("SELECT i, delay, hour FROM trips WHERE i % 6 = 4").df()
    mine = np.isin(here["i"], rows["i"])
    np.testing.assert_allclose(here["prediction"][mine], one.predict(rows), rtol=1e-12)


def test_a_row_without_a_model_has_no_prediction(trips) -> None:
    models = train(trips, "linear", label="CASE WHEN city > 0 THEN fare END", group_by="city",
                   **GIVEN)  # fmt: skip
    assert models[0] is None
    del models[1]
    found = predict(trips, models, source="trips", returns="numpy")
    assert (np.isnan(found["prediction"]) == (found["city"] < 2)).all()
    assert evaluate(trips, models, source="trips", label="fare", group_by="city")[0] == {
        "n_rows": 0, "n_not_scored": 200, "rmse": None, "mae": None, "r2": None
    }  # fmt: skip


def test_a_null_key_has_its_model(con) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT nullif(i % 2, 0) AS g, i AS x, i * (1 + i % 2) AS y "
        "FROM range(40) r(i)"
    )
    given = {"source": "t", "features": ["x"], "group_by": "g"}
    models = train(con, "linear", label="y", **given)
    train(con, "linear", label="y", into="models", **given)
    for model in (models, "models"):
        assert evaluate(con, model, label="y", **given)[None]["r2"] == pytest.approx(1)


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
def test_metrics_are_scikit_learn_s(trips, task: str) -> None:
    label = "fare" if task == "linear" else "code"
    model = train(trips, task, label=label, l2=0.01, **GIVEN)
    found = evaluate(trips, model, source="trips", group_by="city")
    for city, shown in found.items():
        rows = trips.execute(f"SELECT * FROM trips WHERE city = {city}").df()
        X, y = rows[["delay", "hour"]], rows[label]
        expected = {"n_rows": 200, "n_not_scored": 0}
        if task == "linear":
            p = model.predict(X)
            expected["rmse"] = metrics.root_mean_squared_error(y, p)
            expected["mae"] = metrics.mean_absolute_error(y, p)
            expected["r2"] = metrics.r2_score(y, p)
        else:
            expected["auc"] = metrics.roc_auc_score(y == 7, model.decision(X))
            expected["accuracy"] = metrics.accuracy_score(y, model.predict(X))
        if task == "logistic":
            expected["log_loss"] = metrics.log_loss(y == 7, model.predict_proba(X))
        assert shown == pytest.approx(expected)
    whole = evaluate(trips, model, source="trips")
    assert whole["n_rows"] == 600


def test_rows_without_label_or_features_do_not_count(trips) -> None:
    model = train(trips, "linear", label="fare", **GIVEN)
    holes = "SELECT * REPLACE (CASE WHEN i > 9 THEN fare END AS fare, " \
            "CASE WHEN i % 2 = 0 THEN hour END AS hour) FROM trips"  # fmt: skip
    assert evaluate(trips, model, source=holes)["n_rows"] == 295


@pytest.mark.sample(1)
@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_frames_are_sources_and_come_back_as_they_are(trips, package: str) -> None:
    module = importlib.import_module(package)
    make = module.table if package == "pyarrow" else module.DataFrame
    columns = trips.execute("SELECT delay, hour, late, city FROM trips").fetchnumpy()
    frame = make(columns)
    exact = train(trips, "logistic", label="late", **GIVEN)
    model = train(":memory:", "logistic", source=frame, label="late", features=["delay", "hour"])
    assert model.coef == pytest.approx(exact.coef)
    rows = predict(trips, model, source=frame)
    assert type(rows) is type(frame)
    prediction = np.asarray(rows["prediction"])
    np.testing.assert_array_equal(
        prediction, exact.predict(np.stack([columns["delay"], columns["hour"]], axis=1))
    )
    assert evaluate(":memory:", model, source=frame) == pytest.approx(
        evaluate(trips, exact, source="trips")
    )
    left = "SELECT count(*) FROM duckdb_views() WHERE view_name LIKE 'tuskml%'"
    assert trips.execute(left).fetchone() == (0,), "nothing stays registered"


def test_rows_come_in_the_form_that_is_asked_for(trips) -> None:
    model = train(trips, "linear", label="fare", **GIVEN)
    nulls = "SELECT nullif(i, 1) AS i, 'a' AS a, delay, hour FROM trips LIMIT 2"
    import polars as pl

    forms = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.Table, "numpy": dict}
    for form, kind in forms.items():
        rows = predict(trips, model, source=nulls, columns=["i", "a"], returns=form)
        assert isinstance(rows, kind)
        assert np.asarray(rows["prediction"]) == pytest.approx(
            model.predict(trips.execute(nulls).df())
        )
    assert rows["i"][0] == 0
    assert np.isnan(rows["i"][1])
    assert list(rows["a"]) == ["a", "a"]


@pytest.mark.nightly
def test_urls_and_engines_of_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "some.duckdb"
    with tuskml.connect(path) as con:
        con.execute(ROWS)
    model = train(f"duckdb:///{path}", "linear", label="fare", **GIVEN)
    assert evaluate(f"duckdb:///{path}", model, source="trips")["n_rows"] == 600
    config = {"allow_unsigned_extensions": "true"}
    engine = sqlalchemy.create_engine(f"duckdb:///{path}", connect_args={"config": config})
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("SELECT 1"))
        with pytest.raises(ExtensionError, match="cannot be loaded within a transaction"):
            train(connection, "linear", label="fare", **GIVEN)
    assert train(engine, "linear", label="fare", **GIVEN).coef == pytest.approx(model.coef)
    assert predict(engine, model, source="trips", into="scored") == 600
    with engine.begin() as connection:
        assert evaluate(connection, model, source="trips")["n_rows"] == 600
        found = connection.execute(sqlalchemy.text("SELECT count(prediction) FROM scored"))
        assert found.scalar() == 600
    engine.dispose()


@pytest.mark.nightly
def test_a_model_in_a_store_predicts_where_the_store_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tuskml.connect(store_root=tmp_path, threads=2) as con:
        con.execute(
            "CREATE TABLE ads AS SELECT i % 2 AS y, sparse([i % 2, i * 7 % 101], [1.0, 0.5]) AS x "
            "FROM range(4000) t(i)"
        )
        given = {"source": "ads", "label": "y", "features": "x"}
        model = train(con, "logistic", store="ads", cache="16MB", epsilon=0.001, **given)
        assert model.coef is None
        assert evaluate(con, model, source="ads")["accuracy"] == 1
        rows = predict(con, model, source="ads", columns="y", returns="numpy")
        np.testing.assert_array_equal(rows["prediction"], rows["y"])
    i = np.arange(40)
    x = scipy.sparse.coo_array(
        (np.tile([1.0, 0.5], 40), (np.repeat(i, 2), np.stack([i % 2, i * 7 % 101], 1).ravel()))
    )
    monkeypatch.setenv("TUSKML_STORE_ROOT", str(tmp_path))
    np.testing.assert_array_equal(model.predict(x), i % 2)
    np.testing.assert_array_equal(model.predict(x.toarray()), i % 2)
    np.testing.assert_array_equal(model.predict_proba(x) >= 0.5, i % 2 == 1)
    monkeypatch.setenv("TUSKML_STORE_ROOT", str(tmp_path / "other"))
    with pytest.raises(DataError, match="there is no store named 'ads'"):
        model.predict(x)


def test_a_relation_of_duckdb_is_a_source(trips) -> None:
    relation = trips.sql("SELECT * FROM trips WHERE city = 1")
    assert train(trips, "linear", source=relation, label="fare", features="delay").n_rows == 200


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"kind": "proba"},
            "kind is 'proba', expected 'predict', 'predict_proba', 'predict_probas', "
            "'predict_class', 'decision', 'predict_topics' or 'predict_interval'",
        ),
        ({"returns": "panda"}, "returns is 'panda', expected .* did you mean 'pandas'"),
        ({"columns": ["dely"]}, "columns names column 'dely'.*did you mean 'delay'"),
        ({"columns": "*"}, "columns names column '\\*'"),
        ({"name": "Fare"}, "the source has a column 'Fare', as the predictions would be called"),
        ({"features": ["delay"]}, "the model has 2 features, row has 1"),
        ({"features": ["delay", "huor"]}, "features names column 'huor'"),
        ({"model": 7}, "model is of type int, expected a tuskml.Model"),
        ({"model": "modles"}, "source 'modles' does not exist"),
        ({"model": "trips"}, "table trips has no column 'model'"),
        ({"model": "models"}, "table models has 3 models: give group_by"),
        ({"model": "models", "group_by": "hour"}, "table models has no column 'hour'"),
        (
            {"model": "SELECT train_model('linear', fare, [delay, hour]) AS model FROM trips"},
            "features is not given, and the model does not",
        ),
        ({"model": {}}, "model is a mapping of models by group: give group_by"),
        ({"model": {1: None}, "group_by": "city"}, "model is a mapping without a model"),
        ({"source": 7}, "source is a int, expected a table"),
        ({"source": "tripz"}, "source 'tripz' does not exist.*did you mean 'trips'"),
        ({"into": "trips"}, "the table trips already exists: give into another name"),
    ],
)
def test_what_is_wrong_is_one_sentence(trips, wrong: dict[str, Any], message: str) -> None:
    train(trips, "linear", label="fare", group_by="city", into="models", **GIVEN)
    model = train(trips, "linear", label="fare", **GIVEN)
    given = {"model": model, "source": "trips"} | wrong
    with pytest.raises(DataError, match=message) as caught:
        predict(trips, **given)
    assert "\n" not in str(caught.value)
    assert trips.execute("SELECT count(*) FROM trips").fetchone() == (600,)


def test_labels_must_be_the_model_s(trips) -> None:
    model = train(trips, "logistic", label="code", **GIVEN)
    with pytest.raises(DataError, match="neither of the model's two classes"):
        evaluate(trips, model, source="trips", label="code + (i % 2)")
    with pytest.raises(DataError, match="label 'day' is of type DATE"):
        evaluate(trips, model, source="trips", label="day")
    train(trips, "logistic", label="code", into="one", **GIVEN)
    with pytest.raises(DataError, match="label is not given"):
        evaluate(trips, "one", **GIVEN)
    assert evaluate(trips, "one", label="code", **GIVEN)["n_rows"] == 600


def test_keys_must_fit(trips) -> None:
    models = train(trips, "linear", label="fare", **WITH_GROUPS)
    with pytest.raises(DataError, match="expected a tuple of 3 keys"):
        predict(trips, models, source="trips", group_by=["city", "day", "hour"])
    other = train(trips, "linear", source="trips", label="fare", features="hour")
    with pytest.raises(DataError, match="several tasks or features"):
        predict(trips, {0: models[0, datetime.date(2024, 1, 2)], 1: other}, source="trips",
                group_by="city")  # fmt: skip


def test_models_show_themselves_as_a_table(trips) -> None:
    models = train(trips, "linear", label="nullif(fare, 0)", group_by="'<b>' || city AS c",
                   **GIVEN)  # fmt: skip
    html = models._repr_html_()
    assert html.count("<tr>") == 4
    assert "&lt;b&gt;1" in html
    many = Models(dict.fromkeys(range(100), models["<b>1"]).items())
    assert "and 40 more" in many._repr_html_()
