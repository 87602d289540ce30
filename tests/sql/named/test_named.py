"""Features by name: categories per group, against statsmodels and scikit-learn."""

# ruff: noqa: E501, SQL is read better on one line

import json

import duckdb
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import tuskml

X = "{'delay': delay, 'origin': origin, 'hour': hour, 'weekend': weekend}"
STRICT = '{"invalid": "error"}'


def flights(n: int = 3000, seed: int = 1) -> pd.DataFrame:
    """Rows of numbers, text and booleans, in three groups of which one lacks some levels."""
    rng = np.random.default_rng(seed)
    carrier = rng.choice(["AA", "DL", "ÜX"], n)
    origin = rng.choice(["LGA", "JFK", "EWR", ""], n, p=[0.4, 0.3, 0.2, 0.1])
    origin[(carrier == "AA") & (origin == "EWR")] = "JFK"
    frame = pd.DataFrame(
        {
            "carrier": carrier,
            "delay": rng.normal(10, 30, n).round(1),
            "origin": origin,
            "hour": rng.integers(5, 10, n),
            "weekend": rng.random(n) < 0.3,
        }
    )
    margin = frame.delay / 30 + (frame.origin == "JFK") - 0.5 * frame.weekend - 0.4
    frame["late"] = (rng.random(n) < 1 / (1 + np.exp(-margin))).astype(int)
    frame["answer"] = np.where(frame.late == 1, "yes", "no")
    return frame


