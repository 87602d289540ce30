"""Asking PostgreSQL and DuckDB the same."""

import math
import re

import duckdb
import psycopg
import pytest
from hypothesis import HealthCheck, settings

from tuskml.udas.model_fields import MODEL_FIELDS

relaxed = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

OPTIONS = '{"tuskml":1,"l2":0.0}'
FIELDS = {field.name: field.postgres for field in MODEL_FIELDS}
USED = ["task", "coef", "intercept", "classes", "options"]
ROW = ", ".join(f"%({field})s::{kind}" for field, kind in FIELDS.items())
POSTGRES_ROW = f"ROW({ROW})::tuskml_model"
POSTGRES_MODEL = f"with_payload({POSTGRES_ROW})"
STRUCT = ", ".join(f"'{f}': ${f}::{FIELDS[f].replace('float8', 'DOUBLE')}" for f in USED)
DUCKDB_MODEL = f"with_payload({{{STRUCT}}})"


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
