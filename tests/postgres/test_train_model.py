"""train_model wherever SQL allows an aggregate, in every plan, over every type it takes."""

# ruff: noqa: E501, SQL is read better on one line

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
import pytest

ROWS = """
CREATE TABLE rows AS
SELECT i, g, i % 2 = 0 AS even, a, b, ARRAY[a, b] AS x, 3 * a - 2 * b + g + (i * 31 % 11 - 5) / 50.0::float8 AS y,
       a - b + (i * 31 % 11 - 5) / 10.0::float8 > 0 AS positive
FROM (SELECT i, i % 7 AS g, (i * 7919 % 1000) / 1000.0::float8 AS a, (i * 104729 % 997) / 997.0::float8 AS b
      FROM generate_series(1, 6000) AS i) AS t
"""
EXACT = '\'{"deterministic": true, "l2": 0.01}\''
LINEAR = f"train_model('linear', y, x, {EXACT})"
SPARSE = f"train_model('linear', y, sparse(ARRAY[i % 3, 5], x), {EXACT})"
PARALLEL = {
    "min_parallel_table_scan_size": "0",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "max_parallel_workers_per_gather": "2",
}
SERIAL = {"max_parallel_workers_per_gather": "0"}


@pytest.fixture(scope="module", autouse=True)
def rows(pg: psycopg.Connection) -> None:
    pg.execute(ROWS)
    pg.execute("ANALYZE rows")


@contextmanager
def settings(pg: psycopg.Connection, **values: str) -> Iterator[None]:
    for name, value in values.items():
        pg.execute(f"SET {name} = {value}")
    yield
    pg.execute("RESET ALL")


def fetch(pg: psycopg.Connection, sql: str, parameters: tuple = ()) -> list[tuple]:
    return pg.execute(sql, parameters or None).fetchall()


def one(pg: psycopg.Connection, sql: str, parameters: tuple = ()) -> Any:
    return fetch(pg, sql, parameters)[0][0]


def model(pg: psycopg.Connection, sql: str, parameters: tuple = ()) -> dict:
    """The model that a SELECT gives, NULL if none."""
    return one(pg, f"SELECT to_json(m) FROM ({sql}) AS t(m)", parameters)


