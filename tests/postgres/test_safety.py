"""No privilege is gained through any part of the extension, and no made-up value harms the server."""

# ruff: noqa: E501, SQL is read better on one line

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

Connect = Callable[..., psycopg.Connection]

PUBLIC_HELPERS = {
    "_tuskml_divide(double precision,double precision)": "model_summary runs with its caller's rights; numbers in, a number out",
    "_tuskml_refuse_stored(text)": "model_summary runs with its caller's rights; a text in, an error out",
    "_tuskml_need_registry(text)": "the registry's functions run with their caller's rights; a text in, an error out",
    "_tuskml_no_group()": "a default of register_model's is evaluated with its caller's rights; the time",
    "_tuskml_note(text,text,text,text,bigint,bigint)": "model_summary runs with its caller's rights; texts in, a text out",
    "_tuskml_check_registration()": "the registry's trigger, which its owner must be able to create; no call but a trigger's works",
    "_tuskml_guard_registry()": "create_registry runs with its caller's rights, and changes a table of the caller's only",
    "_tuskml_p_values(double precision[],double precision)": "model_summary runs with its caller's rights; numbers in, numbers out",
}
"""Helpers that PUBLIC may execute, and why."""

MEMBERS = """
SELECT p.oid::regprocedure::text AS name, p.* FROM pg_proc AS p
JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'tuskml'
"""
FIT = "SELECT (train_model('linear', y, x)).n_rows FROM t"


@pytest.fixture(scope="module", autouse=True)
def people(pg: psycopg.Connection) -> Iterator[None]:
    """ann may train, bob may not."""
    pg.execute("CREATE ROLE ann LOGIN IN ROLE tuskml_user; CREATE ROLE bob LOGIN")
    pg.execute(
        "CREATE TABLE t AS SELECT i, i % 2 AS owner, i::float8 AS y, ARRAY[i % 7, i % 5]::float8[] AS x, i AS secret FROM generate_series(1, 100) AS i"
    )
    pg.execute("GRANT SELECT (i, owner, y, x) ON t TO ann, bob")
    yield
    pg.execute("DROP OWNED BY ann, bob CASCADE; DROP ROLE ann, bob")


def fetch(connection: psycopg.Connection, sql: str) -> list[tuple]:
    return connection.execute(sql).fetchall()


def failure(connection: psycopg.Connection, sql: str) -> str:
    """The SQLSTATE, or nothing; 'lost' when the server ended the session."""
    try:
        connection.execute(sql).fetchall()
    except psycopg.Error as error:
        return error.sqlstate or "lost"
    return ""


# --- what the catalog says ---


def test_no_function_runs_with_its_owners_rights(pg: psycopg.Connection) -> None:
    assert fetch(pg, f"SELECT name FROM ({MEMBERS}) AS m WHERE prosecdef") == []


def test_helpers_are_not_for_the_public(pg: psycopg.Connection) -> None:
    open_to_all = "SELECT name FROM ({}) AS m WHERE name ~ '^_' AND has_function_privilege('public', oid, 'EXECUTE')"
    assert {name for (name,) in fetch(pg, open_to_all.format(MEMBERS))} == set(PUBLIC_HELPERS)


def test_who_may_train(pg: psycopg.Connection) -> None:
    training = f"SELECT name, has_function_privilege('public', oid, 'EXECUTE'), has_function_privilege('tuskml_user', oid, 'EXECUTE') FROM ({MEMBERS}) AS m WHERE proname IN ('train_model', 'explain_training')"
    found = fetch(pg, training)
    assert len(found) >= 12
    assert {row[1:] for row in found} == {(False, True)}


def test_names_are_looked_up_in_a_fixed_path(pg: psycopg.Connection) -> None:
    """Functions with a body of text have a search_path of their own; C has no need of one."""
    sql = f"SELECT name, proconfig FROM ({MEMBERS}) AS m JOIN pg_language AS l ON l.oid = prolang WHERE lanname NOT IN ('c', 'internal')"
    found = fetch(pg, sql)
    assert found
    assert {tuple(config or ()) for _, config in found} == {("search_path=pg_catalog, pg_temp",)}


