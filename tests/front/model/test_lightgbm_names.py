"""Categories by name in LightGBM's text, beside LightGBM itself, which reads data frames."""

import json
import re
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from tuskml import DataError, Model

ROWS = """CREATE TABLE t AS SELECT (i * 37 % 101) / 10.0 AS km,
CASE WHEN {gaps} AND i % 11 = 0 THEN NULL ELSE 'k ' || (i * 7919 % 71) END AS c,
CASE WHEN i % 5 < 2 THEN 10.5 ELSE 20 + i % 3 END AS z FROM range(3000) r(i)"""
CASES = {
    "squared": ("round(km + coalesce(length(c), 9) + hash(coalesce(c, '')) % 7 + z)", {}),
    "logistic": ("km + hash(coalesce(c, '')) % 9 > 9", {"objective": "logistic"}),
    "multiclass": ("'l' || (hash(coalesce(c, '')) % 3)", {"objective": "logistic"}),
}


def trained(con: duckdb.DuckDBPyConnection, case: str, gaps: bool = True, **more: Any) -> Model:
    con.execute("DROP TABLE IF EXISTS t")
    con.execute(ROWS.format(gaps=gaps))
    label, options = CASES[case]
    given = json.dumps({"trees": 8, "num_leaves": 9, "categories": ["z"]} | options | more)
    sql = f"SELECT train_model('gbdt', {label}, {{'km': km, 'c': c, 'z': z}}, '{given}') FROM t"
    return Model.of(con.execute(sql).fetchall()[0][0])


def frame(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Rows of the table, and a new, a missing and a large value each."""
    known = con.execute("SELECT km, c, z FROM t LIMIT 500").df()
    new = pd.DataFrame(
        {"km": [1e300, 2.0, 3.0], "c": ["new", "k 1", "k 2"], "z": [10.5, 77.0, 20.0]}
    )
    lost = pd.DataFrame(
        {"km": [np.nan, 2.0, 3.0], "c": ["k 1", None, "k 2"], "z": [10.5, 21, None]}
    )
    return pd.concat([known, new, lost], ignore_index=True)


def categorical(rows: pd.DataFrame) -> pd.DataFrame:
    """The same as LightGBM takes categories."""
    return rows.astype({"c": "category", "z": "category"})


def answers(model: Model, rows: pd.DataFrame) -> np.ndarray:
    if model.many_classes:
        return model.predict_probas(rows)
    return model.predict_proba(rows) if model.classes else model.predict(rows)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("gaps", [False, True])
def test_lightgbm_predicts_what_tuskml_does(
    con: duckdb.DuckDBPyConnection, case: str, gaps: bool
) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    model, rows = trained(con, case, gaps), frame(con)
    assert json.loads(model.preparation or "")["missing"] == "keep"
    if gaps and case == "squared":  # training saw missing levels, and no new ones
        with pytest.raises(DataError, match="expected unseen_as_missing=True"):
            model.to_lightgbm()
    if gaps:
        rows = rows[~rows["c"].isin(["new"]) & ~rows["z"].isin([77])]
    text = model.to_lightgbm(unseen_as_missing=gaps)
    booster = lightgbm.Booster(model_str=text)
    assert len(booster.pandas_categorical[0]) == 71
    assert sorted(booster.pandas_categorical[1]) == [10.5, 20, 21, 22]
    found = booster.predict(categorical(rows))
    np.testing.assert_allclose(found, answers(model, rows), rtol=1e-12, atol=1e-14)
    back = Model.from_lightgbm(text)
    np.testing.assert_allclose(answers(back, rows), answers(model, rows), rtol=1e-12, atol=1e-14)
    assert back.trained_columns == model.trained_columns == ("km", "c", "z")


@pytest.mark.parametrize("case", ["regression", "binary", "multiclass"])
def test_tuskml_predicts_what_lightgbm_does(con: duckdb.DuckDBPyConnection, case: str) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    con.execute(ROWS.format(gaps=True))
    rows = con.execute("SELECT km, c, z FROM t").df()
    random = np.random.default_rng(3)
    place = rows["c"].astype("category").cat.codes.to_numpy()
    y = random.normal(size=72)[place] + rows["km"].to_numpy() / 5
    y = {"regression": y, "binary": (y > 1) * 1.0, "multiclass": np.digitize(y, [0.5, 1.5])}[case]
    given: dict[str, Any] = {"objective": case, "verbose": -1, "num_leaves": 9, "num_threads": 1}
    if case == "multiclass":
        given["num_class"] = 3
    booster = lightgbm.train(given, lightgbm.Dataset(categorical(rows), y), 8)
    text = booster.model_to_string()
    assert "cat_threshold" in text
    model, other = Model.from_lightgbm(text), frame(con)
    found = booster.predict(categorical(other))
    np.testing.assert_allclose(answers(model, other), found, rtol=1e-12, atol=1e-14)
    assert model.trained_columns == ("km", "c", "z")
    asked = "SELECT decision({'payload': $1::BLOB}, {'c': c, 'km': km, 'z': z}) FROM t LIMIT 500"
    told = (
        np.ravel(con.execute(asked, [model.payload]).fetchall()) if case == "regression" else None
    )
    if told is not None:
        np.testing.assert_allclose(told, found[:500], rtol=1e-12)


def test_missing_numbers_go_where_their_substitute_goes(con: duckdb.DuckDBPyConnection) -> None:
    """With `impute`, a missing number counts as the mean."""
    lightgbm = pytest.importorskip("lightgbm")
    model = trained(con, "squared", gaps=False, missing="impute")
    rows = con.execute("SELECT km, c, z FROM t LIMIT 500").df()
    rows.loc[len(rows)] = [np.nan, "k 3", 20.0]
    rows.loc[len(rows)] = [np.nan, None, None]
    text = model.to_lightgbm(unseen_as_missing=True)
    found = lightgbm.Booster(model_str=text).predict(categorical(rows))
    np.testing.assert_allclose(found, model.predict(rows), rtol=1e-12)
    substitute = json.loads(model.preparation or "")["columns"][0]["fill"]
    assert substitute == pytest.approx(rows["km"][:500].mean(), abs=0.1)


def test_what_the_format_cannot_say_is_refused(con: duckdb.DuckDBPyConnection) -> None:
    of = "SELECT train_model('gbdt', i % 9, {}, '{{\"trees\": 3{}}}') FROM range(500) r(i)"
    hour = "{'t': TIMESTAMP '2020-01-01' + to_hours(i), 'k': i % 3}"
    found = con.execute(of.format(hour, ', "dates": "parts"')).fetchall()[0][0]
    with pytest.raises(DataError, match="format cannot say, expected a model of numbers"):
        Model.of(found).to_lightgbm()


DAMAGE = [
    (
        r"pandas_categorical:\[.*\n",
        'pandas_categorical:[["a"]]\n',
        "has 1 lists of levels and the",
    ),
    (r"pandas_categorical:\[.*\n", 'pandas_categorical:["a"]\n', "the text is damaged"),
    (r"pandas_categorical:\[.*\n", "pandas_categorical:[[\n", "the text is damaged"),
    (r"pandas_categorical:\[.*\n", "pandas_categorical:[[null], [1]]\n", "the text is damaged"),
]


@pytest.mark.parametrize(("old", "new", "sentence"), DAMAGE)
def test_damaged_names_are_refused(
    con: duckdb.DuckDBPyConnection, old: str, new: str, sentence: str
) -> None:
    text = trained(con, "squared", gaps=False).to_lightgbm()
    assert re.search(old, text)
    with pytest.raises(DataError, match=sentence):
        Model.from_lightgbm(re.sub(old, new, text))
