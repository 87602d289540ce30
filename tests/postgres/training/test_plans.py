"""A model is the same whatever plan finds it, and the planner is told what is dear."""

# ruff: noqa: E501, SQL is read better on one line

import psycopg
import pytest
from queries import (
    LINEAR,
    PARALLEL,
    ROWS,
    SERIAL,
    SPARSE,
    by_group,
    counted,
    fetch,
    model,
    one,
    plan,
    settings,
)
from sessions import temporary_files


@pytest.fixture(scope="module", autouse=True)
def rows(pg: psycopg.Connection) -> None:
    pg.execute(ROWS)
    pg.execute("ANALYZE rows")


CALLS = {"dense": LINEAR, "sparse": SPARSE, "real": LINEAR.replace(" x,", " x::real[],")}


@pytest.mark.parametrize("call", CALLS)
def test_sorted_as_hashed(pg: psycopg.Connection, call: str) -> None:
    with settings(pg, **SERIAL):
        usual = by_group(pg, CALLS[call])
    with settings(pg, enable_hashagg="off", **SERIAL):
        assert "GroupAggregate" in plan(
            pg, "SELECT train_model('linear', y, x) FROM rows GROUP BY g"
        )
        assert by_group(pg, CALLS[call]) == usual


@pytest.mark.parametrize("call", [LINEAR, "explain_training('linear', y, x)"])
@pytest.mark.parametrize("processes", [SERIAL, PARALLEL])
def test_the_planner_groups_by_hash(
    pg: psycopg.Connection, call: str, processes: dict[str, str]
) -> None:
    """Even where sorting would be the cheaper way: the rows are wanted in order, and have an index for it."""
    pg.execute("CREATE INDEX rows_by_i ON rows (i)")
    with settings(pg, work_mem="'64kB'", **processes):
        ordered = plan(pg, f"SELECT i, {call} FROM rows GROUP BY i ORDER BY i")
        assert "HashAggregate" in ordered
        assert "GroupAggregate" not in ordered
        assert "GroupAggregate" in plan(pg, "SELECT i, count(*) FROM rows GROUP BY i ORDER BY i")
        assert "GroupAggregate" in plan(
            pg, f"SELECT g, {call}, count(DISTINCT y) FROM rows GROUP BY g"
        )
        pg.execute("SET enable_hashagg = off")
        assert "GroupAggregate" in plan(pg, f"SELECT g, {call} FROM rows GROUP BY g")
    pg.execute("DROP INDEX rows_by_i")


@pytest.mark.parametrize("group", ["", "GROUP BY g"])
def test_the_planner_counts_what_workers_hand_over(pg: psycopg.Connection, group: str) -> None:
    """All rows, at parallel_tuple_cost each: more than a plain scan saves, less than slow conditions do."""
    slow = "md5(md5(md5(y::text))) > md5(md5(md5(i::text)))"
    with settings(pg, **(PARALLEL | {"parallel_tuple_cost": "0.1"})):
        assert "Partial" not in plan(pg, f"SELECT {LINEAR} FROM rows {group}")
        assert "Partial" in plan(pg, f"SELECT avg(y) FROM rows {group}")
        pg.execute("SET cpu_operator_cost = 0.05")
        assert "Partial" in plan(pg, f"SELECT {LINEAR} FROM rows WHERE {slow} {group}")
        pg.execute("SET parallel_tuple_cost = 0")
        assert "Partial" in plan(pg, f"SELECT {LINEAR} FROM rows {group}")


def test_groups_that_cannot_be_hashed(pg: psycopg.Connection) -> None:
    pg.execute("CREATE TABLE bits AS SELECT (g % 2)::bit(1) AS one, y, x FROM rows")
    assert "GroupAggregate" in plan(pg, f"SELECT one, {LINEAR} FROM bits GROUP BY one")
    assert len(fetch(pg, f"SELECT one, {LINEAR} FROM bits GROUP BY one")) == 2


