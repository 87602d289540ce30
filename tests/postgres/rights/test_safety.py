"""No privilege is gained through any part of the extension, and no made-up value harms the server."""

# ruff: noqa: E501, SQL is read better on one line

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from attempts import FIT, failure, fetch

from tuskml.udas.model_fields import MODEL_FIELDS

Connect = Callable[..., psycopg.Connection]

pytestmark = [pytest.mark.usefixtures("people"), pytest.mark.fault(family="security")]

PUBLIC_HELPERS = {
    "tuskml._tuskml_has_terms(text)": "model_summary asks it of a task; a text in, a truth value out",
    "tuskml._tuskml_has_centres(text)": "model_summary asks it of a task; a text in, a truth value out",
    "tuskml._tuskml_is_of_trees(text)": "tree_dump asks it of a task; a text in, a truth value out",
    "tuskml._tuskml_was_fitted(text)": "model_fit asks it of a status; a text in, a truth value out",
    "tuskml._tuskml_is_tested_by_t(text)": "model_summary asks it of a task; a text in, a truth value out",
    'tuskml._tuskml_predict_columns(tuskml_model,text[],"any")': "the planner calls it for predict, if the caller may call that; columns in, the answer out",
    'tuskml._tuskml_predict_proba_columns(tuskml_model,text[],"any")': "the planner calls it for predict_proba, if the caller may call that; columns in, the answer out",
    'tuskml._tuskml_decision_columns(tuskml_model,text[],"any")': "the planner calls it for decision, if the caller may call that; columns in, the answer out",
    'tuskml._tuskml_predict_class_columns(tuskml_model,text[],"any")': "the planner calls it for predict_class, if the caller may call that; columns in, the answer out",
    'tuskml._tuskml_predict_probas_columns(tuskml_model,text[],"any")': "the planner calls it for predict_probas, if the caller may call that; columns in, the answer out",
    'tuskml._tuskml_predict_proba_of_columns(tuskml_model,text[],"any","any")': "the planner calls it for predict_proba of a class, if the caller may call that; columns in, the answer out",
    "tuskml._tuskml_row(record)": "queries that train put rows into it, and the planner takes their columns out; a row in, the row out",
    "tuskml._tuskml_divide(double precision,double precision)": "model_summary runs with its caller's rights; numbers in, a number out",
    "tuskml._tuskml_refuse_stored(text)": "model_summary runs with its caller's rights; a text in, an error out",
    "tuskml._tuskml_need_registry(text)": "the registry's functions run with their caller's rights; a text in, an error out",
    "tuskml._tuskml_no_group()": "a default of register_model's is evaluated with its caller's rights; the time",
    "tuskml._tuskml_note(text,text,text,text,bigint,bigint)": "model_summary runs with its caller's rights; texts in, a text out",
    "tuskml._tuskml_check_registration()": "the registry's trigger, which its owner must be able to create; no call but a trigger's works",
    "tuskml._tuskml_guard_registry()": "create_registry runs with its caller's rights, and changes a table of the caller's only",
    "tuskml._tuskml_covariances(double precision[])": "model_covariance runs with its caller's rights; numbers in, numbers out",
    "tuskml._tuskml_root(text,tuskml_model)": "model_covariance runs with its caller's rights; numbers out",
    "tuskml._tuskml_shown(tuskml_model)": "model_covariance runs with its caller's rights; a model in, a number out",
    "tuskml._tuskml_contributions(tuskml_model,anyelement)": "explain_prediction runs with its caller's rights; numbers out",
    "tuskml._tuskml_explained(double precision[],text[],text[])": "explain_prediction runs with its caller's rights; numbers in, rows out",
    "tuskml._tuskml_tree_numbers(bytea)": "tree_dump runs with its caller's rights; numbers of a payload",
    "tuskml._tuskml_recommend(bytea,text,bigint,text[],boolean)": "recommend runs with its caller's rights; numbers and names of a payload",
    "tuskml._tuskml_recommend_by_items(bytea,text[],bigint,text[],boolean,double precision[],text)": "recommend_by_items runs with its caller's rights; numbers and names of a payload",
    "tuskml._tuskml_similar_items(bytea,text,bigint,text[],boolean)": "similar_items runs with its caller's rights; numbers and names of a payload",
    "tuskml._tuskml_levels_left(double precision[],double precision,jsonb)": "tree_dump runs with its caller's rights; numbers in, names out",
    "tuskml._tuskml_trees_of(text,tuskml_model)": "tree_dump runs with its caller's rights; a model in, its numbers out",
    "tuskml._tuskml_types(regclass,text[])": "permutation_importance runs with its caller's rights; types of the caller's expressions",
    "tuskml._tuskml_features_sql(regtype[],text[],text[],jsonb)": "permutation_importance runs with its caller's rights; texts in, a text out",
    "tuskml._tuskml_terms(regclass,text[])": "permutation_importance runs with its caller's rights; texts in, texts out",
    "tuskml._tuskml_answer_sql(text,regtype[],text[])": "permutation_importance runs with its caller's rights; texts in, a text out",
    "tuskml._tuskml_given_sql(text,regclass,text,text,text[],text)": "permutation_importance runs with its caller's rights; texts in, a text out",
    "tuskml._tuskml_each(text[],text)": "permutation_importance runs with its caller's rights; texts in, a text out",
    "tuskml._tuskml_effects(text[],double precision[],double precision[],text)": "model_card runs with its caller's rights; texts and numbers in, a text out",
    "tuskml._tuskml_weighs_features(text)": "model_card runs with its caller's rights; a task in, a boolean out",
    "tuskml._tuskml_is_absorbed(text,bigint)": "model_summary runs with its caller's rights; a text and a number in, a boolean out",
    "tuskml._tuskml_interval(double precision)": "model_summary runs with its caller's rights; a number in, a number out",
    "tuskml._tuskml_bound(double precision,double precision,double precision)": "model_summary runs with its caller's rights; numbers in, a number out",
    "tuskml._tuskml_ratio(text,double precision)": "model_summary runs with its caller's rights; a text and a number in, a number out",
    "tuskml._tuskml_p_value(double precision,double precision)": "model_summary runs with its caller's rights; numbers in, a number out",
}
"""Helpers that PUBLIC may execute, and why."""

