"""A payload of trees whose nodes somebody changed: a number or a sentence, and always an end."""

import random
import re
import struct
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest
from tried import times

import tuskml

sys.path.append(str(Path(__file__).parent))

from test_payload import HEAD, signed

pytestmark = pytest.mark.fault(family="damaged files")

NUMBERS = (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 7.0, 1e6, 1e300, -1e300, float("inf"), float("nan"))


COMPACT = 64
"""The flag of payloads with the compact form of trees."""


@pytest.fixture(scope="module", params=["number", "classes", "category"])
def model(request: pytest.FixtureRequest) -> tuskml.Model:
    """Of one margin, of three classes, whose labels are before the trees, and of a category."""
    with tuskml.connect(threads=1) as con:
        label = "(i % 17) // 6" if request.param == "classes" else "(i % 17) * (i % 13)"
        rows = f"(SELECT i % 17 AS a, i % 13 AS b, {label} AS y FROM range(500) t(i))"
        objective = "logistic" if request.param == "classes" else "squared"
        more = (
            ', "categorical": [1, 2], "min_category_rows": 1'
            if request.param == "category"
            else ""
        )
        options = f'{{"trees": 3, "num_leaves": 6, "objective": "{objective}"{more}}}'
        made = con.execute(f"SELECT train_model('gbdt', y, [a, b], '{options}') FROM {rows}")
        return tuskml.Model.of(made.fetchall()[0][0])


def written_before(model: tuskml.Model) -> bytes:
    """The payload that versions without the compact form wrote: six doubles for each node."""
    assert model.payload
    assert model.coef
    head = list(HEAD.unpack(model.payload[: HEAD.size]))
    labels = model.classes if head[4] & 32 else []  # TUSK_HAS_LABELS
    assert head[4] & COMPACT
    behind = model.payload[HEAD.size + 8 * head[10] :]
    head[1], head[4], head[10] = 2, head[4] & ~COMPACT, len(labels or []) + len(model.coef)
    numbers = np.array([*(labels or []), *model.coef])
    return signed(HEAD.pack(*head) + numbers.tobytes() + behind)


@pytest.fixture(scope="module")
def payload(model: tuskml.Model) -> bytes:
    return written_before(model)


@pytest.mark.fault(family="upgrades")
def test_older_payloads_predict_the_same(
    con: duckdb.DuckDBPyConnection, model: tuskml.Model, payload: bytes
) -> None:
    """Of rows one by one and together, of explanations too."""
    assert model.payload
    assert len(model.payload) < len(payload) / 2
    rows = "SELECT [i % 19, i % 14] AS x FROM range(300) t(i)"
    for call in ("predict({'payload': p}, x)", "_tusk_explain_prediction(p, x)"):
        answers = [
            con.execute(
                f"SELECT {call} FROM ({rows}), (SELECT from_hex('{bytes_.hex()}') AS p)"
            ).fetchall()
            for bytes_ in (model.payload, payload)
        ]
        assert answers[0] == answers[1]
        assert len({str(answer) for answer in answers[0]}) > 2


@pytest.mark.sample(1)
@pytest.mark.parametrize("call", ["predict", "explain_prediction"])
def test_forged_compact_trees_do_no_harm(
    con: duckdb.DuckDBPyConnection, model: tuskml.Model, call: str
) -> None:
    """Widths that are none, splits that point behind their subtree, sets behind the end."""
    chosen = random.Random(2)
    assert model.payload
    end = HEAD.size + 8 * HEAD.unpack(model.payload[: HEAD.size])[10]
    answers, told = 0, set()
    for _ in range(600):
        forged = bytearray(model.payload)
        for _ in range(chosen.randint(1, 3)):
            at = chosen.randrange(HEAD.size, end)
            forged[at] = chosen.choice((0, 1, 2, 4, 8, 64, 128, 192, 255, chosen.randrange(256)))
        try:
            answer(con, signed(bytes(forged)), call)
            answers += 1
        except duckdb.InvalidInputException as error:
            told.add(re.sub(r"[\d,]*\d", "n", str(error).rpartition(f"{call}: ")[2]))
    assert answers > 50
    assert NO_TREES in told
    assert told <= TOLD[call]


