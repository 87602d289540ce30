"""DuckDB's `train(...)` by row group: what one statement reads, and that it is the same model."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tuskml
from tuskml.databases.connection import rows_read
from tuskml.databases.duckdb_row_groups import ALIAS, DuckRowGroups, Place
from tuskml.learners.linear.streamed import rounds, skipping
from tuskml.learners.row_groups import Piece, Storage

ROWS = 1_500_000
MADE = f"""
SELECT *, noise < 1 / (1 + exp(-(2 * (x0 - 1) + x1 / 5 - 0.3))) AS late, noise < 0.003 AS rare
FROM (SELECT i, (hash(i) % 10000) / 5000 AS x0, (hash(-i) % 10000) / 500 - 10 AS x1,
             (hash(i * 3 + 2) % 10000) / 10000 AS noise
      FROM range({ROWS}) t(i))
"""
SGD = {"algorithm": "sgd", "epsilon": 0.02}
ROW = "file_row_number"
ASKING = 1
"""The row of the call that asks for the finished model."""
DEVIATION = (0.577, 5.77)
"""Of x0 and x1: uniform over 2 and 20."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """A table of 13 row groups, and a file of 74."""
    with tuskml.connect() as con:
        con.execute(f"CREATE TABLE flights AS {MADE}")
        path = tmp_path_factory.mktemp("rows") / "flights.parquet"
        con.execute(f"COPY flights TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 20480)")
        con.execute(f"CREATE TABLE file AS SELECT '{path}' AS path")
        yield con


def train(con: Any, source: str = "flights", label: str = "late", **options: Any) -> dict:
    """The model of x0 and x1, and in `packed` the rows that the extension has packed for it."""
    before = rows_read()
    text = json.dumps(options).replace("'", "''") if options else ""
    given = f"'{source}', 'logistic', '{label}', ['x0', 'x1'], options := '{text}'"
    found = con.execute(f"SELECT * FROM train({given})")
    names = [column[0] for column in found.description]
    (row,) = found.fetchall()
    return dict(zip(names, row, strict=True)) | {"packed": rows_read() - before}


def of_file(con: duckdb.DuckDBPyConnection) -> str:
    return f"''{con.execute('FROM file').fetchall()[0][0]}''"


def check_near(model: dict, whole: dict, epsilon: float) -> None:
    """In units of deviations the curvature is 0.15 at least: epsilon moves a weight 7 times it."""
    for a, b, s in zip(model["coef"], whole["coef"], DEVIATION, strict=True):
        assert abs(a - b) * s < 7 * epsilon


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["table", "file"])
def test_a_part_of_the_rows_is_read(made, kind: str) -> None:
    source = "flights" if kind == "table" else of_file(made)
    model, whole = train(made, source, **SGD), train(made, source)
    counters = json.loads(model["options"])["counters"]
    assert (model["status"], model["converged"]) == ("ok", True)
    assert model["packed"] - ASKING == counters["rows_read"] == model["n_rows"] < ROWS / 8
    assert counters["rows"] == ROWS
    assert counters["row_groups"] == (13 if kind == "table" else 74)
    assert "row groups" in model["plan"]
    assert whole["packed"] == whole["n_rows"] == ROWS
    check_near(model, whole, 0.02)


def test_row_groups_that_are_not_wanted_are_not_read(made) -> None:
    """Bytes that the process read from files, by the count of the system."""
    source = of_file(made)
    path = Path(source.strip("'"))

    def characters_read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    train(made, source, **SGD)  # loads what is loaded once
    before = characters_read()
    counters = json.loads(train(made, source, **SGD)["options"])["counters"]
    share = counters["row_groups_read"] / counters["row_groups"]
    assert (characters_read() - before) / path.stat().st_size < share + 0.1


@pytest.mark.nightly
def test_auto_does_it_by_itself(made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large table and a tolerance: nobody names an algorithm or a sampler."""
    assert train(made, epsilon=0.01)["n_rows"] == ROWS
    monkeypatch.setattr(skipping, "USUAL_ROWS", 300_000)
    model = train(made, epsilon=0.01)
    assert model["converged"]
    assert model["packed"] - ASKING == model["n_rows"] < ROWS / 3
    assert "row groups" in model["plan"]
    check_near(model, train(made), 0.01)


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 1e-6, "max_iter": 1},  # no sample shows so little
        {"sampler": "sequential", "max_iter": 1},
        {"validation": 0.1, "max_iter": 1},
        {"label": "rare", "max_iter": 1},  # more held-out rows than there is room for
        {"source": "SELECT * FROM flights", "max_iter": 1},
    ],
)
def test_what_needs_all_rows_reads_them(made, given: dict) -> None:
    model = train(made, **{"algorithm": "sgd"} | given)
    assert model["n_rows"] == ROWS
    assert "counters" not in model["options"]


