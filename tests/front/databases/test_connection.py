"""connect and load: settings, macros, memory, and what they refuse."""

# ruff: noqa: E501, SQL is read better on one line

import threading

import duckdb
import pytest

import tuskml
from tuskml.databases import connection
from tuskml.databases.duckdb import DuckDB
from tuskml.udas.duckdb import extension_path

MACROS = ["sparse", "with_payload", "predict", "predict_proba", "decision", "model_summary"]
PREDICTED = "SELECT [predict(m, [4]), decision(with_payload(m), [4])] FROM (SELECT train_model('linear', 2 * x, [x]) AS m FROM range(9) t(x))"
FIT = "SELECT train_model('linear', 2 * x + 1, [x]).coef[1] FROM range(9) t(x)"


def one(con: duckdb.DuckDBPyConnection, sql: str):
    return con.execute(sql).fetchall()[0][0]


@pytest.mark.smoke
def test_first_model() -> None:
    with tuskml.connect() as con:
        assert one(con, FIT) == pytest.approx(2)
        assert one(
            con, "SELECT predict(train_model('linear', 2 * x, [x]), [4]) FROM range(9) t(x)"
        ) == pytest.approx(8)


def test_settings_are_duckdbs(tmp_path) -> None:
    with tuskml.connect(
        threads=1, memory_limit="300MB", temp_directory=tmp_path, default_order="DESC"
    ) as con:
        assert one(con, "SELECT current_setting('threads')") == 1
        assert one(con, "SELECT current_setting('temp_directory')") == str(tmp_path)
        assert one(con, "SELECT current_setting('default_order')").upper().startswith("DESC")


@pytest.mark.sample(1)
@pytest.mark.parametrize(("limit", "budget"), [
    ("300MB", 300e6), ("1GB", 1e9), ("2GiB", 2**31), ("123456KiB", 123456 * 1024), ("1.5GB", 1.5e9), ("1TB", 1e12),
])  # fmt: skip
def test_memory_limit_is_shared(limit: str, budget: float) -> None:
    """DuckDB shows its setting with one digit after the point, cut off."""
    with tuskml.connect(memory_limit=limit) as con:
        assert 0.9 * budget < one(con, "SELECT tuskml_memory().budget") <= budget
        con.execute("SET memory_limit = '500MB'")
        tuskml.load(con)
        assert one(con, "SELECT tuskml_memory().budget") == pytest.approx(500e6, rel=0.05)


@pytest.mark.parametrize(("config", "named"), [
    ({"no_such_setting": 1}, "no_such_setting"), ({"memory_limit": "lots"}, "memory"), ({"threads": 0}, "thread"),
])  # fmt: skip
def test_unknown_settings_are_refused(config: dict, named: str) -> None:
    with pytest.raises(duckdb.Error, match=f"(?i){named}"):
        tuskml.connect(**config)


def test_path_may_be_text_or_path(tmp_path) -> None:
    for path in (tmp_path / "a'b.duckdb", str(tmp_path / "text.duckdb")):
        with tuskml.connect(path) as con:
            con.execute("CREATE TABLE t AS SELECT 1 AS i")
        with tuskml.connect(path, read_only=True) as con:
            assert one(con, "SELECT i FROM t") == 1


def test_read_only_needs_a_file(tmp_path) -> None:
    with pytest.raises(duckdb.Error):
        tuskml.connect(tmp_path / "missing.duckdb", read_only=True)
    with pytest.raises(duckdb.Error):
        tuskml.connect(read_only=True)


def test_failed_load_closes_the_connection(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """A second connect with other settings fails while the first is open."""
    monkeypatch.setattr("tuskml.databases.hosted.VERSION", "0")
    with pytest.raises(tuskml.ExtensionError):
        tuskml.connect(tmp_path / "db.duckdb")
    monkeypatch.undo()
    with duckdb.connect(str(tmp_path / "db.duckdb"), config={"threads": 1}) as plain:
        assert one(plain, "SELECT 1") == 1


def test_load_into_an_open_connection() -> None:
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as con:
        con.execute("CREATE TABLE t AS SELECT x FROM range(9) r(x)")
        assert tuskml.load(con) is con
        assert one(
            con, "SELECT train_model('linear', 2 * x + 1, [x]).coef[1] FROM t"
        ) == pytest.approx(2)


def test_load_twice_changes_nothing() -> None:
    with tuskml.connect() as con:
        before = con.execute(
            "SELECT function_name, count(*) FROM duckdb_functions() GROUP BY 1 ORDER BY 1"
        ).fetchall()
        for _ in range(3):
            tuskml.load(con)
        after = con.execute(
            "SELECT function_name, count(*) FROM duckdb_functions() GROUP BY 1 ORDER BY 1"
        ).fetchall()
        assert before == after
        assert one(con, FIT) == pytest.approx(2)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("n_threads", "times"), [(5, 2), pytest.param(8, 5, marks=pytest.mark.nightly)]
)
def test_load_from_many_threads(n_threads: int, times: int) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(times):
                with tuskml.connect(threads=1) as con:
                    assert one(con, FIT) == pytest.approx(2)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_every_macro_is_there() -> None:
    with tuskml.connect() as con:
        found = con.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('macro', 'table_macro')"
            " AND NOT internal AND function_name IN (SELECT unnest(?))",
            [MACROS],
        ).fetchall()
        assert sorted(name for (name,) in found) == sorted(MACROS)


