"""The extension tuskml without tuskml_train: for owners of databases, in C alone, and restored from dumps."""

# ruff: noqa: E501, SQL is read better on one line

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from cluster import Cluster

import tuskml
from tuskml import registry
from tuskml.databases.extension import pgxs
from tuskml.errors import ExtensionError

OWNED, RESTORED = "tusk_scorer_owned", "tusk_scorer_restored"
MODELS = """
CREATE TABLE rows AS SELECT i, i % 3 AS g, ARRAY[i::float8, i * 37 % 101] AS x, 3 * i - i * 37 % 101 + i % 2 AS y, i % 7 > 2 AS yes FROM generate_series(1, 60) AS i;
CREATE TABLE models AS
    SELECT 'linear' AS kind, g, train_model('linear', y, x) AS m FROM rows GROUP BY g UNION ALL
    SELECT 'logistic', g, train_model('logistic', yes, ARRAY[sin(i), x[2]]) FROM rows GROUP BY g UNION ALL
    SELECT 'gbdt', g, train_model('gbdt', y, x, '{"trees": 3, "min_child_rows": 2}') FROM rows GROUP BY g UNION ALL
    SELECT 'factorization', g, train_model('matrix_factorization', y, ARRAY[i % 5, i % 4], '{"max_iter": 2}') FROM rows GROUP BY g;
CREATE VIEW predictions AS SELECT i, kind, predict(m, x) AS p FROM rows JOIN models USING (g) WHERE kind <> 'factorization';
SELECT create_registry();
SELECT register_model('fare', m, g::text) FROM models WHERE kind = 'linear';
SELECT deploy('fare')
"""
ANSWERS = (
    "SELECT * FROM predictions ORDER BY 1, 2",
    "SELECT i, predict('fare', g::text, x), predict_class(m, ARRAY[i, 1]), predict_probas(m, ARRAY[i, 1]) FROM rows JOIN models USING (g) WHERE kind = 'logistic' ORDER BY 1",
    "SELECT kind, g, s.* FROM models, model_summary(m) AS s WHERE kind <> 'factorization' ORDER BY 1, 2, 3",
    "SELECT g, t.* FROM models, tree_dump(m) AS t WHERE kind = 'gbdt' ORDER BY 1, 2, 3",
    "SELECT i, e.* FROM rows JOIN models USING (g), explain_prediction(m, x) AS e WHERE kind = 'linear' ORDER BY 1, 2",
    "SELECT g, r.* FROM models, recommend(m, 1, 3) AS r WHERE kind = 'factorization' ORDER BY 1, 2",
    "SELECT kind, round(rmse(y, p)::numeric, 9), round(r2(y, p)::numeric, 9) FROM predictions JOIN rows USING (i) WHERE kind <> 'logistic' GROUP BY 1 ORDER BY 1",
    "SELECT f.feature, f.seed_is FROM (SELECT feature, increase IS NOT NULL AS seed_is FROM permutation_importance('rows', '(SELECT m FROM models WHERE kind = ''linear'' AND g = 1)', 'y', ARRAY['x']) AS t (g, feature, increase, std, loss)) AS f ORDER BY 1",
    "SELECT name, group_key, version, stage FROM tuskml.models ORDER BY 1, 2, 3",
)
MEMBERS = """
SELECT p.oid, p.pronamespace::regnamespace::text AS schema, p.proname AS name, pg_get_function_identity_arguments(p.oid) AS arguments,
    concat_ws(' ', p.prokind, p.proparallel, p.provolatile, p.proisstrict, p.proconfig::text, p.prosrc, p.prosupport, p.prolang, p.proacl::text, p.procost, p.prorows,
              format_type(p.prorettype, NULL), pg_get_function_arguments(p.oid), obj_description(p.oid, 'pg_proc')) AS facts,
    to_jsonb(a) - 'aggfnoid' AS aggregate
FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname ~ '^tuskml'
LEFT JOIN pg_aggregate AS a ON a.aggfnoid = p.oid
"""


