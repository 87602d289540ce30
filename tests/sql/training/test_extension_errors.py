"""An extension and a package that do not fit, and a trainer that fails: one sentence each."""

# ruff: noqa: E501, SQL is read better on one line

import ctypes
import os
import shutil
import subprocess
import sys

import duckdb
import pytest

import tuskml
from tuskml.databases import trust
from tuskml.udas.duckdb import extension_path
from tuskml.version import VERSION

pytestmark = pytest.mark.fault(family="bad input by name")


def test_signed_extensions_only(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with duckdb.connect() as plain, pytest.raises(tuskml.ExtensionError) as caught:
        tuskml.load(plain)
    assert str(caught.value) == (
        "the connection allows signed extensions only, and DuckDB does not trust this environment's tuskml: "
        "run `tuskml install` once in this environment, or open the database with tuskml.connect(...)"
        if trust.is_possible()
        else f"the connection allows signed extensions only, and DuckDB {duckdb.__version__} trusts none but its own: "
        "open it with tuskml.connect(...) or duckdb.connect(path, config={'allow_unsigned_extensions': 'true'})"
    )


def test_versions_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuskml.databases.hosted.VERSION", "9.9.9")
    with pytest.raises(tuskml.ExtensionError) as caught:
        tuskml.connect()
    assert str(caught.value) == (
        f"the extension is version {VERSION} and the package is version 9.9.9, "
        "expected the same: reinstall tuskml"
    )


def test_extension_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(tuskml.udas.duckdb, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(tuskml.ExtensionError) as caught:
        tuskml.connect()
    missing = tmp_path / "tuskml.duckdb_extension"
    assert (
        str(caught.value) == f"the DuckDB extension is not built: no {missing}, reinstall tuskml"
    )


WITHOUT_TRAINER = """
import duckdb, sys
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute("SET enable_progress_bar = false")
con.execute(f"LOAD '{sys.argv[1]}'")
try:
    con.execute("SELECT train_model('linear', 1, [1.0])").fetchall()
except duckdb.Error as error:
    print(error)
print(con.execute("SELECT accuracy(1, 1)").fetchall())
"""


def test_trainer_is_missing(tmp_path) -> None:
    """LOAD alone, in a process without the package, gives the functions that need no Python."""
    copy = tmp_path / "tuskml.duckdb_extension"
    shutil.copy(extension_path(), copy)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TRAINER, copy],
        capture_output=True,
        text=True,
        env=os.environ | {"TUSKML_PYTHON": "off"},
        check=True,
    )
    assert done.stdout.splitlines() == [
        "Invalid Input Error: train_model: the extension was loaded without its Python package, which trains: run `pip "
        "install tuskml` and once `tuskml install`, or in Python open the database with tuskml.connect(...); all else works without it",
        "[(1.0,)]",
    ]


def test_a_failing_trainer_is_an_error(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("tuskml.learners.linear.learner.Linear.train", broken)
    with pytest.raises(duckdb.Error, match="internal error, ZeroDivisionError: oops"):
        con.execute("SELECT train_model('linear', 1, [1.0])").fetchall()
    monkeypatch.undo()
    assert con.execute("SELECT train_model('linear', 1, [1.0]).n_rows").fetchall() == [(1,)]


def test_library_answers_its_version() -> None:
    library = ctypes.CDLL(os.fspath(extension_path()))
    library.tusk_version.restype = ctypes.c_char_p
    assert library.tusk_version().decode() == VERSION
