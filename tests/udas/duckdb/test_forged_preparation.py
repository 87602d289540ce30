"""A payload of rows with names whose preparation somebody changed: an answer or a sentence."""

# ruff: noqa: E501, SQL is read better on one line

import random
import struct
import sys
from pathlib import Path

import duckdb
import pytest
from tried import times

import tuskml

sys.path.append(str(Path(__file__).parent))

from test_payload import signed

pytestmark = pytest.mark.fault(family="damaged files")

ROWS = {
    "plain": "{'a': 1.5, 'c': ['x', 'never', NULL][1 + i % 3], 'k': i % 9}",
    "levels": "{'a': 1.5, 'c': 'x', 'd': NULL::VARCHAR}",
    "derived": "{'w': TIMESTAMP '2020-02-03 04:05:06', 'k': 3, 'c': 'x', 't': 'some Words'}",
}


OPTIONS = {
    "plain": '{"missing": "level", "unseen": "error", "l2": 1, "categories": ["k"]}',
    "levels": '{"missing": "impute"}',
    "derived": '{"missing": "impute", "l2": 1, "dates": "cycles", "categories": ["k"], "text": ["t"], "interactions": [["k", "c"], ["w.hour", "w.month", "w.weekday"]]}',
}
FEATURES = {
    "plain": "{'a': a, 'c': c, 'k': i % 5}",
    "levels": "{'a': a, 'c': c, 'd': d}",
    "derived": "{'w': TIMESTAMP '2020-02-03 04:05:06' + i * INTERVAL 50 HOUR, 'k': i % 5, 'c': c, 't': 'some words ' || c}",
}


@pytest.fixture(scope="module", params=["plain", "levels", "derived"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def payload(kind: str) -> bytes:
    with tuskml.connect(threads=1) as con:
        rows = "(SELECT i, i % 7 AS a, ['x', 'y', 'zz'][1 + i % 3] AS c, ['p', NULL][1 + i % 2] AS d FROM range(50) t(i))"
        (found,) = con.execute(
            f"SELECT train_model('linear', a, {FEATURES[kind]}, '{OPTIONS[kind]}').payload FROM {rows}"
        ).fetchall()[0]
    return found


@pytest.mark.sample(1)
def test_forged_preparations_do_no_harm(
    con: duckdb.DuckDBPyConnection, payload: bytes, kind: str
) -> None:
    """Few rows are scored one by one; for many, the model is laid out. Effects try other levels."""
    chosen = random.Random(1)
    start = payload.index(b"linear") + len(b"linear")
    refused = 0
    for _ in range(times(2000, 4)):
        bytes_ = bytearray(payload)
        for _ in range(chosen.randint(1, 4)):
            at = start + 4 * chosen.randrange((len(payload) - start) // 4)
            word = chosen.choice((chosen.getrandbits(32), chosen.randrange(300), 0xFFFFFFFF, 0))
            bytes_[at : at + 4] = struct.pack("<I", word)
        forged = signed(bytes(bytes_))
        rows = chosen.choice((1, 300))
        model = f"{{'payload': from_hex('{forged.hex()}'), 'features': NULL::VARCHAR[]}}"
        call = chosen.choice(
            (f"sum(predict({model}, {ROWS[kind]}))",) * 3
            + (f"marginal_effects({model}, {ROWS[kind]})",)
        )
        try:
            con.execute(f"SELECT {call} FROM range({rows}) AS t(i)").fetchall()
        except (duckdb.InvalidInputException, UnicodeDecodeError):
            refused += 1  # a sentence, which may quote a forged name
    assert refused > 100


def test_older_versions_refuse_it(payload: bytes) -> None:
    assert struct.unpack("<H", payload[4:6]) == (2,)
