"""What reading takes, as it is measured: in both databases, and what plans take from it."""

import pytest

from tuskml.api import reading_seconds
from tuskml.learners.linear.streamed import spilled as of_spilled
from tuskml.learners.machine import reading

ROWS = "CREATE TABLE nothing ()"
"""What the database of PostgreSQL has."""


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that take no time, measured once; the figures then mean little, but are there."""
    monkeypatch.setattr(reading_seconds, "ROWS", 4096)
    monkeypatch.setattr(reading, "RUNS", 1)


def test_a_host_measures_duckdb_and_spilled_rows() -> None:
    told: list[str] = []
    found = reading_seconds.measure(told.append)
    assert told == ["reading"]
    for name, seconds in of_spilled.measure_reading().items():
        assert not found[name].keys() & seconds.keys()
        found[name] |= seconds
    assert {frozenset(by) for by in found.values()} == {frozenset(reading.KINDS) - {"blocks"}}
    known = reading.parse(found)
    assert known.query["parquet"] == found["query"]["parquet"] > 1e-5
    assert known.query["blocks"] == reading.shipped_reading().query["blocks"]


def test_with_a_server_it_measures_tables_there(url: str) -> None:
    found = reading_seconds.measure(lambda part: None, url)
    known = reading.parse(found)
    for name in reading.TABLES:
        assert getattr(known, name)["blocks"] == found[name]["blocks"] > 0


def test_what_all_queries_take_is_no_part_of_a_value(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that counts queries: each one takes 1, whatever it reads."""
    queries = []
    monkeypatch.setattr(reading_seconds, "clock_of", lambda database: lambda: len(queries))
    postgres = reading_seconds.Postgres
    fetch = postgres.fetch
    monkeypatch.setattr(
        postgres, "fetch", lambda self, query: queries.append(query) or fetch(self, query)
    )
    taken = reading_seconds.of_postgres(url)
    assert taken.query == 1
    assert taken.decode == taken.pack == pytest.approx(reading.LEAST)
