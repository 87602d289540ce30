"""train_model and predict wherever SQL allows an aggregate and a scalar, and over every shape of input."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

sys.path.append(str(Path(__file__).parent))

from asking import ROWS, fetch, one


def least_squares(con: duckdb.DuckDBPyConnection, where: str = "true") -> np.ndarray:
    """Intercept, a and b by NumPy."""
    rows = con.execute(f"SELECT a, b, y FROM rows WHERE {where}").fetchnumpy()
    x = np.column_stack([np.ones(len(rows["a"])), rows["a"], rows["b"]]).astype(float)
    return np.linalg.lstsq(x, rows["y"].astype(float), rcond=None)[0]


def weights(model: dict) -> list[float]:
    return [model["intercept"], *model["coef"]]


@pytest.mark.parametrize("features", [
    "[a, b]::DOUBLE[]", "[a, b]::DOUBLE[2]", "[a, b]::FLOAT[]", "[a, b]::FLOAT[2]", "[a, b]", "array_value(a, b)",
    "[a, b]::DECIMAL(9, 6)[]", "[a, b]::DECIMAL(9, 6)[2]", "list_value(a, b)",
    "sparse([0, 1], [a, b]::DOUBLE[])", "sparse([0, 1]::BIGINT[], [a, b]::FLOAT[])",
    "sparse([1, 0, 1], [b / 2, a, b / 2]::DOUBLE[])",
])  # fmt: skip
def test_features_of_every_type(con: duckdb.DuckDBPyConnection, features: str) -> None:
    con.execute(ROWS.format(n=5000))
    model = one(con, f"SELECT train_model('linear', y, {features}) FROM rows")
    assert weights(model) == pytest.approx(least_squares(con), abs=2e-5)
    predicted, expected = fetch(
        con, f"SELECT predict(?, {features}), 3 * a - 2 * b + 1 FROM rows LIMIT 1", (model,)
    )[0]
    assert predicted == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("label", [
    "i % 2", "i % 2 = 1", "(i % 2)::TINYINT", "(i % 2)::UBIGINT", "(i % 2)::HUGEINT", "(i % 2)::FLOAT",
    "(i % 2)::DECIMAL(4, 1)", "(i % 2)::USMALLINT",
])  # fmt: skip
def test_labels_of_every_type(con: duckdb.DuckDBPyConnection, label: str) -> None:
    con.execute(ROWS.format(n=1000))
    found = one(con, f"SELECT train_model('logistic', {label}, [a, b]) FROM rows")
    usual = one(con, "SELECT train_model('logistic', (i % 2)::DOUBLE, [a, b]) FROM rows")
    assert found["classes"] == [0.0, 1.0]
    assert weights(found) == pytest.approx(weights(usual), rel=1e-9)


@pytest.mark.parametrize("features", ["[1, 2]", "[1.5, 2]", "[i, 1]", "[1.0::FLOAT, 2]"])
def test_literals(con: duckdb.DuckDBPyConnection, features: str) -> None:
    assert one(con, f"SELECT train_model('linear', 1, {features}).n_rows FROM range(3) t(i)") == 3


def test_no_rows(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE nothing (g INTEGER, y DOUBLE, x DOUBLE[])")
    assert fetch(con, "SELECT train_model('linear', y, x) FROM nothing") == [(None,)]
    assert fetch(con, "SELECT g, train_model('linear', y, x) FROM nothing GROUP BY g") == []
    assert fetch(con, "SELECT explain_training('linear', y, x) FROM nothing") == [(None,)]
    assert fetch(con, "SELECT train_model('no task', y, x) FROM nothing") == [(None,)]
    assert fetch(con, "SELECT predict(NULL, [1.0])") == [(None,)]
    assert fetch(
        con, "SELECT predict((SELECT train_model('linear', y, x) FROM nothing), [1.0])"
    ) == [(None,)]
    assert (
        fetch(con, "FROM model_summary((SELECT train_model('linear', y, x) FROM nothing))") == []
    )


def test_scan_of_parquet(con: duckdb.DuckDBPyConnection, tmp_path) -> None:
    con.execute(ROWS.format(n=20000))
    file = tmp_path / "rows.parquet"
    con.execute(
        f"COPY (SELECT *, [a, b]::FLOAT[] AS x FROM rows) TO '{file}' (ROW_GROUP_SIZE 2048)"
    )
    grouped = fetch(
        con, f"SELECT g, train_model('linear', y, x) FROM '{file}' GROUP BY g ORDER BY g"
    )
    assert len(grouped) == 7
    for g, model in grouped:
        assert weights(model) == pytest.approx(least_squares(con, f"g = {g}"), abs=2e-5)
    con.execute(
        f"COPY (SELECT g, train_model('linear', y, x) AS m FROM '{file}' GROUP BY g) TO '{tmp_path}/m.parquet'"
    )
    stored = fetch(con, f"SELECT g, m FROM '{tmp_path}/m.parquet' ORDER BY g")
    for (_, kept), (_, model) in zip(stored, grouped, strict=True):
        assert weights(kept) == pytest.approx(weights(model), abs=1e-6)
    errors = f"SELECT avg(abs(predict(m.m, r.x) - r.y)) FROM '{file}' r JOIN '{tmp_path}/m.parquet' m USING (g)"
    assert one(con, errors) < 0.1


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("where", ["true", "i % 3 = 0", "a IS NOT NULL AND b < 0.3"])
def test_many_chunks(con: duckdb.DuckDBPyConnection, threads: int, where: str) -> None:
    con.execute(f"SET threads = {threads}")
    con.execute(ROWS.format(n=100_000))
    model = one(con, f"SELECT train_model('linear', y, [a, b]) FROM rows WHERE {where}")
    assert model["n_rows"] == one(con, f"SELECT count(*) FROM rows WHERE {where}")
    assert weights(model) == pytest.approx(least_squares(con, where), abs=1e-8)
    grouped = fetch(
        con, f"SELECT g, train_model('linear', y, [a, b]) FROM rows WHERE {where} GROUP BY g"
    )
    assert sorted(g for g, _ in grouped) == list(range(7))
    for g, model in grouped:
        assert weights(model) == pytest.approx(
            least_squares(con, f"{where} AND g = {g}"), abs=1e-8
        )


def test_many_tiny_groups(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(ROWS.format(n=100_000))
    con.execute(
        "CREATE TABLE models AS SELECT i % 20000 AS g, train_model('linear', y, [b]) AS m,"
        " regr_slope(y, b) AS slope, regr_intercept(y, b) AS intercept, count(*) AS n FROM rows GROUP BY 1"
    )
    found = fetch(
        con, "SELECT count(*), count(m), sum(m.n_rows), bool_and(m.n_rows = n) FROM models"
    )
    assert found == [(20000, 20000, 100_000, True)]
    off = one(con, """SELECT max(greatest(abs(m.coef[1] - slope), abs(m.intercept - intercept)) / (1 + abs(slope)))
                      FROM models WHERE m.status = 'ok'""")  # fmt: skip
    assert off < 1e-6
    assert one(con, "SELECT count(*) FROM models WHERE m.status = 'ok'") > 15000


def test_groups_of_different_widths(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(ROWS.format(n=3000))
    sql = """SELECT g, train_model('linear', y, CASE g % 3 WHEN 0 THEN [a] WHEN 1 THEN [a, b] ELSE [b, a, a * b] END)
             FROM rows GROUP BY g ORDER BY g"""
    found = fetch(con, sql)
    assert [model["n_features"] for _, model in found] == [g % 3 + 1 for g in range(7)]
    assert [len(model["coef"]) for _, model in found] == [g % 3 + 1 for g in range(7)]


def test_options_by_group(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(ROWS.format(n=3000))
    found = fetch(con, """SELECT g, train_model('linear', y, [a, b], '{"l2": ' || g || '}') FROM rows
                          GROUP BY g ORDER BY g""")  # fmt: skip
    assert [json.loads(model["options"])["l2"] for _, model in found] == list(range(7))
    norms = [np.abs(model["coef"]).sum() for _, model in found]
    assert norms == sorted(norms, reverse=True)
    tasks = fetch(con, """SELECT g, train_model(['linear', 'logistic', 'svm'][g % 3 + 1], i % 2, [a, b], '{"l2": 1}').task
                          FROM rows GROUP BY g ORDER BY g""")  # fmt: skip
    assert [task for _, task in tasks] == [["linear", "logistic", "svm"][g % 3] for g in range(7)]


def test_parameters(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(ROWS.format(n=500))
    by_hand = one(con, """SELECT train_model('linear', y, [a, b], '{"l2": 0.5}').coef FROM rows""")
    assert (
        one(con, "SELECT train_model('linear', y, [a, b], ?).coef FROM rows", ('{"l2": 0.5}',))
        == by_hand
    )
    assert (
        one(con, "SELECT train_model(?, y, [a, b], ?).coef FROM rows", ("linear", '{"l2": 0.5}'))
        == by_hand
    )
    named = {"task": "linear", "options": '{"l2": 0.5}'}
    assert con.execute(
        "SELECT train_model($task, y, [a, b], $options).coef FROM rows", named
    ).fetchall() == [(by_hand,)]
    con.execute("PREPARE fit AS SELECT train_model('linear', y, [a, b], $1).coef FROM rows")
    for l2 in (0.5, 2, 0.5):
        (coef,) = con.execute(f"EXECUTE fit('{{\"l2\": {l2}}}')").fetchone()
        assert (coef == by_hand) is (l2 == 0.5)


def test_a_model_is_a_parameter(con: duckdb.DuckDBPyConnection) -> None:
    model = one(con, "SELECT train_model('linear', 2 * x + 1, [x]) FROM range(9) t(x)")
    assert one(con, "SELECT predict(?, [5.0])", (model,)) == pytest.approx(11)
    warm = json.dumps({"warm_start": model, "max_iter": 1}, default=str)
    again = one(con, "SELECT train_model('linear', 2 * x + 1, [x], ?) FROM range(9) t(x)", (warm,))
    assert again["converged"]
    assert again["iterations"] == 0
    sql = "SELECT train_model('linear', 2 * x + 1, [x], '{\"warm_start\": ' || to_json(?) || '}').iterations FROM range(9) t(x)"
    assert one(con, sql, (model,)) == 0


FRAMES = [
    "", "ORDER BY x", "PARTITION BY x % 3", "PARTITION BY x % 3 ORDER BY x",
    "ORDER BY x ROWS BETWEEN 4 PRECEDING AND CURRENT ROW", "ORDER BY x ROWS BETWEEN 1 FOLLOWING AND 30 FOLLOWING",
    "ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW",
    "ORDER BY x RANGE BETWEEN 5 PRECEDING AND 5 FOLLOWING", "ORDER BY x ROWS BETWEEN 500 PRECEDING AND 500 FOLLOWING",
]  # fmt: skip


@pytest.mark.parametrize("n", [30, 3000])
@pytest.mark.parametrize("frame", FRAMES)
def test_a_window_is_right(con: duckdb.DuckDBPyConnection, survives, frame: str, n: int) -> None:
    """DuckDB combines the states of a frame's rows again for the next frame."""
    create = f"CREATE TABLE t AS SELECT x::DOUBLE AS x, (x * 7919) % 101 AS y FROM range({n}) r(x)"
    con.execute(create)
    survives(create, f"SELECT train_model('linear', y, [x]) OVER ({frame}) FROM t")
    over = f"OVER ({frame})"
    sql = f"""SELECT m.coef[1], m.n_rows, slope, n FROM
              (SELECT train_model('linear', y, [x]) {over} AS m, regr_slope(y, x) {over} AS slope, count(*) {over} AS n FROM t)"""
    for coef, n_rows, slope, rows_in_frame in fetch(con, sql):
        assert (n_rows or 0) == rows_in_frame
        if slope is not None and not np.isnan(slope):
            assert coef == pytest.approx(slope, abs=1e-6)
    assert one(con, "SELECT train_model('linear', y, [x]).n_rows FROM t") == n