def counted(found: list[tuple]) -> list[tuple]:
    """Answers without what differs from run to run."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: item for name, item in value.items() if name != "seconds"}
        return value

    return [tuple(map(plain, row)) for row in found]


def by_group(
    pg: psycopg.Connection, call: str = LINEAR, key: str = "g", source: str = "rows"
) -> list[tuple]:
    sql = f"SELECT key, to_json(m) FROM (SELECT {key} AS key, {call} AS m FROM {source} GROUP BY {key}) AS t ORDER BY key"
    return counted(fetch(pg, sql))


def plan(pg: psycopg.Connection, sql: str, analyze: bool = False) -> str:
    options = "(ANALYZE, COSTS OFF, TIMING OFF)" if analyze else "(COSTS OFF)"
    return "\n".join(line for (line,) in fetch(pg, f"EXPLAIN {options} {sql}"))


def weights(found: dict) -> list[float]:
    return [found["intercept"], *found["coef"]]


def least_squares(pg: psycopg.Connection, where: str = "true") -> np.ndarray:
    """Intercept, a and b by NumPy."""
    found = np.array(fetch(pg, f"SELECT 1, a, b, y FROM rows WHERE {where}"))
    return np.linalg.lstsq(found[:, :3], found[:, 3], rcond=None)[0]


def temporary_files(pg: psycopg.Connection) -> list[tuple]:
    return fetch(pg, "SELECT name FROM pg_ls_tmpdir()")


# --- where a query may have it ---


def test_group_by(pg: psycopg.Connection) -> None:
    found = by_group(pg, "train_model('linear', y, x)")
    assert len(found) == 7
    for g, m in found:
        assert weights(m) == pytest.approx(least_squares(pg, f"g = {g}"), rel=1e-9)
        assert (m["n_rows"], m["n_skipped"], m["n_features"]) == (
            one(pg, f"SELECT count(*) FROM rows WHERE g = {g}"),
            0,
            2,
        )


def test_filter(pg: psycopg.Connection) -> None:
    sql = """SELECT to_json(train_model('linear', y, x) FILTER (WHERE even)), to_json(train_model('linear', y, x) FILTER (WHERE a < 0.5)),
                    train_model('linear', y, x) FILTER (WHERE a < 0) IS NULL FROM rows"""
    even, low, none = fetch(pg, sql)[0]
    assert weights(even) == pytest.approx(least_squares(pg, "even"), rel=1e-9)
    assert weights(low) == pytest.approx(least_squares(pg, "a < 0.5"), rel=1e-9)
    assert none


def test_no_rows(pg: psycopg.Connection) -> None:
    assert model(pg, "SELECT train_model('linear', y, x) FROM rows WHERE false") is None
    assert (
        fetch(pg, "SELECT g, train_model('linear', y, x) FROM rows WHERE false GROUP BY g") == []
    )
    assert one(pg, "SELECT explain_training('linear', y, x) FROM rows WHERE false") is None
    assert one(pg, "SELECT train_model('no task', y, x) FROM rows WHERE false") is None


def test_distinct_on_of_a_join(pg: psycopg.Connection) -> None:
    joined = """SELECT DISTINCT ON (r.a) r.a, r.b, r.y FROM rows AS r JOIN rows AS s ON r.g = s.g AND s.i < 50
                ORDER BY r.a, r.i DESC, s.i"""
    found = model(pg, f"SELECT train_model('linear', y, ARRAY[a, b]) FROM ({joined}) AS j")
    data = np.array(fetch(pg, f"SELECT 1, a, b, y FROM ({joined}) AS j"))
    assert found["n_rows"] == len(data) == 1000
    assert weights(found) == pytest.approx(
        np.linalg.lstsq(data[:, :3], data[:, 3], rcond=None)[0], rel=1e-9
    )


def test_order_by_and_distinct_within_the_call(pg: psycopg.Connection) -> None:
    usual = by_group(pg)
    assert by_group(pg, f"train_model('linear', y, x, {EXACT} ORDER BY i DESC)") == usual
    twice = "(SELECT * FROM rows UNION ALL SELECT * FROM rows) AS t"
    assert by_group(
        pg, f"train_model(DISTINCT 'linear', y, x, {EXACT})", source=twice
    ) == by_group(pg, LINEAR, source="(SELECT DISTINCT g, y, x FROM rows) AS t")


def test_tables_and_views(pg: psycopg.Connection) -> None:
    usual = by_group(pg)
    pg.execute(f"CREATE TABLE models AS SELECT g, {LINEAR} AS m FROM rows GROUP BY g")
    pg.execute(f"CREATE VIEW fresh AS SELECT g, {LINEAR} AS m FROM rows GROUP BY g")
    pg.execute("CREATE MATERIALIZED VIEW kept AS SELECT * FROM fresh")
    pg.execute(f"INSERT INTO models SELECT 100 + g, {LINEAR} FROM rows GROUP BY g")
    for relation in ("models WHERE g < 100", "fresh", "kept"):
        assert counted(fetch(pg, f"SELECT g, to_json(m) FROM {relation} ORDER BY g")) == usual
    assert (
        counted(fetch(pg, "SELECT g - 100, to_json(m) FROM models WHERE g >= 100 ORDER BY g"))
        == usual
    )
    pg.execute("DROP TABLE models; DROP VIEW fresh CASCADE")


def test_models_outlive_dump_and_copy(pg: psycopg.Connection) -> None:
    """A model is a value: as text and back it is the same."""
    pg.execute(f"CREATE TABLE models AS SELECT g, {LINEAR} AS m FROM rows GROUP BY g")
    pg.execute("CREATE TABLE again (g integer, m tuskml_model)")
    with pg.cursor().copy("COPY models TO STDOUT") as out:
        text = b"".join(bytes(part) for part in out)
    with pg.cursor().copy("COPY again FROM STDIN") as copy:
        copy.write(text)
    assert fetch(
        pg,
        "SELECT count(*) FROM models JOIN again USING (g) WHERE models.m IS NOT DISTINCT FROM again.m",
    ) == [(7,)]
    pg.execute("DROP TABLE models, again")


def test_prepared_statement(pg: psycopg.Connection) -> None:
    pg.execute(
        "PREPARE fit(text, float8) AS SELECT to_json(train_model('linear', y, x, $1)) FROM rows WHERE a < $2"
    )
    for _ in range(8):  # after five times the plan is generic
        for limit in (0.3, 0.9):
            found = one(pg, f"EXECUTE fit('{{}}', {limit})")
            assert weights(found) == pytest.approx(least_squares(pg, f"a < {limit}"), rel=1e-9)
    assert one(pg, "EXECUTE fit('{\"l2\": 1}', 1)")["options"].count('"l2":1.0') == 1
    pg.execute("DEALLOCATE fit")
    sql = "SELECT to_json(train_model(%s, y, x, %s)) FROM rows"
    for _ in range(8):
        found = pg.execute(sql, ("linear", '{"l2": 0}'), prepare=True).fetchone()[0]
        assert weights(found) == pytest.approx(least_squares(pg), rel=1e-9)


@pytest.mark.parametrize(
    "sets", ["GROUPING SETS ((g), (even), ())", "ROLLUP (g, even)", "CUBE (g, even)"]
)
@pytest.mark.parametrize("hashed", ["on", "off"])
def test_grouping_sets(pg: psycopg.Connection, sets: str, hashed: str) -> None:
    sql = f"SELECT g, even, to_json({LINEAR}) FROM rows GROUP BY {sets} ORDER BY g, even"
    with settings(pg, enable_hashagg=hashed):
        found = counted(fetch(pg, sql))
        shape = plan(pg, sql)
    assert ("MixedAggregate" in shape) == (hashed == "on"), shape
    assert len(found) == {"G": 7 + 2 + 1, "R": 14 + 7 + 1, "C": 14 + 7 + 2 + 1}[sets[0]]
    for g, even, m in found:
        where = " AND ".join(
            f"{key} = {value}" for key, value in (("g", g), ("even", even)) if value is not None
        )
        assert counted([(model(pg, f"SELECT {LINEAR} FROM rows WHERE {where or 'true'}"),)]) == [
            (m,)
        ]


def test_cursor_that_is_left_early(pg: psycopg.Connection) -> None:
    usual = dict(by_group(pg))
    for close in ("CLOSE c", "ROLLBACK", "COMMIT"):
        pg.execute("BEGIN")
        pg.execute(f"DECLARE c CURSOR FOR SELECT g, to_json({LINEAR}) FROM rows GROUP BY g")
        found = counted(fetch(pg, "FETCH 2 FROM c") + fetch(pg, "FETCH 1 FROM c"))
        assert len(found) == 3
        assert all(usual[g] == m for g, m in found)
        pg.execute(close)
        pg.execute("COMMIT" if close == "CLOSE c" else "SELECT 1")
    pg.execute(
        f"DECLARE kept CURSOR WITH HOLD FOR SELECT g, to_json({LINEAR}) FROM rows GROUP BY g"
    )
    assert dict(counted(fetch(pg, "FETCH ALL FROM kept"))) == usual
    pg.execute("CLOSE kept")


def test_two_cursors_side_by_side(pg: psycopg.Connection) -> None:
    usual = dict(by_group(pg))
    with pg.transaction():
        for name in ("c", "d"):
            pg.execute(
                f"DECLARE {name} CURSOR FOR SELECT g, to_json({LINEAR}) FROM rows GROUP BY g"
            )
        found = [fetch(pg, f"FETCH 1 FROM {name}") for _ in range(7) for name in ("c", "d")]
    assert all(usual[g] == m for [(g, m)] in map(counted, found))


def test_plpgsql(pg: psycopg.Connection) -> None:
    usual = dict(by_group(pg))
    pg.execute(f"""CREATE FUNCTION fit(wanted integer) RETURNS tuskml_model LANGUAGE plpgsql AS $$
        DECLARE m tuskml_model;
        BEGIN
            m := (SELECT {LINEAR} FROM rows WHERE g = wanted);
            RETURN m;
        END $$""")
    pg.execute("""CREATE FUNCTION fit_all() RETURNS TABLE (wanted integer, m tuskml_model) LANGUAGE plpgsql AS $$
        BEGIN
            FOR wanted IN SELECT DISTINCT g FROM rows LOOP
                m := fit(wanted);
                RETURN NEXT;
            END LOOP;
        END $$""")
    for _ in range(2):
        assert dict(counted(fetch(pg, "SELECT wanted, to_json(m) FROM fit_all()"))) == usual
    pg.execute("DROP FUNCTION fit_all; DROP FUNCTION fit")


def test_a_training_within_a_training(pg: psycopg.Connection) -> None:
    """The label of the outer one is a coefficient of the inner ones."""
    pg.execute("""CREATE FUNCTION slope_of(wanted integer) RETURNS float8 LANGUAGE sql AS
                  $$ SELECT (train_model('linear', y, x)).coef[1] FROM rows WHERE g = wanted $$""")
    found = model(
        pg, "SELECT train_model('linear', slope_of(g), ARRAY[g]) FROM generate_series(0, 6) AS g"
    )
    slopes = [least_squares(pg, f"g = {g}")[1] for g in range(7)]
    assert weights(found) == pytest.approx(
        np.polynomial.polynomial.polyfit(range(7), slopes, 1), rel=1e-6
    )
    pg.execute("DROP FUNCTION slope_of")


def test_all_fields_of_one_training(pg: psycopg.Connection) -> None:
    """`.*` is 17 expressions: the seconds tell trainings apart."""
    cursor = pg.execute(
        "SELECT train_model('linear', y, x) AS m, (train_model('linear', y, x)).* FROM rows"
    )
    names = [column.name for column in cursor.description or []]
    assert names[1:] == ["task", "coef", "intercept", "std_err", "classes", "n_rows", "n_skipped", "n_features", "loss",
                         "history", "iterations", "converged", "status", "plan", "seconds", "options", "store"]  # fmt: skip
    row = cursor.fetchone()
    again = one(pg, "SELECT (%s::tuskml_model).seconds", (row[0],))
    assert again == row[names.index("seconds")] > 0


def test_having(pg: psycopg.Connection) -> None:
    pg.execute(
        "CREATE TABLE mixed AS SELECT g, y, x FROM rows WHERE g < 5 AND i < 500 OR g = 5 AND i < 10"
    )
    sql = "SELECT g FROM mixed GROUP BY g HAVING (train_model('linear', y, x)).status = 'ok' ORDER BY g"
    assert fetch(pg, sql) == [(g,) for g in range(5)]
    pg.execute("DROP TABLE mixed")


def test_lateral(pg: psycopg.Connection) -> None:
    sql = f"SELECT k, to_json(m) FROM generate_series(0, 6) AS k, LATERAL (SELECT {LINEAR} AS m FROM rows WHERE g = k) AS t ORDER BY k"
    assert counted(fetch(pg, sql)) == by_group(pg)
    sql = f"SELECT k, to_json((SELECT {LINEAR} FROM rows WHERE g = k)) FROM generate_series(0, 6) AS k ORDER BY k"
    assert counted(fetch(pg, sql)) == by_group(pg)


def test_rescans_of_one_hash_table(pg: psycopg.Connection) -> None:
    """The inner side of a nested loop is asked for the same groups again: it need not train again."""
    sql = f"""SELECT k, g, to_json(m) FROM generate_series(1, 3) AS k
              LEFT JOIN (SELECT g, {LINEAR} AS m FROM rows GROUP BY g) AS t ON k + g < 100 ORDER BY k, g"""
    with settings(
        pg, enable_material="off", enable_hashjoin="off", enable_mergejoin="off", **SERIAL
    ):
        shape = plan(pg, sql, analyze=True)
        found = fetch(pg, sql)
    assert "Nested Loop" in shape
    assert "HashAggregate (actual rows=7 loops=3)" in shape
    assert [row[1:] for row in counted(found)] == by_group(pg) * 3
    assert len({row[2]["seconds"] for row in found}) <= 7


def test_rescans_with_other_rows(pg: psycopg.Connection) -> None:
    sql = f"""SELECT k, g, to_json(m) FROM generate_series(1, 3) AS k,
              LATERAL (SELECT g, {LINEAR} AS m FROM rows WHERE i % k = 0 GROUP BY g OFFSET 0) AS t ORDER BY k, g"""
    for hashed in ("on", "off"):
        with settings(pg, enable_hashagg=hashed, **SERIAL):
            found = counted(fetch(pg, sql))
        for k in (1, 2, 3):
            source = f"(SELECT * FROM rows WHERE i % {k} = 0) AS t"
            assert [row[1:] for row in found if row[0] == k] == by_group(pg, source=source)


def test_no_window(pg: psycopg.Connection) -> None:
    for over in ("OVER ()", "OVER (PARTITION BY g)", "OVER (ORDER BY i)"):
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="use as a window function"):
            pg.execute(f"SELECT train_model('linear', y, x) {over} FROM rows")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        pg.execute("SELECT explain_training('linear', y, x) OVER () FROM rows")


def test_several_in_one_query(pg: psycopg.Connection) -> None:
    """Same rows, other settings: each its own model."""
    tasks = ["linear', y", "logistic', positive", "svm', positive", "linear', a"]
    calls = [f"train_model('{task}, x, {EXACT})" for task in tasks]
    sql = f"SELECT g, {', '.join(f'to_json({call})' for call in calls)} FROM rows GROUP BY g ORDER BY g"
    found = counted(fetch(pg, sql))
    for place, call in enumerate(calls, 1):
        assert [(row[0], row[place]) for row in found] == by_group(pg, call)


def test_task_and_options_by_group(pg: psycopg.Connection) -> None:
    call = """train_model(CASE WHEN g < 3 THEN 'linear' ELSE 'logistic' END, CASE WHEN g < 3 THEN y ELSE positive::int END, x,
                          CASE WHEN g % 2 = 0 THEN '{"deterministic": true, "l2": 0.01}' ELSE '{"deterministic": true, "l2": 1}' END)"""
    for g, m in by_group(pg, call):
        task, label = ("linear", "y") if g < 3 else ("logistic", "positive")
        options = f"'{json.dumps({'deterministic': True, 'l2': 0.01 if g % 2 == 0 else 1})}'"
        assert counted(
            [
                (
                    model(
                        pg,
                        f"SELECT train_model('{task}', {label}, x, {options}) FROM rows WHERE g = {g}",
                    ),
                )
            ]
        ) == [(m,)]


# --- whatever the plan ---


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


def test_parallel_groups_that_differ(pg: psycopg.Connection) -> None:
    """Workers that saw other widths and other tasks refuse as one process does."""
    with settings(pg, parallel_leader_participation="off", **PARALLEL):
        with pytest.raises(psycopg.errors.ArraySubscriptError, match="features, expected"):
            pg.execute("SELECT train_model('linear', y, x[: 1 + i / 3000]) FROM rows")
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


# --- every type ---


@pytest.mark.parametrize(
    "label", ["boolean", "smallint", "integer", "bigint", "real", "double precision", "numeric"]
)
def test_labels(pg: psycopg.Connection, label: str) -> None:
    usual = model(pg, f"SELECT train_model('logistic', positive, x, {EXACT}) FROM rows")
    cast = (
        "positive" if label == "boolean" else f"(CASE WHEN positive THEN 3 ELSE -4 END)::{label}"
    )
    found = model(pg, f"SELECT train_model('logistic', {cast}, x, {EXACT}) FROM rows")
    assert found["classes"] == ([0, 1] if label == "boolean" else [-4, 3])
    assert weights(found) == pytest.approx(weights(usual), rel=1e-9)


@pytest.mark.parametrize(
    "features", ["real", "double precision", "smallint", "integer", "bigint", "numeric"]
)
@pytest.mark.parametrize("sparse", [False, True])
def test_features(pg: psycopg.Connection, features: str, sparse: bool) -> None:
    array = f"ARRAY[i % 50, i % 31 - 15]::{features}[]"
    given = f"sparse(ARRAY[0, 1], {array})" if sparse else array
    found = model(
        pg, f"SELECT train_model('linear', 2 * (i % 50) + i % 31, {given}, {EXACT}) FROM rows"
    )
    usual = model(
        pg,
        f"SELECT train_model('linear', 2 * (i % 50) + i % 31, {given.replace(features, 'float8')}, {EXACT}) FROM rows",
    )
    assert weights(found) == pytest.approx(weights(usual), rel=1e-9)
    assert found["n_rows"] == 6000


def test_array_with_other_bounds(pg: psycopg.Connection) -> None:
    """Features are counted from one, whatever SQL counts them from."""
    found = model(
        pg, f"SELECT train_model('linear', y, ('[0:1]=' || x::text)::float8[], {EXACT}) FROM rows"
    )
    assert counted([(found,)]) == counted([(model(pg, f"SELECT {LINEAR} FROM rows"),)])


@pytest.mark.parametrize("storage", ["EXTERNAL", "EXTENDED", "MAIN"])
def test_wide_arrays_out_of_line(pg: psycopg.Connection, storage: str) -> None:
    pg.execute("CREATE TABLE wide (y float8, x float8[])")
    pg.execute(f"ALTER TABLE wide ALTER x SET STORAGE {storage}")
    pg.execute("""INSERT INTO wide SELECT i % 5, (SELECT array_agg(CASE WHEN k = 1 THEN i % 5 ELSE (i * k) % 7 END::float8)
                                              FROM generate_series(1, 3000) AS k) FROM generate_series(1, 60) AS i""")
    assert one(pg, "SELECT pg_table_size('wide') > 8192 * 4") or storage != "EXTERNAL"
    found = model(pg, "SELECT train_model('linear', y, x, '{\"l2\": 0.001}') FROM wide")
    assert (found["n_features"], found["n_rows"], len(found["coef"])) == (3000, 60, 3000)
    assert found["loss"] < 0.1
    pg.execute("DROP TABLE wide")


def test_nulls_are_skipped_and_counted(pg: psycopg.Connection) -> None:
    sql = """SELECT train_model('linear', CASE WHEN i % 5 > 0 THEN y END,
                                CASE WHEN i % 7 = 0 THEN NULL WHEN i % 7 = 1 THEN ARRAY[a, NULL] ELSE x END) FROM rows"""
    found = model(pg, sql)
    used = "i % 5 > 0 AND i % 7 > 1"
    assert found["n_rows"] == one(pg, f"SELECT count(*) FROM rows WHERE {used}")
    assert found["n_rows"] + found["n_skipped"] == 6000
    assert weights(found) == pytest.approx(least_squares(pg, used), rel=1e-9)


@pytest.mark.parametrize("features", [
    "sparse(NULL::int[], x)", "sparse(ARRAY[0, 1], NULL::float8[])", "sparse(ARRAY[0, NULL], x)", "sparse(ARRAY[0, 1], ARRAY[a, NULL])",
    "CASE WHEN i < 0 THEN sparse(ARRAY[0, 1], x) END",
])  # fmt: skip
def test_nulls_of_sparse_rows(pg: psycopg.Connection, features: str) -> None:
    call = (
        f"train_model('linear', y, CASE WHEN even THEN sparse(ARRAY[0, 1], x) ELSE {features} END)"
    )
    found = model(pg, f"SELECT {call} FROM rows")
    assert (found["n_rows"], found["n_skipped"]) == (3000, 3000)
    assert weights(found) == pytest.approx(least_squares(pg, "even"), rel=1e-6)


def test_groups_without_usable_rows(pg: psycopg.Connection) -> None:
    found = by_group(pg, "train_model('linear', CASE WHEN g > 2 THEN y END, x)")
    assert [m is None for _, m in found] == [True] * 3 + [False] * 4


def test_no_features_of_an_empty_sparse_row(pg: psycopg.Connection) -> None:
    """Rows in which nothing occurs are rows."""
    found = model(
        pg,
        "SELECT train_model('linear', i % 3, sparse(ARRAY[]::int[], ARRAY[]::float8[])) FROM rows",
    )
    assert found["n_rows"] == 6000
    assert found["intercept"] == pytest.approx(1.0)


def test_explain_training(
    pg: psycopg.Connection, connect: Callable[..., psycopg.Connection]
) -> None:
    text = one(pg, "SELECT explain_training('linear', y, x, '{\"threads\": 1}') FROM rows")
    assert "newton" in text
    by_groups = fetch(pg, "SELECT g, explain_training('linear', y, x) FROM rows GROUP BY g")
    assert len(by_groups) == 7
    assert connect().execute(
        "SELECT explain_training('linear', y, x, '{\"threads\": 1}') FROM rows"
    ).fetchone() == (text,)
