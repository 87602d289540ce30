"""What cursors of dbt see of tuskml: macros are made once for all of them."""

import duckdb
import pytest

import tuskml
from tuskml import registry
from tuskml.databases import connection

OWN = """
SELECT DISTINCT function_name FROM duckdb_functions()
WHERE function_type IN ('macro', 'table_macro') AND database_name = ?
"""


class Opened:
    """A file as dbt-duckdb opens it, with the plugin."""

    def __init__(self, path, settings=None, **config):
        from dbt.adapters.duckdb.credentials import DuckDBCredentials, PluginConfig
        from dbt.adapters.duckdb.environments.local import LocalEnvironment

        plugins = [PluginConfig(module="tuskml.dbt", config=config)]
        given = DuckDBCredentials(
            path=str(path), schema="main", plugins=plugins, settings=settings or {}
        )
        self.environment = LocalEnvironment(given)

    def cursor(self):
        return self.environment.handle().cursor()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.environment.close()


def macros(cursor, database):
    return {row[0] for row in cursor.execute(OWN, [database]).fetchall()}


def trained(cursor):
    cursor.execute("CREATE TABLE t AS SELECT x::FLOAT AS x, 2 * x AS y FROM range(9) r(x)")
    cursor.execute("CREATE TABLE m AS SELECT train_model('linear', y, [x]) AS model FROM t")


@pytest.mark.nightly
def test_macros_are_made_once(tmp_path):
    with Opened(tmp_path / "a.duckdb") as opened:
        first, second = opened.cursor(), opened.cursor()
        assert macros(second, "temp") == set(), "none of its own"
        shared = macros(second, connection.SHARED)
        plain = tuskml.connect(tmp_path / "b.duckdb")
        registry.create(plain)
        assert shared == macros(plain, "temp") - {"_tusk_loaded"}
        trained(first)
        predicted = second.execute("SELECT round(predict(model, [21.0])) FROM m").fetchall()
        assert predicted == [(42.0,)]
        summary = "SELECT s.term FROM m, model_summary(m.model) AS s"
        assert second.execute(summary).fetchall()[0] == ("intercept",)
        plain.close()


def test_new_objects_are_in_the_file_and_readable_without_dbt(tmp_path):
    path = tmp_path / "a.duckdb"
    with Opened(path) as opened:
        cursor = opened.cursor()
        trained(cursor)
        cursor.execute("CREATE VIEW v AS SELECT round(predict(model, [21.0])) AS p FROM m")
        assert cursor.execute("SELECT current_database(), current_schema()").fetchall() == [
            ("a", "main")
        ]
    with duckdb.connect(str(path)) as bare:
        kept = "SELECT count(*) FROM duckdb_functions() WHERE database_name = 'a'"
        assert bare.execute(kept).fetchall() == [(0,)], "the file keeps no macro"
        assert bare.execute("SELECT count(*) FROM m").fetchall() == [(1,)]
    with tuskml.connect(path) as con:
        assert con.execute("FROM v").fetchall() == [(42.0,)]


def test_models_by_name(tmp_path):
    with Opened(tmp_path / "a.duckdb") as opened:
        trained(opened.cursor())
        con = opened.environment.conn
        registry.register(con, "double", registry_model(con))
        registry.deploy(con, "double")
        found = opened.cursor().execute("SELECT round(predict('double', [21.0]))").fetchall()
        assert found == [(42.0,)]


def registry_model(con):
    return tuskml.train(con, "linear", source="t", label="y", features="x")


def test_a_search_path_that_the_profile_sets_stays(tmp_path):
    with duckdb.connect(str(tmp_path / "a.duckdb")) as con:
        con.execute('CREATE SCHEMA "my, ""own"""')
    given = {"search_path": 'main,"my, ""own"""'}
    with Opened(tmp_path / "a.duckdb", given) as opened:
        cursor = opened.cursor()
        cursor.execute("SELECT predict_class(NULL, NULL)").fetchall()
        path = cursor.execute("SELECT current_setting('search_path')").fetchall()[0][0]
        assert '"my, ""own"""' in path
        assert cursor.execute("SELECT current_schema()").fetchall() == [("main",)]


def test_a_file_whose_name_needs_quotes(tmp_path):
    with Opened(tmp_path / "it's a.duckdb") as opened:
        cursor = opened.cursor()
        trained(cursor)
        assert macros(cursor, "temp") == set()
        assert cursor.execute("SELECT round(predict(model, [21.0])) FROM m").fetchall() == [(42,)]


@pytest.mark.sample(1)
@pytest.mark.parametrize("why", ["locked", "taken"])
def test_cursors_have_their_own_where_nothing_is_shared(tmp_path, monkeypatch, why):
    if why == "locked":
        monkeypatch.setattr(connection, "SEARCHED", "SELECT * FROM nowhere")
    else:
        monkeypatch.setattr(connection, "IS_SHARED", "SELECT false")
    with Opened(tmp_path / "a.duckdb") as opened:
        cursor = opened.cursor()
        trained(cursor)
        assert "predict" in macros(cursor, "temp")
        assert cursor.execute("SELECT round(predict(model, [21.0])) FROM m").fetchall() == [(42,)]


def test_in_memory_all_cursors_see_those_of_the_database():
    with Opened(":memory:") as opened:
        cursor = opened.cursor()
        trained(cursor)
        assert macros(cursor, "temp") == set()
        assert cursor.execute("SELECT round(predict(model, [21.0])) FROM m").fetchall() == [(42,)]
