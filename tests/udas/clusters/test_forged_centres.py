"""Payloads of centres that somebody changed: a number or a sentence, and no read beyond the end."""

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

NUMBERS = (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 1e4, 2147483648.0, 4294967295.0, 1e300, float("inf"), float("nan"))  # fmt: skip
TOLD = {
    "the coefficients of the model are not its centres",
    "the model has n features, row has n",
    "the payload of the model is damaged: restore the model from a backup, or renew the payload from its other fields by with_payload(model)",
    "the classes of the model are texts that are no numbers; use predict_class(model, features)",
}
ROWS = {"[a, b]": "[3, 4]", "sparse([a, b], [1.0, 1.0])": "sparse([400, 3, 400], [1.0, 2.0, 1.0])"}
SITES = ("predict", "decision")


@pytest.fixture(scope="module", params=[(x, s) for x in ROWS for s in ("false", "true")])
def forgeable(request: pytest.FixtureRequest) -> tuple[bytes, str]:
    """A payload, and a row that it predicts."""
    features, standardize = request.param
    options = f'{{"clusters": 3, "standardize": {standardize}}}'
    with tuskml.connect(threads=1) as con:
        rows = "(SELECT i % 17 AS a, i % 13 AS b FROM range(500) t(i))"
        found = con.execute(
            f"SELECT train_model('kmeans', NULL, {features}, '{options}').payload FROM {rows}"
        ).fetchall()
        return found[0][0], ROWS[features]


def answer(
    con: duckdb.DuckDBPyConnection, payload: bytes, row: str, site: str = "predict"
) -> object:
    return con.execute(
        f"SELECT {site}({{'payload': from_hex('{payload.hex()}')}}, {row})"
    ).fetchall()[0][0]


def told_of(
    con: duckdb.DuckDBPyConnection, payloads: list[bytes], row: str, site: str
) -> tuple[int, set[str]]:
    """How many gave an answer, and the sentences of the others."""
    answers, told = 0, set()
    for payload in payloads:
        try:
            answer(con, payload, row, site)
            answers += 1
        except duckdb.InvalidInputException as error:
            told.add(re.sub(r"\d+", "n", re.split(r"(?:predict|decision): ", str(error))[-1]))
    return answers, told


@pytest.mark.parametrize("site", SITES)
def test_forged_counts_do_no_harm(
    con: duckdb.DuckDBPyConnection, forgeable: tuple[bytes, str], site: str
) -> None:
    payload, row = forgeable
    chosen, forged = random.Random(1), []
    for _ in range(200):
        changed = bytearray(payload)
        for _ in range(chosen.randint(1, 3)):
            at = HEAD.size + 8 * chosen.randrange(5)
            changed[at : at + 8] = struct.pack("<d", chosen.choice(NUMBERS))
        if chosen.random() < 0.3:
            changed[8] ^= 1 << chosen.randrange(8)
        forged.append(signed(bytes(changed)))
    _, told = told_of(con, forged, row, site)
    assert told <= TOLD
    assert len(told) > 1


def test_cut_and_grown_payloads_are_refused(
    con: duckdb.DuckDBPyConnection, forgeable: tuple[bytes, str]
) -> None:
    payload, row = forgeable
    cut = [signed(payload[:n]) for n in range(HEAD.size, len(payload), max(7, len(payload) // 99))]
    grown = [signed(payload + bytes(n)) for n in (1, 8, 64)]
    assert told_of(con, cut + grown, row, "predict")[0] == 0


def test_versions_and_bits(con: duckdb.DuckDBPyConnection, forgeable: tuple[bytes, str]) -> None:
    payload, row = forgeable
    assert struct.unpack("<H", payload[4:6]) == (6,)
    later = signed(payload[:4] + struct.pack("<H", 9) + payload[6:])
    with pytest.raises(
        duckdb.Error, match=r"has format 9, and this tuskml .* reads formats 1 to 8"
    ):
        answer(con, later, row)
    flipped = bytearray(payload)
    flipped[HEAD.size + 30] ^= 4
    with pytest.raises(duckdb.Error, match="the payload of the model is damaged"):
        answer(con, bytes(flipped), row)


def test_edited_centres(con: duckdb.DuckDBPyConnection) -> None:
    """A NULL makes predictions NULL; a list of another length is no model."""
    sql = "SELECT predict(with_payload(struct_update(m, coef := {})), [1, 2]) FROM (SELECT train_model('kmeans', NULL, [i % 3, i % 5], '{{\"clusters\": 2}}') AS m FROM range(50) r(i))"
    assert con.execute(sql.format("[2, 1, 0, 5, 1, NULL]")).fetchall() == [(None,)]
    assert con.execute(sql.format("[2, 2, 0, 5, 9, 9, 4, 1, 2]")).fetchall() == [(2,)]
    with pytest.raises(duckdb.Error, match="the coefficients of the model are not its centres"):
        con.execute(sql.format("[2, 2, 0, 5, 9, 9, 4, 1]"))
