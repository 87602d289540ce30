"""All storages under a small limit, measured from outside: one sentence, 53200, and the server lives.

The most memory that the backend ever had is the kernel's VmHWM, set back before each statement.
What DuckDB is asked is in tests/faults/test_account.py.
"""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from sessions import eventually, pid, status

sys.path.append(str(Path(__file__).parents[2] / "faults"))

from accounts import LIMIT, TOLERANCE, ridge
from hostile import is_sentence

pytestmark = pytest.mark.fault(family="memory limits")

Connect = Callable[..., psycopg.Connection]
TABLES = {
    "many_groups": "SELECT i % 800 AS g, i * 7919 % 1000 AS y, (SELECT array_agg((i * k % 1009)::real) FROM generate_series(1, 100) AS k) AS x FROM generate_series(1, 3200) AS i",
    "many_features": "SELECT 1 AS g, i * 7919 % 1000 AS y, (SELECT array_agg((i * k % 1009)::real) FROM generate_series(1, 3500) AS k) AS x FROM generate_series(1, 150) AS i",
    "a_large_id": "SELECT 1 AS g, i * 7919 % 1000 AS y, sparse(ARRAY[0, 6000000], ARRAY[sin(i), cos(i)]) AS x FROM generate_series(1, 20) AS i",
    "many_ids": "SELECT 1 AS g, i * 7919 % 1000 AS y, sparse((SELECT array_agg((i::bigint * (7919 + 104729 * k) + k) % 3000000)::int[] FROM generate_series(0, 19) AS k), array_fill(1.0, ARRAY[20])) AS x FROM generate_series(1, 20000) AS i",
}
CASES = [
    ("logistic", {"max_iter": 2, "algorithm": algorithm})
    for algorithm in ("auto", "lbfgs", "newton", "newton_cg", "sgd", "hogbatch", "svrg")
] + [("svm", {"max_iter": 2, "algorithm": "dcd", "l2": 0.1}), ("linear", {"max_iter": 2})]  # fmt: skip
SMALL = "SELECT (train_model('logistic', i % 3 = 0, ARRAY[i % 7, i])).n_rows FROM generate_series(1, 999) AS i"


def grown(session: psycopg.Connection, sql: str) -> tuple[str, int]:
    """The SQLSTATE, and by how many megabytes the backend grew; afterwards the session works."""
    backend = pid(session)
    Path(f"/proc/{backend}/clear_refs").write_text("5")
    before, state, told = status(backend, "VmRSS"), "", "memory"
    try:
        session.execute(sql).fetchall()
    except psycopg.Error as error:
        state, told = error.sqlstate or "lost", error.diag.message_primary or ""
    assert is_sentence(told)
    assert "memory" in told
    found = (status(backend, "VmHWM") - before) // 1024
    assert session.execute(SMALL).fetchall() == [(999,)]
    return state, found


@pytest.fixture
def limited(connect: Connect) -> psycopg.Connection:
    session = connect()
    session.execute(f"SET tuskml.memory_limit = '{LIMIT}MB'")
    session.execute(SMALL)
    return session


@pytest.mark.sample(1)
@pytest.mark.parametrize("table", TABLES)
def test_a_statement_stays_within_its_limit(limited: psycopg.Connection, table: str) -> None:
    limited.execute(f"CREATE TABLE {table} AS {TABLES[table]}")
    for task, given in CASES:
        label = "y" if task == "linear" else "y < 400"
        penalty = ridge(table.replace("_", " "), task, given.get("algorithm"))
        options = json.dumps(penalty | given)
        sql = f"SELECT count(m) FROM (SELECT train_model('{task}', {label}, x, '{options}') AS m FROM {table} GROUP BY g OFFSET 0) AS s"
        state, megabytes = grown(limited, sql)
        assert state in ("", "53200"), (task, options)
        assert megabytes <= LIMIT + TOLERANCE, (task, options, state)


@pytest.mark.nightly
@pytest.mark.parametrize("largest", [10_000_000, 2_147_483_646])
def test_a_list_beyond_the_limit_suggests_a_store(
    limited: psycopg.Connection, largest: int
) -> None:
    sql = f"SELECT train_model('linear', i, sparse(ARRAY[0, {largest}], ARRAY[1.0, i])) FROM generate_series(1, 20) AS i"
    with pytest.raises(
        psycopg.errors.OutOfMemory,
        match=rf"the model has {largest + 1} coefficients, of which 2 occur.*option 'store'",
    ):
        limited.execute(sql)
    state, megabytes = grown(limited, sql)
    assert (state, megabytes <= TOLERANCE) == ("53200", True)
    if largest < 10**8:
        limited.execute("SET tuskml.memory_limit = '1GB'")
        sql = sql.replace("SELECT train_model", "SELECT cardinality((train_model").replace(
            " FROM", ").coef) FROM", 1
        )
        assert limited.execute(sql).fetchall() == [(largest + 1,)]


@pytest.mark.nightly
def test_a_list_beyond_a_value_of_postgres(limited: psycopg.Connection) -> None:
    """Which has a gigabyte at most, as has its text."""
    limited.execute("SET tuskml.memory_limit = '4GB'")
    sql = "SELECT train_model('linear', i, sparse(ARRAY[0, 135000000], ARRAY[1.0, i])) FROM generate_series(1, 20) AS i"
    with pytest.raises(
        psycopg.errors.ProgramLimitExceeded, match=r"tuskml.model_limit.*1 GB.*option 'store'"
    ):
        limited.execute(sql)
    assert limited.execute(SMALL).fetchall() == [(999,)]


@pytest.mark.parametrize("algorithm", ["lbfgs", "newton_cg", "bgd"])
def test_a_timeout_at_a_large_id(limited: psycopg.Connection, algorithm: str) -> None:
    limited.execute("SET tuskml.memory_limit = '2GB'; SET statement_timeout = '300ms'")
    options = f'{{"algorithm": "{algorithm}", "max_iter": 1000000000, "epsilon": 0}}'
    began = time.monotonic()
    with pytest.raises(psycopg.errors.QueryCanceled):
        limited.execute(
            f"SELECT train_model('logistic', i % 3 = 0, sparse(ARRAY[0, 8000000], ARRAY[1.0, sin(i)]), '{options}') FROM generate_series(1, 20) AS i"
        )
    assert time.monotonic() - began < 30, "a guard against hanging, no measure"
    limited.execute("SET statement_timeout = 0")
    assert eventually(lambda: limited.execute(SMALL).fetchall() == [(999,)])


def test_ratings_of_a_large_id(limited: psycopg.Connection) -> None:
    sql = 'SELECT train_model($$matrix_factorization$$, i % 5, ARRAY[i * 1000000, i % 9]::float8[], $${"rank": 2}$$) FROM generate_series(1, 20) AS i'
    state, megabytes = grown(limited, sql)
    assert state == "53200"
    assert megabytes <= LIMIT + TOLERANCE


def test_a_long_warm_start(limited: psycopg.Connection) -> None:
    """Python's objects of four million coefficients are 250 MB while they are read."""
    sql = "SELECT (train_model('linear', i, ARRAY[i], '{\"warm_start\": {\"coef\": [' || repeat('1,', 4000000) || '1]}}')).n_rows FROM generate_series(1, 2) AS i"
    state, megabytes = grown(limited, sql)
    assert state == "53200"
    assert megabytes <= LIMIT + TOLERANCE
