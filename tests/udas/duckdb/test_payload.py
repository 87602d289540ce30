"""Payloads: what predictions read of a model, and what they refuse."""

# ruff: noqa: E501, SQL is read better on one line

import struct

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tuskml

pytestmark = pytest.mark.fault(family="damaged files")

HEAD = struct.Struct("<4sHBBBBHIIIQd3d")
SITES = ("predict", "predict_proba", "decision")
MODELS = """
    SELECT train_model('linear', y, [a, b]) AS linear, train_model('logistic', y > 3, [a, b], '{"l2": 0.1}') AS late,
        train_model('matrix_factorization', y, [a, b], '{"rank": 2}') AS taste
    FROM (SELECT i % 7 AS a, i % 5 AS b, (i % 7) * (i % 5) % 6 AS y FROM range(90) t(i))
"""


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def signed(payload: bytes) -> bytes:
    """The bytes with the CRC that fits them, as somebody might forge them."""
    return payload[:12] + struct.pack("<I", crc32c(payload[:12] + payload[16:])) + payload[16:]


@pytest.fixture(scope="module")
def db():
    with tuskml.connect(threads=2) as con:
        con.execute(f"CREATE TABLE models AS {MODELS}")
        yield con


def payload_of(db: duckdb.DuckDBPyConnection, model: str) -> bytes:
    return db.execute(f"SELECT {model}.payload FROM models").fetchall()[0][0]


def answer(
    db: duckdb.DuckDBPyConnection, payload: bytes, site: str = "predict", x: str = "[1, 2]"
):
    query = f"SELECT {site}({{'payload': from_hex('{payload.hex()}')}}, {x})"
    return db.execute(query).fetchall()[0][0]


def test_the_format_is_what_the_manual_of_the_code_says(db) -> None:
    payload = payload_of(db, "linear")
    model = db.execute("SELECT linear FROM models").fetchall()[0][0]
    head = HEAD.unpack(payload[: HEAD.size])
    assert HEAD.size == 64
    assert head[:6] == (b"TUSK", 1, 0, 0, 1, 0)
    assert head[7] == crc32c(payload[:12] + payload[16:])
    assert (head[10], head[11]) == (2, model["intercept"])
    np.testing.assert_array_equal(np.frombuffer(payload[64:80]), model["coef"])
    assert payload[80:] == b"linear"
    assert signed(payload) == payload
    assert tuskml.Model.of(model).payload == payload


def test_damage_and_other_formats_are_refused(db) -> None:
    payload = payload_of(db, "late")
    cases = [payload[:-1], payload + b"x", b"", payload[:40], b"x" * 200]
    cases += [
        payload[:i] + bytes([payload[i] ^ 64]) + payload[i + 1 :] for i in range(len(payload))
    ]
    for damaged in cases:
        for site in SITES:
            with pytest.raises(duckdb.Error) as raised:
                answer(db, damaged, site)
            told = str(raised.value).replace(f"{site}: ", "predict: ")
            other = damaged[:4] == payload[:4] and damaged[4:6] not in (payload[4:6], b"")
            assert ("reads formats 1 to 8: train the model again" if other else
                    "predict: the payload of the model is damaged: restore the model") in told  # fmt: skip
    with pytest.raises(duckdb.Error) as raised:
        answer(db, signed(payload[:4] + b"\x09" + payload[5:]))
    assert "predict: the payload of the model has format 9, and this tuskml" in str(raised.value)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(["linear", "late", "taste"]),
    st.lists(st.tuples(st.integers(6, 63), st.integers(0, 255)), max_size=4),
    st.integers(-40, 40),
    st.sampled_from(["[1, 2]", "[3.0, 900]", "sparse([0, 900], [1, 2])", "[]::DOUBLE[]"]),
)
def test_forged_payloads_are_answered_or_refused(db, model, changes, longer, x) -> None:
    """Whoever can write a model can sign one: no byte of it is trusted."""
    payload = bytearray(payload_of(db, model))
    for place, value in changes:
        payload[place] = value
    forged = bytes(payload) + b"\0" * longer if longer >= 0 else bytes(payload)[:longer]
    for site in SITES:
        told = ""
        try:
            found = answer(db, signed(forged), site, x)
        except duckdb.Error as error:
            found, told = None, str(error)
        assert found is None or isinstance(found, float)
        assert not told or f"{site}: " in told
    assert db.execute("SELECT 1").fetchall() == [(1,)]


def test_many_models_in_one_vector_keep_apart(db) -> None:
    """Rows in any order, each with a payload of its own."""
    db.execute("""CREATE OR REPLACE TABLE many AS SELECT g, with_payload({'task': 'linear', 'coef': [g::DOUBLE],
        'intercept': 1.0, 'classes': NULL, 'options': '{"tuskml":1}'}) AS model FROM range(3000) t(g)""")
    query = """SELECT count(*), count(*) FILTER (predict(model, [x]) <> g * x + 1)
        FROM (SELECT i * 7919 % 3000 AS g, i % 11 AS x FROM range(20000) t(i)) JOIN many USING (g)"""
    assert db.execute(query).fetchall() == [(20000, 0)]


def test_lists_are_for_people(db) -> None:
    """A changed coefficient counts when the payload is made anew."""
    changed = "struct_update(linear, coef := [100.0, 0.0], intercept := 0.0)"
    plain, old, new = db.execute(
        f"SELECT predict(linear, [1, 1]), predict({changed}, [1, 1]), "
        f"predict(with_payload({changed}), [1, 1]) FROM models"
    ).fetchall()[0]
    assert plain == old
    assert new == 100


def test_duckdb_reads_the_payload_alone(db) -> None:
    """Below a join too: else each row would get a copy of all lists."""
    query = "SELECT predict(m.model, [r.i]) FROM range(10) r(i) JOIN many AS m ON m.g = r.i"
    (_, plan), *_ = db.execute(f"EXPLAIN {query}").fetchall()
    assert "model.payload" in plan.replace("\n", "")


@pytest.mark.parametrize("payload", ["4200000::BIGINT", "'text'", "[1, 2]", "{'a': 1}", "NULL"])
def test_a_payload_of_another_type_is_none(db, payload: str) -> None:
    """model_payload takes any STRUCT with a model's fields: a number is no address of bytes."""
    with pytest.raises(duckdb.Error, match="model_payload: the model lacks its trees"):
        db.execute(
            f"""SELECT model_payload({{'task': 'gbdt', 'coef': NULL::DOUBLE[], 'intercept': 1.0, 'classes': NULL::DOUBLE[],
            'options': '{{}}', 'iterations': 3, 'payload': {payload}}}) FROM range(3000)"""
        ).fetchall()