CALLS = {
    "predict": "SELECT predict({{'payload': from_hex('{}')}}, [3, 4])",
    "explain_prediction": "SELECT _tusk_explain_prediction(from_hex('{}'), [3, 4])",
}
NO_TREES = "the coefficients of the model are not the nodes of its trees"
WIDTH = "the model has n features, row has n"
TOLD = {
    "predict": {NO_TREES, WIDTH},
    "explain_prediction": {
        NO_TREES,
        WIDTH,
        "the model has n features and n margins, which make n numbers to explain, expected at "
        "most n",
        "the trees of the model do not say how many rows reached their nodes, which contributions "
        "need",
    },
}


def answer(con: duckdb.DuckDBPyConnection, payload: bytes, call: str = "predict") -> object:
    return con.execute(CALLS[call].format(payload.hex())).fetchall()[0][0]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "call", ["predict", pytest.param("explain_prediction", marks=pytest.mark.nightly)]
)
def test_forged_nodes_do_no_harm(
    con: duckdb.DuckDBPyConnection, payload: bytes, call: str
) -> None:
    """Children that are parents, features that are none, counts beyond the end."""
    chosen = random.Random(1)
    head = HEAD.unpack(payload[: HEAD.size])
    numbers, n_features = head[10], 3 if head[4] & 32 else 0  # behind the labels: TUSK_HAS_LABELS
    tries = times(1500, 3)
    answers, told = 0, []
    for k in range(tries):
        forged = bytearray(payload)
        for _ in range(chosen.randint(1, 4)):
            place = chosen.randrange(numbers) if k else n_features
            at = HEAD.size + 8 * place
            forged[at : at + 8] = struct.pack("<d", chosen.choice(NUMBERS) if k else 7.0)
        try:
            answer(con, signed(bytes(forged)), call)
            answers += 1
        except duckdb.InvalidInputException as error:
            told.append(re.sub(r"[\d,]*\d", "n", str(error).rpartition(f"{call}: ")[2]))
    assert answers > tries / 15
    assert len(told) > tries / 15
    assert set(told) <= TOLD[call]
    assert {NO_TREES, WIDTH} <= set(told)


@pytest.mark.parametrize("right", [0.0, 0.5])
def test_a_child_that_is_its_own_parent_is_refused(
    con: duckdb.DuckDBPyConnection, payload: bytes, right: float
) -> None:
    """The first node's right child is the node itself, or rounds to it; the row goes right."""
    several = HEAD.unpack(payload[: HEAD.size])[4] & 32  # TUSK_HAS_LABELS
    first = HEAD.size + 8 * (3 + 3 + 3 + 9 if several else 3 + 3)
    forged = bytearray(payload)
    forged[first + 8 : first + 24] = struct.pack("<dd", -1e9, right)
    with pytest.raises(duckdb.Error, match="are not the nodes of its trees"):
        answer(con, signed(bytes(forged)))


@pytest.mark.parametrize("features", [2**24 + 1, 2**33, 2**60])
def test_more_features_than_memory_has_room_for_are_refused(
    con: duckdb.DuckDBPyConnection, model: tuskml.Model, payload: bytes, features: int
) -> None:
    """A sparse row would be written out with so many numbers."""
    assert model.payload
    several = HEAD.unpack(payload[: HEAD.size])[4] & 32  # TUSK_HAS_LABELS
    first = HEAD.size + (8 * 3 if several else 0)
    compact, numbers = bytearray(model.payload), bytearray(payload)
    compact[first + 16 : first + 24] = struct.pack("<Q", features)
    numbers[first : first + 8] = struct.pack("<d", features)
    for forged in (compact, numbers):
        text = signed(bytes(forged)).hex()
        asked = f"SELECT predict({{'payload': from_hex('{text}')}}, sparse([0], [1.0]))"
        with pytest.raises(duckdb.Error, match="are not the nodes of its trees"):
            con.execute(asked).fetchall()


@pytest.mark.parametrize("classes", [0.0, 1e15, float("nan")])
def test_trees_of_any_number_of_classes_are_damaged(
    con: duckdb.DuckDBPyConnection, model: tuskml.Model, classes: float
) -> None:
    """Flags say that predictions are NULL, so that nothing else depends on how many labels."""
    assert model.payload
    head = list(HEAD.unpack(model.payload[: HEAD.size]))
    head[4] |= 8 | 32  # TUSK_HAS_NULLS, TUSK_HAS_LABELS
    head[12] = classes
    forged = signed(HEAD.pack(*head) + model.payload[HEAD.size :])
    for call in (*CALLS.values(), "SELECT _tusk_tree_numbers(from_hex('{}'))"):
        with pytest.raises(duckdb.Error, match="the payload of the model is damaged"):
            con.execute(call.format(forged.hex())).fetchall()
