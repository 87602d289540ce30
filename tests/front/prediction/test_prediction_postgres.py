"""`tuskml.predict` and `tuskml.evaluate` in PostgreSQL: the numbers of DuckDB."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy

from tuskml import DataError, evaluate, predict, train

ROWS = """
CREATE TABLE trips AS
SELECT i, i % 3 AS city, DATE '2024-01-01' + (i % 2)::int AS day, i * 37 % 100 / 10.0 AS delay,
       i * 11 % 7 AS hour, i * 37 % 100 / 10.0 + i * 7 % 10 > 8 AS late,
       3 * (i * 37 % 100) / 10.0 - i * 11 % 7 + i * 5 % 13 AS fare
FROM generate_series(0, 599) AS t(i)
"""
GIVEN: dict[str, Any] = {"source": "trips", "features": ["delay", "hour"]}
KEYS = ["city", "day + 1 AS next"]


@pytest.fixture
def duck(con):
    con.execute(ROWS.replace("generate_series(0, 599)", "range(600)"))
    return con


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
def test_predictions_and_metrics_are_duckdb_s(pg, duck, task: str) -> None:
    label = "fare" if task == "linear" else "late"
    model = train(pg, task, label=label, l2=0.01, **GIVEN)
    kinds = ["predict", "decision", *(["predict_proba"] if task == "logistic" else [])]
    for kind in kinds:
        columns = {"columns": "i", "kind": kind, "name": "p", "returns": "numpy"}
        here = predict(pg, model, source="trips", **columns)
        there = predict(duck, model, source="trips", **columns)
        np.testing.assert_array_equal(here["i"], there["i"])
        np.testing.assert_allclose(here["p"], there["p"], rtol=1e-14)
    for keys in ((), "city", KEYS):
        here, there = (evaluate(at, model, source="trips", group_by=keys) for at in (pg, duck))
        assert list(here) == list(there)
        for key, found in here.items() if keys else [("", here)]:
            assert found == pytest.approx(there[key] if keys else there, rel=1e-12)


def test_models_by_group_and_their_table(pg, duck) -> None:
    models = train(pg, "linear", label="fare", group_by=KEYS, **GIVEN)
    exact = evaluate(duck, models, source="trips")
    assert {key: m["n_rows"] for key, m in exact.items()} == dict.fromkeys(models, 100)
    with pg.transaction(force_rollback=True):
        assert train(pg, "linear", label="fare", group_by=KEYS, into="models", **GIVEN) == 6
        for found in (
            evaluate(pg, models, source="trips"),
            evaluate(pg, "models", label="fare", group_by=KEYS, **GIVEN),
        ):
            assert {key: m["r2"] for key, m in found.items()} == {
                key: pytest.approx(m["r2"]) for key, m in exact.items()
            }
        assert predict(pg, "models", group_by=KEYS, into="scored", **GIVEN) == 600
        n = pg.execute("SELECT count(prediction) FROM scored").fetchone()
        assert n == (600,)


def test_a_null_key_has_its_model(pg) -> None:
    given = {
        "source": "SELECT nullif(city, 0) AS c, delay AS x, delay * (1 + city) AS y FROM trips",
        "features": ["x"],
        "group_by": "c",
    }
    models = train(pg, "linear", label="y", **given)
    assert evaluate(pg, models, **given)[None]["r2"] == pytest.approx(1)


def test_rows_come_in_the_form_that_is_asked_for(pg) -> None:
    model = train(pg, "linear", label="fare", **GIVEN)
    source = "SELECT nullif(i, 1) AS i, 'a'::text AS a, delay, hour FROM trips ORDER BY 1 LIMIT 2"
    import polars as pl

    forms = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.Table, "numpy": dict}
    for form, kind in forms.items():
        rows = predict(pg, model, source=source, columns=["i", "a"], returns=form)
        assert isinstance(rows, kind)
        assert len(np.asarray(rows["prediction"])) == 2
        assert list(np.asarray(rows["a"])) == ["a", "a"]


def test_urls_and_engines(url: str) -> None:
    url = url.replace("postgresql", "postgresql+psycopg", 1)
    model = train(url, "logistic", label="late", **GIVEN)
    exact = evaluate(url, model, source="trips")
    assert exact["n_rows"] == 600
    assert evaluate(sqlalchemy.make_url(url), model, source="trips") == exact
    engine = sqlalchemy.create_engine(url)
    assert evaluate(engine, model, source="trips") == exact
    with engine.connect() as connection:
        assert len(predict(connection, model, source="trips", columns="i")) == 600
    engine.dispose()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"features": ["delay"]}, "the model has 2 features, row has 1"),
        ({"source": pd.DataFrame({"delay": [1.0]})}, "a pandas DataFrame, which only DuckDB"),
        ({"model": "trips"}, "table trips has no column 'model'"),
        ({"into": "trips"}, "the table trips already exists: give into another name"),
    ],
)
def test_what_is_wrong_leaves_the_transaction_usable(pg, wrong: dict, message: str) -> None:
    model = train(pg, "linear", label="fare", **GIVEN)
    pg.autocommit = False
    pg.execute("CREATE TEMP TABLE mine (x int)")
    with pytest.raises(DataError, match=message) as caught:
        predict(pg, **{"model": model, "source": "trips"} | wrong)
    assert "\n" not in str(caught.value)
    assert pg.execute("SELECT count(*) FROM mine").fetchone() == (0,)
    pg.rollback()
