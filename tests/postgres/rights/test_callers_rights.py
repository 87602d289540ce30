"""What the extension does, it does with the rights of its caller."""

# ruff: noqa: E501, SQL is read better on one line

import os
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from attempts import FIT, fetch

Connect = Callable[..., psycopg.Connection]

pytestmark = [pytest.mark.usefixtures("people"), pytest.mark.fault(family="security")]


def test_only_who_may_can_train(connect: Connect, pg: psycopg.Connection) -> None:
    bob = connect(user="bob")
    for call in ("train_model('linear', y, x)", "explain_training('linear', y, x)"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            bob.execute(f"SELECT {call} FROM t")
    assert fetch(connect(user="ann"), FIT) == [(100,)]
    pg.execute(
        "CREATE TABLE models AS SELECT train_model('linear', y, x) AS m FROM t; GRANT SELECT ON models TO bob"
    )
    assert len(fetch(bob, "SELECT predict(m, x) FROM models, t")) == 100
    assert len(fetch(bob, "SELECT * FROM models, model_summary(m)")) == 3
    assert fetch(bob, "SELECT rmse(y, y) FROM t") == [(0.0,)]
    pg.execute("DROP TABLE models")


def test_column_privileges(connect: Connect) -> None:
    ann = connect(user="ann")
    for call in (
        "train_model('linear', secret, x)",
        "train_model('linear', y, ARRAY[secret])",
        "train_model('linear', y, sparse(ARRAY[secret], ARRAY[1.0]))",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ann.execute(f"SELECT {call} FROM t")
    assert fetch(ann, FIT) == [(100,)]


def test_row_level_security(connect: Connect, pg: psycopg.Connection) -> None:
    pg.execute(
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY half ON t TO ann USING (owner = 1)"
    )
    pg.execute("UPDATE t SET x = ARRAY['nan', 1.0] WHERE i = 2")  # ann must not hear of it
    for parallel in ("0", "2"):
        ann = connect(user="ann")
        ann.execute(
            f"SET max_parallel_workers_per_gather = {parallel}; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0"
        )
        assert fetch(ann, FIT) == [(50,)]
        assert fetch(
            ann, "SELECT owner, (train_model('linear', y, x)).n_rows FROM t GROUP BY owner"
        ) == [(1, 50)]
    pg.execute(
        "UPDATE t SET x = ARRAY[2, 2] WHERE i = 2; DROP POLICY half ON t; ALTER TABLE t DISABLE ROW LEVEL SECURITY"
    )


def test_a_view_lends_its_owners_rights_as_any_view(
    connect: Connect, pg: psycopg.Connection
) -> None:
    pg.execute(
        "CREATE VIEW models AS SELECT train_model('linear', secret, x) AS m FROM t; GRANT SELECT ON models TO ann, bob"
    )
    assert fetch(connect(user="ann"), "SELECT (m).n_rows FROM models") == [(100,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connect(user="bob").execute("SELECT (m).n_rows FROM models")
    pg.execute("DROP VIEW models")


HIJACK = """
CREATE FUNCTION evil._tuskml_answer() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
CREATE FUNCTION evil._tuskml_divide(float8, float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
CREATE FUNCTION evil._tuskml_p_value(float8, float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
CREATE FUNCTION evil.hijack(float8, float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
CREATE FUNCTION evil.hijack_array(float8[], float8[]) RETURNS float8[] LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
CREATE FUNCTION evil.hijack_array(float8, float8[]) RETURNS float8[] LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
CREATE FUNCTION evil.unnest(float8[], float8[]) RETURNS SETOF float8 LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
CREATE OPERATOR evil.* (LEFTARG = float8, RIGHTARG = float8, FUNCTION = evil.hijack);
CREATE OPERATOR evil.- (LEFTARG = float8, RIGHTARG = float8, FUNCTION = evil.hijack);
CREATE OPERATOR evil./ (LEFTARG = float8, RIGHTARG = float8, FUNCTION = evil.hijack);
CREATE OPERATOR evil.|| (LEFTARG = float8, RIGHTARG = float8[], FUNCTION = evil.hijack_array);
CREATE OPERATOR evil.|| (LEFTARG = float8[], RIGHTARG = float8[], FUNCTION = evil.hijack_array);
CREATE TYPE evil.tuskml_model AS (task text);
CREATE TABLE evil.pg_proc (oid oid);
"""


def test_search_path(connect: Connect, pg: psycopg.Connection) -> None:
    """Objects of the same names that are found first change nothing."""
    pg.execute("CREATE SCHEMA evil AUTHORIZATION ann")
    connect(user="ann").execute(HIJACK)
    session = connect()
    session.execute("SET search_path = evil, pg_catalog, public")
    for _ in range(2):
        found = fetch(
            session,
            "SELECT (m).n_rows, predict(m, ARRAY[1.0, 2.0]) IS NOT NULL, (SELECT count(*) FROM model_summary(m)) FROM (SELECT train_model('linear', y, x) AS m FROM t) AS s",
        )
        assert found == [(100, True, 3)]
        assert fetch(session, "SELECT explain_training('linear', y, x) IS NOT NULL FROM t") == [
            (True,)
        ]
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            session.execute("SELECT train_model('linear', y, x, '{\"l2\": -1}') FROM t")
    pg.execute("DROP SCHEMA evil CASCADE")


@pytest.mark.nightly
def test_another_schema(cluster: Any, database: str) -> None:
    """The extension lives where it was put, in whatever search_path it is called."""
    name = database + "_2"
    cluster.create_database(name, "template1")
    with cluster.connect(name) as session:
        session.execute(
            'CREATE EXTENSION plpython3u; CREATE SCHEMA "My ML"; CREATE EXTENSION tuskml_train SCHEMA "My ML" CASCADE'
        )
        found = fetch(
            session,
            'SELECT (m).n_rows, "My ML".predict(m, ARRAY[1.0]) IS NOT NULL FROM (SELECT "My ML".train_model(\'linear\', i, ARRAY[i]) AS m FROM generate_series(1, 9) AS i) AS s',
        )
        assert found == [(9, True)]
        session.execute('SET search_path = "My ML"')
        assert (
            len(
                fetch(
                    session,
                    "SELECT * FROM model_summary((SELECT train_model('linear', i, ARRAY[i]) FROM generate_series(1, 9) AS i))",
                )
            )
            == 2
        )
        session.execute(
            "DROP EXTENSION tuskml CASCADE; CREATE EXTENSION tuskml_train SCHEMA public CASCADE; SET search_path = public"
        )
        assert fetch(
            session,
            "SELECT (train_model('linear', i, ARRAY[i])).n_rows FROM generate_series(1, 9) AS i",
        ) == [(9,)]
    cluster.drop_database(name)


def test_files_are_the_servers_alone(cluster: Any, connect: Connect) -> None:
    """Rows that spill lie in a file without a name, of mode 600."""
    session = connect()
    session.execute("SET tuskml.memory_limit = 0")
    fetch(session, FIT)
    folder = cluster.data / "base" / "pgsql_tmp"
    assert not folder.exists() or list(folder.iterdir()) == []
    assert os.stat(cluster.data).st_mode & 0o077 == 0
