"""Asking PostgreSQL and DuckDB the same."""

import math
import re

import duckdb
import psycopg
import pytest
from hypothesis import HealthCheck, settings

relaxed = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

OPTIONS = '{"tuskml":1,"l2":0.0}'
FIELDS = {
    "task": "text", "coef": "float8[]", "intercept": "float8", "std_err": "float8[]",
    "classes": "float8[]", "n_rows": "bigint", "n_skipped": "bigint", "n_features": "bigint",
    "loss": "float8", "history": "float8[]", "iterations": "bigint", "converged": "boolean",
    "status": "text", "plan": "text", "seconds": "float8", "options": "text", "store": "text",
}  # fmt: skip
USED = ["task", "coef", "intercept", "classes", "options"]
POSTGRES_MODEL = f"ROW({', '.join(f'%({f})s::{t}' for f, t in FIELDS.items())})::tuskml_model"
DUCKDB_MODEL = ", ".join(f"'{f}': ${f}::{FIELDS[f].replace('float8', 'DOUBLE')}" for f in USED)


def model(task="logistic", **fields):
    """The fields of a model, those not given as train_model would have them."""
    usual = {
        "task": task, "coef": [1.0, -2.0, 0.5], "intercept": 0.25, "options": OPTIONS,
        "classes": None if task == "linear" else [3.0, 7.0],
    }  # fmt: skip
    return dict.fromkeys(FIELDS) | usual | fields


def answer(run, error):
    """The value, or the sentence of the error."""
    try:
        return run().fetchone()[0]
    except error as raised:
        return sentence(raised)


def sentence(error):
    if isinstance(error, psycopg.Error):
        return error.diag.message_primary
    return re.sub(r"^[\w ]*Error: ", "", str(error)).splitlines()[0]


def ask_postgres(pg, expression, parameters):
    return answer(lambda: pg.execute(f"SELECT {expression}", parameters), psycopg.Error)


def ask_duckdb(con, expression, parameters):
    return answer(lambda: con.execute(f"SELECT {expression}", parameters), duckdb.Error)


def same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and a == b


def value(pg, query, *parameters):
    return pg.execute(query, parameters or None).fetchone()[0]


def check(found, expected):
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-9, abs=1e-9))


# Parallel plans for tables of any size.
PARALLEL = """
    SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
    SET max_parallel_workers_per_gather = 3;"""