@pytest.mark.parametrize("call", CALLS)
def test_hash_table_that_spills(pg: psycopg.Connection, call: str) -> None:
    with settings(pg, **SERIAL):
        usual = by_group(pg, CALLS[call], key="i % 300")
    with settings(pg, work_mem="'64kB'", hash_mem_multiplier="1", enable_sort="off", **SERIAL):
        sql = f"SELECT i % 300, {CALLS[call]} FROM rows GROUP BY i % 300"
        assert "Disk Usage" in plan(pg, sql, analyze=True)
        assert by_group(pg, CALLS[call], key="i % 300") == usual
    assert temporary_files(pg) == []


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("key", ["i > 0", "g", "i % 300"])
def test_parallel_as_serial(pg: psycopg.Connection, call: str, key: str) -> None:
    """A group of all rows is handed over in a file, small ones by value."""
    with settings(pg, **SERIAL):
        usual = by_group(pg, CALLS[call], key)
    for leader in ("on", "off"):
        with settings(pg, parallel_leader_participation=leader, **PARALLEL):
            sql = f"SELECT {key}, {CALLS[call]} FROM rows GROUP BY {key}"
            assert by_group(pg, CALLS[call], key) == usual
            if (
                key != "i % 300"
            ):  # as many groups as rows of a worker: the planner may have it otherwise
                shape = plan(pg, sql, analyze=True)
                assert "Partial" in shape
                assert "Workers Launched: 2" in shape
    assert temporary_files(pg) == []


def test_parallel_without_groups(pg: psycopg.Connection) -> None:
    sql = f"SELECT {LINEAR} FROM rows"
    usual = counted([(model(pg, sql),)])
    with settings(pg, **PARALLEL):
        assert "Partial Aggregate" in plan(pg, sql)
        assert counted([(model(pg, sql),)]) == usual
        assert model(pg, sql + " WHERE a < 0") is None
        nothing = "SELECT train_model('linear', NULLIF(y, y), x) FROM rows"
        assert model(pg, nothing) is None


@pytest.mark.parametrize(
    ("features", "distinct"),
    [("ARRAY[a, b]", 231), ("r", 462)],
)
def test_rows_that_repeat(pg: psycopg.Connection, features: str, distinct: int) -> None:
    """Workers merge equal rows before they hand them over; texts have codes of their worker."""
    pg.execute(
        """
        DROP TABLE IF EXISTS cells;
        CREATE TABLE cells AS
        SELECT k, k % 3 AS a, k % 7 AS b, CASE WHEN k % 5 = 1 THEN 'u' ELSE 'v' END AS t, k % 11 AS y
        FROM (SELECT i * 7919 % 1155 AS k FROM generate_series(1, 60000) AS i) AS s
        """
    )
    call = f"train_model('linear', y, {features}, '{{}}')"
    source = "cells, LATERAL (SELECT t, cells.a, cells.b) AS r(t, u, v)"
    sql = f"SELECT (m).coef, (m).std_err, (m).n_rows, (m).status FROM (SELECT {call} AS m FROM {source}) AS s"
    with settings(pg, **SERIAL):
        ((coef, errors, *facts),) = fetch(pg, sql.replace("{}", '{"invalid": "group"}'))
        told = one(pg, f"SELECT {call.replace('train_model', 'explain_training')} FROM {source}")
        assert f"merged into {distinct}\n" in told
    for values in (SERIAL, PARALLEL, PARALLEL | {"parallel_leader_participation": "off"}):
        with settings(pg, **values):
            assert ("Partial Aggregate" in plan(pg, sql)) == (values != SERIAL)
            ((found, deviations, *others),) = fetch(pg, sql)
            assert others == facts == [60000, "ok"]
            assert found == pytest.approx(coef, rel=1e-9)
            assert deviations == pytest.approx(errors, rel=1e-9)


def test_parallel_groups_that_differ(pg: psycopg.Connection) -> None:
    """Workers that saw other widths and other tasks answer as one process does."""
    widths = "SELECT train_model('linear', y, x[: 1 + i / 3000]{}) FROM rows"
    error = ', \'{"invalid": "error"}\''
    with settings(pg, parallel_leader_participation="off", **PARALLEL):
        with pytest.raises(psycopg.errors.ArraySubscriptError, match="features, expected"):
            pg.execute(widths.format(error))
        found = pg.execute(f"SELECT (m).status, (m).plan FROM ({widths.format('')}) AS s(m)")
        [(status, why)] = found.fetchall()
        assert (status, "features, expected" in why) == ("invalid rows", True)
        with pytest.raises(
            psycopg.errors.InvalidParameterValue, match="must be the same in all rows of a group"
        ):
            pg.execute(
                "SELECT train_model('linear', y, x, CASE WHEN i > 3000 THEN '{\"l2\": 1}' END) FROM rows"
            )
    assert temporary_files(pg) == []


