"""Columns, keys and tables of any name, and calls that are seldom made: right, or a sentence."""

# ruff: noqa: E501, SQL is read better on one line

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tuskml
from tuskml import DataError, Model, TuskError, registry
from tuskml.commands.cli import main
from tuskml.databases.duckdb import DuckDB

NAMES = [
    "it's",
    "a,b",
    "b;c",
    "(",
    "a b",
    'say "hi"',
    '"quoted"',
    "select",
    "größe",
    "100%",
    "x AS y",
    "日本",
    "--",
    "Miles",
]
SERIES = {"duckdb": "range(60)", "postgres": "generate_series(0, 59)"}


def sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def odd(request: pytest.FixtureRequest, make_place: Callable[[str], Any]) -> Any:
    place = make_place(request.param)
    columns = ", ".join(f"i % {2 + k % 5} AS {sql_name(name)}" for k, name in enumerate(NAMES))
    place.sql(
        f"CREATE TABLE odd AS SELECT {columns}, 3 * i AS y FROM {SERIES[place.kind]} AS t(i)"
    )
    return place


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", NAMES)
def test_a_column_of_any_name_in_a_list(odd: Any, name: str) -> None:
    """The same numbers as of the same column with a plain name."""
    given: dict[str, Any] = {"label": "y", "l2": 0.1}
    found = tuskml.train(odd.connection, "linear", source="odd", features=[name], **given)
    plain = f"SELECT {sql_name(name)} AS plain, y FROM odd"
    truth = tuskml.train(odd.connection, "linear", source=plain, features="plain", **given)
    assert (found.coef, found.intercept) == (truth.coef, truth.intercept)
    assert found.features == (name,)
    rows = tuskml.predict(odd.connection, found, source="odd", columns=[name], returns="numpy")
    assert list(rows) == [name, "prediction"]
    assert tuskml.evaluate(odd.connection, found, source="odd")["n_rows"] == 60


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", NAMES)
def test_a_key_of_any_name(odd: Any, name: str) -> None:
    """The table of models has a column of the key's name, which predict finds."""
    for given in ([name], sql_name(name)):
        count = tuskml.train(
            odd.connection, "linear", source="odd", label="y", features=["Miles"], group_by=given, into="odd_models", replace=True,
        )  # fmt: skip
        assert count == 2 + NAMES.index(name) % 5
        assert odd.sql(f"SELECT count({sql_name(name)}) FROM odd_models") == [(count,)]
        rows = tuskml.predict(
            odd.connection,
            "odd_models",
            source="odd",
            features=["Miles"],
            group_by=[name],
            returns="numpy",
        )
        assert len(rows["prediction"]) == 60


def test_a_key_that_is_called_as_the_models(odd: Any) -> None:
    """The table would have two columns of one name."""
    given: dict[str, Any] = {"source": "odd", "label": "y", "features": "Miles"}
    for key in ("Miles AS model", '"a b" AS "Model"'):
        with pytest.raises(
            DataError,
            match=r"group_by names a key '[mM]odel', as the column of the models is called: .*AS",
        ):
            tuskml.train(odd.connection, "linear", **given, group_by=[key], into="two_columns")
    with pytest.raises(DataError, match="group_by names the key 'Miles' twice"):
        tuskml.train(
            odd.connection, "linear", **given, group_by=["Miles", "miles"], into="two_columns"
        )
    assert len(tuskml.train(odd.connection, "linear", **given, group_by="Miles AS model")) == 5


def test_features_of_a_model_are_checked(odd: Any) -> None:
    """A model may come from elsewhere: what it says of its features is no SQL that just runs."""
    model = tuskml.train(odd.connection, "linear", source="odd", label="y", features=["Miles"])
    inside = replace(model, features=("1) AS tusk_0 FROM odd; DROP TABLE odd; --",))
    for call in (tuskml.predict, tuskml.evaluate):
        with pytest.raises(DataError, match=r"features is .*which closes a '\)' that is not open"):
            call(odd.connection, inside, source="odd")
        for other in (replace(model, label="y); DROP TABLE odd; --"),):
            with pytest.raises(
                DataError, match=r"label is .*which closes a '\)' that is not open"
            ):
                tuskml.evaluate(odd.connection, other, source="odd")
    assert odd.sql("SELECT count(*) FROM odd") == [(60,)]


def test_a_table_without_models(odd: Any) -> None:
    tuskml.train(odd.connection, "linear", source="SELECT * FROM odd WHERE y < 0", label="y", features=["Miles"], group_by=["select"], into="no_models")  # fmt: skip
    with pytest.raises(DataError, match="no_models has no model, expected at least one"):
        tuskml.predict(
            odd.connection, "no_models", source="odd", features=["Miles"], group_by=["select"]
        )


