"""Payloads of machines that somebody changed: a number or a sentence, and no read beyond the end."""

# ruff: noqa: E501, SQL is read better on one line

import random
import re
import struct
import sys
from pathlib import Path

import duckdb
import pytest

import tuskml

sys.path.append(str(Path(__file__).parents[1] / "duckdb"))

from test_payload import HEAD, signed

NUMBERS = (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 7.0, 257.0, 1e6, 4294967295.0, 1e300, float("inf"), float("nan"))  # fmt: skip
TOLD = {
    "the coefficients of the model are not the weights and vectors of its features",
    "the model has n features, row has n",
    "the payload of the model is damaged: restore the model from a backup, or renew the payload from its other fields by with_payload(model)",
    "Invalid Input Error: The map key list does not align with the map value list.",
    "model is 'fm', which has no classes; use predict()",
    "the classes of the model are texts that are no numbers; use predict_class(model, features)",
    "model is 'fm' of numbers, only models of classes give probabilities; use predict()",
}
FLAGS, CLASSES, BY_NAME, FORMAT = 8, 40, 16, 5
ROWS = {
    "dense": "[3, 4]",
    "sparse": "sparse([4, 3, 4], [1.0, 2.0, 1.0])",
    "named": "{'a': 3, 'b': 'b1'}",
}
SITES = ("predict", "predict_class", "predict_probas")


@pytest.fixture(scope="module", params=[("y", "dense"), ("y > 50", "sparse"), ("y", "named")])
def forgeable(request: pytest.FixtureRequest) -> tuple[bytes, str]:
    """A payload, and a row that it predicts."""
    label, kind = request.param
    features = {
        "dense": "[a, b]",
        "sparse": "sparse([a, b], [1.0, 1.0])",
        "named": "{'a': a, 'b': 'b' || b % 3}",
    }[kind]
    options = (
        f'{{"max_iter": 2, "rank": 2, "objective": "{"squared" if label == "y" else "logistic"}"}}'
    )
    with tuskml.connect(threads=1) as con:
        rows = "(SELECT i % 17 AS a, i % 13 AS b, (i % 17) * (i % 13) AS y FROM range(500) t(i))"
        found = con.execute(
            f"SELECT train_model('fm', {label}, {features}, '{options}').payload FROM {rows}"
        ).fetchall()
        return found[0][0], ROWS[kind]


def answer(
    con: duckdb.DuckDBPyConnection, payload: bytes, row: str, site: str = "predict"
) -> object:
    model = f"{{'payload': from_hex('{payload.hex()}'), 'class_names': ['a', 'b']}}"
    return con.execute(f"SELECT {site}({model}, {row})").fetchall()[0][0]


def tried(
    con: duckdb.DuckDBPyConnection, payloads: list[bytes], row: str, site: str
) -> tuple[int, set[str]]:
    """How many gave an answer, and the sentences of the others."""
    answers, told = 0, set()
    for payload in payloads:
        try:
            answer(con, payload, row, site)
            answers += 1
        except duckdb.InvalidInputException as error:
            told.add(re.sub(r"\d+", "n", re.split(r"predict\w*: ", str(error))[-1]))
        except duckdb.ConversionException:  # a margin that is no number has no class
            answers += 1
    return answers, told


@pytest.mark.sample(2)
@pytest.mark.parametrize("site", SITES)
def test_forged_numbers_do_no_harm(
    con: duckdb.DuckDBPyConnection, forgeable: tuple[bytes, str], site: str
) -> None:
    """Counts of features and ranks that are none, or that the numbers are too few for."""
    payload, row = forgeable
    chosen, forged = random.Random(1), []
    numbers = HEAD.unpack(payload[: HEAD.size])[10]
    for _ in range(300):
        bytes_of = bytearray(payload)
        for _ in range(chosen.randint(1, 3)):
            at = HEAD.size + 8 * chosen.randrange(min(numbers, 6))
            bytes_of[at : at + 8] = struct.pack("<d", chosen.choice(NUMBERS))
        if chosen.random() < 0.3:
            bytes_of[FLAGS] ^= 1 << chosen.randrange(8)
        if chosen.random() < 0.3:
            bytes_of[9] = chosen.randrange(5)
        if chosen.random() < 0.3:
            at = CLASSES + 8 * chosen.randrange(3)
            bytes_of[at : at + 8] = struct.pack("<d", chosen.choice(NUMBERS))
        forged.append(signed(bytes(bytes_of)))
    _, told = tried(con, forged, row, site)
    assert told <= TOLD
    assert len(told) > 1


@pytest.mark.parametrize("site", SITES)
def test_cut_and_grown_payloads_are_refused(
    con: duckdb.DuckDBPyConnection, forgeable: tuple[bytes, str], site: str
) -> None:
    payload, row = forgeable
    cut = [signed(payload[:n]) for n in range(HEAD.size, len(payload), 7)]
    by_name = payload[FLAGS] & BY_NAME  # the preparation is last, and may have unused bytes
    grown = [] if by_name else [signed(payload + bytes(n)) for n in (1, 8, 64)]
    assert tried(con, cut + grown, row, site)[0] == 0


def test_another_version_is_refused(
    con: duckdb.DuckDBPyConnection, forgeable: tuple[bytes, str]
) -> None:
    payload, row = forgeable
    assert struct.unpack("<H", payload[4:6]) == (FORMAT,)
    later = signed(payload[:4] + struct.pack("<H", 9) + payload[6:])
    with pytest.raises(duckdb.Error, match="has format 9, and this tuskml"):
        answer(con, later, row)


def test_a_bit_that_flipped_is_seen(
    con: duckdb.DuckDBPyConnection, forgeable: tuple[bytes, str]
) -> None:
    payload, row = forgeable
    flipped = bytearray(payload)
    flipped[HEAD.size + 30] ^= 4
    with pytest.raises(duckdb.Error, match="the payload of the model is damaged"):
        answer(con, bytes(flipped), row)


def test_a_missing_number_makes_predictions_null(con: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT predict(with_payload(struct_update(m, coef := [2, 1, 0.5, 0.5, NULL, 0.1])), [1, 2]) FROM (SELECT train_model('fm', i, [i % 3, i % 5], '{\"rank\": 1}') AS m FROM range(50) r(i))"
    assert con.execute(sql).fetchall() == [(None,)]
