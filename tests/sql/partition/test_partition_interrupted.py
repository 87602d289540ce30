"""`partition_model` ends when it is asked to, and the manual has each of its options."""

# ruff: noqa: E501, SQL is read better on one line

import json
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pytest
from clients import WIDE, Client

import tuskml
from tuskml.groups.partition import PARTITION_OPTIONS

pytestmark = pytest.mark.fault(family="cancels")

# --- interrupted ---

LONG = '\'{"top": 20000, "sample": 100000}\''


@pytest.mark.parametrize("every", [0.05, 0.001], ids=["later", "while rows are packed"])
def test_cancel_from_another_thread(con: duckdb.DuckDBPyConnection, every: float) -> None:
    con.execute(WIDE)
    ended = threading.Event()

    def cancel() -> None:
        while not ended.wait(every):
            tuskml.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        # It says training where the cancel comes while rows are packed, as that is the same code.
        stopped = r"partition_model: the (statement|training) was interrupted"
        with pytest.raises(duckdb.Error, match=stopped):
            con.execute(f"SELECT partition_model(ids, {LONG}) FROM wide, range(4)").fetchall()
    finally:
        ended.set()
        thread.join()
    again = "SELECT len(feature_frequencies([i % 5])) FROM range(9) t(i)"
    assert con.execute(again).fetchall() == [(5,)]
    assert con.execute("SELECT tuskml_memory()").fetchall()[0][0]["resident"] == 0


def test_a_statement_times_out(post: Client, session: Any) -> None:
    import psycopg

    session.execute("SET statement_timeout = '600ms'")
    many = "SELECT ARRAY(SELECT (i * 7919 + j * j * 104729) % 40009 FROM generate_series(1, 20) j) AS ids FROM generate_series(1, 100) i"
    try:
        with pytest.raises(psycopg.errors.QueryCanceled):
            post.run(
                f"SELECT partition_model(ids || k, {LONG}) FROM ({many}) AS t, generate_series(1, 1000) k"
            )
    finally:
        session.execute("RESET ALL")
    assert post.call("feature_frequencies", "ARRAY[i % 2]") == [(0, *[1500] * 3), (1, *[1500] * 3)]


# --- the manual ---


def test_the_manual_has_each_option(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(root / "scripts" / "docs")
    shown_values = import_module("reference").shown_values
    text = (root / "docs" / "reference" / "options.md").read_text()
    for name, option in PARTITION_OPTIONS.items():
        default = (
            "" if option.default is None else option.default
        )  # the cell of a chosen one is empty
        default = json.dumps(default) if default is False else default
        default = default if isinstance(default, str) else f"{default:g}"
        default = default.replace("e-0", "e-")
        shown = f"| `{name}` | {default} | {shown_values(option.kind.allowed)} | "
        assert shown in text.replace("e-0", "e-"), shown
