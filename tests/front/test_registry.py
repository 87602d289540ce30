"""The registry: the same calls mean the same in DuckDB and in PostgreSQL."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tuskml
from tuskml import DataError, registry
from tuskml.cli import main

ROWS = {
    "duckdb": "CREATE TABLE rides AS SELECT i % 3 AS city, i % 10 AS km, 3 + 2 * (i % 10) + i % 3 AS fare FROM range(90) AS t(i)",
    "postgres": "CREATE TABLE rides AS SELECT i % 3 AS city, i % 10 AS km, 3 + 2 * (i % 10) + i % 3 AS fare FROM generate_series(0, 89) AS t(i)",
}


@dataclass
class Place:
    """A database with the table rides: fare = 3 + city + 2 km."""

    kind: str
    connection: Any
    address: str
    """What the command line takes."""

    def sql(self, query: str) -> list[tuple]:
        cursor = self.connection.execute(query)
        return cursor.fetchall() if self.kind == "duckdb" or cursor.description else []

    def features(self, item: str) -> str:
        return f"[{item}]" if self.kind == "duckdb" else f"ARRAY[{item}]"

    def predict(self, *arguments: str, function: str = "predict") -> float:
        *names, features = arguments
        call = f"{function}({', '.join([*names, self.features(features)])})"
        return self.sql(f"SELECT {call}")[0][0]


@pytest.fixture(scope="module")
def make_place(
    cluster: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Place]]:
    made: list[tuple[Any, str]] = []

    def make(kind: str) -> Place:
        if kind == "duckdb":
            path = str(tmp_path_factory.mktemp("registry") / "rides.duckdb")
            place = Place(kind, tuskml.connect(path), path)
        else:
            name = f"tusk_registry_{len(made)}"
            cluster.create_database(name)
            url = f"postgresql://postgres@/{name}?host={cluster.folder}&port={cluster.port}"
            place = Place(kind, cluster.connect(name), url)
        made.append((place.connection, place.address))
        place.sql(ROWS[kind])
        return place

    yield make
    for place, (connection, address) in enumerate(made):
        connection.close()
        if address.startswith("postgresql:"):
            cluster.drop_database(f"tusk_registry_{place}")


@pytest.fixture(params=["duckdb", "postgres"])
def place(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    found = make_place(request.param)
    registry.create(found.connection)
    return found


def fit(place: Place, **given: Any) -> Any:
    return tuskml.train(
        place.connection, "linear", source="rides", label="fare", features="km", **given
    )


def stages(place: Place, name: str) -> dict[tuple[str, int], str]:
    return {(e.group_key, e.version): e.stage for e in registry.entries(place.connection, name)}


def test_a_database_without_a_registry(make_place: Callable[[str], Place]) -> None:
    for kind in ("duckdb", "postgres"):
        bare = make_place(kind)
        with pytest.raises(DataError, match="has no registry of models: tuskml models create"):
            registry.entries(bare.connection)
        registry.create(bare.connection)
        registry.create(bare.connection)
        assert registry.entries(bare.connection) == []


def test_a_version_comes_back_as_it_was(place: Place) -> None:
    model = fit(place)
    assert (
        registry.register(place.connection, "fare", model, metrics={"r2": 0.5}, recipe="ours") == 1
    )
    assert registry.register(place.connection, "fare", model) == 2
    assert registry.model(place.connection, "fare", version=2) == model
    unnamed = registry.model(place.connection, "fare", version=1)
    assert unnamed == model.trained_on((), None), "its recipe is the caller's"
    first, second = registry.entries(place.connection)
    assert (first.metrics, first.recipe, first.task, first.status) == (
        {"r2": 0.5},
        "ours",
        "linear",
        model.status,
    )
    assert first.options == model.options
    assert (second.metrics, json.loads(second.recipe or "")) == (
        {},
        {"features": ["km"], "label": "fare"},
    )
    assert first.created <= second.created
    assert first.created.utcoffset().total_seconds() == 0
    with pytest.raises(DataError, match="no deployed version of a model 'fare'"):
        registry.model(place.connection, "fare")
    assert registry.model(place.connection, "fare", version=2).coef == pytest.approx([2.0])


def test_one_version_answers_to_the_name(place: Place) -> None:
    """y = 3 + 2 x of all cities has the mean intercept; the second version is one of a city."""
    registry.register(place.connection, "fare", fit(place))
    registry.register(place.connection, "fare", fit(place, group_by="city")[2])
    assert registry.deploy(place.connection, "fare", 1) == 1
    assert place.predict("'fare'", "10.0") == pytest.approx(3 + 20 + 1)
    assert registry.deploy(place.connection, "fare") == 1
    assert registry.deploy(place.connection, "fare") == 0
    assert place.predict("'fare'", "10.0") == pytest.approx(3 + 20 + 2)
    assert place.predict("'fare'", "10.0", function="decision") == pytest.approx(25)
    assert stages(place, "fare") == {("", 1): "retired", ("", 2): "deployed"}
    assert registry.rollback(place.connection, "fare") == 1
    assert place.predict("'fare'", "10.0") == pytest.approx(24)
    assert stages(place, "fare") == {("", 1): "deployed", ("", 2): "withdrawn"}
    with pytest.raises(DataError, match="no version of a model 'fare' was deployed before"):
        registry.rollback(place.connection, "fare")
    assert registry.deploy(place.connection, "fare") == 0, "what was withdrawn is not the newest"
    assert registry.deploy(place.connection, "fare", 2) == 1


def test_models_by_group(place: Place) -> None:
    registry.register(place.connection, "city", fit(place, group_by="city"))
    assert registry.deploy(place.connection, "city") == 3
    found = place.sql(
        f"SELECT max(abs(predict('city', CAST(city AS text), {place.features('km + 0.0')}) - fare)) FROM rides"
    )
    assert found[0][0] == pytest.approx(0, abs=1e-6)
    assert place.predict("'city'", "'9'", "1.0") is None
    assert place.sql("SELECT group_key, version FROM tuskml.deployed ORDER BY 1") == [
        ("0", 1),
        ("1", 1),
        ("2", 1),
    ]


def test_a_rollback_undoes_the_last_deployment_only(place: Place) -> None:
    connection = place.connection
    models = fit(place, group_by="city")
    assert [
        registry.register(connection, "city", {g: models[g] for g in groups})
        for groups in ((0, 1), (1,), (0, 2))
    ] == [1, 2, 3]
    for version, changed in ((1, 2), (2, 1), (3, 2)):
        assert registry.deploy(connection, "city", version) == changed
    assert registry.rollback(connection, "city") == 1, "2 was new, and has nothing before it"
    assert stages(place, "city") == {
        ("0", 1): "deployed",
        ("0", 3): "withdrawn",
        ("1", 1): "retired",
        ("1", 2): "deployed",
        ("2", 3): "deployed",
    }
    assert registry.rollback(connection, "city") == 1
    assert stages(place, "city")["1", 1] == "deployed"
    with pytest.raises(DataError, match="was deployed before"):
        registry.rollback(connection, "city", "0")
    with pytest.raises(DataError, match="there is no version 2 of a model 'city' in group '0'"):
        registry.deploy(connection, "city", 2, "0")


def test_dropping(place: Place) -> None:
    connection = place.connection
    models = fit(place, group_by="city")
    for _ in range(2):
        registry.register(connection, "city", models)
    registry.deploy(connection, "city", 2)
    with pytest.raises(DataError, match="version 2 of 'city' is deployed"):
        registry.drop(connection, "city", 2)
    assert registry.drop(connection, "city", 1, "0") == 1
    assert registry.drop(connection, "city", 1) == 2
    assert registry.drop(connection, "city") == 3
    for given in ((), (1,), (1, "0")):
        with pytest.raises(DataError, match=r"there is no .*'city'"):
            registry.drop(connection, "city", *given)


def test_names_that_are_not_there(place: Place) -> None:
    with pytest.raises(Exception, match="there is no deployed model 'nobody' without groups"):
        place.predict("'nobody'", "1.0")
    with pytest.raises(DataError, match="there is no deployable version of a model 'nobody'"):
        registry.deploy(place.connection, "nobody")
    assert place.predict("CAST(NULL AS text)", "1.0") is None


@pytest.mark.parametrize("name", ["it's", 'a "b" \\ c', "ü 模型", "x" * 300])
def test_any_name_will_do(place: Place, name: str) -> None:
    registry.register(place.connection, name, {name: fit(place)})
    assert registry.deploy(place.connection, name, group=name) == 1
    assert [(e.name, e.group_key) for e in registry.entries(place.connection, name)] == [
        (name, name)
    ]
    assert registry.model(place.connection, name, name).n_rows == 90


def test_models_of_sparse_features_and_odd_values(place: Place) -> None:
    """Every field comes back, NULLs in lists and all."""
    text = "CAST(ARRAY[0, km + 1] AS int[])" if place.kind == "postgres" else "[0, km + 1]"
    ones = "CAST(ARRAY[1, 2] AS float8[])" if place.kind == "postgres" else "[1.0, 2.0]::DOUBLE[]"
    model = tuskml.train(
        place.connection,
        "logistic",
        source="rides",
        label="fare > 9",
        features=f"sparse({text}, {ones})",
        l2=0.1,
    )
    registry.register(place.connection, "sparse", model)
    registry.deploy(place.connection, "sparse")
    assert registry.model(place.connection, "sparse") == model
    item = f"sparse({text.replace('km', '8')}, {ones})"
    found = place.sql(f"SELECT predict_proba('sparse', {item}), predict('sparse', {item})")
    assert found[0][0] > 0.5
    assert found[0][1] == 1


def test_no_model_to_register(place: Place) -> None:
    with pytest.raises(DataError, match="there is no model to register as 'none'"):
        registry.register(place.connection, "none", {1: None})


def test_the_command_line(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    registry.register(place.connection, "city", fit(place, group_by="city"), metrics={"r2": 1.0})
    if place.kind == "duckdb":
        place.connection.close()

    def told(*arguments: str) -> Any:
        assert main(["models", *arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert told("create", place.address) == {"created": "tuskml.models"}
    assert told("deploy", place.address, "city", "--group", "1") == {"deployed": 1}
    assert told("deploy", place.address, "city") == {"deployed": 2}
    listed = told("list", place.address, "city")
    assert [(one["group_key"], one["stage"], one["metrics"]) for one in listed] == [
        (g, "deployed", {"r2": 1.0}) for g in "012"
    ]
    assert told("show", place.address, "city", "--group", "2")["coef"] == [pytest.approx(2)]
    assert main(["models", "list", place.address]) == 0
    assert "city" in capsys.readouterr().out
    assert main(["models", "rollback", place.address, "city"]) == 1
    assert "no version of a model 'city' was deployed before" in capsys.readouterr().err
    assert told("drop", place.address, "city") == {"dropped": 3}


def manual(root: Path, language: str) -> list[str]:
    text = (root / "docs" / "registry.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_manual_runs(root: Path, make_place: Callable[[str], Place]) -> None:
    """Its Python, and its SQL in the database that it is of."""
    (program,) = manual(root, "python")
    exec(compile(program, "registry.md", "exec"), {})
    for kind, script in zip(("postgres", "duckdb"), manual(root, "sql"), strict=True):
        place = make_place(kind)
        registry.create(place.connection)
        features = place.features("km")
        place.sql(
            f"CREATE TABLE trained AS SELECT 'Rome' AS city, train_model('linear', fare, {features}) AS model FROM rides"
        )
        for statement in script.split(";\n")[:-1]:
            place.sql(statement)
        assert place.sql("SELECT version, stage FROM tuskml.models") == [(1, "deployed")]


# --- DuckDB's own ---


def test_duckdb_registers_and_deploys_in_sql(make_place: Callable[[str], Place]) -> None:
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


def test_a_file_opened_again_has_its_models(make_place: Callable[[str], Place]) -> None:
    place = make_place("duckdb")
    registry.create(place.connection)
    registry.register(place.connection, "fare", fit(place))
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
def pg(make_place: Callable[[str], Place]) -> Place:
    place = make_place("postgres")
    registry.create(place.connection)
    place.sql(
        "CREATE TABLE trained AS SELECT city, train_model('linear', fare, ARRAY[km]) AS model FROM rides GROUP BY city"
    )
    return place


def test_postgres_registers_and_deploys_in_sql(pg: Place) -> None:
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


def test_a_name_is_looked_up_once_a_query(pg: Place) -> None:
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


def test_parallel_workers_look_up_for_themselves(pg: Place) -> None:
    pg.sql(
        "SELECT register_model('workers', model) FROM trained WHERE city = 0; SELECT deploy('workers')"
    )
    pg.sql(
        "BEGIN; SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0; SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL parallel_leader_participation = off"
    )
    query = "SELECT count(*), sum(predict('workers', ARRAY[km])) FROM rides"
    plan = "\n".join(row for (row,) in pg.sql(f"EXPLAIN (ANALYZE, COSTS off, TIMING off) {query}"))
    assert "Workers Launched: 0" not in plan
    assert "Partial Aggregate" in plan
    assert pg.sql(query) == [(90, pytest.approx(9 * sum(3 + 2 * km for km in range(10))))]
    pg.sql("COMMIT")


def test_a_registry_in_a_schema_of_another_s(make_place: Callable[[str], Place]) -> None:
    """Its owner could change what the functions find there."""
    place = make_place("postgres")
    place.sql("CREATE ROLE reg_other; CREATE SCHEMA tuskml AUTHORIZATION reg_other")
    try:
        with pytest.raises(
            psycopg.errors.InsufficientPrivilege, match="the schema tuskml belongs to reg_other"
        ):
            place.sql("SELECT create_registry()")
    finally:
        place.sql("DROP SCHEMA tuskml; DROP ROLE reg_other")


def test_a_query_sees_what_is_deployed_now(pg: Place) -> None:
    """In a transaction, and in a function whose expressions live on from call to call."""
    pg.sql(
        "SELECT register_model('now', model) FROM trained WHERE city = 0; SELECT register_model('now', model) FROM trained WHERE city = 2"
    )
    pg.sql(
        "CREATE FUNCTION both_versions() RETURNS SETOF float8 LANGUAGE plpgsql AS $$ BEGIN FOR v IN 1..2 LOOP PERFORM deploy('now', v); RETURN NEXT predict('now', ARRAY[10]); END LOOP; END $$"
    )
    for _ in range(2):
        assert [round(p) for (p,) in pg.sql("SELECT both_versions()")] == [23, 25]


def test_rights_are_those_of_the_table(pg: Place, cluster: Any) -> None:
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
    make_place: Callable[[str], Place],
) -> None:
    place = make_place("postgres")
    place.sql(
        "CREATE SCHEMA tuskml; CREATE TYPE other AS (task int, coef int); CREATE TABLE tuskml.models (name text, group_key text, stage text, model other)"
    )
    place.sql("INSERT INTO tuskml.models VALUES ('m', '', 'deployed', ROW(1, 2))")
    with pytest.raises(psycopg.errors.CannotCoerce):
        place.predict("'m'", "1.0")
    place.sql("DROP TABLE tuskml.models")
    with pytest.raises(psycopg.errors.UndefinedTable, match="has no registry of models"):
        place.predict("'m'", "1.0")


def test_registering_at_the_same_time(pg: Place, cluster: Any) -> None:
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