LONG = "x" * 100_000
OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "a long feature": ({"features": [LONG]}, "features names column 'xxx.*\\.\\.\\.', which"),
    "a long label": ({"label": f"{LONG} "}, "label names column 'xxx"),
    "a long expression": ({"features": [f"{LONG} + 1"]}, "xxx"),
    "a long source": ({"source": LONG}, "source 'xxx.*\\.\\.\\.' does not exist"),
    "a long open quote": ({"features": [f"'{LONG}"]}, "whose quote ' stays open"),
    "half a character": ({"features": ["Miles\ud800"]}, "features.*not valid text"),
    "half a character in the label": ({"label": "y\udfff"}, "label.*not valid text"),
    "half a character in the key": ({"group_by": "Miles\udfff"}, "group_by.*not valid text"),
    "half a character in the source": ({"source": "odd\ud800"}, "source.*not valid text"),
    "half a character in the table": ({"into": "t\ud800"}, "into.*not valid text"),
    "half a character in the file": ({"into": "t\ud800.parquet"}, "into.*not valid text"),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERS)
def test_unusual_text(odd: Any, what: str) -> None:
    given, sentence = OTHERS[what]
    arguments = {"source": "odd", "label": "y", "features": ["Miles"], **given}
    with pytest.raises(DataError, match=sentence) as raised:
        tuskml.train(odd.connection, "linear", **arguments)
    assert len(str(raised.value)) < 1000
    assert odd.sql("SELECT count(*) FROM odd") == [(60,)]


def test_an_argument_by_place_and_by_name(odd: Any) -> None:
    with pytest.raises(
        tuskml.OptionError, match=r"train got connection twice, by place and by name: train\("
    ):
        tuskml.train(
            odd.connection,
            "linear",
            connection=odd.connection,
            source="odd",
            label="y",
            features="Miles",
        )


def test_what_is_no_database(tmp_path: Path) -> None:
    given: dict[str, Any] = {"source": "t", "label": "y", "features": "x"}
    text = tmp_path / "text.duckdb"
    text.write_text("no database " * 1000)
    for path, sentence in ((tmp_path, "Is a directory"), (text, "not a valid DuckDB database")):
        with pytest.raises(DataError, match=sentence) as raised:
            tuskml.train(path, "linear", **given)
        assert "\n" not in str(raised.value)


def test_only_an_interrupt_is_told_as_one(con: duckdb.DuckDBPyConnection) -> None:
    """DuckDB's client raises a RuntimeError for a Ctrl-C, and for other things too."""

    def fails(_: object) -> None:
        raise RuntimeError("std::bad_cast")

    with pytest.raises(TuskError, match="std::bad_cast"):
        DuckDB(con).attempt(fails)


def test_a_csv_file(tmp_path: Path, con: duckdb.DuckDBPyConnection) -> None:
    """By its name as text DuckDB reads it; as a path it is no Parquet file, which is said."""
    file = tmp_path / "a.b" / "it's.csv"
    file.parent.mkdir()
    file.write_text("x,y\n1,2\n2,4\n3,6\n")
    given: dict[str, Any] = {"label": "y", "features": "x"}
    query = f"FROM '{str(file).replace(chr(39), chr(39) * 2)}'"
    assert tuskml.train(con, "linear", source=query, **given).coef == pytest.approx([2])
    for source in (file, [file]):
        with pytest.raises(
            DataError,
            match=r"expected Parquet files; other files are read by a query, FROM '.*it''s.csv'",
        ):
            tuskml.train(con, "linear", source=source, **given)