def test_python_is_never_trusted(pg: psycopg.Connection) -> None:
    assert fetch(pg, "SELECT lanpltrusted FROM pg_language WHERE lanname = 'plpython3u'") == [
        (False,)
    ]
    assert fetch(
        pg, "SELECT trusted, superuser FROM pg_available_extension_versions WHERE name = 'tuskml'"
    ) == [(False, True)]


def test_pgspot(cluster: Any) -> None:
    """Names without a schema are those that the script creates, in the schema of the extension."""
    pytest.importorskip("pgspot", reason="pgspot is not installed: pip install pgspot")
    for script in cluster.server.scripts.glob("tuskml--*.sql"):
        sql = re.sub(r"^\\echo.*\n", "", script.read_text())
        program = "import sys; from pgspot.cli import run; sys.exit(run())"
        command = [sys.executable, "-c", program, "--ignore-lang", "plpython3u", "/dev/stdin"]
        done = subprocess.run(command, input=sql, capture_output=True, text=True, check=False)
        created = set(re.findall(r"^CREATE (?:TYPE|AGGREGATE) (\w+)", sql, re.M))
        assert re.search(r"Errors: 0 .*Unknown: 0", done.stdout), done.stdout + done.stderr
        for warning in re.findall(r"^PS\d+: .*", done.stdout, re.M):
            named = re.fullmatch(
                r"PS017: Unqualified object reference: (\w+) at line \d+", warning
            )
            assert named, warning
            assert named[1] in created, warning


# --- calling what is not for callers ---


def test_the_door_to_python_called_directly(pg: psycopg.Connection, connect: Connect) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connect(user="ann").execute("SELECT _tuskml_answer()")
    for _ in range(3):
        assert fetch(pg, FIT) == [(100,)]
        with pytest.raises(
            psycopg.Error,
            match="there is nothing to train: only train_model may call this function",
        ):
            pg.execute("SELECT _tuskml_answer()")
    assert fetch(pg, FIT) == [(100,)]


def test_the_door_to_python_called_in_a_new_session(connect: Connect) -> None:
    """The library is not loaded yet."""
    session = connect()
    with pytest.raises(psycopg.Error):
        session.execute("SELECT _tuskml_answer()")
    assert fetch(session, FIT) == [(100,)]


def test_the_door_to_python_called_by_a_row_of_a_training(pg: psycopg.Connection) -> None:
    pg.execute(
        "CREATE FUNCTION call() RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN PERFORM _tuskml_answer(); RETURN 1; END $$"
    )
    with pytest.raises(psycopg.Error, match="there is nothing to train"):
        pg.execute("SELECT train_model('linear', call(), x) FROM t")
    assert fetch(pg, FIT) == [(100,)]
    pg.execute("DROP FUNCTION call")


def made_up(types: str) -> list[str]:
    """Arguments that someone may try."""
    count = types.count(",") + 1
    tries = [
        "NULL",
        "0",
        "'x'",
        "'\\x00'::bytea",
        "1::bigint",
        "12345::oid",
        "'x'::cstring",
        "NULL::internal",
    ]
    return [", ".join([one] * count) for one in tries] + [
        ", ".join(["'\\x00'::bytea"] + ["NULL"] * (count - 1))
    ]


REFUSED = (
    psycopg.errors.UndefinedFunction,
    psycopg.errors.AmbiguousFunction,
    psycopg.errors.FeatureNotSupported,
    psycopg.errors.CannotCoerce,
    psycopg.errors.DatatypeMismatch,  # of polymorphic functions, from the parser before the call
    psycopg.errors.IndeterminateDatatype,
)


