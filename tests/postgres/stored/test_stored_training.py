"""Models in a store, trained and asked in backends: the same as in DuckDB, limits, rights."""

# ruff: noqa: E501, SQL is read better on one line

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import psycopg
import pytest
from sessions import SOON, Connect, later

from tuskml.kvstore import StoreRoot

ROWS = """
CREATE TABLE t AS
SELECT i, i % 3 AS g, sin(i * 0.7) + sin(i * 0.1) / 4 > 0 AS y, ARRAY[i % 7, 100 + i * 31 % 500, 700 + i * 17 % 900]::int[] AS ids,
       ARRAY[1, sin(i * 0.7), 0.5]::float8[] AS vals
FROM generate_series(1, 6000) AS i
"""
LONG = {"max_iter": 10**9, "epsilon": 0, "step": 0.1}


@pytest.fixture(scope="module", autouse=True)
def rows(pg: psycopg.Connection) -> None:
    pg.execute(ROWS)


@pytest.fixture
def folder(cluster) -> Iterator[Path]:
    """The default root, below the data directory."""
    path = cluster.data / "tuskml" / "stores"
    shutil.rmtree(path.parent, ignore_errors=True)  # what other files' tests left
    yield path
    shutil.rmtree(path.parent, ignore_errors=True)


def call(task: str = "logistic", store: str = "ads", **options: object) -> str:
    text = json.dumps({"store": store} | options)
    return f"train_model('{task}', y::int, sparse(ids, vals), '{text}')"


def value(pg: psycopg.Connection, table: str = "m") -> dict:
    return pg.execute(f"SELECT to_jsonb(m) FROM {table}").fetchone()[0]


def own(folder: Path) -> Path:
    """The root of the one role that has trained."""
    (root,) = folder.iterdir()
    return root


def left(folder: Path, name: str = "ads") -> list[str]:
    work = (own(folder) if folder.exists() else folder) / name / "work"
    return [each for each in os.listdir(work) if not each.startswith(".")] if work.exists() else []


def test_trained_in_one_session_and_asked_in_another(pg, connect: Connect, folder: Path) -> None:
    trainer = connect()
    trainer.execute(f"CREATE TABLE m AS SELECT {call(l2=0.001)} AS m FROM t")
    model = value(pg)
    assert model["coef"] is None
    assert model["store"].startswith("ads@1:")
    assert (model["n_rows"], model["n_features"]) == (6000, 1600)
    options = json.loads(model["options"])
    counters = options["counters"]
    parts = (
        "saved_by_partitioning",
        "read_together",
        "saved_by_pushing",
        "cache_hits",
        "requests",
    )
    assert options["store"] == model["store"]
    assert sum(counters[name] for name in parts) == counters["features"] > 0
    score, loss = (
        connect()
        .execute(
            "SELECT auc(y, predict_proba(m, sparse(ids, vals))), log_loss(y, predict_proba(m, sparse(ids, vals))) FROM t, m"
        )
        .fetchone()
    )
    assert score > 0.95
    assert loss < model["loss"] < np.log(2)
    assert left(folder) == []
    pg.execute("DROP TABLE m")


def test_the_same_bits_as_in_duckdb(pg, con, folder: Path, tmp_path: Path) -> None:
    import tuskml

    pg.execute(f"CREATE TABLE m AS SELECT {call(deterministic=True, max_iter=4)} AS m FROM t")
    tuskml.load(con, tmp_path)
    rows = pg.execute("SELECT i, y::int, ids, vals FROM t").fetchall()
    con.register("frame", pd.DataFrame(rows, columns=["i", "y", "ids", "vals"]))
    types = "i::INTEGER AS i, y::DOUBLE AS y, ids::INTEGER[] AS ids, vals::DOUBLE[] AS vals"
    con.execute(f"CREATE TABLE t AS SELECT {types} FROM frame")
    query = call(deterministic=True, max_iter=4).replace("y::int", "y")
    found = con.execute(f"SELECT {query} FROM t").fetchone()[0]
    mine = value(pg)
    assert (mine["store"], mine["loss"], mine["history"]) == (
        found["store"], found["loss"], found["history"],
    )  # fmt: skip
    pg.execute("DROP TABLE m")


