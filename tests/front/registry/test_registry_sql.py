"""The registry in SQL, each database's own way, and who may do what in PostgreSQL."""

# ruff: noqa: E501, SQL is read better on one line

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

import tuskml
from tuskml import DataError, registry

# --- DuckDB's own ---


def test_duckdb_registers_and_deploys_in_sql(make_place: Callable[[str], Any]) -> None:
    place = make_place("duckdb")
    registry.create(place.connection)
    place.sql(
        "CREATE TABLE trained AS SELECT city, train_model('linear', fare, [km]) AS model, count(*) AS n FROM rides GROUP BY city"
    )
    for version in (1, 2):
        place.sql(
            "INSERT INTO tuskml.models BY NAME FROM register_model('city', 'trained', in_group := 'city', metrics := '{''n'': n}')"
        )
        place.sql(
            f"INSERT OR REPLACE INTO tuskml.models BY NAME FROM deploy('city', to_version := {version})"
        )
    place.sql("INSERT OR REPLACE INTO tuskml.models BY NAME FROM rollback('city')")
    assert place.sql("SELECT DISTINCT version, metrics->>'n' FROM tuskml.deployed") == [(1, "30")]
    with pytest.raises(Exception, match="there is no version 7 of a model 'city'"):
        place.sql(
            "INSERT OR REPLACE INTO tuskml.models BY NAME FROM deploy('city', to_version := 7)"
        )


def test_duckdb_registers_one_model_a_group(make_place: Callable[[str], Any]) -> None:
    place = make_place("duckdb")
    registry.create(place.connection)
    place.sql(
        "CREATE TABLE trained AS SELECT city, train_model('linear', fare, [km]) AS model FROM rides GROUP BY city"
    )
    register = "INSERT INTO tuskml.models BY NAME FROM register_model('late', 'trained'{})"
    with pytest.raises(
        Exception, match="has several models of no group, expected one: in_group is"
    ):
        place.sql(register.format(""))
    with pytest.raises(Exception, match="has several models of the group '1', expected one"):
        place.sql(register.format(", in_group := '(city > 0)::INT'"))
    with pytest.raises(Exception, match="the group of a model is NULL, expected text"):
        place.sql(register.format(", in_group := 'nullif(city, 1)'"))
    with pytest.raises(Exception, match="the group of a model is '', which the registry has"):
        place.sql(register.format(", in_group := 'left(city::VARCHAR, city)'"))
    assert place.sql("SELECT count(*) FROM tuskml.models") == [(0,)]
    place.sql(register.format(", in_group := 'city'"))
    assert place.sql("SELECT count(*) FROM tuskml.models") == [(3,)]


@pytest.mark.fault(family="upgrades")
def test_models_of_an_older_registry_are_renewed(tmp_path: Path) -> None:
    """Before there were payloads a model had fewer fields."""
    older = (
        "STRUCT(task VARCHAR, coef DOUBLE[], intercept DOUBLE, classes DOUBLE[], options VARCHAR)"
    )
    with tuskml.connect(tmp_path / "older.duckdb") as con:
        registry.create(con)
        source = "SELECT train_model('linear', 2 * x, [x]) AS model FROM range(9) t(x)"
        con.execute(
            f"INSERT INTO tuskml.models BY NAME FROM register_model('m', '{source.replace(chr(39), chr(39) * 2)}')"
        )
        con.execute("INSERT OR REPLACE INTO tuskml.models BY NAME FROM deploy('m')")
        con.execute("DROP VIEW tuskml.deployed")
        con.execute(
            f"ALTER TABLE tuskml.models ALTER COLUMN model TYPE {older} USING CAST(model AS {older})"
        )
    with tuskml.connect(tmp_path / "older.duckdb") as con:
        with pytest.raises(duckdb.Error, match=r"models of an older tuskml.*tuskml models create"):
            con.execute("SELECT predict('m', [4])").fetchall()
        registry.create(con)
        assert con.execute("SELECT predict('m', [4])").fetchall() == [(pytest.approx(8),)]
        found = con.execute("SELECT model.n_rows, model.coef FROM tuskml.deployed").fetchall()
        assert found == [(None, [pytest.approx(2)])]


