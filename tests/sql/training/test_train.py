"""DuckDB's `train(...)`: what a source and features may be, and that there is one statement."""

from pathlib import Path

import duckdb
import pytest


@pytest.fixture
def rows(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(
        "CREATE TABLE rows AS SELECT i AS x, i * 7 % 10 AS z, 2 * x + z AS y, [x, z] AS f "
        "FROM range(100) t(i)"
    )
    return con


@pytest.mark.parametrize(
    "source", ["rows", "SELECT * FROM rows", "(FROM rows)", "main.rows -- all"]
)
@pytest.mark.parametrize("features", ["['x', 'z']", "'f'", "'[x, z]'", "['x', 'greatest(z, 0)']"])
def test_the_model_is_that_of_the_aggregate(rows, source: str, features: str) -> None:
    found = rows.execute(
        f"SELECT coef, status, n_rows FROM train('{source}', 'linear', 'y', {features})"
    ).fetchall()
    assert found == [(pytest.approx([2, 1]), "ok", 100)]


def test_the_whole_row_is_a_model(rows) -> None:
    query = "SELECT predict(model, [3, 4]) FROM train('rows', 'linear', 'y', ['x', 'z']) AS model"
    assert rows.execute(query).fetchone() == (pytest.approx(10),)


def test_options_and_files(rows, tmp_path: Path) -> None:
    path = str(tmp_path / "it's.parquet").replace("'", "''")
    rows.execute(f"COPY rows TO '{path}'")
    source = "''" + path.replace("'", "''") + "''"
    given = f"'{source}', 'linear', 'y', ['x'], options := '{{\"l2\": 0.5}}'"
    (options,) = rows.execute(f"SELECT options FROM train({given})").fetchone()
    assert '"l2":0.5' in options


@pytest.mark.parametrize(
    "arguments",
    [
        "'rows; DROP TABLE rows', 'linear', 'y', ['x']",
        "'rows', 'linear', 'y, [x]) FROM rows; DROP TABLE rows; --', ['x']",
        "'rows', 'linear', 'y', ['x])); DROP TABLE rows; --']",
        "'rows', 'linear'', y, [x]) FROM rows; --', 'y', ['x']",
        "'rows', 'linear', 'y', ['x'], options := ''') FROM rows; DROP TABLE rows; --'",
    ],
)
def test_there_is_no_second_statement(rows, arguments: str) -> None:
    with pytest.raises(duckdb.Error):
        rows.execute(f"SELECT * FROM train({arguments})").fetchall()
    assert rows.execute("SELECT count(*) FROM rows").fetchone() == (100,)
