"""Where results are kept: tables that are replaced or not, Parquet and CSV files, files that are made."""

# ruff: noqa: E501, SQL is read better on one line

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tuskml
from tuskml import DataError, OptionError, registry
from tuskml.commands.cli import main

TRAIN = ["--task", "linear", "--source", "rides", "--label", "fare", "--features", "km"]
GIVEN: dict[str, Any] = {"source": "rides", "label": "fare", "features": ["km"]}


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def rides(request: pytest.FixtureRequest, make_place: Callable[[str], Any]) -> Any:
    place = make_place(request.param)
    place.sql(
        "CREATE TABLE named AS SELECT km, fare, CASE km WHEN 1 THEN NULL WHEN 2 THEN '' WHEN 3 THEN 'a,\"b' ELSE 'x' END AS word, km > 4 AS far, DATE '2013-01-01' AS day FROM rides WHERE city = 0"
    )
    return place


def test_a_table_is_replaced_only_on_request(rides: Any) -> None:
    con = rides.connection
    assert tuskml.train(con, "linear", **GIVEN, group_by="city", into="fitted") == 3
    with pytest.raises(
        DataError,
        match=r"the table fitted already exists: give into another name, or replace=True",
    ):
        tuskml.train(con, "linear", **GIVEN, into="fitted")
    assert rides.sql("SELECT count(*) FROM fitted") == [(3,)]
    assert tuskml.train(con, "linear", **GIVEN, into="fitted", replace=True) == 1
    assert rides.sql("SELECT count(*) FROM fitted") == [(1,)]
    assert tuskml.train(con, "linear", **GIVEN, into="fresh", replace=True) == 1, (
        "nothing to replace"
    )


def test_a_temporary_table_of_duckdb() -> None:
    with tuskml.connect() as con:
        con.execute("CREATE TABLE rides AS SELECT i AS km, 2 * i AS fare FROM range(9) t(i)")
        for replace in (False, True):
            tuskml.train(con, "linear", **GIVEN, into="temp.fitted", replace=replace)
        query = "SELECT temporary FROM duckdb_tables() WHERE table_name = 'fitted'"
        assert con.execute(query).fetchall() == [(True,)]


def test_what_fails_replaces_nothing(rides: Any) -> None:
    con = rides.connection
    tuskml.train(con, "linear", **GIVEN, into="kept", replace=True)
    wrong = (
        GIVEN | {"features": ["1 / (km - km)"]}
        if rides.kind == "postgres"
        else GIVEN | {"features": ["'nan'::double + km"], "invalid": "error"}
    )
    with pytest.raises(DataError):
        tuskml.train(con, "linear", **wrong, into="kept", replace=True)
    assert rides.sql("SELECT (model).coef[1] > 0 FROM kept") == [(True,)]


def test_a_table_may_be_replaced_by_what_is_made_of_it(rides: Any) -> None:
    con = rides.connection
    model = tuskml.train(con, "linear", **GIVEN)
    tuskml.predict(con, model, source="SELECT km, fare FROM rides", into="scored", replace=True)
    n = tuskml.predict(con, model, source="scored", columns="km", into="scored", replace=True)
    assert n == 90
    assert len(rides.sql("SELECT * FROM scored LIMIT 1")[0]) == 2


def test_another_schema_s_table_stays(rides: Any) -> None:
    con, usual = rides.connection, "main" if rides.kind == "duckdb" else "public"
    path = f"'first,{usual}'" if rides.kind == "duckdb" else f"first, {usual}"
    con.execute(
        f"CREATE TABLE {usual}.mine AS SELECT 1 AS one; CREATE SCHEMA first; SET search_path = {path}"
    )
    try:
        tuskml.train(con, "linear", **GIVEN, into="mine", replace=True)
        assert rides.sql(f"SELECT one FROM {usual}.mine") == [(1,)]
        assert rides.sql("SELECT count((model).task) FROM first.mine") == [(1,)]
    finally:
        con.execute("RESET search_path")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_predictions_go_to_files(rides: Any, ending: str, tmp_path: Path, capsys) -> None:
    """DuckDB reads them back: the rows, their types and what is NULL are those of the table."""
    model = tuskml.train(rides.connection, "linear", **GIVEN)
    path = tmp_path / f"scored.{ending}"
    assert tuskml.predict(rides.connection, model, source="named", into=path) == 30
    assert [file.name for file in tmp_path.iterdir()] == [path.name], "nothing else stays"
    with pytest.raises(DataError, match=f"the file {path} already exists"):
        tuskml.predict(rides.connection, model, source="named", into=str(path))
    if ending == "csv":
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
        assert rows[0] == ["km", "fare", "word", "far", "day", "prediction"]
        assert len(rows) == 31
        return
    assert tuskml.predict(rides.connection, model, source="named", into=path, replace=True) == 30
    with duckdb.connect() as con:
        found = con.execute(f"FROM '{path}' ORDER BY ALL").fetchall()
        types = [row[1] for row in con.execute(f"DESCRIBE FROM '{path}'").fetchall()]
    expected = tuskml.predict(rides.connection, model, source="named", returns="arrow").to_pylist()
    rows = [tuple(row.values()) for row in expected]
    assert sorted(map(repr, rows)) == sorted(map(repr, found))
    assert types[2:] == ["VARCHAR", "BOOLEAN", "DATE", "DOUBLE"]


