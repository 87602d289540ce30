"""What a training was expected to ask of its store, and what it asked by an independent trace."""

import json

import numpy as np
import pandas as pd
import pytest
from leveldb_trace import Trace
from stored_fits import SPARSE, train

import tuskml
from tuskml.learners.linear.stored import run as stored_run

pytestmark = pytest.mark.native

SHAPES = {  # rows, entries a row, possible ids, Zipf's exponent
    "skewed": (12_000, 60, 100_000_000, 1.0),
    "splice": (4000, 100, 1_000_000, 0.2),
    "uniform": (6000, 50, 8_000_000, 0.0),
}
STEADY = {"max_iter": 2, "epsilon": 0, "step": 0.5, "cache": "16MB"}


def ids_of(rng, n, dim, exponent):
    """Ids by the continuous form of Zipf's law, ranks spread over all ids."""
    u = rng.random(n)
    if exponent == 1.0:
        rank = np.exp(u * np.log(dim)) - 1
    else:
        rank = (1 + u * (dim ** (1 - exponent) - 1)) ** (1 / (1 - exponent)) - 1
    return np.minimum(rank.astype(np.int64), dim - 1) * (int(dim * 0.618) | 1) % dim


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    rng = np.random.default_rng(0)
    with tuskml.connect(store_root=tmp_path_factory.mktemp("stores"), threads=2) as connection:
        for name, (rows, entries, dim, exponent) in SHAPES.items():
            ids = ids_of(rng, rows * entries, dim, exponent).reshape(rows, entries)
            frame = pd.DataFrame({"y": rng.integers(0, 2, rows) * 1.0, "ids": list(ids)})
            connection.register("frame", frame)
            connection.execute(
                f"CREATE TABLE {name} AS SELECT y, ids::INTEGER[] AS ids, "
                "[1.0 FOR i IN ids] AS vals FROM frame"
            )
            connection.unregister("frame")
        yield connection


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("options", [{}, {"partition": 0}])
def test_the_estimate_is_within_a_factor_of_two(con, name, options) -> None:
    """A key per feature does not fit into the cache; blocks do, and are read once."""
    model = train(con, table=name, **STEADY, **options)
    told, counted = model.options["store_estimate"], model.options["counters"]
    keys = counted["requests"] - counted["found"]
    assert (counted["requests"] > 1.2 * keys) == bool(options), "the cases differ"
    for mine, theirs in (
        ("store_requests", "requests"),
        ("store_writes", "writes"),
        ("store_bytes_read", "bytes_read"),
        ("store_bytes_written", "bytes_written"),
    ):
        assert counted[theirs] / 2 <= told[mine] <= 2 * counted[theirs], mine
    seen = tuskml.last_training()
    assert (seen["store_estimate"], seen["counters"]) == (told, counted)


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "options"), [("skewed", {}), ("splice", {"partition": 0})])
def test_an_explanation_foresees_the_same(con, name, options) -> None:
    given = {"store": "ads", "format": "json"} | STEADY | options
    query = f"SELECT explain_training('logistic', y, {SPARSE}, $1) FROM {name}"
    ((text,),) = con.execute(query, [json.dumps(given)]).fetchall()
    (one,) = json.loads(text)["candidates"]
    told = train(con, table=name, **STEADY, **options).options["store_estimate"]
    assert one["store_requests"] == pytest.approx(told["store_requests"], rel=0.2)
    moved = told["store_bytes_read"] + told["store_bytes_written"]
    assert one["store_bytes"] == pytest.approx(moved, rel=0.2)


@pytest.mark.sample(1)
@pytest.mark.parametrize("penalty", [{}, {"l2": 0.001}])
def test_counters_are_leveldbs_calls(con, tmp_path, monkeypatch, penalty) -> None:
    """Ids are far apart here, so that each request is a call of its own."""
    trace, traced = Trace(tmp_path), {}
    sealed = stored_run.refuse_infinite

    def at_the_end(store):
        traced.update(trace.read())
        sealed(store)

    monkeypatch.setattr(stored_run, "refuse_infinite", at_the_end)
    con.execute(
        "CREATE OR REPLACE TABLE far AS SELECT y, [i * 251 FOR i IN ids] AS ids, vals FROM uniform"
    )
    given = STEADY | {"partition": 0, "threads": 1, "max_iter": 1}
    with trace:
        counted = train(con, table="far", **given, **penalty).options["counters"]
    assert counted["requests"] == traced["gets"] > 0
    assert counted["found"] == traced["found"] > 0
    assert counted["bytes_read"] == traced["bytes_found"]
    assert counted["writes"] == traced["puts"]
    assert counted["bytes_written"] == traced["bytes_put"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("penalty", [{}, {"l2": 0.01}])
def test_weights_that_travel_are_estimated(con, monkeypatch, penalty) -> None:
    """Where the cache holds none of the shapes' features."""
    monkeypatch.setattr(stored_run, "all_fit", lambda *_: False)
    model = train(con, table="skewed", **STEADY, **penalty)
    assert "weights travel" in model.plan
    told, counted = model.options["store_estimate"], model.options["counters"]
    given = {"store": "ads", "format": "json"} | STEADY | penalty
    query = f"SELECT explain_training('logistic', y, {SPARSE}, $1) FROM skewed"
    ((text,),) = con.execute(query, [json.dumps(given)]).fetchall()
    (one,) = json.loads(text)["candidates"]
    moved = counted["bytes_read"] + counted["bytes_written"]
    for mine, theirs in (
        (told["store_requests"], counted["requests"]),
        (told["store_writes"], counted["writes"]),
        (told["store_bytes_read"], counted["bytes_read"]),
        (told["store_bytes_written"], counted["bytes_written"]),
        (one["store_requests"], counted["requests"]),
        (one["store_bytes"], moved),
    ):
        assert theirs / 2 <= mine <= 2 * theirs
