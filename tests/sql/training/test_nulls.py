"""NULL in any argument of any function: an answer of a vector of rows is that of each row alone."""

# ruff: noqa: E501, SQL is read better on one line

import math
import re
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

N = 20
TABLE = """
CREATE TABLE {name} (i integer, k integer, label double precision, flag boolean, p double precision, s double precision,
    x1 double precision, x2 double precision, id1 integer, id2 integer, t text, bits integer, o text)"""
MODELS = """
CREATE TABLE models AS SELECT k, CASE WHEN k < 3 THEN train_model('logistic', y, f, '{"l2": 0.1}') END AS model
FROM (SELECT CAST(i % 4 AS integer) AS k, i * 7919 % 13 > 6 AS y, ARRAY[i % 7, i * 31 % 11] AS f FROM generate_series(0, 199) AS g(i)) AS t GROUP BY k"""
DENSE, SPARSE = "ARRAY[x1, x2]", "sparse(ARRAY[id1, id2], ARRAY[x1, x2])"
SCALARS = [
    *(f"{f}(model, {x})" for f in ("predict", "predict_proba", "decision") for x in (DENSE, SPARSE)),
    "predict(model, CASE WHEN bits IS NOT NULL THEN ARRAY[x1, x2] END)",
    "predict(CASE WHEN bits IS NOT NULL THEN model END, ARRAY[1.5, 2])",
    "CAST(hash_features(ARRAY[t, o], bits) AS text)",
    "CAST(hash_features(CASE WHEN t IS NOT NULL THEN ARRAY[o] END, 18) AS text)",
    f"CAST({SPARSE} AS text)",
    "CAST(sparse(CASE WHEN bits IS NOT NULL THEN ARRAY[id1] END, CASE WHEN t IS NOT NULL THEN ARRAY[x1] END) AS text)",
]  # fmt: skip
OF_DUCKDB = [
    "_tusk_p_value(s, p)",
    "_tusk_p_value(s, 3.0)",
    "_tusk_p_value(2.0, p)",
    "CAST(hash_features(MAP {'a': s, 'b': p}, bits) AS text)",
    "tuskml_set_memory(CASE WHEN bits IS NOT NULL THEN (getvariable('budget')) END, CASE WHEN t IS NOT NULL THEN '' END)",
    "tuskml_set_store_root(CASE WHEN t IS NOT NULL THEN getvariable('root') END)",
]
OF_POSTGRES = [
    "tuskml._tuskml_divide(s, p)",
    "tuskml._tuskml_p_value(s, p)",
    "tuskml._tuskml_interval(1 + p)",
    "tuskml._tuskml_bound(s, 2.0, p)",
    "tuskml._tuskml_ratio('logistic', s)",
]
METRICS = [
    f"{name}({label}, {given})"
    for name, given in [("log_loss", "p"), ("auc", "s"), ("accuracy", "label"), ("accuracy", "flag"),
                        ("rmse", "s"), ("mae", "s"), ("r2", "s"), ("brier", "p"), ("mape", "s"),
                        ("average_precision", "s"), ("f1_score", "label"), ("poisson_deviance", "p")]
    for label in ("label", "flag")
]  # fmt: skip
COMPLETE = "label IS NOT NULL AND flag IS NOT NULL AND p IS NOT NULL AND s IS NOT NULL AND x1 IS NOT NULL AND x2 IS NOT NULL AND id1 IS NOT NULL AND id2 IS NOT NULL"
OPTIONS = """'{"l2": 0.1, "deterministic": true}'"""
MODEL = [
    f"train_model('{task}', {label}, {x}, {OPTIONS})"
    for task, label in (("linear", "s"), ("logistic", "flag"), ("svm", "label"))
    for x in (DENSE, SPARSE)
]


def rows_of(seed: int) -> list[tuple[Any, ...]]:
    """Rows of which each value is NULL with a chance that the seed draws."""
    rng = np.random.default_rng(seed)
    share = rng.choice([0.0, 0.1, 0.5])
    made = []
    for i in range(N):
        y = int(rng.integers(0, 2)) if i > 1 else i
        row = [int(rng.integers(0, 4)), float(y), bool(y), float(rng.uniform(0.01, 0.99)), float(rng.normal()),
               float(rng.normal()), float(rng.normal()), int(rng.integers(0, 2)), int(rng.integers(0, 2)),
               str(rng.choice(["a", "b:2", "c:0"])), int(rng.integers(4, 20)), "colour=red"]  # fmt: skip
        made.append((i, *(None if i > 1 and rng.random() < share else value for value in row)))
    return made


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and a == b


class Database:
    """One of the databases, with the table t of a draw."""

    def __init__(self, connection: Any, mark: str) -> None:
        self.connection, self.mark = connection, mark

    def fill(self, seed: int) -> None:
        self.connection.execute("DROP TABLE IF EXISTS t")
        self.connection.execute(TABLE.format(name="t"))
        every = ", ".join([self.mark] * 13)
        cursor = self.connection.cursor()
        cursor.executemany(f"INSERT INTO t VALUES ({every})", rows_of(seed))

    def all(self, sql: str) -> list[Any]:
        return self.connection.execute(sql).fetchall()