def test_states_cannot_be_made_up(pg: psycopg.Connection) -> None:
    """Whatever stands for `internal`, PostgreSQL refuses: for a superuser too."""
    parts = fetch(
        pg,
        f"SELECT oid::regproc::text, name, prokind FROM ({MEMBERS}) AS m WHERE 'internal'::regtype = ANY (proargtypes)",
    )
    assert len(parts) > 20
    for function, name, _ in parts:
        types = name[name.index("(") :]
        for arguments in made_up(types):
            with pytest.raises(REFUSED):
                pg.execute(f"SELECT {function}({arguments})")
    assert fetch(pg, FIT) == [(100,)]


def test_no_aggregate_of_ones_own_takes_the_parts(
    connect: Connect, pg: psycopg.Connection
) -> None:
    pg.execute("CREATE SCHEMA theirs AUTHORIZATION ann")
    ann = connect(user="ann")
    for parts in (
        "SFUNC = _tuskml_combine, STYPE = internal",
        "SFUNC = _tuskml_combine, STYPE = internal, FINALFUNC = _tuskml_train",
    ):
        with pytest.raises(psycopg.Error) as caught:
            ann.execute(f"CREATE AGGREGATE theirs.made(internal) ({parts})")
        assert caught.value.sqlstate in ("42501", "42P13", "0A000")
    pg.execute("DROP SCHEMA theirs CASCADE")


FIELDS = ("task", "coef", "intercept", "std_err", "classes", "n_rows", "n_skipped", "n_features", "loss", "history",
          "iterations", "converged", "status", "plan", "seconds", "options", "store")  # fmt: skip
NASTY = ("NULL", "''", "'x'", "'-1'", "'9223372036854775807'", "'{}'", "'{NULL}'", "'{{1,2},{3,4}}'", "'{NaN,Infinity}'", "'[5:6]={1,2}'", "repeat('{', 70000)",
         "'{\"tuskml\":1}'", "array_fill(1::float8, ARRAY[3000])")  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
def test_made_up_models(pg: psycopg.Connection, field: str) -> None:
    """A model is a value that anybody can change: an answer or an error, and the server stays up."""
    pg.execute(
        "CREATE TEMP TABLE m AS SELECT 'l' AS kind, train_model('linear', y, x) AS model FROM t UNION ALL SELECT 'c', train_model('logistic', owner, x) FROM t"
    )
    for nasty in NASTY:
        try:
            pg.execute(
                f"CREATE TEMP TABLE bad AS SELECT * FROM m; UPDATE bad SET model.{field} = {nasty}"
            )
        except psycopg.Error:
            pg.execute("DROP TABLE IF EXISTS bad")
            continue
        for kind in ("l", "c"):
            for expression in ("predict(model, ARRAY[1.0, 2.0])", "predict_proba(model, ARRAY[1.0, 2.0])", "decision(model, sparse(ARRAY[0, 7], ARRAY[1.0, 2.0]))",
                               "(SELECT count(estimate) FROM model_summary(model))", "model::text"):  # fmt: skip
                state = failure(pg, f"SELECT {expression} FROM bad WHERE kind = '{kind}'")
                assert not state.startswith(("XX", "lost")), (expression, nasty)
        pg.execute("DROP TABLE bad")
    pg.execute("DROP TABLE m")
    assert fetch(pg, FIT) == [(100,)]


# --- settings ---


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Path]:
    """A folder with a package tuskml that leaves a mark when it is imported."""
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:3]:
        if parent.owner() == Path.home().owner() and parent != Path("/tmp"):
            parent.chmod(0o755)
    package = tmp_path / "tuskml"
    package.mkdir()
    for name in ("tuskml/__init__.py", "numpy.py", "scipy.py"):
        (tmp_path / name).write_text(
            f"open({str(tmp_path / 'mark')!r}, 'w').close()\nraise ImportError('the trap')\n"
        )
    (tmp_path / "trap.pth").write_text(
        f"import os; open({str(tmp_path / 'mark')!r}, 'w').close()\n"
    )
    return tmp_path


