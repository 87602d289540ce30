"""A matrix factorization in a store: PostgreSQL trains and predicts as DuckDB does."""

# ruff: noqa: E501, SQL is read better on one line

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest

import tuskml
from tuskml.kvstore import StoreRoot

RATINGS = """
CREATE TABLE ratings AS
SELECT i, CAST((i * 7919) % 61 AS INTEGER) AS u, CAST((i * 10473) % 47 AS INTEGER) AS f,
       CAST((i * 31) % 11 + (i * 7919) % 61 % 5 AS DOUBLE PRECISION) / 4 AS rating
FROM generate_series(1, 3000) AS s(i)
"""
FILMS = """'{"rank": 6, "store": "films", "threads": 2}'"""
TRAIN = f"CREATE TABLE m AS SELECT train_model('matrix_factorization', rating, ARRAY[u, f], {FILMS}) AS model FROM ratings"


@pytest.fixture
def stores(cluster, pg: psycopg.Connection) -> Iterator[Path]:
    """A directory of the server's own, as the session's tuskml.store_root."""
    path = cluster.data / "tuskml" / "films"
    pg.execute(f"SET tuskml.store_root = '{path}'")
    yield path
    pg.execute("RESET tuskml.store_root; RESET statement_timeout; DROP TABLE IF EXISTS m, ratings")
    shutil.rmtree(path, ignore_errors=True)


def test_trains_and_predicts_as_duckdb(
    pg: psycopg.Connection, stores: Path, tmp_path: Path
) -> None:
    pg.execute(RATINGS)
    pg.execute(TRAIN)
    told = pg.execute(
        "SELECT (model).coef, (model).classes, (model).intercept, (model).store FROM m"
    ).fetchone()
    coef, classes, intercept, reference = told
    assert (coef, classes) == (None, [61, 47, 7])
    with tuskml.connect(store_root=tmp_path / "stores", threads=1) as duck:
        duck.execute(RATINGS)
        duck.execute(TRAIN.replace("ARRAY[u, f]", "[u, f]"))
        assert duck.execute("SELECT model.intercept, model.store FROM m").fetchone() == (
            intercept,
            reference,
        )
        wanted = duck.execute(
            "SELECT predict(model, [u, f]) FROM ratings, m ORDER BY i"
        ).fetchall()
    found = pg.execute("SELECT predict(model, ARRAY[u, f]) FROM ratings, m ORDER BY i").fetchall()
    assert np.array_equal(np.ravel(found), np.ravel(wanted))
    with StoreRoot(stores).open(reference) as sealed:
        vectors = sealed.weights(np.arange(108 * 7)).astype(float).reshape(108, 7)
    p, q = vectors[7], vectors[61 + 9]
    assert pg.execute("SELECT predict(model, ARRAY[7, 9]) FROM m").fetchone() == pytest.approx(
        (intercept + p[0] + q[0] + p[1:] @ q[1:],)
    )


def test_a_timeout_leaves_nothing(pg: psycopg.Connection, stores: Path) -> None:
    pg.execute(RATINGS)
    pg.execute("SET statement_timeout = '500ms'")
    with pytest.raises(psycopg.errors.QueryCanceled):
        pg.execute(TRAIN.replace('"rank"', '"max_iter": 2000000000, "time": "30s", "rank"'))
    pg.execute("RESET statement_timeout")
    (own,) = stores.iterdir()
    root = StoreRoot(own)
    if root.names():  # else it ended before there was a store
        assert root.working("films") == root.versions("films") == []
    pg.execute(TRAIN)
    assert (root.working("films"), root.versions("films")) == ([], [1])
