"""An extension that was upgraded is the extension as it is created, and trainings go on meanwhile.

There is one version so far. The older one is made here: today's script without some functions,
with others than today's, and with one that is no more.
"""

# ruff: noqa: E501, SQL is read better on one line

import importlib.util
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import psycopg
import pytest
from cluster import Cluster

from tuskml.version import VERSION

pytestmark = pytest.mark.fault(family="upgrades")

OLD = "0.0.9"
OLDER, UPGRADED, FRESH = "tusk_older", "tusk_upgraded", "tusk_fresh"
FIT = "SELECT (train_model('linear', i, ARRAY[2 * i])).coef[1] FROM generate_series(0, 9) AS i"
GONE = """
CREATE FUNCTION tuskml._tuskml_gone(float8) RETURNS float8 LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS 'SELECT $1';
CREATE AGGREGATE tuskml.gone(float8) (SFUNC = pg_catalog.float8pl, STYPE = float8, FINALFUNC = tuskml._tuskml_gone);
GRANT EXECUTE ON FUNCTION tuskml._tuskml_gone(float8) TO PUBLIC;
SELECT tuskml._tuskml_offer('tuskml', '@extschema@');
"""

MEMBERS = """
WITH members AS (
    SELECT d.classid, d.objid, d.objsubid FROM pg_depend AS d JOIN pg_extension AS e ON d.refobjid = e.oid
    WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'tuskml')
SELECT pg_describe_object(m.classid, m.objid, m.objsubid) AS member, to_jsonb(x) AS facts FROM members AS m
CROSS JOIN LATERAL (SELECT obj_description(m.objid, m.classid::regclass::name) AS comment,
    ARRAY(SELECT pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid) || ' ' || d.deptype::text FROM pg_depend AS d
          WHERE d.classid = m.classid AND d.objid = m.objid ORDER BY 1) AS needs,
    (SELECT i.initprivs::text FROM pg_init_privs AS i WHERE (i.classoid, i.objoid) = (m.classid, m.objid) AND i.objsubid = 0) AS dumped_without,
    (SELECT jsonb_build_object('acl', p.proacl::text, 'owner', p.proowner::regrole, 'kind', p.prokind, 'parallel', p.proparallel,
                'returns', pg_get_function_result(p.oid), 'arguments', pg_get_function_arguments(p.oid), 'support', p.prosupport::regproc,
                'definition', CASE WHEN p.prokind <> 'a' THEN pg_get_functiondef(p.oid) END)
     FROM pg_proc AS p WHERE m.classid = 'pg_proc'::regclass AND p.oid = m.objid) AS routine,
    (SELECT jsonb_build_object('state', a.aggtransfn::regprocedure, 'final', a.aggfinalfn::regprocedure, 'combine', a.aggcombinefn::regprocedure,
                'serial', a.aggserialfn::regprocedure, 'deserial', a.aggdeserialfn::regprocedure, 'type', a.aggtranstype::regtype,
                'space', a.aggtransspace, 'modify', a.aggfinalmodify, 'extra', a.aggfinalextra, 'start', a.agginitval)
     FROM pg_aggregate AS a WHERE m.classid = 'pg_proc'::regclass AND a.aggfnoid = m.objid) AS aggregate,
    (SELECT jsonb_build_object('acl', t.typacl::text, 'kind', t.typtype,
                'fields', (SELECT array_agg(f.attname || ' ' || format_type(f.atttypid, f.atttypmod) ORDER BY f.attnum)
                           FROM pg_attribute AS f WHERE f.attrelid = t.typrelid AND f.attnum > 0))
     FROM pg_type AS t WHERE m.classid = 'pg_type'::regclass AND t.oid = m.objid) AS type) AS x ORDER BY 1
"""


