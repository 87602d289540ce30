"""`tuskml.train` on tables, queries and Parquet files: the models that SQL trains."""

import re
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import tuskml
from tuskml import DataError, Model, OptionError, train
from tuskml.model.model import FIELDS
from tuskml.text.expressions import one, split

ROWS = """
CREATE TABLE trips AS
SELECT i % 3 AS carrier, i AS "Row No", hash(i) % 100 / 10.0 AS delay, hash(i + 1) % 7 AS hour,
       hash(i + 2) % 2 = 0 AS weekend, hash(i + 3) % 10 + delay > 8 AS late,
       [delay, hour]::FLOAT[2] AS both
FROM range(600) t(i)
"""


@pytest.fixture
def trips(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(ROWS)
    return con


def comparable(model: Model | dict) -> dict:
    """All but the time and the names, which Python knows; options as they are in Python."""
    found = model.as_dict() if isinstance(model, Model) else Model.of(model).as_dict()
    return {name: value for name, value in found.items() if name not in ("seconds", "features")}


@pytest.mark.smoke
def test_the_model_is_that_of_the_aggregate(trips) -> None:
    model = train(
        trips, "logistic", source="trips", label="late", features=["delay", "hour"], threads=1
    )
    sql = "train_model('logistic', late, [delay::DOUBLE, hour::DOUBLE], '{\"threads\": 1}')"
    (value,) = trips.execute(f"SELECT {sql} FROM trips").fetchone()
    assert comparable(model) == comparable(value)
    assert (model.status, model.n_rows, tuple(value)) == ("ok", 600, (*FIELDS, "payload"))


def test_the_model_is_scikit_learn_s(trips) -> None:
    model = train(
        trips, "logistic", source="trips", label="late", features=["delay", "weekend"], l2=0.01
    )
    rows = trips.execute("SELECT delay, weekend, late FROM trips").fetchnumpy()
    x = np.stack([rows["delay"], rows["weekend"]], axis=1).astype(float)
    peer = LogisticRegression(C=1 / (0.01 * len(x)), tol=1e-10).fit(x, rows["late"])
    assert model.coef == pytest.approx(peer.coef_[0], abs=1e-5)
    assert model.intercept == pytest.approx(peer.intercept_[0], abs=1e-5)


@pytest.mark.parametrize(
    "features",
    [
        "both",
        ["both"],
        "[delay, hour]",
        "delay, hour",
        ["delay", "hour"],
        ["DELAY", "hour + 0"],
        "[delay, hour /* , */ + 0] -- as an array",
        "list_value(delay, hour)",
        "sparse([0, 1], [delay, hour])",
    ],
)
def test_features_are_columns_expressions_or_one_array(trips, features) -> None:
    model = train(trips, "linear", source="trips", label="late", features=features)
    exact = train(trips, "linear", source="trips", label="late::INT", features=["delay", "hour"])
    assert model.coef == pytest.approx(exact.coef, abs=1e-5)


def test_a_column_s_name_may_be_anything(con) -> None:
    con.execute(
        'CREATE TABLE "my ""t"".x" AS SELECT x AS "select", 2 * x AS "a-b" FROM range(9) t(x)'
    )
    model = train(con, "linear", source='"my ""t"".x"', label="a-b", features=["select"])
    assert model.coef == pytest.approx([2])


def test_models_by_group(trips) -> None:
    one_key = train(
        trips, "linear", source="trips", label="delay", features=["hour"], group_by="carrier"
    )
    assert sorted(one_key) == [0, 1, 2]
    assert {model.n_rows for model in one_key.values()} == {200}
    two = train(
        trips,
        "linear",
        source="SELECT * FROM trips WHERE hour > 1;",
        label="delay",
        features="hour",
        group_by=["carrier", "hour % 2 AS odd"],
    )
    assert sorted(two) == [(c, o) for c in range(3) for o in range(2)]


def test_a_group_without_a_usable_row_is_none(con) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT x // 5 AS g, nullif(x // 5, 0) * x AS y, x FROM range(10) r(x)"
    )
    found = train(con, "linear", source="t", label="y", features=["x"], group_by="g")
    assert found[0] is None
    assert found[1] is not None
    with pytest.raises(DataError, match="table t has no row whose label and features"):
        train(con, "linear", source="t", label="nullif(y, y)", features=["x"])


def test_models_are_kept_in_a_table(trips) -> None:
    n = train(
        trips,
        "logistic",
        source="trips",
        label="late",
        features=["delay", "hour"],
        group_by="carrier",
        into="models",
    )
    assert n == 3
    scored = "SELECT count(predict(model, [delay, hour])) FROM trips JOIN models USING (carrier)"
    assert trips.execute(scored).fetchone() == (600,)


def test_a_database_file_is_opened_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "some.duckdb"
    with tuskml.connect(path) as con:
        con.execute(ROWS)
    model = train(path, "linear", source="main.trips", label="delay", features=["hour"])
    assert model.n_rows == 600
    with duckdb.connect(str(path)) as con:  # nothing holds its lock
        assert con.execute("SELECT count(*) FROM trips").fetchone() == (600,)


