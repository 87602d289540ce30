"""Units of one ask that lie on one worker travel together."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuskml.groups.execution import leading
from tuskml.groups.execution.executor import (
    Outcome,
    Unit,
    bundle,
    each_of,
    encode_outcome,
    outcomes_of,
    several,
)
from tuskml.groups.execution.leading import Pins, Ran
from tuskml.kernels.parts.message import pack_message, unpack_message
from tuskml.kernels.parts.together import add_replies, adds


def unit(pin: str, ask: int = 1, together: str | None = "tuskml.x:many") -> Unit:
    return Unit(f"{pin}/{ask}", 1.0, pin.encode(), "g", pin, "tuskml.x:one", together, ask=ask)


@given(st.lists(st.binary(max_size=40)))
def test_what_is_put_together_comes_apart(parts: list[bytes]) -> None:
    assert each_of(several(parts)) == parts


def test_a_bundle_has_the_outcome_of_each_unit() -> None:
    one = bundle([unit("a"), unit("b"), unit("c")])
    assert each_of(one.payload) == [b"a", b"b", b"c"]
    assert (one.work, one.size) == ("tuskml.x:many", 3.0)
    found = [Outcome("a/1", b"1"), Outcome("b/1", None, "no luck"), Outcome("c/1", b"")]
    answer = several([encode_outcome(each) for each in found])
    assert outcomes_of(one, encode_outcome(Outcome("", answer))) == found
    failed = outcomes_of(one, encode_outcome(Outcome("", None, "no memory")))
    assert [(each.key, each.error) for each in failed] == [
        (key, "no memory") for key in ("a/1", "b/1", "c/1")
    ]
    assert bundle([unit("a")]) == unit("a")


def test_only_units_of_the_same_ask_and_worker_are_taken_along() -> None:
    pins = Pins(lambda n: {"a": 0, "b": 0, "c": 1, "d": 1}, 2)
    for pin in "abc":
        pins.add([unit(pin)])
        pins.take("w1" if pin != "c" else "w2", more_start=False)
    pins.add([unit("a", 2), unit("b", 2), unit("c", 2), unit("b", 3), unit("d", 2)])
    first = pins.take("w1", more_start=False)
    assert first == unit("a", 2)
    assert pins.beside("w1", first) == [unit("b", 2)]
    assert pins.beside("w1", first) == []
    assert pins.take("w1", more_start=False) == unit("b", 3)
    assert pins.take("w2", more_start=False) == unit("c", 2)
    pins.add([unit("a", 4, together=None), unit("b", 4, together=None)])
    alone = pins.take("w1", more_start=False)
    assert alone is not None
    assert pins.beside("w1", alone) == []


def test_who_hears_of_a_bundle_hears_of_its_units(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Ran] = []
    monkeypatch.setattr(leading, "heard", [heard.append])
    leading.note(Ran("w", bundle([unit("a"), unit("b"), unit("c")]), 0.1, 0.7))
    assert [one.unit.pin for one in heard] == ["a", "b", "c"]
    assert (heard[0].begin, heard[2].end) == (0.1, 0.7)
    assert all(a.end <= b.begin for a, b in pairwise(heard))


def test_sums_of_integers_are_added_where_they_are() -> None:
    rng = np.random.default_rng(1)
    sums = [rng.integers(-(2**60), 2**60, (2, 7, 3)) // 4 for _ in range(3)]
    answers = [pack_message({}, [one]) for one in sums]
    answers.insert(1, pack_message({}, [None]))  # a part that has to be told what led here
    found: list[list[Any]] = [unpack_message(one)[1] for one in add_replies(answers)]
    assert found[1] == [None]
    np.testing.assert_array_equal(sum(one[0] for one in found if one[0] is not None), sum(sums))
    assert sum(len(one) for one in add_replies(answers)) < sum(len(one) for one in answers) / 2
    assert adds(pack_message({"given": {"adds": True}}))
    assert not adds(pack_message({"given": {}}))
