"""`train(...)`: a training on a table whose label and features are text."""

import re
from collections.abc import Callable

import psycopg
import pytest
from queries import one

import tuskml

CALL = "SELECT train('rows', 'linear', %s, %s)"
BY_HAND = "SELECT (train_model('linear', y, ARRAY[x, z]::float8[])).coef FROM rows"


@pytest.fixture(scope="module", autouse=True)
def rows(pg: psycopg.Connection) -> None:
    pg.execute("CREATE SCHEMA shop")
    for name in ("rows", 'shop."Odd rows"'):
        pg.execute(
            f"CREATE TABLE {name} AS SELECT i AS x, i * 7 % 10 AS z, 2 * i + i * 7 % 10 AS y, "
            'i > 40 AS late, ARRAY[i, i * 7 % 10]::float8[] AS "both x" '
            "FROM generate_series(1, 100) AS i"
        )
    pg.execute("CREATE TABLE nothing (x int, y int)")


def coef(pg: psycopg.Connection, label: str, features: list[str]) -> list[float]:
    return one(pg, f"SELECT ({CALL.removeprefix('SELECT ')}).coef", (label, features))


@pytest.mark.parametrize(
    "features",
    [
        ["x", "z"],
        ["x + 0", "z -- a comment"],
        ["both x"],
        ['"both x"'],
        ["ARRAY[x, z]"],
        ["public.sparse(ARRAY[0, 1], ARRAY[x, z]::float8[])"],
    ],
)
def test_the_model_is_that_of_the_aggregate(pg: psycopg.Connection, features: list[str]) -> None:
    exact = one(pg, BY_HAND)
    assert coef(pg, "y", features) == pytest.approx(exact, abs=1e-5)
    assert exact == pytest.approx([2, 1])


def test_the_table_is_found_by_the_caller_s_path(pg: psycopg.Connection) -> None:
    call = "train('shop.\"Odd rows\"', 'logistic', 'late', ARRAY['z'], '{\"l2\": 1}')"
    status = f"SELECT ({call}).status"
    assert one(pg, status) == "ok"
    pg.execute("SET search_path = shop, public")
    try:
        assert one(pg, status.replace("shop.", "")) == "ok"
    finally:
        pg.execute("RESET search_path")


def test_a_row_per_group(pg: psycopg.Connection) -> None:
    """Of keys that are columns and expressions, with the models of the aggregate; and a group
    without a usable row."""
    pg.execute("CREATE TABLE grouped AS SELECT *, nullif(x % 3, 0) AS g FROM rows")
    call = (
        "SELECT g, far, (model).coef, (model).features FROM train('grouped', 'linear', "
        "'CASE WHEN g = 2 THEN NULL ELSE y END', ARRAY['x', 'z'], "
        "group_by := ARRAY['g', 'x > 50 AS far'], options := '{\"deterministic\": true}') "
        "AS t (g int, far boolean, model tuskml_model) ORDER BY g, far"
    )
    by_hand = (
        "SELECT g, x > 50, (train_model('linear', CASE WHEN g = 2 THEN NULL ELSE y END, "
        "ARRAY[x, z]::float8[], '{\"deterministic\": true}')).coef FROM grouped "
        "GROUP BY 1, 2 ORDER BY 1, 2"
    )
    found, expected = pg.execute(call).fetchall(), pg.execute(by_hand).fetchall()
    assert [row[:3] for row in found] == expected
    assert len(found) == 6
    assert {row[0] for row in found if row[2] is None} == {2}
    assert {tuple(row[3]) for row in found if row[2] is not None} == {("x", "z")}


def test_groups_are_those_of_duckdb(pg: psycopg.Connection) -> None:
    """Weights, names and a key that is text; the same rows in both databases."""
    given = "'linear', 'y', ARRAY['x', 'kind'], weight := 'w'"
    with tuskml.connect() as con:
        con.execute("CREATE TABLE kinds (g VARCHAR, x DOUBLE, kind VARCHAR, y DOUBLE, w DOUBLE)")
        pg.execute("CREATE TABLE kinds (g text, x float8, kind text, y float8, w float8)")
        rows = [
            (f"g{i % 3}", i % 7 / 4, "abc"[i % 5 % 3], (i * i % 11) / 2 + i % 3, 1 + i % 2)
            for i in range(120)
        ]
        con.executemany("INSERT INTO kinds VALUES (?, ?, ?, ?, ?)", rows)
        with pg.cursor() as cursor:
            cursor.executemany("INSERT INTO kinds VALUES (%s, %s, %s, %s, %s)", rows)
        there = pg.execute(
            "SELECT g, (model).coef, (model).features, (model).n_rows FROM train('kinds', "
            f"{given}, group_by := ARRAY['upper(g) AS g']) "
            "AS t (g text, model tuskml_model) ORDER BY g"
        ).fetchall()
        here = con.execute(
            "SELECT g, model.coef, model.features, model.n_rows FROM train('kinds', "
            f"{given.replace('ARRAY', '')}, group_by := ['upper(g) AS g']) ORDER BY g"
        ).fetchall()
    assert [row[0] for row in there] == ["G0", "G1", "G2"]
    for one_there, one_here in zip(there, here, strict=True):
        assert one_there[1] == pytest.approx(one_here[1], rel=1e-6, abs=1e-9)
        assert (one_there[0], *one_there[2:]) == (one_here[0], *one_here[2:])


