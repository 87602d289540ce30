"""Calls of the registry that are interrupted, and sessions that change it at the same time."""

import shutil
import threading

import duckdb
import pytest

import tuskml
from tuskml import registry
from tuskml.databases import connection


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A database file with a registry that has one model."""
    path = tmp_path_factory.mktemp("registry") / "models.duckdb"
    with tuskml.connect(path) as con:
        con.execute("CREATE TABLE t AS SELECT x, 2 * x AS y FROM range(9) t(x)")
        registry.create(con)
        model = tuskml.train(con, "linear", source="t", label="y", features="x")
        registry.register(con, "double", model)
    return path, model


@pytest.fixture
def file(made, tmp_path):
    """A copy of it, which a test may change."""
    path, model = made
    return shutil.copy(path, tmp_path), model


@pytest.mark.sample(1)
@pytest.mark.parametrize("step", ["sql_text", "run_registry_macros", "create_macros", "holds"])
def test_a_cursor_whose_first_call_was_interrupted_has_the_registry(file, monkeypatch, step):
    """Wherever it was: what says that all macros are there comes last."""
    path, _ = file
    with tuskml.connect(path) as con:
        cursor, plain, times = con.cursor(), getattr(connection, step), []

        def interrupted(*given):
            if step == "sql_text" or given[0] is cursor:
                times.append(step)
                raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")
            return plain(*given)

        with monkeypatch.context() as patched:
            patched.setattr(connection, step, interrupted)
            with pytest.raises((duckdb.Error, tuskml.TuskError)):
                registry.deploy(cursor, "double")
        assert times
        assert registry.deploy(cursor, "double") == 1


def test_an_interrupted_call_is_no_training(file):
    path, _ = file
    with tuskml.connect(path) as con:
        con.execute(
            "CREATE MACRO tuskml_deploy(model_name) AS TABLE SELECT * REPLACE ((SELECT count(*) "
            "FROM range(100000000000))::VARCHAR AS stage) FROM tuskml.models"
        )
        con.execute("DROP MACRO TABLE temp.main.tuskml_deploy")
        threading.Timer(0.2, con.interrupt).start()
        with pytest.raises(tuskml.Interrupted, match="the call of the registry was interrupted"):
            registry.deploy(con, "double")


def test_two_that_change_a_model_at_once_are_told_to_try_again(file):
    path, model = file
    with tuskml.connect(path) as con:
        other = con.cursor()
        con.execute("BEGIN")
        registry.deploy(con, "double", 1)
        with pytest.raises(tuskml.DataError, match="at the same time: try again"):
            registry.deploy(other, "double", 1)
        con.execute("ROLLBACK")
        query = "SELECT version FROM tuskml.models"
        other.execute("BEGIN")
        assert other.execute(query).fetchall() == [(1,)]
        assert registry.register(con, "double", model) == 2
        with pytest.raises(tuskml.DataError, match="at the same time: try again"):
            registry.register(other, "double", model)


@pytest.mark.parametrize(
    ("name", "told"), [("n" * 501, "name has 501 characters, expected at most 500"), ("", "name")]
)
def test_names_that_no_model_has(file, name, told):
    path, model = file
    with tuskml.connect(path) as con, pytest.raises(tuskml.DataError, match=told):
        registry.register(con, name, model)


def test_the_last_version(file):
    path, model = file
    with tuskml.connect(path) as con:
        con.execute("UPDATE tuskml.models SET version = 1000000000")
        with pytest.raises(tuskml.DataError, match="the last one that there may be"):
            registry.register(con, "double", model)
