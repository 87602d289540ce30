"""Tasks of a user's own inside the server: only a superuser names the modules that register them."""

# ruff: noqa: E501, SQL is read better on one line

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
import statsmodels.api as sm
from queries import fetch, one

MODULE = """
import numpy as np
import tuskml

tuskml.register_task(
    "own_poisson",
    loss=lambda m, y: np.exp(m) - y * m,
    derivative=lambda m, y: np.exp(m) - y,
    curvature=lambda m, y: np.exp(m),
    response="exp",
    likelihood=True,
)
tuskml.register_algorithm("brief", "bgd", loop=lambda setting: lambda state: state.iteration < 2)
tuskml.register_algorithm("broken", "bgd", update=lambda setting: 1 / 0)
"""
FIT = "SELECT (train_model('own_poisson', y, x)).n_rows FROM t"


@pytest.fixture(scope="module", autouse=True)
def counts(pg: psycopg.Connection) -> None:
    pg.execute(
        "CREATE TABLE t AS SELECT i % 3 AS g, (abs(sin(i)) * 5)::int AS y, ARRAY[sin(i), cos(3 * i)] AS x "
        "FROM generate_series(1, 900) AS i"
    )
    pg.execute("GRANT SELECT ON t TO PUBLIC")


@pytest.fixture
def folder(served: Path) -> Path:
    """Where the server finds a module of a user's own."""
    (served / "own_losses.py").write_text(MODULE)
    (served / "own_faults.py").write_text("raise ValueError('no\\nway')\n")
    return served


@pytest.fixture
def session(connect: Callable[..., Any], cluster: Any, folder: Path) -> psycopg.Connection:
    """A superuser's, with the module."""
    opened = connect()
    opened.execute(f"SET tuskml.python_path = '{cluster.python_path}:{folder}'")
    opened.execute("SET tuskml.modules = 'own_losses'")
    return opened


def test_a_task_of_ones_own(session: psycopg.Connection) -> None:
    rows = fetch(session, "SELECT g, y, x FROM t ORDER BY g")
    models = fetch(
        session,
        "SELECT g, (m).intercept, (m).coef, (m).std_err, (m).status FROM "
        "(SELECT g, train_model('own_poisson', y, x) AS m FROM t GROUP BY g) AS s ORDER BY g",
    )
    for g, intercept, coef, std_err, status in models:
        there = [row for row in rows if row[0] == g]
        wide = sm.add_constant(np.array([row[2] for row in there], float))
        peer = sm.GLM(
            np.array([row[1] for row in there]), wide, family=sm.families.Poisson()
        ).fit()
        np.testing.assert_allclose([intercept, *coef], peer.params, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(std_err, peer.bse, rtol=1e-4)
        assert status == "ok"
    found = fetch(
        session,
        "SELECT predict(m, x), decision(m, x) FROM t, (SELECT train_model('own_poisson', y, x) AS m FROM t) AS s",
    )
    mean, margin = np.array(found).T
    np.testing.assert_allclose(mean, np.exp(margin), rtol=1e-12)
    assert {
        row[0]
        for row in fetch(
            session,
            "SELECT test FROM model_summary((SELECT train_model('own_poisson', y, x) FROM t))",
        )
    } == {"z"}


@pytest.mark.nightly
def test_a_task_of_ones_own_in_a_store(session: psycopg.Connection) -> None:
    """On sparse rows the loss is asked from the store's kernels, on the backend's own thread."""
    sparse = "sparse(ARRAY[0, 1], x)"
    options = '{"store": "own", "max_iter": 300, "epsilon": 0}'
    session.execute(
        f"CREATE TEMP TABLE m AS SELECT train_model('own_poisson', y, {sparse}, '{options}') AS m FROM t"
    )
    found = fetch(session, f"SELECT y, x, predict(m, {sparse}) FROM t, m")
    wide = sm.add_constant(np.array([x for _, x, _ in found], float))
    peer = sm.GLM(np.array([y for y, _, _ in found]), wide, family=sm.families.Poisson()).fit()
    np.testing.assert_allclose([p for _, _, p in found], peer.fittedvalues, rtol=0.05)


def test_an_algorithm_of_ones_own_and_the_explanation(session: psycopg.Connection) -> None:
    assert (
        one(
            session,
            "SELECT (train_model('own_poisson', y, x, '{\"algorithm\": \"brief\"}')).iterations FROM t",
        )
        == 2
    )
    found = json.loads(
        one(
            session,
            "SELECT explain_training('own_poisson', y, x, '{\"format\": \"json\"}') FROM t",
        )
    )
    candidates = {one["algorithm"]: one for one in found["candidates"]}
    assert candidates["brief"]["seconds_per_iteration"] > 0
    assert "ZeroDivisionError" in candidates["broken"]["refusal"]
    plan = json.loads(
        one(
            session,
            'SELECT (train_model(\'linear\', y, x, \'{"explain": true, "format": "json"}\')).plan FROM t',
        )
    )
    assert (plan["rows"], plan["actual"]["groups_converged"]) == (900, 1)


def test_errors_of_ones_own_code(session: psycopg.Connection, cluster: Any, folder: Path) -> None:
    with pytest.raises(
        psycopg.Error, match=r"update of algorithm 'broken' raised ZeroDivisionError"
    ):
        session.execute(
            "SELECT train_model('own_poisson', y, x, '{\"algorithm\": \"broken\"}') FROM t"
        )
    with pytest.raises(psycopg.Error, match="did you mean 'poisson'"):
        session.execute("SELECT train_model('poison', y, x) FROM t")
    for modules, sentence in (
        (
            "own_losses, own_faults",
            "tuskml.modules names 'own_faults', which raised ValueError: no way",
        ),
        (
            "no_such_module",
            "tuskml.modules names 'no_such_module', which raised ModuleNotFoundError",
        ),
    ):
        session.execute(f"SET tuskml.modules = '{modules}'")
        with pytest.raises(psycopg.Error, match=sentence):
            session.execute(FIT)
    session.execute("SET tuskml.modules = 'own_losses'")
    assert fetch(session, FIT) == [(900,)]


@pytest.fixture
def trainer(pg: psycopg.Connection) -> Iterator[str]:
    """A role that may train, and no more."""
    name = "of_test_modules"
    pg.execute(f"CREATE ROLE {name} LOGIN IN ROLE tuskml_user")
    yield name
    pg.execute(f"DROP ROLE {name}")


def test_modules_are_for_superusers(connect: Callable[..., Any], trainer: str) -> None:
    ann = connect(user=trainer)
    ann.execute("SET tuskml.modules = 'own_losses'")  # nobody's name until the library is loaded
    with pytest.raises(psycopg.Error, match="task is 'own_poisson', expected 'linear'"):
        ann.execute(FIT)
    assert one(ann, "SHOW tuskml.modules") == ""
    for statement in ("SET tuskml.modules = 'antigravity'", "SELECT set_config('tuskml.modules', 'this', false)",
                      f"ALTER ROLE {trainer} SET tuskml.modules = 'this'"):  # fmt: skip
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ann.execute(statement)
