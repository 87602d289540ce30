"""`tuskml.train` on PostgreSQL: the same models, and the caller's session as it was."""

import json
from typing import Any

import psycopg
import pytest
from psycopg.rows import namedtuple_row

import tuskml
from tuskml import DataError, train

ROWS = """
CREATE TABLE "Trips" AS
SELECT i % 3 AS carrier, i * 37 % 100 / 10.0 AS delay, i * 11 % 7 AS hour, i % 2 = 0 AS weekend,
       i * 37 % 100 / 10.0 + i * 7 % 10 > 8 AS late
FROM generate_series(0, 599) AS t(i)
"""
GIVEN: dict[str, Any] = {"source": "Trips", "label": "late", "features": ["delay", "hour"]}


def same_in_duckdb(con, task: str, **given: Any) -> Any:
    con.execute(ROWS.replace("generate_series(0, 599)", "range(600)"))
    return train(con, task, **given)


def test_the_model_is_duckdb_s(pg, con) -> None:
    given = GIVEN | {"features": ["delay", "weekend"], "l2": 0.1}
    here, there = train(pg, "logistic", **given), same_in_duckdb(con, "logistic", **given)
    assert here.coef == pytest.approx(there.coef)
    assert (here.status, here.n_rows, here.classes) == ("ok", 600, [0, 1])


def test_models_by_group(pg, con) -> None:
    given = GIVEN | {"group_by": ["carrier", "hour % 2 AS odd"]}
    here, there = train(pg, "linear", **given), same_in_duckdb(con, "linear", **given)
    assert {key: model.coef for key, model in here.items()} == {
        key: pytest.approx(model.coef) for key, model in there.items()
    }


def test_sparse_features_and_arrays(pg) -> None:
    dense = train(pg, "linear", **GIVEN | {"features": "ARRAY[delay, hour]::float8[]"})
    sparse = train(
        pg, "linear", **GIVEN | {"features": "sparse(ARRAY[0, 1], ARRAY[delay, hour]::float8[])"}
    )
    assert dense.coef == pytest.approx(sparse.coef, abs=1e-5)


def test_a_group_without_a_usable_row_is_none(pg) -> None:
    source = 'SELECT hour, carrier, nullif(carrier, 1) * delay AS y FROM "Trips" -- a comment'
    found = train(pg, "linear", source=source, label="y", features="hour", group_by="carrier")
    assert found[1] is None
    assert found[2].n_rows == 200


def test_models_are_kept_in_a_table(pg) -> None:
    assert train(pg, "logistic", group_by="carrier", into="models", **GIVEN) == 3
    n = pg.execute(
        'SELECT count(predict(model, ARRAY[delay, hour])) FROM "Trips" JOIN models USING (carrier)'
    ).fetchone()
    assert n == (600,)


@pytest.mark.nightly
def test_stochastic_gradient_descent_skips_blocks(pg, con) -> None:
    pg.execute(
        "CREATE TABLE many WITH (autovacuum_enabled = false) AS "
        "SELECT i AS x, i * 37 % 1000 AS z, "
        "CASE WHEN i % 8 < 7 THEN i * 37 % 1000 + hashint4(i) % 500 > 400 END AS late "
        "FROM generate_series(1, 400000) AS i"
    )
    given = {"source": "many", "label": "late", "features": ["x", "z"], "algorithm": "sgd"}
    for features in (["x", "z"], "ARRAY[x, z]"):
        read = blocks_read(pg)
        model = train(pg, "logistic", **given | {"features": features, "epsilon": 0.02})
        counters = model.options["counters"]
        assert model.status == "ok"
        assert counters["rows_read"] == model.n_rows + model.n_skipped < 120_000
        assert model.n_skipped / counters["rows_read"] == pytest.approx(1 / 8, abs=0.001)
        assert counters["row_groups_read"] < counters["row_groups"] / 3
        assert blocks_read(pg) - read < 0.4 * blocks_of(pg, "many")
    pg.execute("ANALYZE many")
    model = train(pg, "logistic", **given | {"epsilon": 0.02})
    assert model.options["counters"]["rows"] == pytest.approx(400_000, rel=0.01)
    exact = train(pg, "logistic", **given | {"algorithm": "auto"})
    spread = [115_470, 288.7]  # standard deviations of x and z
    off = [(a - b) * s for a, b, s in zip(model.coef, exact.coef, spread, strict=True)]
    assert max(map(abs, off)) < 0.2
    with pytest.raises(DataError, match="division by zero"):
        train(pg, "logistic", **given | {"features": ["x / 0", "z"]})
    pg.execute("CREATE VIEW seen AS SELECT * FROM many LIMIT 1000")
    seen = train(pg, "logistic", **given | {"source": "seen", "max_iter": 1, "label": "x > 500"})
    assert seen.n_rows == 1000