@pytest.mark.fault(family="upgrades")
def test_a_registry_without_trials_is_renewed(tmp_path: Path) -> None:
    """Models with a payload, but without a field that came later, predict and are renewed."""
    path = tmp_path / "older.duckdb"
    source = """SELECT train_model('linear', 2 * x, [x], '{"l2": [0, 1], "folds": 3}') AS model FROM range(9) t(x)"""
    register = (
        f"INSERT OR REPLACE INTO tuskml.models BY NAME FROM register_model('m', $${source}$$)"
    )
    trials = "SELECT count(*) FROM model_trials(deployed_model('m'))"
    with tuskml.connect(path) as con:
        registry.create(con)
        fields = con.execute(
            "SELECT typeof(model) FROM (SELECT any_value(model) AS model FROM tuskml.models)"
        ).fetchall()[0][0]
        older = fields.replace(", trials VARCHAR", "")
        assert older != fields
        con.execute("DROP VIEW tuskml.deployed")
        con.execute(f"ALTER TABLE tuskml.models ALTER COLUMN model TYPE {older}")
    with tuskml.connect(path) as con:
        con.execute(register)
        con.execute("INSERT OR REPLACE INTO tuskml.models BY NAME FROM deploy('m')")
        assert con.execute("SELECT predict('m', [4])").fetchall() == [(pytest.approx(8),)]
        payload = con.execute("SELECT model.payload FROM tuskml.models").fetchall()
        registry.create(con)
        assert con.execute("SELECT predict('m', [4])").fetchall() == [(pytest.approx(8),)]
        assert con.execute("SELECT model.payload FROM tuskml.deployed").fetchall() == payload
        con.execute(register)
        con.execute("INSERT OR REPLACE INTO tuskml.models BY NAME FROM deploy('m')")
        assert con.execute(trials).fetchall() == [(8,)]


def test_an_aggregate_within_predict(make_place: Callable[[str], Any]) -> None:
    """DuckDB does not know its type yet, and takes it for a text, which is read as a model again."""
    place = make_place("duckdb")
    query = "SELECT predict(any_value(model), [10]) FROM (SELECT train_model('linear', fare, [km]) AS model FROM rides)"
    assert place.sql(query) == [(pytest.approx(24),)]
    registry.create(place.connection)
    assert place.sql(query) == [(pytest.approx(24),)]
    inner = "(SELECT any_value(model) AS model FROM (SELECT train_model('linear', fare, [km]) AS model FROM rides))"
    assert place.sql(f"SELECT predict(model, [10]) FROM {inner}") == [(pytest.approx(24),)]


@pytest.mark.nightly
def test_a_file_opened_again_has_its_models(make_place: Callable[[str], Any]) -> None:
    place = make_place("duckdb")
    registry.create(place.connection)
    registry.register(place.connection, "fare", place.fit())
    registry.deploy(place.connection, "fare")
    place.connection.close()
    with tuskml.connect(place.address) as connection:
        assert connection.execute("SELECT predict('fare', [10])").fetchone() == (
            pytest.approx(24),
        )
        cursor = tuskml.load(connection.cursor())
        assert cursor.execute("SELECT predict('fare', [10])").fetchone() == (pytest.approx(24),)
    with tuskml.connect(place.address, read_only=True) as connection:
        assert connection.execute("SELECT predict('fare', [10])").fetchone() == (
            pytest.approx(24),
        )


def test_the_registry_s_model_is_train_model_s(con: Any) -> None:
    registry.create(con)
    types = con.execute(
        "SELECT typeof(model), typeof(train_model('linear', 1, [1])) FROM (SELECT NULL::INT) LEFT JOIN tuskml.models ON true GROUP BY model"
    ).fetchone()
    assert types[0] == types[1]


def test_a_database_called_tuskml(tmp_path: Any) -> None:
    with (
        tuskml.connect(tmp_path / "TuskML.duckdb") as connection,
        pytest.raises(DataError, match="give its file another name"),
    ):
        registry.create(connection)


# --- PostgreSQL's own ---


@pytest.fixture(scope="module")
def pg(make_place: Callable[[str], Any]) -> Any:
    place = make_place("postgres")
    registry.create(place.connection)
    place.sql(
        "CREATE TABLE trained AS SELECT city, train_model('linear', fare, ARRAY[km]) AS model FROM rides GROUP BY city"
    )
    return place


