"""The metrics: PostgreSQL says what DuckDB says, by workers and windows too."""

import math
import re

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parity import PARALLEL, ask_duckdb, ask_postgres, check, relaxed, same, sentence, value

import tuskml

METRICS = [
    "log_loss",
    "auc",
    "accuracy",
    "rmse",
    "mae",
    "r2",
    "brier",
    "average_precision",
    "mape",
]


@pytest.fixture(scope="module")
def duck():
    with tuskml.connect(threads=1) as connection:
        yield connection


label = st.sampled_from([0.0, 1.0])
any_label = label | st.sampled_from([-1.0, 2.5, 1e9])
score = st.floats(0, 1) | st.sampled_from([0.0, -0.0, 0.5, 1.0, 1e-300])
any_score = score | st.sampled_from([-3.5, math.inf, -math.inf, 1e200])


def rows_of(labels, scores):
    row = st.tuples(st.none() | labels, st.none() | scores)
    return st.lists(row, max_size=40).map(lambda rows: tuple(zip(*rows, strict=True)) or ((), ()))


@relaxed
@given(st.sampled_from(METRICS), rows_of(label, score) | rows_of(any_label, any_score))
def test_metrics_as_in_duckdb(pg, duck, name, rows):
    y, p = map(list, rows)
    found = ask_postgres(
        pg,
        f"{name}(y, p) FROM unnest(%(y)s::float8[], %(p)s::float8[]) AS t (y, p)",
        {"y": y, "p": p},
    )
    unnested = "(SELECT unnest($y::DOUBLE[]) AS y, unnest($p::DOUBLE[]) AS p)"
    expected = ask_duckdb(duck, f"{name}(y, p) FROM {unnested}", {"y": y, "p": p})
    if found != expected and isinstance(expected, float) and math.isfinite(expected):
        assert found == pytest.approx(expected, rel=1e-13)
    else:
        assert same(found, expected), (found, expected)


@pytest.fixture(scope="module")
def scored(pg):
    """Rows in groups, with ties and NULLs, large enough for parallel workers."""
    pg.execute("""
        CREATE TABLE scored AS
        SELECT i, i % 17 AS g, z > 0.3 AS b, CASE WHEN z > 0.3 THEN 1 ELSE 0 END AS y,
               CASE i % 10 WHEN 0 THEN NULL ELSE round((z + sin(i))::numeric, 2) / 5 + 0.5 END AS p
        FROM (SELECT i, sin(i::float8 * i) AS z FROM generate_series(1, 60000) AS i) AS t""")
    pg.execute("ANALYZE scored")


ALL_METRICS = """
    log_loss(b, p), auc(b, p), accuracy(b, p > 0.5), rmse(y, p), mae(y, p), r2(y, p),
    log_loss(y, p), auc(y, p), accuracy(y, p > 0.5), rmse(b, p), mae(b, p), r2(b, p),
    accuracy(y, (p > 0.5)::int), accuracy(b, (p > 0.5)::int), auc(b, p) FILTER (WHERE i % 3 = 0),
    brier(b, p), average_precision(b, p), mape(y, p), pinball(y, p, 0.9),
    poisson_deviance(y, abs(p) + 1), gamma_deviance(y + 1, abs(p) + 1)"""


def test_types_of_labels(pg, scored):
    row = pg.execute(f"SELECT {ALL_METRICS} FROM scored").fetchone()
    assert row[:6] == row[6:12]
    assert row[12] == row[13] == row[2]
    for kind in ("smallint", "bigint", "real", "numeric", "float8"):
        query = f"SELECT auc(y::{kind}, p::{'real' if kind == 'real' else 'float8'}) FROM scored"
        assert value(pg, query) == pytest.approx(row[1], abs=1e-12)


@pytest.mark.sample(1)
@pytest.mark.parametrize("grouping", ["", "GROUP BY g"])
def test_parallel_workers_say_the_same(connect, scored, grouping):
    session = connect()
    query = f"SELECT min(g), {ALL_METRICS} FROM scored {grouping} ORDER BY 1"
    session.execute("SET max_parallel_workers_per_gather = 0")
    serial = session.execute(query).fetchall()
    session.execute(PARALLEL)
    plan = "\n".join(line for (line,) in session.execute(f"EXPLAIN {query}"))
    assert re.search(r"Partial \w*Aggregate", plan)
    parallel = session.execute(query).fetchall()
    for found, expected in zip(parallel, serial, strict=True):
        assert found == pytest.approx(expected, rel=1e-11)


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(
    "frame", ["", "ROWS BETWEEN 300 PRECEDING AND CURRENT ROW", "RANGE UNBOUNDED PRECEDING"]
)
def test_window(pg, scored, name, frame):
    query = f"""
        SELECT * FROM (
            SELECT i, {name}(y, p) OVER (PARTITION BY g ORDER BY i {frame}) FROM scored
            WHERE i <= 9000 AND g < 2) t
        WHERE i % 100 < 3"""
    for i, found in pg.execute(query):
        low = i - 300 * 17 if frame.startswith("ROWS") else 0
        plain = f"SELECT {name}(y, p) FROM scored WHERE i BETWEEN %s AND %s AND g = %s"
        expected = value(pg, plain, low, i, i % 17)
        check(found, expected)


def test_distinct_order_and_sets(pg, scored):
    query = "SELECT {}(y, p{}) FROM scored WHERE i < 3000"
    for name in METRICS:
        plain = value(pg, query.format(name, ""))
        assert value(pg, query.format(name, " ORDER BY i DESC")) == pytest.approx(plain)
    assert value(pg, "SELECT mae(DISTINCT y, 0.25::float8) FROM scored") == 0.5
    rows = pg.execute("SELECT g, auc(b, p) FROM scored GROUP BY ROLLUP (g)").fetchall()
    assert len(rows) == 18
    assert dict(rows)[None] == value(pg, "SELECT auc(b, p) FROM scored")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("log_loss(i, 0.5)", "log_loss: label is 2, expected a boolean, 0 or 1, or -1 or +1"),
        (
            "log_loss(i - 2, 0.5)",
            "log_loss: label holds both 0 and -1, expected a boolean, 0 or 1, or -1 or +1",
        ),
        ("log_loss(1, i)", "log_loss: p is 2, expected a probability between 0 and 1"),
        ("log_loss(1, 'NaN'::real)", "log_loss: p is nan, expected a probability between 0 and 1"),
        ("auc(i, i)", "auc: label takes a third value 3 after 1 and 2, expected two"),
        ("auc(i, 'NaN'::numeric)", "auc: score is NaN, expected a number"),
        ("auc('NaN'::float8, i)", "auc: label is NaN, expected a number"),
    ],
)
def test_bad_rows(pg, expression, text):
    with pytest.raises(psycopg.Error) as raised:
        pg.execute(f"SELECT {expression} FROM generate_series(1, 3) AS i")
    assert (raised.value.sqlstate, sentence(raised.value)) == ("22023", text)
    assert value(pg, "SELECT 1") == 1


def test_labels_that_only_the_workers_together_refuse(connect):
    session = connect()
    session.execute(
        "CREATE TABLE codings AS SELECT -(i / 50000) AS y FROM generate_series(0, 99999) i"
    )
    session.execute(PARALLEL)
    with pytest.raises(psycopg.Error, match="log_loss: label holds both 0 and -1"):
        session.execute("SELECT log_loss(y, 0.5) FROM codings")