def test_shared_states_are_trained_once_each(con: duckdb.DuckDBPyConnection) -> None:
    """Subqueries, lateral joins and HAVING read each group's model once."""
    con.execute(ROWS.format(n=700))
    sql = """SELECT g, (SELECT train_model('linear', r.y, [r.a]).n_rows FROM rows r WHERE r.g = k.g) FROM range(7) k(g)"""
    assert sorted(fetch(con, sql)) == [(g, 100) for g in range(7)]
    lateral = "SELECT k.g, m.n_rows FROM range(7) k(g), LATERAL (SELECT train_model('linear', y, [a]) m FROM rows r WHERE r.g = k.g)"
    assert sorted(fetch(con, lateral)) == [(g, 100) for g in range(7)]
    having = "SELECT g FROM rows GROUP BY g HAVING train_model('linear', y, [a, b]).coef[1] > 0 ORDER BY g"
    assert fetch(con, having) == [(g,) for g in range(7)]
    cube = "SELECT count(*), sum(train_model) FROM (SELECT train_model('linear', y, [a]).n_rows AS train_model FROM rows GROUP BY CUBE (g, i % 2))"
    assert fetch(con, cube) == [(24, 2800)]


@pytest.mark.parametrize("within", ["", "GROUP BY g"])
def test_rows_in_order(con: duckdb.DuckDBPyConnection, survives, within: str) -> None:
    sql = f"SELECT sum(n) FROM (SELECT train_model('linear', y, [a, b] ORDER BY i DESC).n_rows AS n FROM rows {within})"
    survives(ROWS.format(n=700), sql)
    con.execute(ROWS.format(n=700))
    assert fetch(con, sql) == [(700,)]