@pytest.mark.nightly
def test_train_in_sql_reads_some_blocks(pg, con) -> None:
    """The call that reads all rows and the one that reads some agree within the tolerance."""
    pg.execute(
        "CREATE TABLE IF NOT EXISTS many WITH (autovacuum_enabled = false) AS "
        "SELECT i AS x, i * 37 % 1000 AS z, "
        "CASE WHEN i % 8 < 7 THEN i * 37 % 1000 + hashint4(i) % 500 > 400 END AS late "
        "FROM generate_series(1, 400000) AS i"
    )
    pg.execute("ANALYZE many")
    query = "SELECT * FROM train('many', 'logistic', 'late', ARRAY['x', 'z'], %s)"

    def asked(options: str) -> tuple[Any, int]:
        read = blocks_read(pg)
        with pg.cursor(row_factory=namedtuple_row) as cursor:
            row = cursor.execute(query, (options,)).fetchone()
        return row, blocks_read(pg) - read

    some, read = asked('{"algorithm": "sgd", "epsilon": 0.02, "feature_names": ["x", "z"]}')
    counters = json.loads(some.options)["counters"]
    assert (some.status, some.features) == ("ok", ["x", "z"])
    assert counters["rows_read"] == some.n_rows + some.n_skipped < 120_000
    assert read < 0.4 * blocks_of(pg, "many")
    every, read = asked("")
    assert every.n_rows == 350_000
    assert read >= blocks_of(pg, "many")
    spread = [115_470, 288.7]  # standard deviations of x and z
    off = [(a - b) * s for a, b, s in zip(some.coef, every.coef, spread, strict=True)]
    assert max(map(abs, off)) < 0.2
    for label, state in (("z / 0 > 1", "22012"), ("missing", "42703"), ("late; DROP", "42601")):
        given = (label, '{"algorithm": "sgd"}')
        with pytest.raises(psycopg.Error) as refused:
            pg.execute("SELECT train('many', 'logistic', %s, ARRAY['x'], %s)", given)
        assert refused.value.sqlstate == state
    with pg.transaction(force_rollback=True):  # it sees what its own transaction has written
        pg.execute("UPDATE many SET late = true")
        own, _ = asked('{"algorithm": "sgd", "epsilon": 0.02}')
        assert own.status == "one class"


def blocks_read(pg: psycopg.Connection) -> int:
    """Blocks of the table that the server has looked at."""
    pg.execute("SELECT pg_stat_force_next_flush()")
    found = pg.execute(
        "SELECT heap_blks_read + heap_blks_hit FROM pg_statio_user_tables WHERE relname = 'many'"
    ).fetchone()
    return found[0]


def blocks_of(pg: psycopg.Connection, table: str) -> int:
    return pg.execute("SELECT pg_relation_size(%s) / 8192", (table,)).fetchone()[0]


def test_a_url(url: str) -> None:
    assert train(url, "logistic", **GIVEN).status == "ok"


def test_an_engine_of_sqlalchemy(url: str) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(url.replace("postgresql", "postgresql+psycopg", 1))
    assert train(engine, "logistic", into="engines", **GIVEN) == 1
    with engine.connect() as connection:
        kept = train(connection, "logistic", **GIVEN)
        assert connection.execute(
            sqlalchemy.text("SELECT (model).coef FROM engines")
        ).scalar() == (pytest.approx(kept.coef))
    engine.dispose()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"label": "laet"}, "label names column 'laet'.*did you mean 'late'"),
        ({"label": "dely > 1"}, "label names column 'dely'.*did you mean 'delay'"),
        ({"source": "Trip"}, "source 'Trip' does not exist.*did you mean 'Trips'"),
        ({"source": "x.parquet"}, "Parquet files are for DuckDB"),
        ({"label": "DATE '2026-01-01'"}, "is of type date"),
        ({"source": "SELECT 1 FROM nowhere"}, 'relation "nowhere" does not exist'),
        ({"into": "Trips"}, "the table Trips already exists: give into another name"),
    ],
)
def test_what_is_wrong_leaves_the_transaction_usable(pg, wrong: dict, message: str) -> None:
    pg.autocommit = False
    pg.execute("CREATE TEMP TABLE mine (x int)")
    with pytest.raises(DataError, match=message) as caught:
        train(pg, "logistic", **GIVEN | wrong)
    assert "\n" not in str(caught.value)
    assert pg.execute("SELECT count(*) FROM mine").fetchone() == (0,)
    pg.rollback()


def test_a_training_ends_no_transaction_of_the_caller(pg) -> None:
    with pg.transaction(force_rollback=True):
        assert train(pg, "logistic", into="undone", **GIVEN) == 1
    assert pg.execute("SELECT to_regclass('undone')").fetchone() == (None,)


def test_a_database_without_the_extension(cluster) -> None:
    cluster.create_database("tusk_bare", template="template0")
    try:
        with (
            cluster.connect("tusk_bare") as bare,
            pytest.raises(
                tuskml.ExtensionError, match="no extension tuskml: run tuskml postgres install"
            ),
        ):
            train(bare, "linear", source="t", label="y", features="x")
    finally:
        cluster.drop_database("tusk_bare")
