"""Of a test with many parameters `make test` tries the same few, `make nightly` the others."""

from itertools import combinations, product
from types import SimpleNamespace

import pytest
from sampling import leave_the_rest_to_the_night


class Item:
    """As much of a pytest.Item as is asked for."""

    def __init__(self, nodeid: str, *marks: pytest.Mark, **indices: int) -> None:
        self.nodeid = nodeid
        self.marks = list(marks)
        self.callspec = SimpleNamespace(indices=indices)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((mark for mark in self.marks if mark.name == name), None)

    def add_marker(self, decorator: pytest.MarkDecorator) -> None:
        self.marks.append(decorator.mark)


def kept(n: int, of: int) -> list[int]:
    """Which parameters of a test marked sample(n) are not nightly."""
    items = [Item(f"tests/a.py::test_a[{i}]", pytest.mark.sample(n).mark) for i in range(of)]
    leave_the_rest_to_the_night([Item("tests/a.py::test_b[0]"), *items])
    return [i for i, item in enumerate(items) if not item.get_closest_marker("nightly")]


def test_as_many_as_it_says_and_the_same_ones() -> None:
    found = kept(4, 20)
    assert len(found) == 4
    assert found == kept(4, 20)


def test_all_where_there_are_fewer() -> None:
    assert kept(4, 3) == [0, 1, 2]


def test_tests_without_the_mark_are_left_alone() -> None:
    item = Item("tests/a.py::test_b[0]")
    leave_the_rest_to_the_night([item])
    assert item.marks == []


def tried(items: list[Item]) -> list[tuple[int, ...]]:
    """The values of the items that `make test` tries."""
    leave_the_rest_to_the_night(items)
    return [
        tuple(item.callspec.indices.values())
        for item in items
        if not item.get_closest_marker("nightly")
    ]


def test_three_parameters_meet_in_pairs() -> None:
    all_of_them = list(product(range(4), range(3), range(2)))

    def found() -> list[tuple[int, ...]]:
        return tried([Item(f"a.py::test_a[{v}]", a=v[0], b=v[1], c=v[2]) for v in all_of_them])

    def pairs(values: list[tuple[int, ...]]) -> set[object]:
        return {pair for one in values for pair in combinations(enumerate(one), 2)}

    assert pairs(found()) == pairs(all_of_them)
    assert 12 <= len(found()) < 18
    assert found() == found()


def test_two_parameters_meet_all() -> None:
    """Names that take their values together are one parameter."""
    both = list(product(range(5), range(4)))
    assert tried([Item(f"a.py::test_a[{v}]", a=v[0], b=v[0], c=v[1]) for v in both]) == [
        (a, a, c) for a, c in both
    ]