@pytest.fixture
def owner(cluster: Cluster) -> Iterator[psycopg.Connection]:
    """A session of a role without rights but to its own database, which has no extension."""
    with cluster.connect("postgres") as admin:
        admin.execute("CREATE ROLE tusk_scorer_ann LOGIN")
        admin.execute(f"CREATE DATABASE {OWNED} OWNER tusk_scorer_ann TEMPLATE template0")
        with cluster.connect(OWNED, user="tusk_scorer_ann") as session:
            yield session
        cluster.drop_database(OWNED)
        admin.execute("DROP ROLE tusk_scorer_ann")


def rows_of(session: psycopg.Connection, query: str) -> list[tuple]:
    return session.execute(query).fetchall()


def extensions(session: psycopg.Connection) -> set[str]:
    return {name for (name,) in rows_of(session, "SELECT extname FROM pg_extension")}


def test_the_owner_of_a_database_creates_and_drops_it(owner: psycopg.Connection) -> None:
    owner.execute("CREATE EXTENSION tuskml")
    assert rows_of(owner, "SELECT tuskml.mae(1, 3), mae(1, 3)") == [(2, 2)]
    owner.execute("SELECT create_registry()")
    with pytest.raises(psycopg.errors.UndefinedObject, match="no deployed model 'm'"):
        owner.execute("SELECT tuskml.predict('m', ARRAY[1.0])")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        owner.execute("CREATE EXTENSION tuskml_train CASCADE")
    assert extensions(owner) == {"plpgsql", "tuskml"}
    owner.execute("DROP TABLE tuskml.models CASCADE; DROP EXTENSION tuskml")
    left = (
        "SELECT (SELECT count(*) FROM pg_proc WHERE proname ~ 'tuskml'), to_regnamespace('tuskml')"
    )
    assert rows_of(owner, left) == [(0, None)]