def test_a_file_in_the_place_of_a_folder(odd: Any, tmp_path: Path) -> None:
    (tmp_path / "out.csv").mkdir()
    model = tuskml.train(odd.connection, "linear", source="odd", label="y", features=["Miles"])
    for may, sentence in (
        (True, "cannot be written: Is a directory"),
        (False, "already exists"),
    ):
        with pytest.raises(DataError, match=sentence):
            tuskml.predict(
                odd.connection, model, source="odd", into=tmp_path / "out.csv", replace=may
            )
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_a_link_is_not_followed(odd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may write in the folder cannot choose what else is written: no name can be foreseen."""
    seen = []
    real = Path.with_name
    monkeypatch.setattr(
        Path, "with_name", lambda self, name: seen.append(name) or real(self, name)
    )
    model = tuskml.train(odd.connection, "linear", source="odd", label="y", features=["Miles"])
    for _ in range(2):
        tuskml.predict(
            odd.connection,
            model,
            source="odd",
            columns=["y"],
            into=tmp_path / "o.csv",
            replace=True,
        )
        model.save(tmp_path / "o.json")
    partial = [name for name in seen if name.startswith(".")]
    assert len(partial) == len(set(partial)) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "o.json"]
    assert Model.load(tmp_path / "o.json").coef == model.coef


STATEMENTS = [
    "CREATE MACRO twice(x) AS 2 * x",
    "CREATE TYPE mood AS ENUM ('a')",
    "CREATE SEQUENCE numbers",
    "CREATE VIEW v AS SELECT 1",
]


@pytest.mark.sample(1)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_new_file_that_holds_something_stays(statement: str, tmp_path: Path) -> None:
    """A script that fails later has made what it made."""
    file = tmp_path / "new.duckdb"
    assert main(["sql", "-c", f"{statement}; SELECT nosuch()", "--database", str(file)]) == 1
    assert file.exists()
    file.unlink()
    assert main(["sql", "-c", "SELECT nosuch()", "--database", str(file)]) == 1
    assert not file.exists()


def test_unusual_arguments_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE t AS SELECT i AS x, 2 * i AS y FROM range(9) t(i)")
    train = [
        "train",
        str(file),
        "--task",
        "linear",
        "--source",
        "t",
        "--label",
        "y",
        "--features",
        "x",
    ]
    assert main([*train, "--l2", "[" * 50_000]) == 1
    assert "option 'l2' is" in (told := capsys.readouterr().err)
    assert len(told) < 1000
    script = tmp_path / "script.sql"
    script.write_bytes(b"SELECT '\xff'")
    assert main(["sql", str(script)]) == 1
    assert "script.sql is not text in UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("function", ["predict", "decision"])
def test_a_model_and_features_one_by_one(function: str, con: duckdb.DuckDBPyConnection) -> None:
    """With a registry, too, the sentence names the function that was called."""
    registry.create(con)
    con.execute(
        "CREATE TABLE m AS SELECT train_model('linear', i, [i]) AS model FROM range(9) t(i)"
    )
    tuskml.load(con)
    with pytest.raises(
        duckdb.Error, match=rf"\b{function} got a model and two .*{function}\(model, \[a, b\]\)"
    ):
        con.execute(f"SELECT {function}(model, 1, 2) FROM m").fetchall()


KEYS = {
    "duckdb": ("[i % 2]", "{'a': i % 2}"),
    "postgres": ("ARRAY[i % 2]", "jsonb_build_object('a', i % 2)"),
}


def test_keys_that_no_dict_has(odd: Any) -> None:
    query = f"SELECT i, 2 * i AS y, {{}} AS k FROM {SERIES[odd.kind]} AS t(i)"
    for key in KEYS[odd.kind]:
        given: dict[str, Any] = {"source": query.format(key), "label": "y", "group_by": "k"}
        with pytest.raises(DataError, match=r"group_by has values of type (list|dict), .*CAST"):
            tuskml.train(odd.connection, "linear", features="i", **given)
        model = tuskml.train(odd.connection, "linear", source="odd", label="y", features=["Miles"])
        with pytest.raises(DataError, match=r"group_by has values of type (list|dict), .*CAST"):
            tuskml.evaluate(odd.connection, model, features="i", **given)
        found = tuskml.train(
            odd.connection,
            "linear",
            features="i",
            **given | {"group_by": "CAST(k AS VARCHAR) AS k"},
        )
        assert len(found) == 2


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_name_in_the_registry(odd: Any, name: Any) -> None:
    model = tuskml.train(odd.connection, "linear", source="odd", label="y", features=["Miles"])
    registry.create(odd.connection)
    with pytest.raises(DataError, match=r"name is .*, expected text of at least one character"):
        registry.register(odd.connection, name, model)


def test_a_closed_connection(cluster: Any, con: duckdb.DuckDBPyConnection) -> None:
    session = cluster.connect("postgres")
    for connection in (session, con):
        connection.close()
        with pytest.raises(DataError, match=r"[Cc]onnection (is|already) closed"):
            tuskml.train(connection, "linear", source="t", label="y", features="x")


def test_keys_that_are_alike_in_python(con: Any) -> None:
    """Times that differ by nanoseconds would be one key, and months are no days."""
    con.execute("CREATE TABLE t AS SELECT i, 2 * i AS y, i % 2 AS k FROM range(60) AS r(i)")
    given: dict[str, Any] = {"source": "t", "label": "y", "features": "i"}
    nano = "make_timestamp_ns(1577836800000000000 + k) AS at"
    for more in ({}, {"pooled": True}):
        with pytest.raises(DataError, match=r"different keys .*CAST\(key AS VARCHAR\)"):
            tuskml.train(con, "linear", **given, **more, group_by=nano)
    with pytest.raises(DataError, match=r"values of type timedelta, .*CAST\(key AS VARCHAR\)"):
        tuskml.train(con, "linear", **given, group_by="to_months(1 + k) AS long")
    one = "make_timestamp_ns(1577836800000000001) AS at"
    models = tuskml.train(con, "linear", **given, group_by=one)
    with pytest.raises(DataError, match="TIMESTAMP_NS"):
        tuskml.predict(con, models, source="t", features="i", group_by=one)
