"""Training on columns of numbers in either database, for tests of what models say of themselves."""

# ruff: noqa: E501, SQL is read better on one line

import json
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

few = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
FIELDS = ("coef", "intercept", "std_err", "status", "converged", "loss", "options", "n_rows")
FITTED = ", ".join(f"(m).{name}" for name in FIELDS)


class Client:
    """A database: trains on columns of numbers."""

    def __init__(self, connection: Any, mark: str) -> None:
        self.connection, self.mark = connection, mark

    def rows(self, x: Any, y: Any, **more: Any) -> tuple[str, list[Any]]:
        """A query of the columns y, c0, c1, ..., then more, and its parameters."""
        columns = [np.asarray(y, float), *np.asarray(x, float).T]
        names = ["y", *(f"c{j}" for j in range(len(columns) - 1)), *more]
        columns += [np.asarray(values, float) for values in more.values()]
        cast = "double precision[]"
        if self.mark == "?":
            listed = ", ".join(f"unnest(?::{cast}) AS {name}" for name in names)
            return f"(SELECT {listed}) AS r", [list(map(float, c)) for c in columns]
        arrays = ", ".join([f"%s::{cast}"] * len(columns))
        return f"unnest({arrays}) AS r({', '.join(names)})", [list(map(float, c)) for c in columns]

    def by_name(self, columns: dict[str, str], source: str) -> tuple[str, str]:
        """A row of expressions by name, as features, and the query that has it."""
        if self.mark == "?":
            listed = ", ".join(f"'{name}': {value}" for name, value in columns.items())
            return f"{{{listed}}}", source
        named = ", ".join(f"{value} AS {name}" for name, value in columns.items())
        return "x", f"{source}, LATERAL (SELECT {named}) AS x"

    def fit(
        self,
        task: str,
        x: Any,
        y: Any,
        storage: str = "dense",
        more: dict[str, Any] | None = None,
        **options: Any,
    ) -> SimpleNamespace:
        """The model, coef and std_err as arrays; storage: dense, sparse or float.

        more: weights and then offsets, as the last arguments.
        """
        more = more or {}
        d = np.shape(x)[1]
        features = f"ARRAY[{', '.join(f'c{j}' for j in range(d))}]"
        if storage == "sparse":
            features = f"sparse(ARRAY[{', '.join(map(str, range(d)))}], {features})"
        elif storage == "float":
            features = f"CAST({features} AS real[])"
        source, parameters = self.rows(x, y, **more)
        given = ", ".join([f"'{json.dumps(options)}'", *more])
        call = f"train_model('{task}', y, {features}, {given})"
        sql = f"SELECT {FITTED} FROM (SELECT {call} AS m FROM {source}) AS t"
        found = self.connection.execute(sql, parameters).fetchone()
        model = SimpleNamespace(**dict(zip(FIELDS, found, strict=True)))
        model.coef = np.array(model.coef)
        nothing = [None] * (d + 1)
        model.std_err = np.array(
            [np.nan if e is None else e for e in model.std_err or nothing], float
        )
        model.options = json.loads(model.options)
        return model

    def summary(self, x: Any, y: Any, **options: Any) -> list[Any]:
        """p-values of a linear model."""
        features = f"ARRAY[{', '.join(f'c{j}' for j in range(np.shape(x)[1]))}]"
        source, parameters = self.rows(x, y)
        call = (
            f"SELECT train_model('linear', y, {features}, '{json.dumps(options)}') FROM {source}"
        )
        sql = f"SELECT estimate, std_err, p_value FROM model_summary(({call})) ORDER BY feature"
        return self.connection.execute(sql, parameters).fetchall()


@pytest.fixture(scope="module")
def there(file_session: Any) -> Client:
    return Client(file_session, "%s")


@pytest.fixture
def here(con: duckdb.DuckDBPyConnection) -> Client:
    return Client(con, "?")


@pytest.fixture(params=["here", "there"])
def client(request: pytest.FixtureRequest) -> Client:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Client)
    return found
