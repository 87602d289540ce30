"""A root of stores, a connection that has it, and stored models as SQL."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tuskml.kvstore import StoreRoot


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    return StoreRoot(tmp_path / "stores")


@pytest.fixture
def con(with_root: Callable[..., Any], root: StoreRoot) -> duckdb.DuckDBPyConnection:
    return with_root(root.path)


def literal(reference: str, task: str = "linear", intercept: str = "0.5", more: str = "") -> str:
    """A stored model as SQL, as train_model would leave it."""
    classes = {"linear": "NULL", "logistic": "[3, 7]", "svm": "[3, 7]"}.get(task, more)
    reference = reference.replace("'", "''")
    return (
        f"with_payload({{'task': '{task}', 'coef': NULL::DOUBLE[], 'intercept': {intercept}, "
        f"'classes': {classes}::DOUBLE[], 'store': '{reference}', "
        f"""'options': '{{"tuskml":1,"biases":true,"store": "{reference}","x": [1, "}}"]}}'}})"""
    )


def ask(con: duckdb.DuckDBPyConnection, expression: str, *parameters: object) -> object:
    return con.execute(f"SELECT {expression}", list(parameters)).fetchall()[0][0]