@pytest.fixture(scope="module")
def generator(root: Path) -> ModuleType:
    """scripts/build/upgrade.py"""
    spec = importlib.util.spec_from_file_location("upgrade", root / "scripts/build/upgrade.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def older(generator: ModuleType, script: str) -> str:
    """A script with neither r2 nor sparse, another with_payload and accuracy, models without payload."""
    missing = re.compile(r"(CREATE|REVOKE ALL ON) \w+ tuskml\.(_tuskml_r2|r2|sparse)\(")
    kept = [text for text in generator.statements(script) if not missing.match(text)]
    text = ";\n".join(kept) + ";\n"
    changes = {
        "'tuskml_with_payload' LANGUAGE C IMMUTABLE": "'tuskml_with_payload' LANGUAGE C STABLE",
        "'tuskml_decision_dense' LANGUAGE C IMMUTABLE": "'tuskml_decision_dense' LANGUAGE C STABLE",
        "SFUNC = tuskml._tuskml_accuracy,": "SFUNC = tuskml._tuskml_mae,",
        "SSPACE = 1024": "SSPACE = 128",
    }
    for today, before in changes.items():
        assert today in text
        text = text.replace(today, before)
    return without_payload(text) + GONE


def without_payload(script: str) -> str:
    """A script whose models have no payload, their last field."""
    shorter, n = re.subn(r",\s+payload bytea\);", ");", script)
    assert n == 1
    return shorter


@pytest.fixture(scope="module")
def versions(cluster: Cluster, generator: ModuleType) -> Iterator[None]:
    """The server has the older version's script, and the one that leads from it to today's."""
    today = (cluster.server.scripts / f"tuskml--{VERSION}.sql").read_text()
    before = older(generator, today)
    made = {
        f"tuskml--{OLD}.sql": before,
        f"tuskml--{OLD}--{VERSION}.sql": generator.upgrade(before, today),
    }
    for name, text in made.items():
        (cluster.server.scripts / name).write_text(text)
    yield
    for name in made:
        (cluster.server.scripts / name).unlink()


@pytest.fixture
def upgraded(cluster: Cluster, versions: None) -> Iterator[psycopg.Connection]:
    """A session in a database that has the older version."""
    cluster.create_database(UPGRADED, "template0")
    with cluster.connect(UPGRADED) as session:
        session.execute(f"CREATE EXTENSION tuskml VERSION '{OLD}'")
        session.execute("CREATE EXTENSION tuskml_train CASCADE")
        yield session
    cluster.drop_database(UPGRADED)


def members(session: psycopg.Connection) -> dict[str, dict]:
    """All that belongs to the extension, and all that its catalogs say of it."""
    return dict(session.execute(MEMBERS).fetchall())  # type: ignore[arg-type]


def test_an_upgraded_extension_is_a_fresh_one(
    cluster: Cluster, upgraded: psycopg.Connection
) -> None:
    cluster.create_database(FRESH, "template0")
    try:
        with cluster.connect(FRESH) as session:
            session.execute("CREATE EXTENSION tuskml")
            fresh = members(session)
    finally:
        cluster.drop_database(FRESH)
    assert len(fresh) > 70
    old = members(upgraded)
    missing = {name.split()[1].split("(")[0] for name in fresh.keys() - old.keys()}
    assert missing == {"tuskml._tuskml_r2", "tuskml.r2", "r2", "tuskml.sparse", "sparse"}
    assert {name.split("(")[0] for name in old.keys() - fresh.keys()} == {
        "function gone",
        "function tuskml.gone",
        "function tuskml._tuskml_gone",
    }
    assert old.pop("type tuskml_model") != fresh["type tuskml_model"]
    other = {name.split("(")[0] for name in fresh.keys() & old.keys() if fresh[name] != old[name]}
    curves = ("roc_curve", "precision_recall_curve", "lift")
    of_scores = ("auc", "ks", "psi", "average_precision", *curves)
    at_k = ("ndcg", "precision_at_k", "recall_at_k", "average_precision_at_k", "calibration")
    names = ("with_payload", "decision", "accuracy", *of_scores, *at_k)
    assert other == {f"function {schema}{name}" for name in names for schema in ("", "tuskml.")}

    upgraded.execute("ALTER EXTENSION tuskml UPDATE")
    found = upgraded.execute("SELECT extversion FROM pg_extension WHERE extname = 'tuskml'")
    assert found.fetchone() == (VERSION,)
    new = members(upgraded)
    assert new.keys() == fresh.keys()
    for name, facts in fresh.items():
        assert new[name] == facts, name


@pytest.mark.nightly
def test_models_outlive_an_upgrade(upgraded: psycopg.Connection) -> None:
    """Those of a version without payloads get theirs by with_payload, in the tables that hold them."""
    upgraded.execute(
        "CREATE TABLE models AS SELECT train_model('linear', i, ARRAY[2 * i]) AS m FROM generate_series(0, 9) AS i"
    )
    upgraded.execute(
        "CREATE VIEW predictions AS SELECT round(predict(m, ARRAY[6])) AS p FROM models"
    )
    with pytest.raises(
        psycopg.errors.DatatypeMismatch, match="ALTER EXTENSION tuskml UPDATE adds"
    ):
        upgraded.execute("SELECT p FROM predictions")
    upgraded.execute("ALTER EXTENSION tuskml UPDATE")
    with pytest.raises(
        psycopg.errors.InvalidParameterValue, match=r"has no payload.*with_payload"
    ):
        upgraded.execute("SELECT p FROM predictions")
    upgraded.execute("UPDATE models SET m = with_payload(m)")
    assert upgraded.execute("SELECT p FROM predictions").fetchall() == [(3,)]
    assert upgraded.execute(FIT).fetchall() == [(pytest.approx(0.5),)]


def test_an_upgrade_leaves_a_running_training_alone(
    cluster: Cluster, upgraded: psycopg.Connection
) -> None:
    """It stands amid its rows, at a lock, while the functions that it is made of are replaced."""
    upgraded.execute(
        "CREATE FUNCTION gate(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN IF i = 5 THEN PERFORM pg_advisory_lock_shared(1); END IF; RETURN i; END'"
    )
    found = []
    with cluster.connect(UPGRADED) as session:
        upgraded.execute("SELECT pg_advisory_lock(1)")
        statement = FIT.replace("ARRAY[2 * i]", "ARRAY[2 * gate(i)]")
        thread = threading.Thread(
            target=lambda: found.extend(session.execute(statement).fetchall())
        )
        thread.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while thread.is_alive() and upgraded.execute(waiting).fetchone() == (0,):
            time.sleep(0.01)
        upgraded.execute("ALTER EXTENSION tuskml UPDATE")
        upgraded.execute("SELECT pg_advisory_unlock(1)")
        thread.join(60)
        found += session.execute(FIT).fetchall()
    assert found == [(pytest.approx(0.5),)] * 2


def test_a_failed_upgrade_changes_nothing(cluster: Cluster, upgraded: psycopg.Connection) -> None:
    script = cluster.server.scripts / f"tuskml--{OLD}--{VERSION}.sql"
    good = script.read_text()
    script.write_text(good + "SELECT 1 / 0;\n")
    before = members(upgraded)
    try:
        with pytest.raises(psycopg.errors.DivisionByZero):
            upgraded.execute("ALTER EXTENSION tuskml UPDATE")
    finally:
        script.write_text(good)
    assert members(upgraded) == before
    assert upgraded.execute(FIT).fetchall() == [(pytest.approx(0.5),)]


def spotted(*arguments: str | Path) -> tuple[int, str]:
    """The number that pgspot ends with, and what it says."""
    pytest.importorskip("pgspot")
    command = [sys.executable, "-c", "import sys; from pgspot.cli import run; sys.exit(run())"]
    known = ["--ignore-lang", "plpython3u", "--ignore-lang", "c"]
    done = subprocess.run(
        [*command, *known, *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_pgspot(cluster: Cluster, versions: None, tmp_path: Path) -> None:
    """No script lends its rights to objects that another user may have put in its way."""
    scripts = cluster.server.scripts
    for files in (
        [scripts / f"tuskml--{VERSION}.sql"],
        ["--append", scripts / f"tuskml--{OLD}.sql", scripts / f"tuskml--{OLD}--{VERSION}.sql"],
    ):
        number, told = spotted(*files)
        assert number == 0, told
        assert "Warnings: 0 Unknown: 0" in told.rstrip().splitlines()[-1], told
    careless = tmp_path / "careless.sql"
    careless.write_text("CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1';")
    number, told = spotted(careless)
    assert number != 0
    assert "PS002" in told


@pytest.mark.parametrize(
    ("old", "new", "made"),
    [
        ("CREATE FUNCTION f(a int) RETURNS int AS 'x;y';", "", "DROP FUNCTION f(a int);\n"),
        ("", "CREATE FUNCTION f() AS $x$ ; -- $$ $x$; -- b;", "CREATE FUNCTION f() AS $x$ ; -- $$ $x$;\n"),
        ("CREATE FUNCTION f() AS 'a';", "CREATE FUNCTION f() AS 'b';", "CREATE OR REPLACE FUNCTION f() AS 'b';\n"),
        ("CREATE FUNCTION f() AS 'a';", "CREATE FUNCTION f() AS 'a';\n-- c\nREVOKE ALL ON FUNCTION f() FROM PUBLIC;", "REVOKE ALL ON FUNCTION f() FROM PUBLIC;\n"),
        ("CREATE TYPE t AS (a int);", "CREATE TYPE t AS (b int);", "only a person"),
        ("CREATE TYPE t AS (a int, b int);", "CREATE TYPE t AS (b int, c int, a int);", "only a person"),
        ("CREATE TYPE t AS (a int, b int);", "CREATE TYPE t AS (a int, c text[],\n b int, d bytea);", "ALTER TYPE t ADD ATTRIBUTE c text[];\nALTER TYPE t ADD ATTRIBUTE d bytea;\n"),
        ("CREATE TYPE t AS (a int);", "", "only a person"),
        ("", "CREATE FUNCTION f() AS 'a'", "ends within a statement"),
    ],
)  # fmt: skip
def test_the_script_of_an_upgrade(generator: ModuleType, old: str, new: str, made: str) -> None:
    if made.endswith(";\n"):
        assert generator.upgrade(old, new).split("\n", 1)[1] == made
    else:
        with pytest.raises(ValueError, match=made):
            generator.upgrade(old, new)


@pytest.mark.nightly
def test_fields_may_have_another_order(cluster: Cluster, generator: ModuleType) -> None:
    """A field that is new in the midst of the type is the last of an upgraded one."""
    today = (cluster.server.scripts / f"tuskml--{VERSION}.sql").read_text()
    before = without_payload(today.replace("task text, features text[],", "task text,"))
    before, n = re.subn(r"\bclass_names text\[\],\s+", "", before)
    assert n == 1
    made = {
        "tuskml--0.0.8.sql": before,
        f"tuskml--0.0.8--{VERSION}.sql": generator.upgrade(before, today),
    }
    for name, text in made.items():
        (cluster.server.scripts / name).write_text(text)
    cluster.create_database(OLDER, "template0")
    try:
        with cluster.connect(OLDER) as session:
            session.execute("CREATE EXTENSION tuskml VERSION '0.0.8'")
            session.execute("CREATE EXTENSION tuskml_train CASCADE")
            session.execute("ALTER EXTENSION tuskml UPDATE")
            session.execute("SELECT create_registry()")
            session.execute(
                "SELECT register_model('m', train_model('linear', i, ARRAY[2 * i], '{\"feature_names\": [\"i\"]}')) FROM generate_series(0, 9) AS i"
            )
            session.execute("SELECT deploy('m')")
            found = session.execute(
                "SELECT round(predict('m', ARRAY[6])), (model).features, (model).n_rows, round(predict(with_payload(model), ARRAY[8])) FROM tuskml.deployed"
            )
            assert found.fetchall() == [(3, ["i"], 10, 4)]
    finally:
        cluster.drop_database(OLDER)
        for name in made:
            (cluster.server.scripts / name).unlink()
