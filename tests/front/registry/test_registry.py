"""The registry: the same calls mean the same in DuckDB and in PostgreSQL."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tuskml
from tuskml import DataError, registry
from tuskml.commands.cli import main


def test_a_database_without_a_registry(make_place: Callable[[str], Any]) -> None:
    for kind in ("duckdb", "postgres"):
        bare = make_place(kind)
        with pytest.raises(DataError, match="has no registry of models: tuskml models create"):
            registry.entries(bare.connection)
        registry.create(bare.connection)
        registry.create(bare.connection)
        assert registry.entries(bare.connection) == []


def test_a_version_comes_back_as_it_was(place: Any) -> None:
    model = place.fit()
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


def test_one_version_answers_to_the_name(place: Any) -> None:
    """y = 3 + 2 x of all cities has the mean intercept; the second version is one of a city."""
    registry.register(place.connection, "fare", place.fit())
    registry.register(place.connection, "fare", place.fit(group_by="city")[2])
    assert registry.deploy(place.connection, "fare", 1) == 1
    assert place.predict("'fare'", "10.0") == pytest.approx(3 + 20 + 1)
    assert registry.deploy(place.connection, "fare") == 1
    assert registry.deploy(place.connection, "fare") == 0
    assert place.predict("'fare'", "10.0") == pytest.approx(3 + 20 + 2)
    assert place.predict("'fare'", "10.0", function="decision") == pytest.approx(25)
    assert place.stages("fare") == {("", 1): "retired", ("", 2): "deployed"}
    assert registry.rollback(place.connection, "fare") == 1
    assert place.predict("'fare'", "10.0") == pytest.approx(24)
    assert place.stages("fare") == {("", 1): "deployed", ("", 2): "withdrawn"}
    with pytest.raises(DataError, match="no version of a model 'fare' was deployed before"):
        registry.rollback(place.connection, "fare")
    assert registry.deploy(place.connection, "fare") == 0, "what was withdrawn is not the newest"
    assert registry.deploy(place.connection, "fare", 2) == 1


def test_models_by_group(place: Any) -> None:
    registry.register(place.connection, "city", place.fit(group_by="city"))
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


def test_keys_that_name_no_group(place: Any) -> None:
    """NULL is no name, as in SQL, and no two groups have one name."""
    one = place.fit()
    for key in (None, ("a", None)):
        with pytest.raises(DataError, match="the key of a group is NULL, expected values"):
            registry.register(place.connection, "city", {"None": one, key: one})
    with pytest.raises(DataError, match="several groups of the key '1', expected one"):
        registry.register(place.connection, "city", {1: one, "1": one})
    for key in ("", ("",)):
        with pytest.raises(DataError, match="the key of a group is '', which the registry has"):
            registry.register(place.connection, "city", {"None": one, key: one})
    assert registry.register(place.connection, "city", {"None": one, ("", ""): one, "": None}) == 1
    assert registry.register(place.connection, "city", one) == 2


def test_a_rollback_undoes_the_last_deployment_only(place: Any) -> None:
    connection = place.connection
    models = place.fit(group_by="city")
    assert [
        registry.register(connection, "city", {g: models[g] for g in groups})
        for groups in ((0, 1), (1,), (0, 2))
    ] == [1, 2, 3]
    for version, changed in ((1, 2), (2, 1), (3, 2)):
        assert registry.deploy(connection, "city", version) == changed
    assert registry.rollback(connection, "city") == 1, "2 was new, and has nothing before it"
    assert place.stages("city") == {
        ("0", 1): "deployed",
        ("0", 3): "withdrawn",
        ("1", 1): "retired",
        ("1", 2): "deployed",
        ("2", 3): "deployed",
    }
    assert registry.rollback(connection, "city") == 1
    assert place.stages("city")["1", 1] == "deployed"
    with pytest.raises(DataError, match="was deployed before"):
        registry.rollback(connection, "city", "0")
    with pytest.raises(DataError, match="there is no version 2 of a model 'city' in group '0'"):
        registry.deploy(connection, "city", 2, "0")


def test_dropping(place: Any) -> None:
    connection = place.connection
    models = place.fit(group_by="city")
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


def test_names_that_are_not_there(place: Any) -> None:
    with pytest.raises(Exception, match="there is no deployed model 'nobody' without groups"):
        place.predict("'nobody'", "1.0")
    assert place.predict("CAST(NULL AS text)", "1.0") is None
    assert place.predict("CAST(NULL AS text)", "'a'", "1.0") is None
    registry.register(place.connection, "late", place.fit())
    with pytest.raises(Exception, match="there is no deployed model 'late' of any group"):
        place.predict("'late'", "'a'", "1.0", function="decision")
    registry.deploy(place.connection, "late")
    assert place.predict("'late'", "'a'", "1.0") is None, "a group that has no model yet"
    for call in (registry.deploy, registry.rollback, registry.drop, registry.model):
        with pytest.raises(
            DataError, match=r"there is no model 'lat' in the .*did you mean 'late'"
        ):
            call(place.connection, "lat")


def test_sql_of_a_name_that_is_not_there(place: Any) -> None:
    """By itself, and beside others: an empty side of a join must not hide the error."""
    call = "FROM {}" if place.kind == "duckdb" else "SELECT {}"
    for _ in range(2):
        for function, sentence in (
            ("rollback", "rollback: no version of a model 'nobody' was deployed before"),
            ("deploy", "deploy: there is no deployable version of a model 'nobody'"),
        ):
            with pytest.raises(Exception, match=sentence):
                place.sql(call.format(f"{function}('nobody')"))
        registry.register(place.connection, "other", place.fit())
        registry.deploy(place.connection, "other")


def test_sql_without_a_registry(make_place: Callable[[str], Any]) -> None:
    """Each function says so in its own name; models that are values predict as ever."""
    for kind in ("duckdb", "postgres"):
        bare = make_place(kind)
        features = bare.features("km")
        calls = [f"SELECT {f}('late', {features}) FROM rides" for f in ("predict", "decision")]
        calls += [f"SELECT predict_proba('late', CAST(city AS text), {features}) FROM rides"]
        calls += ["SELECT deployed_model('late')"]
        table = "FROM" if kind == "duckdb" else "SELECT"
        calls += [f"{table} {f}('late')" for f in ("deploy", "rollback")]
        calls += (
            ["FROM register_model('late', 'rides')"]
            if kind == "duckdb"
            else [
                "SELECT drop_model('late')",
                "SELECT register_model('late', (SELECT train_model('linear', fare, ARRAY[km]) FROM rides))",
            ]
        )
        for call in calls:
            name = call.replace("(", " ").split()[1]
            with pytest.raises(Exception, match=f"{name}: the database has no registry of models"):
                bare.sql(call)
        found = bare.sql(
            f"SELECT predict(train_model('linear', fare, {features}), {bare.features('10')}) FROM rides"
        )
        assert found == [(pytest.approx(24),)]


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["it's", 'a "b" \\ c', "ü 模型", "x" * 300])
def test_any_name_will_do(place: Any, name: str) -> None:
    registry.register(place.connection, name, {name: place.fit()})
    assert registry.deploy(place.connection, name, group=name) == 1
    assert [(e.name, e.group_key) for e in registry.entries(place.connection, name)] == [
        (name, name)
    ]
    assert registry.model(place.connection, name, name).n_rows == 90


SINCE = "CAST('2020-01-02 00:00:00.5' AS {}) + city * CAST('7 hours' AS INTERVAL)"
KEYS = {
    "date": "CAST('0987-01-01' AS date) + CAST(city AS integer)",
    "timestamp": SINCE.format("timestamp"),
    "timestamptz": SINCE.format("timestamptz"),
    "time": f"CAST({SINCE.format('timestamp')} AS time)",
    "numeric": "CAST(city AS numeric(30, 20)) / 1e10",
    "numbers": "CAST(city + 1 AS numeric(20, 2))",
    "double": "CAST(city AS double precision) / 3",
    "whole double": "CAST(city AS double precision)",
    "infinity": "CAST(CASE city WHEN 0 THEN 'inf' WHEN 1 THEN '-inf' ELSE 'nan' END AS double precision)",
    "boolean": "city = 1",
    "text": "CASE city WHEN 0 THEN 'a' WHEN 1 THEN 'A' ELSE 'a ' END",
    "large": "9007199254740992 + city",
}


EMPTY = "CASE WHEN city < 9 THEN '' END"
SEVERAL = (["city", EMPTY], [EMPTY, "CASE city WHEN 0 THEN '/' ELSE 'a' END", "city"])


QUICK = ("date", "timestamptz", "numeric", "infinity", "text")
"""Kinds of keys whose texts differ the most from database to database."""


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "kinds",
    [
        QUICK,
        pytest.param(tuple(kind for kind in KEYS if kind not in QUICK), marks=pytest.mark.nightly),
    ],
    ids=["quick", "others"],
)
def test_a_model_is_found_by_its_group_s_text(place: Any, kinds: tuple[str, ...]) -> None:
    """What `predict` by name casts to text, and what `Models` has as keys."""
    for columns in (*([KEYS[kind]] for kind in kinds), *SEVERAL):
        given = [f"{sql} AS k{k}" for k, sql in enumerate(columns)]
        models = place.fit(group_by=given)
        assert len(models) == (2 if "=" in columns[0] else 3), columns
        registry.register(place.connection, "fare", models)
        assert registry.deploy(place.connection, "fare") == len(models)
        for key, model in models.items():
            assert registry.model(place.connection, "fare", key) == model, columns
        texts = [f"CAST({sql} AS text)" for sql in columns]
        if len(texts) > 1:
            texts = [f"replace({text}, '/', chr(92) || '/')" for text in texts]
        group = " || '/' || ".join(texts)
        off = f"abs(predict('fare', {group}, {place.features('km')}) - fare)"
        within = f"{off} <= {3 - len(models)} + 1e-9"
        assert place.sql(f"SELECT count(*) FROM rides WHERE {within}") == [(90,)], columns
        (first, *_) = models
        assert registry.drop(place.connection, "fare", group=first) == 1
        registry.drop(place.connection, "fare")
    blob = "CAST('a' AS {})".format("bytea" if place.kind == "postgres" else "blob")
    models = place.fit(group_by=f"{blob} AS k")
    with pytest.raises(DataError, match=r"is b'a', a bytes whose text .*CAST\(key AS VARCHAR\)"):
        registry.register(place.connection, "fare", models)
    if place.kind == "duckdb":  # psycopg reads the shortest text
        models = place.fit(group_by="CAST(city / 10 AS FLOAT) AS k")
        with pytest.raises(DataError, match=r"a float whose text .*CAST\(key AS VARCHAR\)"):
            registry.register(place.connection, "fare", models)


def test_models_of_sparse_features_and_odd_values(place: Any) -> None:
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


def test_no_model_to_register(place: Any) -> None:
    with pytest.raises(DataError, match=r"models is or has a int, expected what tuskml.train"):
        registry.register(place.connection, "none", 3)
    with pytest.raises(DataError, match="there is no model to register as 'none'"):
        registry.register(place.connection, "none", {1: None})


@pytest.mark.sample(1)
def test_the_command_line(place: Any, capsys: pytest.CaptureFixture[str]) -> None:
    registry.register(place.connection, "city", place.fit(group_by="city"), metrics={"r2": 1.0})
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


@pytest.mark.sample(1)
def test_the_command_line_registers_tables(place: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What `tuskml train --into` makes, by the columns beside the models or by those named."""
    place.fit(group_by="city", into="trained")
    place.sql(
        "CREATE TABLE twice AS SELECT 1 AS run, * FROM trained UNION ALL SELECT 2, * FROM trained"
    )
    if place.kind == "duckdb":
        place.connection.close()
    assert main(["models", "register", place.address, "city", "--models", "trained"]) == 0
    assert "registered 3 models as version 1 of city, not deployed yet" in capsys.readouterr().out
    register = ["models", "register", place.address, "city", "--models", "twice", "--json"]
    assert main([*register, "--group-by", "city"]) == 1
    assert "several models of the group '0', expected one" in capsys.readouterr().err
    assert main([*register, "--group-by", "run,city"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": 2, "models": 6}
    found = registry.entries(place.address, "city")
    assert [e.group_key for e in found if e.version == 2] == [
        f"{run}/{city}" for run in (1, 2) for city in range(3)
    ]
    assert main([*register, "--models", "trade"]) == 1
    assert "source 'trade' does not exist" in capsys.readouterr().err


def manual(root: Path, language: str) -> list[str]:
    text = (root / "docs" / "registry.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_manual_runs(root: Path, make_place: Callable[[str], Any]) -> None:
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