@pytest.mark.nightly
def test_parquet_files(trips, tmp_path: Path) -> None:
    for carrier in range(3):
        name = str(tmp_path / f"trips {carrier}'.parquet").replace("'", "''")
        trips.execute(f"COPY (FROM trips WHERE carrier = {carrier}) TO '{name}'")
    exact = train(trips, "linear", source="trips", label="delay", features=["hour"])
    for source in (tmp_path / "*.parquet", str(tmp_path / "*.parquet"), list(tmp_path.iterdir())):
        model = train(":memory:", "linear", source=source, label="delay", features=["hour"])
        assert model.n_rows == 600
        assert model.coef == pytest.approx(exact.coef)


def test_an_unloaded_connection_is_loaded() -> None:
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as con:
        con.execute(ROWS)
        assert train(con, "linear", source="trips", label="delay", features="hour").status == "ok"


def test_a_cancel_is_an_interrupt(trips) -> None:
    from tuskml.learners.events import listening

    with listening(lambda event: tuskml.cancel()), pytest.raises(tuskml.Interrupted):
        train(
            trips,
            "logistic",
            source="trips",
            label="late",
            features=["delay"],
            algorithm="bgd",
            epsilon=0,
            max_iter=100_000,
        )


def test_a_model_is_a_warm_start(trips) -> None:
    settings = {"source": "trips", "label": "late", "features": ["delay", "hour"]}
    first = train(trips, "logistic", **settings)
    again = train(trips, "logistic", warm_start=first, algorithm="bgd", **settings)
    assert again.iterations == 0
    assert again.coef == pytest.approx(first.coef)


GIVEN = {"task": "logistic", "source": "trips", "label": "late", "features": ["delay"]}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"label": "laet"}, "label names column 'laet', which table trips does not have.*'late'"),
        ({"label": "dely > 1"}, "label names column 'dely', which.*did you mean 'delay'"),
        ({"features": ["delay", "huor"]}, "features names column 'huor'.*did you mean 'hour'"),
        ({"group_by": "carier"}, "group_by names column 'carier'.*did you mean 'carrier'"),
        ({"source": "trip"}, "source 'trip' does not exist.*did you mean 'trips'"),
        ({"source": "SELECT * FROM trip"}, "trip does not exist"),
        ({"source": "no.parquet"}, "source 'no.parquet' does not exist"),
        ({"source": []}, "source is an empty list"),
        ({"features": []}, "features is an empty list"),
        ({"label": "late; DROP TABLE trips"}, "expected an expression, without ;"),
        ({"label": "late) FROM trips; DROP TABLE trips --"}, "closes a '\\)' that is not open"),
        ({"label": "late, hour"}, "expected one expression, got 2"),
        ({"label": 3}, "label is 3, expected a column or an SQL expression as text"),
        ({"label": "DATE '2026-01-01'"}, "is of type DATE, expected a number"),
        ({"features": ["delay", "both"]}, "feature 'both' is of type FLOAT\\[2\\]"),
        ({"label": "hour", "task": "svm", "invalid": "error"}, "needs two classes"),
        ({"into": "trips"}, "the table trips already exists: give into another name"),
    ],
)
def test_what_is_wrong_with_the_data_is_one_sentence(trips, wrong: dict, message: str) -> None:
    given = GIVEN | wrong
    with pytest.raises(DataError, match=message) as caught:
        train(trips, given.pop("task"), **given)
    assert "\n" not in str(caught.value)
    assert trips.execute("SELECT count(*) FROM trips").fetchone() == (600,)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"task": "logistics"}, "task is 'logistics'.*did you mean 'logistic'"),
        ({"l3": 1}, "unknown option 'l3'"),
        ({"l2": -1}, "option 'l2' is -1, expected a number of at least 0"),
        ({"l2": object()}, "an option is of type object"),
    ],
)
def test_tasks_and_options_are_refused_as_in_sql(trips, wrong: dict, message: str) -> None:
    given = GIVEN | wrong
    with pytest.raises(OptionError, match=message):
        train(trips, given.pop("task"), **given)


@pytest.mark.parametrize("connection", [7, "no-such.duckdb"])
def test_a_connection_that_is_none(connection) -> None:
    with pytest.raises(DataError, match=r"connection is .*expected a"):
        train(connection, "linear", source="t", label="y", features="x")


def test_lists_of_expressions_end_at_commas_outside() -> None:
    assert split("a, f(b, ','), [c, \"d,\"] , 'it''s, ' -- e, f", "x") == [
        "a",
        "f(b, ',')",
        '[c, "d,"]',
        "'it''s, '",
    ]


BAD = ["", "a,", "(a", "a)", "[a)", "'a", '"a', "a; b", "a /* , */ ,", "a,,b"]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_list_of_expressions(text: str) -> None:
    with pytest.raises(DataError):
        split(text, "features")


@given(st.text(alphabet="ab,;()[]'\"-/* \n$1", max_size=12))
def test_an_expression_stays_in_its_parentheses(text: str) -> None:
    """What is taken as one expression is never more than one statement, column or condition."""
    try:
        expression = one(text, "label")
    except DataError:
        return
    try:
        found = duckdb.extract_statements(f"SELECT 0 WHERE ({expression}) FROM")
    except duckdb.Error:
        found = []
    assert found == []  # FROM behind the parenthesis stays an error: nothing hid it
    try:
        found = duckdb.extract_statements(f"SELECT ({expression}), 1")
    except duckdb.Error:
        return
    assert len(found) == 1
    assert (
        re.search(r"--|/\*|;", re.sub(r"'[^']*'|\"[^\"]*\"|\$\$.*?\$\$", "", expression)) is None
    )
