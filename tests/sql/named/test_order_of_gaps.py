"""The order of rows changes no bit of a model whose rows have gaps, with any number of threads."""

# ruff: noqa: E501, SQL is read better on one line

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tuskml

ROW = "{'a': a, 'b': b, 'c': c, 'd': d}"
TASKS: dict[str, dict[str, Any]] = {
    "linear": {"algorithm": "sgd", "max_iter": 3, "deterministic": True},
    "logistic": {"algorithm": "mgd", "max_iter": 3, "deterministic": True},
    "svm": {"algorithm": "sgd", "max_iter": 3, "deterministic": True},
    "gbdt": {"trees": 5, "validation": 0.2},
    "random_forest": {"trees": 5},
    "mlp": {"layers": [4], "max_iter": 3},
    "fm": {"rank": 2, "max_iter": 3},
    "kmeans": {"clusters": 3},
}
LABELS = {"logistic": "y > 1", "svm": "y > 1", "kmeans": "NULL"}
MODEL = """
SELECT model_payload(m), m.loss, m.status
FROM (SELECT train_model('{task}', {label}, {row}, '{options}', w) AS m FROM (FROM rows ORDER BY {order}))
"""


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect(threads=2) as found:
        yield found


@pytest.mark.parametrize("missing", ["impute", "level"])
@pytest.mark.parametrize("task", TASKS)
@settings(max_examples=4)
@given(seed=st.integers(0, 2**20), share=st.floats(0.05, 0.6))
def test_the_order_of_rows_changes_no_bit(
    connection: duckdb.DuckDBPyConnection, task: str, missing: str, seed: int, share: float
) -> None:
    """The mean that fills a gap is part of the content by which rows are ordered."""
    rng, n = np.random.default_rng(seed), 300
    columns = {
        "a": rng.normal(size=n) * 1e3 + 0.1,
        "c": rng.integers(0, 4, n).astype(str),
        "d": rng.integers(0, 10**9, n).astype(float),
    }
    table = {name: pa.array(x, mask=rng.random(n) < share) for name, x in columns.items()}
    table |= {"b": rng.exponential(size=n), "w": rng.random(n) + 0.5, "i": np.arange(n)}
    table["y"] = table["b"] + rng.normal(size=n)
    connection.register("rows", pa.table(table))
    found = set()
    for order, threads in (("i", 1), ("-i", 2), ("hash(i)", 2), ("a NULLS FIRST, i", 1)):
        options = {"missing": missing, "threads": threads, **TASKS[task]}
        told = connection.execute(
            MODEL.format(
                task=task,
                label=LABELS.get(task, "y"),
                row=ROW,
                options=json.dumps(options),
                order=order,
            )
        )
        found |= set(told.fetchall())
    assert len(found) == 1
