"""`train(...)`: a training on a table whose label and features are text."""

from collections.abc import Callable

import psycopg
import pytest
from queries import one

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
