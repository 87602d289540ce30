"""Rows joined with many models: each row has its own model's answer, whatever a call site keeps."""

# ruff: noqa: E501, SQL is read better on one line

import psycopg
import pytest

GROUPS = 60


@pytest.fixture(scope="module")
def trained(pg: psycopg.Connection) -> psycopg.Connection:
    pg.execute(
        f"""CREATE TABLE joined AS SELECT i % {GROUPS} AS g, (i * 7919 % 1009)::float8 / 100 AS a,
        (ARRAY['x', 'y', 'z'])[1 + i * 31 % 3] AS c, (i * 31 + i * 7919 % 1009 + i / 60) % 3 AS y FROM generate_series(0, 5999) AS t(i)"""
    )
    row = "(SELECT q FROM (SELECT a, c) AS q)"
    wide = f"(SELECT q FROM (SELECT a, c || repeat('long level ', 30 + {GROUPS}) AS c) AS q)"
    pg.execute(
        f"""CREATE TABLE joined_models AS SELECT g, train_model('linear', y + g, {row}) AS by_name, train_model('linear', y + g, ARRAY[a]) AS by_list,
        train_model('gbdt', y + g, {wide}, '{{"trees": 30}}') AS large FROM joined GROUP BY g"""
    )
    pg.execute("ANALYZE joined; ANALYZE joined_models")
    return pg


@pytest.mark.parametrize("memory", ["64kB", "200kB", "64MB"])
@pytest.mark.parametrize(
    ("model", "features"),
    [
        ("by_name", "(SELECT q FROM (SELECT a, c) AS q)"),
        ("by_list", "ARRAY[a]"),
        (
            "large",
            f"(SELECT q FROM (SELECT c || repeat('long level ', 30 + {GROUPS}) AS c, a) AS q)",
        ),
    ],
)
def test_models_that_alternate(
    trained: psycopg.Connection, memory: str, model: str, features: str
) -> None:
    """The same as one group after the other, where each model is read once."""
    ask = f"SELECT g, count(*), sum(predict({model}, {features})), sum(decision({model}, {features})) FROM {{}} GROUP BY g ORDER BY g"
    alone = [
        trained.execute(
            ask.format(f"joined JOIN joined_models USING (g) WHERE g = {g}")
        ).fetchall()[0]
        for g in range(0, GROUPS, 7)
    ]
    trained.execute(
        f"SET work_mem = '{memory}'; SET tuskml.memory_limit = '{memory}'; SET enable_mergejoin = off; SET max_parallel_workers_per_gather = 0"
    )
    try:
        mixed = "(SELECT * FROM joined ORDER BY a, c OFFSET 0) AS j JOIN joined_models USING (g)"
        found = {row[0]: row for row in trained.execute(ask.format(mixed)).fetchall()}
    finally:
        trained.execute(
            "RESET work_mem; RESET tuskml.memory_limit; RESET enable_mergejoin; RESET max_parallel_workers_per_gather"
        )
    assert len(found) == GROUPS
    for row in alone:
        assert found[row[0]] == (*row[:2], pytest.approx(row[2]), pytest.approx(row[3]))


def test_a_changing_model_is_read_again(trained: psycopg.Connection) -> None:
    """In PL/pgSQL a call site outlives statements."""
    body = "DECLARE found float8[] := '{}'; m tuskml_model; k int; BEGIN FOR k IN 1..9 LOOP SELECT (by_list).* INTO m FROM joined_models WHERE g = k % 3; found := found || predict(m, ARRAY[1.0]); END LOOP; RETURN found; END"
    trained.execute(
        f"CREATE OR REPLACE FUNCTION predicted_in_turn() RETURNS float8[] LANGUAGE plpgsql AS $$ {body} $$"
    )
    ((found,),) = trained.execute("SELECT predicted_in_turn()").fetchall()
    by_group = dict(
        trained.execute(
            "SELECT g, predict(by_list, ARRAY[1.0]) FROM joined_models WHERE g < 3"
        ).fetchall()
    )
    assert found == [by_group[k % 3] for k in range(1, 10)]