@pytest.mark.nightly
def test_rounds_that_do_not_suffice_end_with_all_rows(made, monkeypatch) -> None:
    monkeypatch.setattr(rounds, "MOST_ROUNDS", 2)
    model = train(made, algorithm="sgd", epsilon=0, max_iter=8)
    assert model["n_rows"] == ROWS
    assert model["packed"] > ROWS


@pytest.mark.nightly
def test_the_callers_own_rows_are_read(made) -> None:
    """What the transaction has changed, and a temporary table of the same name."""
    made.execute("BEGIN; UPDATE flights SET late = true")
    assert train(made, **SGD)["status"] == "one class"
    made.execute("ROLLBACK; BEGIN; INSERT INTO flights SELECT * FROM flights LIMIT 10")
    assert train(made, max_iter=1, **SGD)["n_rows"] == ROWS + 10
    made.execute("ROLLBACK; CREATE TEMP TABLE flights AS FROM main.flights LIMIT 1000")
    try:
        assert train(made, **SGD)["n_rows"] == 1000
    finally:
        made.execute("DROP TABLE temp.flights")


def test_a_prepared_statement_runs_again(made) -> None:
    options = json.dumps(SGD)
    made.execute(
        "PREPARE again AS SELECT coef FROM train('flights', 'logistic', 'late', ['x0', 'x1'], "
        f"options := '{options}')"
    )
    first, second = (made.execute("EXECUTE again").fetchall() for _ in range(2))
    assert first == second
    made.execute("DEALLOCATE again")


def test_names_and_one_expression(made) -> None:
    options = json.dumps(SGD | {"feature_names": ["a", "b"]})
    query = (
        "SELECT features, n_rows FROM train('flights', 'logistic', 'late', {}, options := '{}')"
    )
    (named,) = made.execute(query.format("'[x0, x1]'", options)).fetchall()
    assert named[0] == ["a", "b"]
    assert named[1] < ROWS


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("late; DROP TABLE flights", 'column "late; DROP TABLE flights" not found'),
        ("missing", "missing"),
        ("i % 3", "classes"),
    ],
)
def test_errors_are_those_of_all_rows(made, label: str, message: str) -> None:
    with pytest.raises(duckdb.Error, match=message):
        train(made, label=label, **SGD)
    assert made.execute("SELECT count(*) FROM flights").fetchall() == [(ROWS,)]


def memory_of(word: str) -> int:
    """Bytes of this process, as the kernel counts them."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{word}:")[1].split()[0]) * 1024


def test_planning_makes_no_list_of_row_numbers(made, tmp_path: Path) -> None:
    """A constant range would be a list of values in the plan, 64 bytes for each row of a piece."""
    file = str(tmp_path / "rows.parquet")
    made.execute(f"COPY (SELECT i FROM range(5000) t(i)) TO '{file}' (FORMAT parquet)")
    place = Place(f"read_parquet('{file}', file_row_number = true){ALIAS}", ROW, 0, file)
    groups = DuckRowGroups(made, "i", "i", [place], Storage("parquet", (5000,), 1e4, whole=True))
    made.execute("CREATE OR REPLACE TEMP TABLE gate AS SELECT true AS is_open")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = memory_of("VmRSS")
    made.execute("EXPLAIN " + groups.rows_of(Piece(0, 0, 3_000_000), "gate", "is_open")).fetchall()
    assert memory_of("VmHWM") - before < 60e6
    query = groups.rows_of(Piece(0, 1000, 2000), "gate", "is_open")
    found = f"SELECT count(*), min(i), max(i) FROM ({query})"
    assert made.execute(found).fetchall() == [(2000, 1000, 2999)]
    made.execute("UPDATE gate SET is_open = false")
    assert made.execute(found).fetchall() == [(0, None, None)]