@pytest.mark.parametrize(
    ("keys", "columns", "sentence"),
    [
        ("NULL", "g int", "a key of group_by is NULL, expected columns"),
        ("'nowhere'", "g int", 'column "nowhere" does not exist'),
        ("'x'", "g text", "type integer does not match expected type text|wrong record type"),
        ("'x; DROP TABLE rows; --'", "g int", "syntax error"),
    ],
)
def test_keys_that_are_wrong_are_a_sentence(
    pg: psycopg.Connection, keys: str, columns: str, sentence: str
) -> None:
    call = (
        f"SELECT * FROM train('rows', 'linear', 'y', ARRAY['x'], group_by := ARRAY[{keys}]) "
        f"AS t ({columns}, model tuskml_model)"
    )
    with pytest.raises(psycopg.Error) as caught:
        pg.execute(call)
    text = f"{caught.value} {caught.value.diag.message_detail}"
    assert re.search(sentence, text), text
    assert one(pg, "SELECT count(*) FROM rows") == 100


def test_without_keys_it_is_one_row(pg: psycopg.Connection) -> None:
    call = "train('rows', 'linear', 'y', ARRAY['x', 'z'], group_by := '{}') AS t (m tuskml_model)"
    assert one(pg, f"SELECT (m).coef FROM {call}") == pytest.approx([2, 1])


def test_no_usable_row_is_null(pg: psycopg.Connection) -> None:
    assert one(pg, "SELECT train('nothing', 'linear', 'y', ARRAY['x']) IS NULL") is True


@pytest.mark.parametrize(
    ("label", "features", "message"),
    [
        ("laet", ["x"], 'column "laet" does not exist'),
        ("y", None, "train: source, task, label or features is missing"),
        (None, ["x"], "train: source, task, label or features is missing"),
        ("y", [], "train: source, task, label or features is missing"),
        ("y", ["x", None], "train: source, task, label or features is missing"),
        ("nofun(y)", ["x"], "function nofun"),
    ],
)
def test_what_is_wrong(pg: psycopg.Connection, label, features, message: str) -> None:
    call = "SELECT train('rows', 'linear', %s::text, %s::text[])"
    with pytest.raises(psycopg.Error, match=message):
        one(pg, call, (label, features))


@pytest.mark.parametrize(
    "evil",
    [
        "y, ARRAY[x], '') FROM rows) t; DROP TABLE rows; SELECT (1",
        "1), ARRAY[1.0], '') AS m FROM rows) AS t; DROP TABLE rows; --",
        "1; DROP TABLE rows",
    ],
)
def test_there_is_no_second_statement(pg: psycopg.Connection, evil: str) -> None:
    with pytest.raises(psycopg.Error):
        one(pg, CALL, (evil, ["x"]))
    for features in ([evil], [evil, "x"]):
        with pytest.raises(psycopg.Error):
            one(pg, CALL, ("y", features))
    assert one(pg, "SELECT count(*) FROM rows") == 100


def test_rights_are_the_caller_s(
    pg: psycopg.Connection, connect: Callable[..., psycopg.Connection]
) -> None:
    for role in ("tusk_train_ann", "tusk_train_bob"):
        pg.execute(f"DROP ROLE IF EXISTS {role}")
        pg.execute(f"CREATE ROLE {role} LOGIN")
    try:
        pg.execute("GRANT tuskml_user TO tusk_train_ann")
        pg.execute("GRANT SELECT ON rows TO tusk_train_bob")
        with (
            connect(user="tusk_train_ann") as ann,
            pytest.raises(psycopg.errors.InsufficientPrivilege, match="table rows"),
        ):
            one(ann, CALL, ("y", ["x"]))
        with (
            connect(user="tusk_train_bob") as bob,
            pytest.raises(psycopg.errors.InsufficientPrivilege, match="function train"),
        ):
            one(bob, CALL, ("y", ["x"]))
        pg.execute("GRANT SELECT ON rows TO tusk_train_ann")
        with connect(user="tusk_train_ann") as ann:
            assert one(ann, CALL.replace("SELECT ", "SELECT (") + ").status", ("y", ["x"])) == "ok"
    finally:
        for role in ("tusk_train_ann", "tusk_train_bob"):
            pg.execute(f"DROP OWNED BY {role}")
            pg.execute(f"DROP ROLE {role}")