MEMBERS = """
SELECT p.oid::regprocedure::text AS name, p.* FROM pg_proc AS p
JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname IN ('tuskml', 'tuskml_train')
"""


# --- what the catalog says ---


def test_no_function_runs_with_its_owners_rights(pg: psycopg.Connection) -> None:
    assert fetch(pg, f"SELECT name FROM ({MEMBERS}) AS m WHERE prosecdef") == []


def test_helpers_are_not_for_the_public(pg: psycopg.Connection) -> None:
    open_to_all = "SELECT name FROM ({}) AS m WHERE proname ~ '^_' AND has_function_privilege('public', oid, 'EXECUTE')"
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
    assert {(config or [None])[0] for _, config in found} == {"search_path=pg_catalog, pg_temp"}


def test_python_is_never_trusted(pg: psycopg.Connection) -> None:
    assert fetch(pg, "SELECT lanpltrusted FROM pg_language WHERE lanname = 'plpython3u'") == [
        (False,)
    ]
    extensions = "SELECT name, trusted, superuser FROM pg_available_extension_versions WHERE name ~ '^tuskml' ORDER BY name"
    assert fetch(pg, extensions) == [("tuskml", True, True), ("tuskml_train", False, True)]
    of_the_scorer = MEMBERS.replace("IN ('tuskml', 'tuskml_train')", "= 'tuskml'")
    languages = f"SELECT DISTINCT lanname FROM ({of_the_scorer}) AS m JOIN pg_language AS l ON l.oid = prolang"
    assert {name for (name,) in fetch(pg, languages)} == {"c", "internal", "plpgsql", "sql"}


def test_pgspot(cluster: Any) -> None:
    """Names without a schema are those that the script creates, in the schema of the extension."""
    pytest.importorskip("pgspot", reason="pgspot is not installed: pip install pgspot")
    for script in cluster.server.scripts.glob("tuskml*--*.sql"):
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


def test_the_function_for_python_called_directly(pg: psycopg.Connection, connect: Connect) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connect(user="ann").execute("SELECT tuskml._tuskml_answer()")
    for _ in range(3):
        assert fetch(pg, FIT) == [(100,)]
        with pytest.raises(
            psycopg.Error,
            match="there is nothing to train: only train_model may call this function",
        ):
            pg.execute("SELECT tuskml._tuskml_answer()")
    assert fetch(pg, FIT) == [(100,)]


def test_the_function_for_python_called_in_a_new_session(connect: Connect) -> None:
    """The library is not loaded yet."""
    session = connect()
    with pytest.raises(psycopg.Error):
        session.execute("SELECT tuskml._tuskml_answer()")
    assert fetch(session, FIT) == [(100,)]


def test_the_function_for_python_called_by_a_row_of_a_training(pg: psycopg.Connection) -> None:
    pg.execute(
        "CREATE FUNCTION call() RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN PERFORM tuskml._tuskml_answer(); RETURN 1; END $$"
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
        "SFUNC = tuskml._tuskml_combine, STYPE = internal",
        "SFUNC = tuskml._tuskml_combine, STYPE = internal, FINALFUNC = tuskml._tuskml_train",
    ):
        with pytest.raises(psycopg.Error) as caught:
            ann.execute(f"CREATE AGGREGATE theirs.made(internal) ({parts})")
        assert caught.value.sqlstate in ("42501", "42P13", "0A000")
    pg.execute("DROP SCHEMA theirs CASCADE")


FIELDS = tuple(field.name for field in MODEL_FIELDS)
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
                               "(SELECT count(estimate) FROM model_summary(model))", "predict(with_payload(model), ARRAY[1.0, 2.0])", "model::text"):  # fmt: skip
                state = failure(pg, f"SELECT {expression} FROM bad WHERE kind = '{kind}'")
                refused = field == "payload" and state == "XX001"  # the payload is damaged
                assert refused or not state.startswith(("XX", "lost")), (expression, nasty)
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


@pytest.mark.nightly
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