def test_the_trap_is_one(connect: Connect, trap: Path) -> None:
    session = connect()
    session.execute(f"SET tuskml.python_path = '{trap}'")
    with pytest.raises(
        psycopg.errors.UndefinedFile, match="the server cannot import the Python package: the trap"
    ):
        session.execute(FIT)
    assert (trap / "mark").exists()


def test_python_path_is_for_superusers(connect: Connect, trap: Path) -> None:
    session = connect(user="ann")
    assert fetch(session, FIT) == [(100,)]
    for statement in ("SET tuskml.python_path = '{}'", "SET LOCAL tuskml.python_path = '{}'", "SELECT set_config('tuskml.python_path', '{}', false)",
                      "ALTER ROLE ann SET tuskml.python_path = '{}'", "ALTER ROLE ann IN DATABASE template1 SET tuskml.python_path = '{}'",
                      "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql SET tuskml.python_path = '{}' AS 'SELECT 1'"):  # fmt: skip
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute(statement.format(trap))
    assert not (trap / "mark").exists()


def test_python_path_set_before_the_library_is_loaded(
    connect: Connect, cluster: Any, trap: Path
) -> None:
    """Until then the name is nobody's, and anyone may set it: it must not count."""
    sessions = [connect(user="ann") for _ in range(3)]
    sessions[0].execute(f"SET tuskml.python_path = '{trap}'")
    sessions[1].execute("SELECT set_config('tuskml.python_path', %s, false)", (str(trap),))
    sessions[2].execute("BEGIN")
    sessions[2].execute(f"SET LOCAL tuskml.python_path = '{trap}'")
    sessions.append(connect(user="ann", options=f"-c tuskml.python_path={trap}"))
    for session in sessions:
        assert fetch(session, FIT) == [(100,)]
        assert fetch(
            session,
            "SELECT p_value IS NOT NULL FROM model_summary((SELECT train_model('linear', y, x) FROM t))",
        )[0] == (True,)
        assert fetch(session, "SHOW tuskml.python_path") == [(cluster.python_path,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connect(user="ann").execute(f"ALTER ROLE ann SET tuskml.python_path = '{trap}'")
    assert not (trap / "mark").exists()


def test_p_values_called_first(connect: Connect, trap: Path) -> None:
    """The one helper in Python that PUBLIC may call, in a session that has not loaded the library."""
    session = connect(user="bob")
    session.execute(f"SET tuskml.python_path = '{trap}'")
    assert failure(session, "SELECT _tuskml_p_values(ARRAY[0, NULL, 1e308, 'nan'], 3)") in (
        "",
        "38000",
    )
    assert not (trap / "mark").exists()


def test_unknown_settings_are_refused(connect: Connect) -> None:
    session = connect(user="ann")
    fetch(session, FIT)
    with pytest.raises(psycopg.errors.InvalidName):
        session.execute("SET tuskml.pythn_path = 'x'")
    for name, value in (
        ("threads", "-1"),
        ("threads", "1025"),
        ("memory_limit", "-2"),
        ("progress", "maybe"),
    ):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            session.execute(f"SET tuskml.{name} = '{value}'")


# --- the caller's rights, and no others ---


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
CREATE FUNCTION evil._tuskml_p_values(float8[], float8) RETURNS float8[] LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
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


def test_another_schema(cluster: Any, database: str) -> None:
    """The extension lives where it was put, in whatever search_path it is called."""
    name = database + "_2"
    cluster.create_database(name, "template1")
    with cluster.connect(name) as session:
        session.execute(
            'CREATE EXTENSION plpython3u; CREATE SCHEMA "My ML"; CREATE EXTENSION tuskml SCHEMA "My ML"'
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
            "DROP EXTENSION tuskml; CREATE EXTENSION tuskml SCHEMA public; SET search_path = public"
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