def test_a_dump_of_models_is_restored_where_nothing_trains(
    cluster: Cluster, owner: psycopg.Connection, tmp_path: Path, database: str
) -> None:
    """By the owner of the database; the answers are the same, and the server's Python is not asked."""
    with cluster.connect(database) as trainer:
        for statement in MODELS.split(";"):
            trainer.execute(statement)
        expected = [rows_of(trainer, query) for query in ANSWERS]
    programs = pgxs.find().folder("BINDIR")
    dump = tmp_path / "dump"
    source, target = cluster.conninfo(database), cluster.conninfo(OWNED, "tusk_scorer_ann")
    chosen = ["--extension=tuskml", "-Fc", "--no-owner", "--no-privileges", "-f", str(dump)]
    subprocess.run([programs / "pg_dump", *chosen, "-d", source], check=True)
    restore = [programs / "pg_restore", "--no-owner", "--no-privileges", "--no-comments"]
    done = subprocess.run(
        [*restore, "-d", target, str(dump)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert extensions(owner) == {"plpgsql", "tuskml"}
    owner.execute("SET tuskml.python_path = '/nowhere'")
    for query, rows in zip(ANSWERS, expected, strict=True):
        assert rows, query
        assert rows_of(owner, query) == rows, query
    with pytest.raises(psycopg.errors.UndefinedFunction):
        owner.execute("SELECT train_model('linear', y, x) FROM rows")
    with pytest.raises(ExtensionError, match="CREATE EXTENSION tuskml_train CASCADE"):
        tuskml.train(owner, "linear", source="rows", label="y", features=["i"])
    assert registry.model(owner, "fare", "1").status == "ok"


# --- names ---


def test_each_documented_name_is_there_twice(pg: psycopg.Connection) -> None:
    """In the schema tuskml and in that of CREATE EXTENSION, with the same facts and rights; nothing else is."""
    found: dict[str, dict[tuple, tuple]] = {"public": {}, "tuskml": {}}
    for _, schema, name, arguments, facts, aggregate in rows_of(pg, MEMBERS):
        if not name.startswith("_"):
            found[schema][name, arguments] = (facts, aggregate)
        else:
            assert schema == "tuskml"
    assert len(found["public"]) > 100
    assert found["public"] == found["tuskml"]
    types = "SELECT t.typname FROM pg_type AS t JOIN pg_depend AS d ON d.objid = t.oid AND d.deptype = 'e' AND t.typrelid <> 0 WHERE t.typnamespace = 'public'::regnamespace"
    assert all(name.startswith("tuskml_") for (name,) in rows_of(pg, types))


def test_functions_of_others_stay_and_are_named_once(owner: psycopg.Connection) -> None:
    owner.execute(
        "CREATE FUNCTION public.rmse(float8, float8) RETURNS int LANGUAGE sql AS 'SELECT 42'"
    )
    owner.execute(
        "CREATE FUNCTION public.predict(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1'"
    )
    owner.execute("CREATE VIEW v AS SELECT predict(1) AS p, rmse(1.0::float8, 3.0) AS r")
    told: list[str] = []
    owner.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    owner.execute("CREATE EXTENSION tuskml")
    assert told == [
        "tuskml: the schema public has functions of others with these names: predict, rmse"
    ]
    assert rows_of(owner, "SELECT * FROM v") == [(2, 42)]
    assert rows_of(owner, "SELECT tuskml.rmse(1, 3), mae(1, 3)") == [(2, 2)]
    owner.execute("DROP EXTENSION tuskml")
    assert rows_of(owner, "SELECT * FROM v") == [(2, 42)]


@pytest.mark.nightly
def test_a_schema_alone_for_all(cluster: Cluster, owner: psycopg.Connection) -> None:
    owner.execute("CREATE SCHEMA tuskml")
    owner.execute("CREATE EXTENSION tuskml SCHEMA tuskml")
    assert {schema for _, schema, *_ in rows_of(owner, MEMBERS)} == {"tuskml"}
    with cluster.connect(OWNED) as admin:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="expected the same one"):
            admin.execute("CREATE EXTENSION tuskml_train SCHEMA public CASCADE")
        admin.execute("CREATE EXTENSION tuskml_train SCHEMA tuskml CASCADE")
        assert {schema for _, schema, *_ in rows_of(admin, MEMBERS)} == {"tuskml"}
        admin.execute("SET search_path = tuskml")
        fit = "SELECT (train_model('linear', i, ARRAY[2 * i])).coef[1] FROM generate_series(0, 9) AS i"
        assert rows_of(admin, fit) == [(pytest.approx(0.5),)]


def test_a_schema_of_another_role_is_refused(cluster: Cluster, owner: psycopg.Connection) -> None:
    """Its owner could put functions of other types of arguments among ours."""
    with cluster.connect(OWNED) as admin:
        admin.execute("CREATE ROLE tusk_scorer_eve")
        admin.execute("CREATE SCHEMA tuskml AUTHORIZATION tusk_scorer_eve")
        for session in (owner, admin):
            with pytest.raises(
                psycopg.errors.InsufficientPrivilege, match="belongs to tusk_scorer_eve"
            ):
                session.execute("CREATE EXTENSION tuskml")
        admin.execute("DROP OWNED BY tusk_scorer_eve; DROP ROLE tusk_scorer_eve")


def test_sparse_features_are_known_in_any_schema(owner: psycopg.Connection) -> None:
    owner.execute('CREATE SCHEMA "m l"')
    owner.execute('CREATE EXTENSION tuskml SCHEMA "m l"')
    model = """ROW('linear', NULL, NULL, '{1,2}', 0, NULL, NULL, NULL, 1, 0, NULL, 2, 0, NULL, 1, true, 'ok', '', 0, '{"tuskml":1,"l2":0}', NULL, NULL, NULL, NULL, NULL)::"m l".tuskml_model"""
    query = f"SELECT sum(contribution) FROM tuskml.explain_prediction(tuskml.with_payload({model}), tuskml.sparse(ARRAY[1], ARRAY[3.0]))"
    assert rows_of(owner, query) == [(6,)]