PLACES = {
    "at once": "",
    "schema": "CREATE SCHEMA s; USE s",
    "attached": "ATTACH '{path}' AS other; USE other",
    "schema of the attached": "ATTACH '{path}' AS other; CREATE SCHEMA other.s; USE other.s",
    "attached in memory": "ATTACH ':memory:' AS other; USE other",
    "columns of their names": "CREATE TABLE with_payload AS SELECT 1 AS with_payload, 2 AS model, 3 AS features",
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("database", [":memory:", "db.duckdb"])
def test_macros_find_each_other(tmp_path, database: str, place: str) -> None:
    """Whatever is in USE, and in cursors."""
    in_memory = database == ":memory:"
    with tuskml.connect(database if in_memory else tmp_path / database) as con:
        con.execute(PLACES[place].format(path=tmp_path / "other.duckdb"))
        for user in (con, tuskml.load(con.cursor())):
            assert one(user, PREDICTED) == pytest.approx([8, 8])
        if in_memory:
            assert one(con.cursor(), PREDICTED) == pytest.approx([8, 8])


def test_a_file_in_a_format_that_older_versions_read(tmp_path) -> None:
    """DuckDB 1.5 reads formats up to 68; the number stands behind the file's mark."""
    path = tmp_path / "for_older.duckdb"
    with tuskml.connect(path, storage_compatibility_version="v1.5.0") as con:
        con.execute(
            "CREATE TABLE m AS SELECT train_model('linear', 2 * x, [x]) AS model FROM range(9) t(x)"
        )
    head = path.read_bytes()[:20]
    assert head[8:12] == b"DUCK"
    assert int.from_bytes(head[12:20], "little") <= 68


def test_a_file_keeps_no_macro(tmp_path) -> None:
    with tuskml.connect(tmp_path / "db.duckdb") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS i")
    with duckdb.connect(str(tmp_path / "db.duckdb")) as plain:
        names = plain.execute(
            "SELECT function_name FROM duckdb_functions() WHERE function_name = 'predict'"
        ).fetchall()
        assert names == []


@pytest.mark.parametrize(("source", "target"), [("a.db", ":memory:"), (":memory:", "b.db")])
def test_an_exported_database_is_imported(tmp_path, source: str, target: str) -> None:
    where = {name: tmp_path / name if name.endswith("db") else name for name in (source, target)}
    with tuskml.connect(where[source]) as con:
        con.execute(
            "CREATE TABLE m AS SELECT train_model('linear', 2 * i + 1, [i]) AS m FROM range(9) t(i)"
        )
        con.execute(f"EXPORT DATABASE '{tmp_path / 'moved é'}' (FORMAT parquet)")
    with tuskml.connect(where[target]) as con:
        con.execute(f"IMPORT DATABASE '{tmp_path / 'moved é'}'")
        ((answer,),) = con.execute("SELECT predict(m, [20]) FROM m").fetchall()
    assert answer == pytest.approx(41)


@pytest.mark.parametrize("with_tuskml", [True, False])
def test_who_cannot_import_an_export_of_memory_says_who_can(tmp_path, with_tuskml: bool) -> None:
    """It has tuskml's macros, which other databases in memory have, and others cannot make."""
    with tuskml.connect() as con:
        con.execute("CREATE TABLE m AS SELECT train_model('linear', i, [i]) FROM range(9) t(i)")
        con.execute(f"EXPORT DATABASE '{tmp_path / 'moved'}'")
    with tuskml.connect() if with_tuskml else duckdb.connect() as con:
        sentence = r"(?i)IMPORT an .* into a database file that tuskml.connect\(path\) opens"
        with pytest.raises(duckdb.Error, match=sentence):
            con.execute(f"IMPORT DATABASE '{tmp_path / 'moved'}'")


def test_extension_path_has_odd_characters(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package may be installed below a folder with quotes and spaces in its name."""
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    copy = folder / "tuskml.duckdb_extension"
    copy.write_bytes(extension_path().read_bytes())
    monkeypatch.setattr(connection, "extension_path", lambda: copy)
    with tuskml.connect() as con:
        assert one(con, FIT) == pytest.approx(2)


def test_closed_connection(tmp_path) -> None:
    con = tuskml.connect()
    con.close()
    with pytest.raises(duckdb.Error):
        tuskml.load(con)


def test_errors_have_one_root() -> None:
    for error in (tuskml.OptionError, tuskml.DataError, tuskml.Interrupted, tuskml.ExtensionError):
        assert issubclass(error, tuskml.TuskError)
    assert issubclass(tuskml.OptionError, ValueError)
    assert issubclass(tuskml.DataError, ValueError)


def test_a_plain_connection_says_what_lacks_before_anything_is_loaded(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with duckdb.connect() as plain:
        with pytest.raises(
            tuskml.ExtensionError, match=r"tuskml install|allow_unsigned_extensions"
        ):
            tuskml.load(plain)
        assert plain.execute(
            "SELECT count(*) FROM duckdb_functions() WHERE function_name = 'train_model'"
        ).fetchall() == [(0,)]


def test_macros_that_a_transaction_took_back_are_made_again(tmp_path) -> None:
    with tuskml.connect(tmp_path / "a.duckdb") as con:
        cursor = con.cursor()
        cursor.execute("BEGIN")
        tuskml.load(cursor)
        assert connection.is_loaded(cursor)
        cursor.execute("ROLLBACK")
        assert not connection.is_loaded(cursor)
        DuckDB(cursor)
        assert one(cursor, "SELECT accuracy(1, 1)") == 1


def test_a_variable_says_that_a_connection_is_loaded() -> None:
    with tuskml.connect() as con:
        cursor = con.cursor()
        assert connection.is_loaded(cursor), "which has no variable yet"
        for database in ("temp", "memory"):
            con.execute(f"DROP MACRO {database}.main._tusk_loaded")
        assert connection.is_loaded(con)
        assert connection.is_loaded(cursor)
        assert not connection.is_loaded(con.cursor())