def test_postgres_registers_and_deploys_in_sql(pg: Any) -> None:
    pg.sql("SELECT register_model('mine', model, city::text, '{\"n\": 30}') FROM trained")
    assert pg.sql("SELECT deploy('mine'), deploy('mine', to_version => 1, in_group => '2')") == [
        (3, 0)
    ]
    assert pg.sql(
        "SELECT register_model('mine', model, city::text) FROM trained WHERE city = 1"
    ) == [(2,)]
    assert pg.sql("SELECT deploy('mine')") == [(1,)]
    assert pg.sql(
        "SELECT (deployed_model('mine', '1')).n_rows, rollback('mine'), drop_model('mine', 2)"
    ) == [(30, 1, 1)]
    assert pg.sql("SELECT register_model('mine', NULL)") == [(None,)]
    with pytest.raises(psycopg.errors.ObjectInUse, match="version 1 of 'mine' is deployed"):
        pg.sql("SELECT drop_model('mine', 1)")
    with pytest.raises(psycopg.errors.NullValueNotAllowed):
        pg.sql("SELECT register_model(NULL, model) FROM trained")


def test_postgres_registers_one_model_a_name_without_groups(pg: Any) -> None:
    """In a statement; several statements, sent as one text, make versions of the name."""
    names = "SELECT register_model('late_' || city, model) FROM trained ORDER BY city"
    assert pg.sql(names) == [(1,), (1,), (1,)]
    for statement in (
        "SELECT register_model('late', model) FROM trained",
        "DO $$ DECLARE m tuskml_model; BEGIN FOR m IN SELECT (t.model).* FROM trained AS t LOOP PERFORM register_model('late', x.model) FROM trained AS x; END LOOP; END $$",
    ):
        with pytest.raises(psycopg.errors.CardinalityViolation) as raised:
            pg.sql(statement)
        told = raised.value.diag
        assert (
            told.message_primary
            == "register_model: the statement registers several models as 'late' without groups, expected one"
        )
        assert (
            told.message_hint
            == "The third argument names a model's group: register_model(name, model, group::text)."
        )
        assert pg.sql("SELECT count(*) FROM tuskml.models WHERE name = 'late'") == [(0,)]
    one = "SELECT register_model('late', model) FROM trained WHERE city = 0"
    pg.sql(f"{one}; {one}; BEGIN; {one}; SAVEPOINT s; {one}; COMMIT")
    assert pg.sql("SELECT max(version) FROM tuskml.models WHERE name = 'late'") == [(4,)]
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="group of a model is ''"):
        pg.sql("SELECT register_model('late', model, left(city::text, city)) FROM trained")
    with pytest.raises(psycopg.errors.CardinalityViolation):
        pg.sql("BEGIN; SAVEPOINT s; SELECT register_model('late', model) FROM trained; COMMIT")
    pg.sql("ROLLBACK")


def test_a_name_is_looked_up_once_a_query(pg: Any) -> None:
    pg.sql("SELECT register_model('once', model, city::text) FROM trained; SELECT deploy('once')")
    pg.sql(
        "SELECT register_model('once', model) FROM trained WHERE city = 0; SELECT deploy('once', in_group => '')"
    )

    def scans() -> int:
        pg.sql("SELECT pg_stat_force_next_flush()")
        return pg.sql(
            "SELECT seq_scan + idx_scan FROM pg_stat_all_tables WHERE relname = 'models' AND schemaname = 'tuskml'"
        )[0][0]

    before = scans()
    assert pg.sql("SELECT count(predict('once', ARRAY[km])) FROM rides")[0] == (90,)
    assert scans() == before + 1
    assert pg.sql("SELECT count(predict('once', city::text, ARRAY[km])) FROM rides")[0] == (90,)
    assert scans() == before + 4, "three groups"


def test_parallel_workers_look_up_for_themselves(pg: Any) -> None:
    pg.sql(
        "SELECT register_model('workers', model) FROM trained WHERE city = 0; SELECT deploy('workers')"
    )
    # autovacuum may have seen that the table has one page, which is one worker's
    pg.sql("ANALYZE rides; ALTER TABLE rides SET (parallel_workers = 2)")
    pg.sql(
        "BEGIN; SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0; SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL parallel_leader_participation = off"
    )
    query = "SELECT count(*), sum(predict('workers', ARRAY[km])) FROM rides"
    plan = "\n".join(row for (row,) in pg.sql(f"EXPLAIN (ANALYZE, COSTS off, TIMING off) {query}"))
    assert "Workers Launched: 0" not in plan
    assert "Partial Aggregate" in plan
    assert pg.sql(query) == [(90, pytest.approx(9 * sum(3 + 2 * km for km in range(10))))]
    pg.sql("COMMIT")


