"""Payloads of nets that somebody changed: a number or a sentence, and no read beyond the end."""

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

NUMBERS = (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 7.0, 9.0, 10.0, 1e6, 16777216.0, 1e300, -1e300, float("inf"), float("nan"))  # fmt: skip
TOLD = {
    "the coefficients of the model are not the weights of its layers",
    "the model has n features, row has n",
    "the payload of the model is damaged: restore the model from a backup, or renew the payload from its other fields by with_payload(model)",
    "Invalid Input Error: The map key list does not align with the map value list.",
    "model is 'mlp', which has no classes; use predict()",
    "model is 'mlp' of numbers, only models of classes give probabilities; use predict()",
    "the classes of the model are texts that are no numbers; use predict_class(model, features)",
}
FLAGS, CLASSES, BY_NAME = 8, 40, 16
SITES = ("predict", "predict_class", "list_of_probabilities")


@pytest.fixture(scope="module", params=["numbers", "two classes", "several classes", "categories"])
def payload(request: pytest.FixtureRequest) -> bytes:
    label = {
        "numbers": "y",
        "two classes": "y > 50",
        "several classes": "least(y // 30, 3)::INTEGER",
    }.get(request.param, "y")
    objective = "squared" if label == "y" else "logistic"
    features = "{'a': a, 'b': 'b' || b % 3}" if request.param == "categories" else "[a, b]"
    options = f'{{"max_iter": 30, "layers": [3, 4], "objective": "{objective}"}}'
    with tuskml.connect(threads=1) as con:
        rows = "(SELECT i % 17 AS a, i % 13 AS b, (i % 17) * (i % 13) AS y FROM range(500) t(i))"
        return con.execute(
            f"SELECT train_model('mlp', {label}, {features}, '{options}').payload FROM {rows}"
        ).fetchall()[0][0]


def answer(con: duckdb.DuckDBPyConnection, payload: bytes, site: str = "predict") -> object:
    model = f"{{'payload': from_hex('{payload.hex()}'), 'class_names': ['a', 'b', 'c', 'd']}}"
    function = "predict_probas" if site == "list_of_probabilities" else site
    by_name = HEAD.unpack(payload[: HEAD.size])[4] & BY_NAME
    row = "{'a': 3, 'b': 'b1'}" if by_name else "[3, 4]"
    return con.execute(f"SELECT {function}({model}, {row})").fetchall()[0][0]


def tried(
    con: duckdb.DuckDBPyConnection, payloads: list[bytes], site: str
) -> tuple[int, set[str]]:
    """How many gave an answer, and the sentences of the others."""
    answers, told = 0, set()
    for payload in payloads:
        try:
            answer(con, payload, site)
            answers += 1
        except duckdb.InvalidInputException as error:
            told.add(re.sub(r"\d+", "n", re.split(r"predict\w*: ", str(error))[-1]))
        except duckdb.ConversionException:  # a margin that is no number has no class
            answers += 1
    return answers, told


@pytest.mark.sample(2)
@pytest.mark.parametrize("site", SITES)
def test_forged_numbers_do_no_harm(
    con: duckdb.DuckDBPyConnection, payload: bytes, site: str
) -> None:
    """Layers that are none, units beyond the end, labels for weights."""
    chosen, forged = random.Random(1), []
    numbers = HEAD.unpack(payload[: HEAD.size])[10]
    for _ in range(250):
        bytes_of = bytearray(payload)
        for _ in range(chosen.randint(1, 3)):
            at = HEAD.size + 8 * chosen.randrange(min(numbers, 14))
            bytes_of[at : at + 8] = struct.pack("<d", chosen.choice(NUMBERS))
        if chosen.random() < 0.3:
            bytes_of[FLAGS] ^= 1 << chosen.randrange(8)
        if chosen.random() < 0.3:
            bytes_of[9] = chosen.randrange(5)
        if chosen.random() < 0.3:
            at = CLASSES + 8 * chosen.randrange(3)
            bytes_of[at : at + 8] = struct.pack("<d", chosen.choice(NUMBERS))
        forged.append(signed(bytes(bytes_of)))
    _, told = tried(con, forged, site)
    assert told <= TOLD
    assert len(told) > 1


@pytest.mark.parametrize("site", SITES)
def test_cut_and_grown_payloads_are_refused(
    con: duckdb.DuckDBPyConnection, payload: bytes, site: str
) -> None:
    cut = [signed(payload[:n]) for n in range(HEAD.size, len(payload), 7)]
    by_name = payload[FLAGS] & BY_NAME  # the preparation is last, and may have unused bytes
    grown = [] if by_name else [signed(payload + bytes(n)) for n in (1, 8, 64)]
    assert tried(con, cut + grown, site)[0] == 0


def test_another_version_is_refused(con: duckdb.DuckDBPyConnection, payload: bytes) -> None:
    later = signed(payload[:4] + struct.pack("<H", 9) + payload[6:])
    with pytest.raises(duckdb.Error, match="has format 9, and this tuskml"):
        answer(con, later)


def test_fewer_weights_than_the_layers_have_are_refused(
    con: duckdb.DuckDBPyConnection, payload: bytes
) -> None:
    """The count of numbers in the head agrees with the bytes, but not with the layers."""
    numbers = HEAD.unpack(payload[: HEAD.size])[10]
    cut = bytearray(payload[: HEAD.size + 8 * (numbers - 1)] + payload[HEAD.size + 8 * numbers :])
    cut[24:32] = struct.pack("<Q", numbers - 1)
    with pytest.raises(duckdb.Error, match="are not the weights of its layers"):
        answer(con, signed(bytes(cut)))