def test_models_in_toast_stay_within_their_memory(trained: psycopg.Connection) -> None:
    """What is kept of them is their bytes, not the pointers to them."""
    trained.execute(
        "CREATE TABLE toasted AS SELECT g, large AS m FROM joined_models LIMIT 0;"
        "ALTER TABLE toasted ALTER m SET STORAGE EXTERNAL;"
        "INSERT INTO toasted SELECT g, large FROM joined_models"
    )
    row = f"(SELECT q FROM (SELECT c || repeat('long level ', 30 + {GROUPS}) AS c, a) AS q)"
    twice = "(SELECT * FROM joined JOIN toasted USING (g) ORDER BY a, c, g OFFSET 0)"
    used = "(SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'tuskml model')"
    ask = f"SELECT n, {used} FROM (SELECT count(predict(m, {row})) AS n FROM {twice} AS j OFFSET 0) AS k"
    found = {}
    for memory in ("256kB", "64MB"):
        trained.execute(f"SET work_mem = '{memory}'; SET tuskml.memory_limit = '{memory}'")
        trained.execute("SET max_parallel_workers_per_gather = 0")
        ((n, found[memory]),) = trained.execute(ask).fetchall()
        assert n == 6000
    trained.execute(
        "RESET work_mem; RESET tuskml.memory_limit; RESET max_parallel_workers_per_gather"
    )
    ((size,),) = trained.execute("SELECT min(pg_column_size(m)) FROM toasted").fetchall()
    assert size > 2100  # larger values go to TOAST
    assert found["64MB"] > 2 * found["256kB"], found
    assert found["256kB"] < 384 * 1024, found


def test_packed_trees_stay_within_the_memory_of_kept_models(trained: psycopg.Connection) -> None:
    trained.execute(
        """CREATE TABLE listed AS SELECT g, train_model('gbdt', y + g, ARRAY[a], '{"trees": 200}') AS m FROM joined GROUP BY g"""
    )
    mixed = "(SELECT * FROM joined JOIN listed USING (g) ORDER BY a, c, g OFFSET 0)"
    used = "(SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'tuskml model')"
    ask = f"SELECT n, {used} FROM (SELECT count(predict(m, ARRAY[a])) AS n FROM {mixed} AS j OFFSET 0) AS k"
    trained.execute("SET work_mem = '512kB'; SET tuskml.memory_limit = '512kB'")
    trained.execute("SET max_parallel_workers_per_gather = 0")
    try:
        ((n, found),) = trained.execute(ask).fetchall()
    finally:
        trained.execute(
            "RESET work_mem; RESET tuskml.memory_limit; RESET max_parallel_workers_per_gather"
        )
    assert n == 6000
    assert found < 768 * 1024, found


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("trained_as", "rows"),
    [
        (
            "train_model('linear', i % 7, sparse(ARRAY[i % 50, 100000], ARRAY[1.0, 1]))",
            "model_summary(m)",
        ),
        (
            "train_model('random_forest', i * 7919 % 1009, ROW(i % 100, 'level ' || i * 7 % 200), '{\"trees\": 300}')",
            "tree_dump(m)",
        ),
        pytest.param(
            "train_model('gbdt', i % 7, array_fill(i, ARRAY[60000]), '{\"trees\": 1, \"min_child_rows\": 1}')",
            "feature_importance(m)",
            marks=pytest.mark.nightly,
        ),
        (
            "train_model('linear', i % 7, ROW('level ' || i), '{\"max_categories\": 100000, \"l2\": 0.1}')",
            "explain_prediction(m, ROW('level 7'))",
        ),
    ],
)  # fmt: skip
def test_rows_of_a_wide_model_in_a_table_decompress_it_once(
    pg: psycopg.Connection, trained_as: str, rows: str
) -> None:
    """Where each row decompresses the model again, this takes longer than statements may."""
    rows_to_train = (
        100000 if "categories" in trained_as else 2000 if "forest" in trained_as else 40
    )
    pg.execute(
        f"""CREATE TEMP TABLE wide AS SELECT {trained_as} AS m
        FROM generate_series(1, {rows_to_train}) AS t(i)"""
    )
    pg.execute("SET statement_timeout = '30s'")
    try:
        found = pg.execute(f"SELECT count(*) FROM wide, {rows} AS r").fetchone()
    finally:
        pg.execute("RESET statement_timeout; DROP TABLE wide")
    assert found is not None
    assert found[0] >= 20000