CALLS = ("auc(y, p)", "log_loss(y, p)", "accuracy(y, y)", "rmse(y, p)", "mae(y, p)", "r2(y, p)", "brier(y, p)", "lift(y, p)", "confusion(y, p > 0.5)", "f1_score(y, y)", "explain_training('linear', y, [p])")  # fmt: skip


@pytest.mark.parametrize("n", [2, 3, 700, 5000])
@pytest.mark.parametrize("call", CALLS)
def test_one_state_for_all_rows(
    con: duckdb.DuckDBPyConnection, survives, call: str, n: int
) -> None:
    """OVER () and ORDER BY among the arguments, for which DuckDB 1.x gives no array of states."""
    create = f"CREATE TABLE scored AS SELECT i, i % 2 AS y, (i * 7919) % 101 / 101 AS p FROM range({n}) r(i)"
    con.execute(create)
    plain = one(con, f"SELECT {call} FROM scored")
    for sql in (
        f"SELECT DISTINCT {call} OVER () FROM scored",
        f"SELECT {call.replace(')', ' ORDER BY i DESC)')} FROM scored",
    ):
        survives(create, sql)
        value = one(con, sql)
        assert value == (pytest.approx(plain) if isinstance(plain, float) else plain)


@pytest.mark.parametrize("n", [2, 3, 4, 8, 17])
def test_many_windows_over_few_rows(con: duckdb.DuckDBPyConnection, n: int) -> None:
    """Where DuckDB keeps the windows' states side by side, none takes the rows of another."""
    con.execute(f"CREATE TABLE t AS SELECT i FROM range({n}) r(i)")
    for windows in (1, 2, 3, 6, 12):
        wanted = [float(k + 1) for k in range(windows)]
        over = ", ".join(f"train_model('linear', 3 * i + {b}, [i]) OVER ()" for b in wanted)
        (row, *others) = fetch(con, f"SELECT {over} FROM t")
        assert [m["intercept"] for m in row] == pytest.approx(wanted, abs=1e-5)
        assert [m["n_rows"] for m in row] == [n] * windows
        assert others == [row] * (n - 1)