@pytest.mark.parametrize("hashed", ["on", "off"])
def test_partitions_combined_in_one_process(pg: psycopg.Connection, hashed: str) -> None:
    usual = by_group(pg)
    pg.execute("CREATE TABLE parts (LIKE rows) PARTITION BY HASH (i)")
    for part in range(3):
        pg.execute(
            f"CREATE TABLE part{part} PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER {part})"
        )
    pg.execute("INSERT INTO parts SELECT * FROM rows; ANALYZE parts")
    with settings(pg, enable_partitionwise_aggregate="on", enable_hashagg=hashed, enable_material="off",
                  enable_hashjoin="off", enable_mergejoin="off", parallel_tuple_cost="0", **SERIAL):  # fmt: skip
        sql = f"SELECT g, {LINEAR} AS m FROM parts GROUP BY g"
        shape = plan(pg, sql)
        assert "Partial" in shape
        assert "Finalize" in shape
        assert by_group(pg, source="parts") == usual
        again = f"SELECT g, to_json(m) FROM generate_series(1, 3) AS k LEFT JOIN ({sql}) AS t ON k + g < 100 ORDER BY k, g"
        assert "Nested Loop" in plan(pg, again)
        assert counted(fetch(pg, again)) == usual * 3
    pg.execute("DROP TABLE parts")


@pytest.mark.parametrize("merge", ["on", "off"])
def test_rescans_of_a_parallel_plan(pg: psycopg.Connection, merge: str) -> None:
    """A sort of what the workers gave is read again, after their files were."""
    pg.execute(
        "CREATE TABLE many AS SELECT r.* FROM rows AS r, generate_series(1, 8); ANALYZE many"
    )
    usual = by_group(pg, key="even", source="many")
    sql = f"""SELECT even, to_json(m) FROM generate_series(1, 3) AS k
              LEFT JOIN (SELECT even, {LINEAR} AS m FROM many GROUP BY even) AS t ON k > 0 ORDER BY k, even"""
    with settings(
        pg,
        enable_gathermerge=merge,
        enable_material="off",
        enable_hashjoin="off",
        enable_mergejoin="off",
        **PARALLEL,
    ):
        shape = plan(pg, sql)
        assert "Finalize" in shape
        assert ("Gather Merge" in shape) == (merge == "on")
        assert counted(fetch(pg, sql)) == usual * 3
    assert temporary_files(pg) == []
    pg.execute("DROP TABLE many")


def test_parallel_plan_that_is_left_early(pg: psycopg.Connection) -> None:
    """Files of groups that nobody asked for go when the transaction ends."""
    pg.execute(
        "CREATE TABLE many AS SELECT r.* FROM rows AS r, generate_series(1, 8); ANALYZE many"
    )
    with settings(pg, enable_hashagg="off", **PARALLEL):
        sql = f"SELECT {LINEAR} FROM many GROUP BY even LIMIT 1"
        assert "Gather Merge" in plan(pg, sql)
        assert len(fetch(pg, sql)) == 1
    assert temporary_files(pg) == []
    pg.execute("DROP TABLE many")


def test_compiled_expressions(pg: psycopg.Connection) -> None:
    if not one(pg, "SELECT pg_jit_available()"):
        pytest.skip("the server has no just-in-time compiler")
    usual = by_group(pg)
    with settings(
        pg, jit="on", jit_above_cost="0", jit_inline_above_cost="0", jit_optimize_above_cost="0"
    ):
        shape = fetch(pg, f"EXPLAIN ANALYZE SELECT g, {LINEAR} FROM rows GROUP BY g")
        assert ("JIT:",) in shape
        assert by_group(pg) == usual


def test_caches_that_are_lost_at_any_time(pg: psycopg.Connection) -> None:
    usual = by_group(pg)
    try:
        pg.execute("SET debug_discard_caches = 1")
    except psycopg.errors.InvalidParameterValue:
        pytest.skip("the server was built without debug_discard_caches")
    assert by_group(pg) == usual
    pg.execute("RESET debug_discard_caches")