@pytest.mark.parametrize("options", [{}, {"validation": 0.2}, {"algorithm": "lbfgs", "l2": 0.01}])
def test_dense_rows_are_kept_in_a_store(pg, folder: Path, options: dict) -> None:
    """The same bits as without one."""
    given = {"deterministic": True} | options
    dense = "ARRAY[vals[2], i % 7, cos(i)]"
    plain, kept = (
        f"train_model('logistic', y::int, {dense}, '{json.dumps(given | more)}')"
        for more in ({}, {"store": "dense"})
    )
    pg.execute(f"CREATE TABLE m AS SELECT {kept} AS m FROM t")
    expected = pg.execute(f"SELECT to_jsonb({plain}) FROM t").fetchone()[0]
    model = value(pg)
    assert (model["coef"], model["loss"]) == (None, expected["loss"])
    found = pg.execute(
        f"SELECT decision(m, {dense}), {dense}::float8[] FROM t, m LIMIT 50"
    ).fetchall()
    for margin, x in found:
        assert margin == pytest.approx(np.dot(x, expected["coef"]) + expected["intercept"])
    pg.execute("DROP TABLE m")


@pytest.mark.nightly
def test_early_stopping(pg, folder: Path) -> None:
    pg.execute(
        f"CREATE TABLE m AS SELECT {call(validation=0.25, max_iter=150, epsilon=0)} AS m FROM t"
    )
    model = value(pg)
    assert (model["n_rows"], model["n_features"]) == (6000, 1600)
    assert model["status"] in ("early stop", "ok")
    assert len(model["history"]) == model["iterations"]
    assert left(folder) == []
    pg.execute("DROP TABLE m")


@pytest.mark.nightly
def test_a_model_beyond_memory_is_stored_unasked(pg, folder: Path) -> None:
    pg.execute(
        "CREATE TABLE wide AS SELECT i % 2 AS y, ARRAY(SELECT (j * 7919 + i * 104729) % 400000 FROM generate_series(1, 100) j)::int[] AS ids, "
        "array_fill(1::float8, ARRAY[100]) AS vals FROM generate_series(1, 3000) AS i"
    )
    query = """SELECT to_jsonb(train_model('logistic', y, sparse(ids, vals), '{"max_iter": 2}')) FROM wide"""
    pg.execute("SET tuskml.memory_limit = '64MB'")
    model = pg.execute(query).fetchone()[0]
    assert model["store"].startswith("auto@1:")
    assert "in a store: to train" in model["plan"]
    pg.execute("SET tuskml.memory_limit = '1GB'")
    assert pg.execute(query).fetchone()[0]["store"] is None
    pg.execute("RESET tuskml.memory_limit; DROP TABLE wide")


def test_a_name_for_each_group(pg, folder: Path) -> None:
    text = """'{"store": "m_' || g || '", "max_iter": 3}'"""
    pg.execute(
        f"CREATE TABLE m AS SELECT g, train_model('logistic', y::int, sparse(ids, vals), {text}) AS m FROM t GROUP BY g"
    )
    assert sorted(os.listdir(own(folder))) == ["m_0", "m_1", "m_2"]
    found = pg.execute("SELECT DISTINCT g, (m).store FROM m ORDER BY g").fetchall()
    assert [store[:6] for _, store in found] == ["m_0@1:", "m_1@1:", "m_2@1:"]
    assert pg.execute(
        "SELECT count(predict(m, sparse(ids, vals))) FROM t JOIN m USING (g)"
    ).fetchone() == (6000,)
    pg.execute("DROP TABLE m")