def test_a_registry_in_a_schema_of_another_s(make_place: Callable[[str], Any]) -> None:
    """Its owner could change what the functions find there."""
    place = make_place("postgres")
    place.sql("CREATE ROLE reg_other; ALTER SCHEMA tuskml OWNER TO reg_other")
    try:
        with pytest.raises(
            psycopg.errors.InsufficientPrivilege, match="the schema tuskml belongs to reg_other"
        ):
            place.sql("SELECT create_registry()")
    finally:
        place.sql("ALTER SCHEMA tuskml OWNER TO postgres; DROP ROLE reg_other")


def test_a_query_sees_what_is_deployed_now(pg: Any) -> None:
    """In a transaction, and in a function whose expressions live on from call to call."""
    pg.sql(
        "SELECT register_model('now', model) FROM trained WHERE city = 0; SELECT register_model('now', model) FROM trained WHERE city = 2"
    )
    pg.sql(
        "CREATE FUNCTION both_versions() RETURNS SETOF float8 LANGUAGE plpgsql AS $$ BEGIN FOR v IN 1..2 LOOP PERFORM deploy('now', v); RETURN NEXT predict('now', ARRAY[10]); END LOOP; END $$"
    )
    for _ in range(2):
        assert [round(p) for (p,) in pg.sql("SELECT both_versions()")] == [23, 25]


def test_rights_are_those_of_the_table(pg: Any, cluster: Any) -> None:
    name = pg.connection.info.dbname
    pg.sql(
        "CREATE ROLE reg_trainer LOGIN IN ROLE tuskml_user; CREATE ROLE reg_reader LOGIN; GRANT SELECT ON trained TO reg_trainer"
    )
    try:
        pg.sql("GRANT USAGE ON SCHEMA tuskml TO reg_reader")
        register = "SELECT register_model('theirs', model) FROM trained WHERE city = 1"
        with (
            cluster.connect(name, user="reg_trainer") as trainer,
            cluster.connect(name, user="reg_reader") as reader,
        ):
            assert trainer.execute(register).fetchone() == (1,)
            denied = psycopg.errors.InsufficientPrivilege
            for statement in ("SELECT deploy('theirs')", "SELECT drop_model('theirs')",
                              "INSERT INTO tuskml.models (name, version, stage, deployed_at, model) SELECT 'x', 1, 'deployed', now(), model FROM trained"):  # fmt: skip
                with pytest.raises(denied):
                    trainer.execute(statement)
            pg.sql("SELECT deploy('theirs')")
            for statement in (
                "SELECT predict('theirs', ARRAY[1])",
                "SELECT deployed_model('theirs')",
            ):
                with pytest.raises(denied):
                    reader.execute(statement)
            pg.sql("GRANT SELECT ON tuskml.models TO reg_reader")
            assert reader.execute("SELECT round(predict('theirs', ARRAY[1]))").fetchone() == (6,)
            pg.sql("GRANT UPDATE (stage, deployed_at) ON tuskml.models TO reg_trainer")
            assert trainer.execute("SELECT deploy('theirs')").fetchone() == (0,)
    finally:
        pg.sql("DROP OWNED BY reg_trainer, reg_reader; DROP ROLE reg_trainer, reg_reader")


def test_a_table_of_that_name_with_other_models_harms_nobody(
    make_place: Callable[[str], Any],
) -> None:
    place = make_place("postgres")
    place.sql(
        "CREATE TYPE other AS (task int, coef int); CREATE TABLE tuskml.models (name text, group_key text, stage text, model other)"
    )
    place.sql("INSERT INTO tuskml.models VALUES ('m', '', 'deployed', ROW(1, 2))")
    with pytest.raises(psycopg.errors.CannotCoerce):
        place.predict("'m'", "1.0")
    place.sql("DROP TABLE tuskml.models")
    with pytest.raises(psycopg.errors.UndefinedTable, match="has no registry of models"):
        place.predict("'m'", "1.0")


@pytest.mark.fault(family="concurrency")
def test_registering_at_the_same_time(pg: Any, cluster: Any) -> None:
    """Each session gets a number of its own."""
    name = pg.connection.info.dbname
    found: list[int] = []

    def run() -> None:
        with cluster.connect(name) as session:
            for _ in range(10):
                row = session.execute(
                    "SELECT register_model('race', model) FROM trained WHERE city = 0"
                ).fetchone()
                found.append(row[0])

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == list(range(1, 41))
    assert pg.sql("SELECT count(*), max(version) FROM tuskml.models WHERE name = 'race'") == [
        (40, 40)
    ]