@pytest.fixture(scope="module")
def there(file_session: Any) -> Database:
    file_session.execute(MODELS)
    return Database(file_session, "%s")


@pytest.fixture
def here(con: duckdb.DuckDBPyConnection) -> Database:
    con.execute(MODELS)
    con.execute("SET VARIABLE budget = (SELECT tuskml_memory().budget)")
    con.execute("SET VARIABLE root = (SELECT tuskml_store_root())")
    return Database(con, "?")


PARTS = (
    "CAST(hash_features(ARRAY[t",
    "CAST(hash_features(MAP",
    "CAST(sparse",
)
"""Of a list, a map or a struct, which may hold NULL and be no NULL."""


def missing_of(database: Database, expression: str) -> set[int]:
    """The rows in which a column is NULL that decides alone whether the answer is."""
    if expression.startswith(PARTS):
        return set()
    names = {"model", "s", "p", "x1", "x2", "id1", "id2", "t", "bits"}
    used = " OR ".join(
        f"{n} IS NULL" for n in re.findall(r"\w+", expression) if n in names - {"model"}
    )
    return {i for (i,) in database.all(f"SELECT i FROM t WHERE {used}")} if used else set()


def check_scalars(database: Database, expressions: list[str]) -> None:
    source = "(SELECT t.*, model FROM t LEFT JOIN models m ON m.k = t.k)"
    for expression in expressions:
        one = f"SELECT {expression} FROM {source} AS u"
        together = database.all(f"SELECT i, {expression} FROM {source} AS u ORDER BY i")
        missing = missing_of(database, expression)
        for i, found in together:
            if i in missing:
                assert found is None, (expression, i, found)
            alone = database.all(f"{one} WHERE i = {i}")[0][0]
            assert equal(found, alone), (expression, i, found, alone)


def check_aggregates(database: Database) -> None:
    """What a NULL leaves out counts nowhere."""
    for call in METRICS:
        whole = database.all(f"SELECT {call} FROM t")[0][0]
        names = call.split("(")[1].rstrip(")").split(", ")
        known = " AND ".join(f"{name} IS NOT NULL" for name in names)
        assert equal(whole, database.all(f"SELECT {call} FROM t WHERE {known}")[0][0]), call
    for call in MODEL:
        fields = "(m).coef, (m).intercept, (m).std_err, (m).n_rows, (m).n_skipped"
        needed = COMPLETE if "sparse" in call else COMPLETE.split(" AND id1", maxsplit=1)[0]
        label = call.split(", ")[1]
        needed = " AND ".join(
            c for c in needed.split(" AND ") if c[0] in "xi" or c.startswith(f"{label} ")
        )
        whole = database.all(f"SELECT {fields} FROM (SELECT {call} AS m FROM t) AS u")[0]
        kept = database.all(
            f"SELECT {fields} FROM (SELECT {call} AS m FROM t WHERE {needed}) AS u"
        )[0]
        assert whole[:4] == kept[:4], call
        assert (whole[3] + whole[4], kept[4]) == (N, 0), call


few = settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@few
@given(seed=st.integers(0, 2**32))
def test_of_duckdb(here: Database, seed: int) -> None:
    here.fill(seed)
    check_scalars(here, SCALARS + OF_DUCKDB)
    check_aggregates(here)


@few
@given(seed=st.integers(0, 2**32))
def test_of_postgres(there: Database, seed: int) -> None:
    there.fill(seed)
    check_scalars(there, SCALARS + OF_POSTGRES)
    check_aggregates(there)


SUMMARY = """
SELECT g, train_model('linear', 3 * i + i * 7919 % 13, ARRAY[i, i % 7], CASE WHEN g % 2 = 1 THEN '{"l2": 100}' ELSE '{}' END) AS model
FROM generate_series(0, 99) AS a(i), generate_series(0, 299) AS b(g) GROUP BY g"""


@pytest.mark.parametrize("name", ["here", "there"])
def test_a_p_value_has_its_standard_error(name: str, request: pytest.FixtureRequest) -> None:
    database = request.getfixturevalue(name)
    database.all("CREATE TEMP TABLE fits AS " + SUMMARY + " " if name == "here" else "SELECT 1")
    if name == "there":
        database.connection.execute("CREATE TEMP TABLE fits AS " + SUMMARY)
    if name == "here":  # a macro of a table takes one model
        database.connection.execute(
            "CREATE TEMP TABLE said (g integer, std_err double, p_value double)"
        )
        sql = "INSERT INTO said SELECT s.g, s.e, _tusk_p_value(s.t / s.e, 97.0) FROM (SELECT g, unnest(model.coef) AS t, unnest(coalesce(model.std_err[2:], [NULL, NULL])) AS e FROM fits) AS s"
        database.connection.execute(sql)
    else:
        database.connection.execute(
            "CREATE TEMP TABLE said AS SELECT g, s.std_err, s.p_value FROM fits, model_summary(model) AS s"
        )
    counts = database.all(
        "SELECT g % 2, count(*), count(std_err), count(p_value) FROM said GROUP BY 1 ORDER BY 1"
    )
    penalised, plain = counts[1], counts[0]
    assert penalised[2:] == (0, 0)
    assert plain[1] == plain[2] == plain[3]