def test_groups_of_one_name_are_its_versions(pg, folder: Path) -> None:
    losses = pg.execute(f"SELECT ({call(max_iter=3)}).loss FROM t GROUP BY g").fetchall()
    assert len(set(losses)) == 3
    assert StoreRoot(own(folder)).versions("ads") == [1, 2, 3]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("wait", "told"),
    [
        (0.05, "statement timeout"),
        (0.6, "user request"),
        pytest.param(0.05, "user request", marks=pytest.mark.nightly),
        pytest.param(0.6, "statement timeout", marks=pytest.mark.nightly),
    ],
)
def test_it_ends_when_it_is_asked_to(
    connect: Connect, folder: Path, told: str, wait: float
) -> None:
    """While packages are imported and the layout is made, and during epochs."""
    session = connect()
    statement = f"SELECT {call(**LONG)} FROM t"
    if told == "statement timeout":
        session.execute(f"SET statement_timeout = {int(wait * 1000)}")
        asked = [time.monotonic() + wait]
        with pytest.raises(psycopg.errors.QueryCanceled, match=told):
            session.execute(statement)
        session.execute("RESET statement_timeout")
    else:
        with (
            later(wait, session.cancel_safe) as asked,
            pytest.raises(psycopg.errors.QueryCanceled, match=told),
        ):
            session.execute(statement)
    assert time.monotonic() - asked[0] < SOON
    assert left(folder) == []
    found = session.execute(
        f"SELECT (m).iterations FROM (SELECT {call(max_iter=2, epsilon=0)} AS m FROM t) AS s"
    )
    assert found.fetchone() == (2,)


@pytest.mark.nightly
def test_a_rollback_leaves_a_version_that_serves_nobody(connect: Connect, folder: Path) -> None:
    session = connect()
    with session.transaction(force_rollback=True):
        session.execute(f"CREATE TABLE lost AS SELECT {call(max_iter=2)} AS m FROM t")
    assert session.execute("SELECT to_regclass('lost')").fetchone() == (None,)
    found = session.execute(f"SELECT (m).store FROM (SELECT {call(max_iter=2)} AS m FROM t) AS s")
    assert found.fetchone()[0].startswith("ads@2:")
    assert left(folder) == []


@pytest.mark.nightly
def test_the_root_is_a_superusers_setting(pg, connect: Connect, cluster, folder: Path) -> None:
    pg.execute("CREATE ROLE dora LOGIN; GRANT tuskml_user TO dora; GRANT SELECT ON t TO dora")
    try:
        with connect(user="dora") as dora:
            dora.execute("SET tuskml.store_root = '/tmp'")  # before the library is loaded: in vain
            dora.execute(f"SELECT {call(max_iter=2)} FROM t")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                dora.execute("SET tuskml.store_root = '/tmp'")
        assert os.listdir(own(folder)) == ["ads"]
        pg.execute("SET tuskml.store_root = 'tuskml/others'")
        pg.execute(f"SELECT {call(store='b', max_iter=2)} FROM t")
        assert os.listdir(own(folder.parent / "others")) == ["b"]
    finally:
        pg.execute("RESET tuskml.store_root; DROP OWNED BY dora; DROP ROLE dora")


@pytest.mark.parametrize(("options", "state", "told"), [
    ({"converge": "gradient"}, "22023", "option 'converge' is 'gradient', expected 'loss'"),
    ({"store": "../x"}, "22023", "expected a name of at most 63"),
    ({"resume": True}, "42704", "there is no store named 'ads'"),
    ({"warm_start": {"store": "nix"}}, "42704", "there is no store named 'nix'"),
    ({"warm_start": "nix"}, "42704", "there is no store named 'nix'"),
    ({"warm_start": "a/b"}, "22023", "or with option 'store' the name of a stored model"),
])  # fmt: skip
def test_refusals(pg, folder: Path, options: dict, state: str, told: str) -> None:
    with pytest.raises(psycopg.Error, match=told) as raised:
        pg.execute(f"SELECT {call(**options)} FROM t")
    assert raised.value.sqlstate == state
    assert pg.execute("SELECT 1").fetchone() == (1,)


def test_what_a_finished_model_leaves(pg, folder: Path) -> None:
    """A training begins with it by its name; none of it is left to resume."""
    starts: list[dict] = [{"max_iter": 5}, {"max_iter": 2, "warm_start": "ads@1"}]
    query = "SELECT (m).history[1] FROM (SELECT {} AS m FROM t) AS o"
    first, again = (pg.execute(query.format(call(**one))).fetchone()[0] for one in starts)
    assert again < first
    with pytest.raises(psycopg.Error, match="no interrupted training: leave out") as raised:
        pg.execute(f"SELECT {call(resume=True)} FROM t")
    assert raised.value.sqlstate == "55000"
