"""Payloads of topics that somebody changed: an answer or a sentence, and never a byte beyond the end."""

# ruff: noqa: E501, SQL is read better on one line

import random
import re
import struct
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

import tuskml

sys.path.append(str(Path(__file__).parents[1] / "duckdb"))
sys.path.append(str(Path(__file__).parents[2] / "sql/topics"))

from payloads import sections
from test_payload import HEAD, signed

DAMAGED = "the topics of the model are damaged: restore the model from a backup"
BROKEN = "the payload of the model is damaged"
CALLS = {
    "predict_topics": "SELECT _tusk_predict_topics(from_hex('{}'), ['w1', 'w2', 'w3', 'w1'])",
    "model_topics": "SELECT _tusk_topic_words(from_hex('{}'), 4)",
    "perplexity": "SELECT _tusk_complete_document(from_hex('{}'), ['w1', 'w2', 'w3', 'w1'])",
    "model_payload": "SELECT model_payload({{'task': 'lda', 'coef': NULL, 'intercept': NULL, 'classes': NULL, 'options': NULL, 'payload': from_hex('{}')}})",
}


@pytest.fixture(scope="module")
def payload() -> bytes:
    with tuskml.connect(threads=1) as con:
        docs = "SELECT list_transform(range(9), lambda j: 'w' || (hash(i * 9 + j) % 30)) AS t FROM range(40) r(i)"
        made = con.execute(
            f"""SELECT train_model('lda', NULL, t, '{{"topics": 4, "max_iter": 3}}').payload FROM ({docs})"""
        )
        found: bytes = made.fetchall()[0][0]
        return found


def answer(con: duckdb.DuckDBPyConnection, payload: bytes, call: str) -> str:
    """ "" where there is an answer, otherwise the sentence."""
    try:
        con.execute(CALLS[call].format(payload.hex())).fetchall()
    except duckdb.InvalidInputException as error:
        return re.sub(r"\d+", "n", str(error).partition(": ")[2])
    return ""


def resized(payload: bytes, topics: bytes) -> bytes:
    """A signed payload with other topics, whose length is a multiple of 8."""
    head = list(HEAD.unpack(payload[: HEAD.size]))
    behind = payload[HEAD.size + 8 * head[10] :]
    head[10] = len(topics) // 8
    return signed(HEAD.pack(*head) + topics + behind)


def topics_of(payload: bytes) -> bytes:
    return payload[HEAD.size : HEAD.size + 8 * HEAD.unpack(payload[: HEAD.size])[10]]


@pytest.mark.parametrize("call", CALLS)
def test_sound_topics_answer(con: duckdb.DuckDBPyConnection, payload: bytes, call: str) -> None:
    assert answer(con, payload, call) == ""
    assert answer(con, resized(payload, topics_of(payload)), call) == ""


@pytest.mark.parametrize("call", CALLS)
def test_cut_and_grown_topics_are_refused(
    con: duckdb.DuckDBPyConnection, payload: bytes, call: str
) -> None:
    whole = topics_of(payload)
    others = [whole[:n] for n in range(0, len(whole), 8)] + [whole + bytes(8), whole * 2]
    for other in others:
        told = answer(con, resized(payload, other), call)
        assert DAMAGED in told, len(other)
    for n in range(HEAD.size, len(payload) - 1, 7):
        assert BROKEN in answer(con, payload[:n], call)


@pytest.mark.sample(1)
@pytest.mark.parametrize("call", CALLS)
def test_forged_bytes_do_no_harm(
    con: duckdb.DuckDBPyConnection, payload: bytes, call: str
) -> None:
    chosen, answers, told = random.Random(4), 0, set()
    whole = topics_of(payload)
    for _ in range(300):
        forged = bytearray(whole)
        for _ in range(chosen.randint(1, 3)):
            at = chosen.randrange(len(whole))
            forged[at] = chosen.choice((0, 1, 2, 127, 128, 255, chosen.randrange(256)))
        said = answer(con, resized(payload, bytes(forged)), call)
        answers += not said
        told.add(said.partition(": ")[2])
    assert answers > 10
    assert told - {""} <= {DAMAGED}
    assert DAMAGED in told


NUMBERS = (float("nan"), float("inf"), -float("inf"), -1.0)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("section", ["beta", "alpha", "totals"])
def test_numbers_that_are_none_are_refused(
    con: duckdb.DuckDBPyConnection, payload: bytes, section: str, number: float
) -> None:
    _, at = sections(payload)
    place = {"beta": HEAD.size + 32, "alpha": at[0], "totals": at[1] + 8}[section]
    forged = payload[:place] + struct.pack("<d", number) + payload[place + 8 :]
    assert DAMAGED in answer(con, signed(forged), "predict_topics")


@pytest.mark.parametrize("section", ["beta", "alpha", "totals"])
def test_numbers_whose_sums_overflow_are_refused(
    con: duckdb.DuckDBPyConnection, payload: bytes, section: str
) -> None:
    """Probabilities by them would be NaN, which no order of the words could have."""
    _, at = sections(payload)
    place = {"beta": HEAD.size + 32, "alpha": at[0], "totals": at[1]}[section]
    n = {"beta": 1, "alpha": 2, "totals": 1}[section]
    forged = payload[:place] + struct.pack("<d", 1.7e308) * n + payload[place + 8 * n :]
    if section == "totals":  # and a part of beta that makes it infinite
        beta = HEAD.size + 32
        forged = forged[:beta] + struct.pack("<d", 1e307) + forged[beta + 8 :]
    assert DAMAGED in answer(con, signed(forged), "model_topics")


@pytest.mark.parametrize("section", [2, 5])
@pytest.mark.parametrize("offset", [2**31, 2**32 - 1, 10**6])
def test_offsets_beyond_the_end_are_refused(
    con: duckdb.DuckDBPyConnection, payload: bytes, section: int, offset: int
) -> None:
    """Where the entries of a word begin, and where its text does."""
    _, at = sections(payload)
    for place in (at[section] + 4, at[section]):
        forged = payload[:place] + struct.pack("<I", offset) + payload[place + 4 :]
        for call in CALLS:
            assert DAMAGED in answer(con, signed(forged), call)


def test_topics_that_there_are_none_of_are_refused(
    con: duckdb.DuckDBPyConnection, payload: bytes
) -> None:
    _, at = sections(payload)
    forged = payload[: at[3]] + np.uint16(4).tobytes() + payload[at[3] + 2 :]
    assert DAMAGED in answer(con, signed(forged), "predict_topics")


def test_text_that_is_no_utf8_is_refused(con: duckdb.DuckDBPyConnection, payload: bytes) -> None:
    _, at = sections(payload)
    for letter in (b"\xff", b"\xc3", b"\x00", b"\x80"):
        forged = payload[: at[6]] + letter + payload[at[6] + 1 :]
        assert DAMAGED in answer(con, signed(forged), "model_topics")
