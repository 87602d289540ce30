"""Trees in the compact form of payloads: numbers that come back to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuskml.learners.trees.forest import bytes_of, trees_of_payload
from tuskml.model import scorers

Node = list[float]
TREE = st.recursive(st.just(()), lambda below: st.tuples(below, below), max_leaves=40)
"""Shapes: a leaf, or two subtrees."""
OPTIONS = '{"tuskml":1,"objective":"squared"}'


def numbers_of(shapes: list, seed: int, features: int, rows: int, exact: bool) -> list[float]:
    """Trees of these shapes with random splits. exact: numbers are floats."""
    random = np.random.default_rng(seed)

    def number() -> float:
        drawn = random.normal() * 10.0 ** random.integers(-5, 5)
        return float(np.float32(drawn)) if exact else float(drawn)

    def grown(shape: tuple, at: int) -> tuple[list[Node], float]:
        if not shape:
            own = float(random.integers(0, rows))
            return [[-1.0, random.normal(), -1.0, 0.0, own, 0.0]], own
        left, few = grown(shape[0], at + 1)
        behind = at + 1 + len(left)
        right, more = grown(shape[1], behind)
        split = [float(random.integers(features)), number(), behind, abs(number()), few + more]
        return [[*split, float(random.integers(2))], *left, *right], few + more

    trees = [grown(shape, 0)[0] for shape in shapes]
    sizes = [float(len(tree)) for tree in trees]
    flat = [value for tree in trees for node in tree for value in node]
    return [float(features), float(len(trees)), 0.0, *sizes, *flat]


def payload_of(coef: list[float]) -> bytes:
    fields = {"task": "gbdt", "coef": coef, "classes": None, "class_names": None, "intercept": 0.5}
    return scorers.payload(fields | {"options": OPTIONS, "preparation": None, "spread": None})


@settings(max_examples=100, deadline=None)
@given(
    st.lists(TREE, min_size=1, max_size=5),
    st.integers(0, 1000),
    st.sampled_from([1, 64, 65, 20_000, 100_000]),
    st.sampled_from([100, 60_000, 2**31]),
    st.booleans(),
)
def test_numbers_come_back(shapes: list, seed: int, features: int, rows: int, exact: bool) -> None:
    """Of any shape, width of features, thresholds and rows."""
    coef = numbers_of(shapes, seed, features, rows, exact)
    assert trees_of_payload(payload_of(coef)) == coef


def test_a_node_takes_few_bytes() -> None:
    """50 trees of 15 leaves, of 270 rows."""
    shape: tuple = ()
    for _ in range(14):
        shape = (shape, ())
    coef = numbers_of([shape] * 50, 1, 10, 20, True)
    assert len(payload_of(coef)) / (50 * 29) < 12


@pytest.mark.parametrize(
    "change", [{5: 2.5}, {7: 4.0}, {8: float("nan")}], ids=["feature", "child", "threshold"]
)
def test_other_numbers_stay_as_they_are(change: dict[int, float]) -> None:
    """What the compact form cannot hold is in the payload as doubles, or is refused."""
    coef = numbers_of([((), ((), ()))], 1, 3, 9, True)
    kept = payload_of(coef)
    changed = [change.get(place - 1, value) for place, value in enumerate(coef)]
    assert trees_of_payload(kept) == coef
    assert trees_of_payload(payload_of(changed)) is None


def test_payloads_in_json() -> None:
    """As PostgreSQL and DuckDB write bytes."""
    given = bytes(range(256))
    duck = "".join(chr(c) if 32 <= c < 127 and c not in b"\\'\"" else f"\\x{c:02X}" for c in given)
    assert bytes_of("\\x" + given.hex()) == bytes_of(duck) == given


def test_cut_payloads_have_no_trees() -> None:
    whole = payload_of(numbers_of([((), ())], 1, 3, 9, True))
    assert all(trees_of_payload(whole[:end]) is None for end in range(len(whole) - 4))


def test_damaged_payloads_raise_nothing() -> None:
    """And take no memory beyond theirs: counts are held against the length."""
    rng = np.random.default_rng(3)
    whole = payload_of(numbers_of([((), ((), ())), ()], 1, 3, 9, True))
    found = 0
    for _ in range(3000):
        payload = bytearray(whole)
        for at in rng.integers(0, len(whole), rng.integers(1, 4)):
            payload[at] = rng.integers(256)
        found += trees_of_payload(bytes(payload)) is None
    assert 100 < found < 2900