@pytest.fixture
def own(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.register("frame", flights())
    con.execute("CREATE TABLE flights AS FROM frame")
    return con


def design(frame: pd.DataFrame) -> pd.DataFrame:
    """The same features by pandas: the first level, in order, is the reference."""
    columns = {"delay": frame.delay}
    for level in sorted(frame.origin.unique())[1:]:
        columns[f"origin[{level}]"] = frame.origin == level
    columns["hour"] = frame.hour
    columns["weekend[true]"] = frame.weekend
    return pd.DataFrame(columns).astype(float)


def test_coefficients_and_errors_are_those_of_statsmodels(own: duckdb.DuckDBPyConnection) -> None:
    models = own.execute(
        f"SELECT carrier, train_model('logistic', late, {X}, '{{\"epsilon\": 1e-10}}') FROM flights GROUP BY carrier ORDER BY carrier"
    ).fetchall()
    assert len(models) == 3
    for carrier, model in models:
        frame = flights()
        frame = frame[frame.carrier == carrier]
        x = sm.add_constant(design(frame))
        truth = sm.Logit(frame.late, x).fit(disp=0)
        assert model["features"] == list(x.columns[1:])
        assert model["coef"] == pytest.approx(truth.params[1:].tolist(), rel=1e-6)
        assert model["intercept"] == pytest.approx(truth.params.iloc[0], rel=1e-6)
        assert model["std_err"] == pytest.approx(truth.bse.tolist(), rel=1e-5)


def test_with_a_penalty_all_levels_have_a_feature(own: duckdb.DuckDBPyConnection) -> None:
    """scikit-learn's C is 1 / (n l2)."""
    frame = flights()
    (model,) = own.execute(
        f"SELECT train_model('logistic', late, {X}, '{{\"l2\": 0.01, \"epsilon\": 1e-10}}') FROM flights"
    ).fetchall()[0]
    coded = ColumnTransformer(
        [
            ("delay", "passthrough", ["delay"]),
            ("origin", OneHotEncoder(), ["origin"]),
            ("hour", "passthrough", ["hour"]),
            ("weekend", OneHotEncoder(), ["weekend"]),
        ]
    )
    fit = make_pipeline(
        coded, LogisticRegression(C=1 / (0.01 * len(frame)), tol=1e-10, max_iter=5000)
    )
    fit.fit(frame, frame.late)
    assert model["features"][1:5] == ["origin[]", "origin[EWR]", "origin[JFK]", "origin[LGA]"]
    assert model["coef"] == pytest.approx(fit[-1].coef_[0].tolist(), abs=2e-5)
    found = own.execute(
        f"WITH m AS MATERIALIZED (SELECT train_model('logistic', late, {X}, '{{\"l2\": 0.01, \"epsilon\": 1e-10}}') model FROM flights) "
        f"SELECT predict_proba(model, {X}) FROM flights, m"
    ).fetchnumpy()
    assert np.ravel(next(iter(found.values()))) == pytest.approx(
        fit.predict_proba(frame)[:, 1], abs=1e-5
    )


def test_wide_categories_are_sparse_and_the_same(own: duckdb.DuckDBPyConnection) -> None:
    rows = "(SELECT i, 'c' || (hash(i) % 90) AS c, (hash(i + 1) % 100) / 50.0 AS a, hash(i) % 90 * 0.01 + hash(i + 2) % 10 AS y FROM range(20000) t(i))"
    (coef, names, explained, predicted) = own.execute(
        f"SELECT m.coef, m.features, e, predict(m, {{'a': 0, 'c': 'c7'}}) FROM (SELECT train_model('linear', y, {{'c': c, 'a': a}}) m, explain_training('linear', y, {{'c': c, 'a': a}}) e FROM {rows})"
    ).fetchall()[0]
    assert "x 90 features, sparse float64" in explained
    frame = own.execute(f"FROM {rows}").df()
    x = sm.add_constant(pd.get_dummies(frame.c, drop_first=True).astype(float).assign(a=frame.a))
    truth = sm.OLS(frame.y, x).fit()
    assert names == [f"c[{level}]" for level in x.columns[1:-1]] + ["a"]
    assert coef == pytest.approx(truth.params[1:].tolist(), abs=1e-6)
    assert predicted == pytest.approx(truth.params["const"] + truth.params["c7"], abs=1e-6)


def test_predictions_match_columns_by_name(own: duckdb.DuckDBPyConnection) -> None:
    own.execute(
        f"CREATE TABLE models AS SELECT carrier, train_model('logistic', late, {X}) AS model FROM flights GROUP BY carrier"
    )
    shuffled = "{'more': 7, 'WEEKEND': weekend, 'hour': hour::DECIMAL(9, 2), 'origin': origin, 'delay': delay::FLOAT}"
    rows = own.execute(
        f"SELECT decision(model, {X}), decision(model, {shuffled}), decision(model, f), predict(model, {X}), predict_proba(model, {X}) FROM flights f JOIN models USING (carrier)"
    ).fetchall()
    margin, same, whole, predicted, p = np.array(rows).T
    assert same == pytest.approx(margin, rel=1e-5, abs=1e-5)
    assert whole == pytest.approx(margin)
    assert predicted.tolist() == (margin >= 0).astype(float).tolist()
    assert p == pytest.approx(1 / (1 + np.exp(-margin)))


def test_the_summary_names_its_terms(own: duckdb.DuckDBPyConnection) -> None:
    terms = own.execute(
        f"SELECT term FROM model_summary((SELECT train_model('logistic', late, {X}) FROM flights))"
    ).fetchall()
    assert [term for (term,) in terms] == [
        "intercept", "delay", "origin[EWR]", "origin[JFK]", "origin[LGA]", "hour", "weekend[true]",
    ]  # fmt: skip


def test_a_payload_can_be_made_again(own: duckdb.DuckDBPyConnection) -> None:
    own.execute(
        f"CREATE TABLE m AS SELECT train_model('logistic', late, {X}) AS model FROM flights"
    )
    same = own.execute(
        "SELECT model.payload = with_payload(model).payload, model_payload(model) = model.payload FROM m"
    ).fetchall()
    assert same == [(True, True)]


def test_types_that_are_categories(own: duckdb.DuckDBPyConnection) -> None:
    """ENUM, BOOLEAN and UUID are text; dates and timestamps are days since 1970."""
    own.execute("CREATE TYPE size AS ENUM ('small', 'large')")
    rows = """(SELECT i, ['small', 'large'][1 + i % 2]::size AS s, i % 3 = 0 AS b,
        '00000000-0000-0000-0000-00000000000' || (i % 2) AS u, DATE '2020-01-01' + (i % 50)::INT AS d, i % 7 + i % 50 + i % 2 AS y FROM range(400) t(i))"""
    (model,) = own.execute(
        f"SELECT train_model('linear', y, {{'s': s, 'b': b, 'd': d, 't': d + INTERVAL 6 HOUR}}, '{{\"l2\": 0.1}}') FROM {rows}"
    ).fetchall()[0]
    assert model["features"] == ["s[large]", "s[small]", "b[false]", "b[true]", "d", "t"]
    (uuids,) = own.execute(
        f"SELECT train_model('linear', y, {{'u': u::UUID}}).preparation FROM {rows}"
    ).fetchall()[0]
    levels = json.loads(uuids)["columns"][0]["levels"]
    assert levels == [f"00000000-0000-0000-0000-00000000000{k}" for k in (0, 1)]
    days = own.execute(
        f"SELECT decision(m, {{'d': DATE '1970-01-11'}}) - decision(m, {{'d': DATE '1970-01-01'}}), 10 * m.coef[1] FROM (SELECT train_model('linear', y, {{'d': d}}) AS m FROM {rows})"
    ).fetchall()[0]
    assert days[0] == pytest.approx(days[1])


LEVEL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LEVEL, min_size=1, max_size=8, unique=True), st.integers(0, 2**32))
def test_any_text_is_a_level(con: duckdb.DuckDBPyConnection, levels: list[str], seed: int) -> None:
    """Each level predicts the mean of its rows, whatever its characters; an unknown one the
    reference's."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"c": rng.choice(levels, 60), "y": rng.normal(size=60)})
    con.register("frame", frame)
    con.execute(
        "CREATE OR REPLACE TABLE m AS SELECT train_model('linear', y, {'c': c}) AS model FROM frame"
    )
    found = dict(
        con.execute("SELECT DISTINCT c, predict(model, {'c': c}) FROM frame, m").fetchall()
    )
    assert found == pytest.approx(frame.groupby("c").y.mean().to_dict(), abs=1e-9)
    assert con.execute("SELECT model.preparation FROM m").fetchall()[0][0]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            "predict(m, {'a': 1})",
            "predict: the row has no column 'c', which the model was trained on; it has a",
        ),
        (
            "predict(m, {'a': 'x', 'c': 'x'})",
            "predict: column 'a' is text, and the model was trained on numbers",
        ),
        (
            "predict(m, {'a': 1, 'c': 1})",
            "predict: column 'c' is a number, and the model was trained on text",
        ),
        ("predict(m, [1.0, 2.0])", "predict: the model was trained on rows with names"),
        ("predict(plain, {'a': 1})", "predict: the model was trained on lists of numbers"),
        (
            "predict(m, {'a': [1], 'c': 'x'})",
            "column 'a' is of a type that cannot be a feature, expected a number",
        ),
        (
            "predict(strict, {'a': 1, 'c': 'new'})",
            "column 'c' is 'new', which the model was not trained on",
        ),
    ],
)
def test_predictions_that_are_refused(
    own: duckdb.DuckDBPyConnection, call: str, sentence: str
) -> None:
    rows = (
        "(SELECT i % 7 AS a, ['x', 'y'][1 + i % 2] AS c, i % 5 + i % 2 AS y FROM range(50) t(i))"
    )
    own.execute(
        f"CREATE TABLE m AS SELECT train_model('linear', y, {{'a': a, 'c': c}}) AS m, train_model('linear', y, [a]) AS plain, train_model('linear', y, {{'a': a, 'c': c}}, '{{\"unseen\": \"error\"}}') AS strict FROM {rows}"
    )
    with pytest.raises(duckdb.Error) as raised:
        own.execute(f"SELECT {call} FROM m").fetchall()
    assert sentence in " ".join(str(raised.value).split())


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        (
            "{'a': 1, 'b': [1]}",
            "train_model: column 'b' is INTEGER[], expected a number, a date, a timestamp, a time, an interval, text, ENUM, BOOLEAN or UUID",
        ),
        ("row(1, 2)", "train_model: the features are a row without names"),
        (
            "{'c': repeat('x', 1000000)}",
            "train_model: column 'c' has a text of 1000000 bytes in row 1 of the group, expected at most 65535",
        ),
        (
            "{'c': 'x' || chr(0)}",
            "train_model: column 'c' has a character of code 0 in row 1 of the group",
        ),
        (
            "{'c': 'nan'::DOUBLE}",
            "train_model: column 'c' is NaN in row 1 of the group, expected a finite number",
        ),
        (
            "{'c': 'c' || i}",
            "column 'c' has 110000 distinct values in a group, at most 100000 are allowed",
        ),
    ],
)
def test_trainings_that_are_refused(
    own: duckdb.DuckDBPyConnection, features: str, sentence: str
) -> None:
    with pytest.raises(duckdb.Error) as raised:
        own.execute(
            f"SELECT train_model('linear', i, {features}, '{STRICT}') FROM range(110000) t(i)"
        ).fetchall()
    assert sentence in " ".join(str(raised.value).split())


def test_rows_of_null_alone_train_nothing(own: duckdb.DuckDBPyConnection) -> None:
    for value in ("NULL", "NULL::VARCHAR"):
        assert own.execute(
            f"SELECT train_model('linear', 1, {{'c': {value}}}) FROM range(9)"
        ).fetchall() == [(None,)]


@pytest.mark.nightly
def test_threads_that_meet_levels_in_another_order(own: duckdb.DuckDBPyConnection) -> None:
    """Each thread numbers the levels that it meets; a model is of the levels, not of the numbers."""
    rows = "(SELECT i % 2 AS g, 'c' || (hash(i // 2 + i // 130000) % 20) AS c, hash(i // 2 + i // 130000) % 20 + hash(i) % 7 AS y FROM range(400000) t(i))"
    query = f"SELECT g, (m).coef, (m).features FROM (SELECT g, train_model('linear', y, {{'c': c}}) AS m FROM {rows} GROUP BY g) ORDER BY g"
    found = []
    for threads in (1, 4):
        own.execute(f"SET threads = {threads}")
        found.append(own.execute(query).fetchall())
    for one, four in zip(*found, strict=True):
        assert one[2] == four[2]
        assert one[1] == pytest.approx(four[1], abs=1e-9)


def test_rows_that_are_spilled(own: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT (m).coef, (m).n_rows FROM (SELECT train_model('linear', i % 7 + i % 3, {'c': 'c' || i % 3, 'a': i % 7, 'b': i % 11, 'd': i % 13, 'e': i % 17}) AS m FROM range(600000) t(i))"
    free = own.execute(query).fetchall()[0]
    own.execute("SET memory_limit = '30MB'")
    tight = own.execute(query).fetchall()[0]
    assert tight[0] == pytest.approx(free[0], abs=1e-9)
    assert tight[1] == 600000


def test_python_trains_on_columns_of_text(own: duckdb.DuckDBPyConnection) -> None:
    features = ["delay", "origin", "weekend"]
    given = {"source": "flights", "label": "answer", "features": features}
    model = tuskml.train(own, "logistic", **given)
    assert model.class_names == ["no", "yes"]
    assert model.features == (
        "delay",
        "origin[EWR]",
        "origin[JFK]",
        "origin[LGA]",
        "weekend[true]",
    )
    assert "origin[JFK]" in str(model.summary())
    (sql,) = own.execute(
        "SELECT train_model('logistic', answer, {'delay': delay, 'origin': origin, 'weekend': weekend}).coef FROM flights"
    ).fetchall()[0]
    assert model.coef == sql
    rows = tuskml.predict(own, model, source="flights", columns=[], kind="decision", name="m")
    assert model.decision(flights()) == pytest.approx(rows.m.to_numpy())
    again = tuskml.Model.from_json(model.to_json())
    assert again.predict_proba(flights()) == pytest.approx(model.predict_proba(flights()))


def test_python_trains_groups_of_rows_with_names(own: duckdb.DuckDBPyConnection) -> None:
    given = {"source": "flights", "label": "late", "features": ["delay", "lower(origin)"]}
    models = tuskml.train(own, "logistic", group_by="carrier", **given)
    assert {len(model.coef) for model in models.values()} == {3, 4}
    found = tuskml.evaluate(own, models, source="flights")
    assert all(metrics["auc"] > 0.6 for metrics in found.values())
