"""Rows that were packed and spilled: the eager plans that read a part of them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import tuskml
from tuskml.learners.linear.streamed import skipping
from tuskml.learners.linear.streamed import training as streaming
from tuskml.learners.linear.streamed.spilled import SpilledRows
from tuskml.learners.machine import constants, reading

ROWS, D = 400_000, 8
LIMIT = 2 << 20
"""Bytes of rows in memory, of 29 MB."""
EPSILON, L2 = 0.02, 0.001
DRAWN = ", ".join(f"(hash(i * {D + 1} + {k}) % 10007 / 5003 - 1)" for k in range(D))
MARGIN = " + ".join(f"{(-1) ** k / (1 + k / 2):.4f} * x[{k + 1}]" for k in range(D))
MADE = f"""
SELECT x, hash(i * {D + 1} + {D}) % 10007 / 10007 < 1 / (1 + exp(-2 * ({MARGIN}))) AS y
FROM (SELECT i, [{DRAWN}]::DOUBLE[] AS x FROM range({ROWS}) t(i))
"""
SLOW, SLOW_TO_ASK = 1e-3, 1e3
"""Seconds of a page; of a request."""


@pytest.fixture(scope="module")
def filled() -> Iterator[duckdb.DuckDBPyConnection]:
    """Packed by one thread: bytes and seeks of plans depend on the order of rows."""
    with tuskml.connect() as con:
        con.execute(f"SET threads = 1; CREATE TABLE t AS {MADE}")
        yield con


@pytest.fixture
def con(
    filled: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> duckdb.DuckDBPyConnection:
    """Memory that holds nothing of the spill file, and trainings to 0.01 read 40,000 rows."""
    filled.execute("SELECT tuskml_set_memory(?, ?)", [LIMIT, str(tmp_path)]).fetchall()
    monkeypatch.setattr(reading, "available", lambda: 0.0)
    monkeypatch.setattr(skipping, "USUAL_ROWS", 40_000)
    monkeypatch.setattr(streaming, "CHUNK_ROWS", 10_000)
    return filled


def machine(
    monkeypatch: pytest.MonkeyPatch, slow: str, page: float, seek: float, request: float = 1e-12
) -> None:
    """A disk, and steps of one algorithm that take a million times as long."""
    monkeypatch.setattr(reading, "PAGE_SECONDS", page)
    monkeypatch.setattr(reading, "SEEK_SECONDS", seek)
    query = dict.fromkeys(reading.KINDS, request)
    monkeypatch.setattr(
        reading, "of_host", lambda: reading.Reading(query=query, page=page, seek=seek)
    )
    known = constants.of_host()
    longer = {
        storage: tuple((x, 1e6 * y) for x, y in table)
        for storage, table in known.passes[slow].items()
    }
    found = replace(known, passes={**known.passes, slow: longer})
    monkeypatch.setattr(constants, "of_host", lambda: found)


def train(con: duckdb.DuckDBPyConnection, **options: Any) -> tuskml.Model:
    given = json.dumps({"epsilon": EPSILON, "l2": L2} | options)
    ((model,),) = con.execute(f"SELECT train_model('logistic', y, x, '{given}') FROM t").fetchall()
    return tuskml.Model.of(model)


def objective(con: duckdb.DuckDBPyConnection, model: tuskml.Model) -> float:
    """Over all rows, in SQL."""
    margin = " + ".join(f"{w!r} * x[{k + 1}]" for k, w in enumerate(model.coef or ()))
    signed = f"CASE WHEN y THEN -1 ELSE 1 END * ({margin} + {model.intercept!r})"
    ((mean,),) = con.execute(f"SELECT avg(ln(1 + exp({signed}))) FROM t").fetchall()
    return float(mean + L2 / 2 * np.sum(np.square(model.coef)))


@pytest.mark.parametrize(
    ("slow", "seek", "expected"),
    [
        ("sgd", 10.0, ("mgd", "shuffled-partition")),
        ("mgd", 10.0, ("sgd", "shuffled-partition")),
        ("sgd", 1e-12, ("mgd", "random-partition")),
        ("mgd", 1e-12, ("sgd", "random-partition")),
    ],
)
def test_a_part_of_the_spill_file_is_enough(
    con: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
    slow: str,
    seek: float,
    expected: tuple[str, str],
) -> None:
    read: list[int] = []
    inner = SpilledRows.read

    def counted(self: SpilledRows, pieces: Any, receiver: Any) -> None:
        read.append(sum(piece.n_rows for piece in pieces))
        inner(self, pieces, receiver)

    monkeypatch.setattr(SpilledRows, "read", counted)
    machine(monkeypatch, slow, SLOW, seek)
    model = train(con)
    options = model.options
    assert (options["algorithm"], options["sampler"]) == expected
    assert options["transform"] == "eager"
    assert model.converged
    assert sum(read) == options["counters"]["rows_read"] == model.n_rows < ROWS / 3
    row = 8 * (D + 1)
    assert options["counters"]["bytes_read"] == pytest.approx(sum(read) * row, rel=0.02)
    assert options["counters"]["bytes"] == ROWS * row
    exact = train(con, algorithm="newton", epsilon=1e-8)
    assert objective(con, model) - objective(con, exact) < (D + 1) * EPSILON**2 / (2 * 0.05)


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 1e-6},
        {"max_iter": 50},
        {"transform": "eager"},
        {"algorithm": "newton"},
        {"validation": 0.1},
    ],
)
def test_what_needs_all_rows_reads_the_whole_file(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    machine(monkeypatch, "sgd", SLOW, 10.0)
    model = train(con, **given)
    assert model.n_rows == ROWS
    assert "reading" not in model.options


def test_all_rows_train_where_requests_take_long(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, "sgd", 1e-9, 1e-9, SLOW_TO_ASK)
    assert train(con).n_rows == ROWS


def test_rows_in_memory_train_as_before(con: duckdb.DuckDBPyConnection, monkeypatch) -> None:
    machine(monkeypatch, "sgd", SLOW, 10.0)
    monkeypatch.setattr(reading, "available", lambda: 1e12)
    assert train(con).n_rows == ROWS


def test_the_explanation_says_why_lazy_plans_are_pointless(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, "sgd", SLOW, 10.0)
    told = json.loads(train(con, explain=True, format="json").plan)
    by_name = {one["algorithm"]: one for one in told["candidates"]}
    (chosen,) = [one for one in told["candidates"] if one["chosen"]]
    assert chosen["algorithm"] == "mgd eager shuffled-partition"
    assert chosen["read_bytes"] < told["bytes"] == by_name["bgd on all rows"]["read_bytes"]
    for algorithm in ("mgd", "sgd"):
        assert by_name[f"{algorithm} eager bernoulli"]["read_bytes"] == told["bytes"]
        for sampler in ("shuffled-partition", "random-partition"):
            why = by_name[f"{algorithm} lazy {sampler}"]["refusal"]
            assert "packed before the training" in why