@pytest.fixture
def address(rides: Any, tmp_path: Path) -> str:
    """What the command takes; a DuckDB file of its own, as rides is open."""
    if rides.kind != "duckdb":
        return rides.address
    path = str(tmp_path / "rides.duckdb")
    with tuskml.connect(path) as con:
        con.execute(
            "CREATE TABLE rides AS SELECT i % 3 AS city, i % 10 AS km, 3 + 2 * (i % 10) + i % 3 AS fare FROM range(90) AS t(i)"
        )
    return path


@pytest.mark.sample(1)
def test_models_by_the_command_line(address: str, capsys) -> None:
    training = ["train", address, *TRAIN, "--into", "shell_models"]
    for _ in range(2):
        assert main([*training, "--group-by", "city", "--replace"]) == 0
    assert capsys.readouterr().out == 2 * "3 models in table shell_models\n"
    assert main(training) == 1
    assert "the table shell_models already exists" in capsys.readouterr().err


@pytest.mark.sample(1)
def test_predictions_by_the_command_line(address: str, tmp_path: Path, capsys) -> None:
    training = ["train", address, *TRAIN, "--into", "city_models"]
    assert main([*training, "--group-by", "city", "--replace"]) == 0
    capsys.readouterr()
    path = tmp_path / "out.parquet"
    scoring = ["predict", address, "--models", "city_models", "--source", "rides"]
    scoring += ["--features", "km"]
    assert main([*scoring, "--into", str(path)]) == 0
    assert capsys.readouterr().out == f"90 rows in file {path}\n"
    assert main([*scoring, "--into", str(path)]) == 1
    assert main([*scoring, "--into", str(path), "--replace", "--json"]) == 0
    with duckdb.connect() as con:
        (counts,) = con.execute(f"SELECT count(*), count(prediction) FROM '{path}'").fetchall()
    assert counts == (90, 90)
    assert main([*scoring, "--into", str(tmp_path / "no" / "x.csv")]) == 1
    assert "in a folder that does not exist" in capsys.readouterr().err


def test_models_in_a_file(rides: Any, tmp_path: Path) -> None:
    path = tmp_path / "models.parquet"
    if rides.kind == "postgres":
        with pytest.raises(DataError, match="models of PostgreSQL are kept in a table"):
            tuskml.train(rides.connection, "linear", **GIVEN, into=path)
        assert not list(tmp_path.iterdir())
        return
    assert tuskml.train(rides.connection, "linear", **GIVEN, group_by="city", into=path) == 3
    read = f"SELECT * FROM '{path}'"
    by_file = tuskml.predict(
        rides.connection, read, source="rides", features="km", group_by="city", returns="numpy"
    )
    assert abs(by_file["prediction"] - by_file["fare"]).max() < 1e-6


def test_replace_without_into(rides: Any) -> None:
    with pytest.raises(OptionError, match="replace is True without into"):
        tuskml.train(rides.connection, "linear", **GIVEN, replace=True)


@pytest.mark.nightly
def test_what_writes_makes_the_file_and_what_reads_refuses_it(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    """One rule for all commands; a slip leaves no empty database behind."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as con:
        con.execute("COPY (SELECT i AS km, 2 * i AS fare FROM range(9) t(i)) TO 'rides.parquet'")
    of_file = [
        "--task",
        "linear",
        "--source",
        "rides.parquet",
        "--label",
        "fare",
        "--features",
        "km",
    ]
    for reads in (
        ["train", "no.duckdb", *of_file],
        ["models", "list", "no.duckdb"],
        ["explain", "no.duckdb", *of_file],
    ):
        assert main(reads) == 1
        assert "'no.duckdb', a file that does not exist" in capsys.readouterr().err
    assert main(["train", "typo.duckdb", *TRAIN, "--into", "models"]) == 1
    assert "source 'rides' does not exist" in capsys.readouterr().err
    assert main(["train", "new.duckdb", *of_file, "--into", "models"]) == 0
    assert main(["models", "create", "registry.duckdb"]) == 0
    (tmp_path / "wrong.sql").write_text("SELECT * FROM nothing")
    assert main(["sql", "wrong.sql", "--database", "slip.duckdb"]) == 1
    (tmp_path / "half.sql").write_text("CREATE TABLE work AS SELECT 1; SELECT * FROM nothing")
    assert main(["sql", "half.sql", "--database", "half.duckdb"]) == 1
    assert main(["sql", "half.sql", "--database", "no/such/folder.duckdb"]) == 1
    assert "a file that does not exist" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.glob("*.duckdb")) == [
        "half.duckdb",
        "new.duckdb",
        "registry.duckdb",
    ]
    assert registry.entries("registry.duckdb") == []
