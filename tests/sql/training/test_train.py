"""DuckDB's `train(...)`: what a source and features may be, and that there is one statement."""

import re
from pathlib import Path

import duckdb
import pytest

import tuskml.sql

ARROW = r"->>?\s*'[^']*'\s*(\S+)"
"""What follows the right side of an arrow."""


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


def test_arrows_of_json_are_on_their_own() -> None:
    """DuckDB 1.5 and earlier read a ->> 'b' = c as a ->> ('b' = c), and later ones do not."""
    folder = Path(tuskml.sql.__file__).parent / "duckdb"
    texts = {path.name: path.read_text() for path in folder.glob("*.sql")}
    arrows = [(name, at[1]) for name, text in texts.items() for at in re.finditer(ARROW, text)]
    assert arrows
    assert not [at for at in arrows if not re.match(r"[,)\]]|(WHEN|THEN|ELSE|END)\b", at[1])]