def test_arrow_and_pandas(con: duckdb.DuckDBPyConnection) -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"y": rng.normal(size=500), "x": list(rng.normal(size=(500, 3)))})
    x = np.column_stack([np.ones(500), np.stack(frame["x"])])
    expected = np.linalg.lstsq(x, frame["y"], rcond=None)[0]
    for name, rows in (("frame", frame), ("arrow", pa.Table.from_pandas(frame))):
        con.register(name, rows)
        model = one(con, f"SELECT train_model('linear', y, x) FROM {name}")
        assert weights(model) == pytest.approx(expected, abs=1e-9)


@pytest.mark.nightly
def test_wide_rows(con: duckdb.DuckDBPyConnection) -> None:
    """A row larger than the pieces that rows are packed into."""
    wide = "list_transform(range(300000), lambda j: ((i + 1) * j % 17)::FLOAT)"
    model = one(
        con, f"SELECT train_model('linear', i, {wide}, '{{\"max_iter\": 1}}') FROM range(3) t(i)"
    )
    assert (model["n_rows"], model["n_features"], len(model["coef"])) == (3, 300000, 300000)
    with pytest.raises(duckdb.Error, match="has 1000001 features, at most 1000000 are allowed"):
        con.execute(
            "SELECT train_model('linear', 1, range(1000001)::FLOAT[], '{\"invalid\": \"error\"}')"
        ).fetchall()
