"""Rows that nets can make little of: a status or NULL, and never a number that is none."""

# ruff: noqa: E501, SQL is read better on one line

import math
from typing import Any

import duckdb
import pytest

pytestmark = pytest.mark.fault(family="bad input by name")

OPTIONS = '{"max_iter": 2, "layers": [4]}'


class Database:
    """One of both databases."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session

    def found(self, label: str, features: str) -> Any:
        """(status, loss, prediction, n_rows) of a net of generated rows."""
        source = "(SELECT i, i::float8 AS x, NULL::float8 AS nothing FROM generate_series(1, 60) AS r(i)) AS t"
        sql = (
            f"SELECT (m).status, (m).loss, predict(m, {features}), (m).n_rows FROM {source}, "
            f"(SELECT train_model('mlp', {label}, {features}, '{OPTIONS}') AS m FROM {source}) AS f ORDER BY i LIMIT 1"
        )
        return self.session.execute(sql).fetchall()[0]


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


CASES = {
    "constant features": ("x", "ARRAY[1.0::float8, 2.0::float8]", "not converged"),
    "features beyond floats": (
        "x",
        "ARRAY[CASE WHEN x > 30 THEN 1.7e308 ELSE -1.7e308 END::float8]",
        "out of range",
    ),
    "labels beyond floats": ("x * 1e300", "ARRAY[x]", "out of range"),
    "the least doubles": ("x * 5e-324", "ARRAY[x * 1e-323]", "out of range"),
    "equal labels": ("5.0::float8", "ARRAY[x]", "ok"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_status_says_what_happened(db: Database, case: str) -> None:
    label, features, status = CASES[case]
    found = db.found(label, features)
    assert (found[0], found[3]) == (status, 60)
    assert found[1] is None or math.isfinite(found[1])
    assert math.isfinite(found[2])


@pytest.mark.parametrize("features", ["ARRAY[nothing]", "ARRAY[x, nothing]"])
def test_rows_of_nulls_have_no_net(db: Database, features: str) -> None:
    assert db.found("x", features) == (None, None, None, None)


def test_ten_thousand_features(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE wide AS SELECT 10 * (i % 7) + i % 2 AS y, list_transform(range(10000), lambda j: ((i * (j + 1)) % 7)::FLOAT) AS x FROM range(60) r(i)"
    )
    found = con.execute(
        f"SELECT m.status, m.n_features, isfinite(m.loss) FROM (SELECT train_model('mlp', y, x, '{OPTIONS}') AS m FROM wide)"
    ).fetchall()
    assert found == [("ok", 10000, True)]


@pytest.mark.nightly
def test_a_quarter_of_a_million_levels(con: duckdb.DuckDBPyConnection) -> None:
    """They are refused with what to do; the most frequent ones train, and the others are one."""
    con.execute(
        "CREATE TABLE many AS SELECT i % 7 AS y, 'level ' || i AS v FROM range(250000) r(i) "
        "UNION ALL SELECT 20, 'level ' || i % 1000 FROM range(50000) r(i)"
    )
    asked = "SELECT m.status, m.n_features, isfinite(predict(m, {{'v': 'new'}})) FROM (SELECT train_model('mlp', y, {{'v': v}}, '{}') AS m FROM many)"
    given = '{"max_iter": 1, "layers": [4], "embedding": 2, "batch_size": 65536, "learning_rate": 0.05%s}'
    with pytest.raises(
        duckdb.Error, match=r"has 250000 distinct values .* give option 'max_categ"
    ):
        con.execute(asked.format(given % ', "invalid": "error"'))
    found = con.execute(asked.format(given % ', "max_categories": 1000')).fetchall()
    assert found == [("ok", 1001, True)]
