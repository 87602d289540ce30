"""Of a test with many parameters `make test` tries the same few, `make nightly` the others."""

from collections.abc import Iterable
from itertools import product
from types import SimpleNamespace

import pytest
from sampling import leave_the_rest_to_the_night, values_of


class Item:
    """As much of a pytest.Item as is asked for."""

    def __init__(self, nodeid: str, *marks: pytest.Mark, values: tuple[object, ...] = ()) -> None:
        self.nodeid = nodeid
        self.marks = list(marks)
        self.callspec = SimpleNamespace(_idlist=[str(value) for value in values])

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


def tried(all_of_them: Iterable[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """The values of the parameters that `make test` tries."""
    items = [Item(f"a.py::test_a[{values}]", values=values) for values in all_of_them]
    leave_the_rest_to_the_night(items)
    return [
        values
        for values, item in zip(all_of_them, items, strict=True)
        if not item.get_closest_marker("nightly")
    ]


def test_every_value_is_tried_once_or_more() -> None:
    all_of_them = list(product(range(4), range(3), range(2)))
    found = tried(all_of_them)
    assert [set(some) for some in zip(*found, strict=True)] == [{0, 1, 2, 3}, {0, 1, 2}, {0, 1}]
    assert 4 <= len(found) < 8
    assert found == tried(all_of_them)


def test_both_databases_are_tried() -> None:
    found = tried(list(product(range(5), ("duck", "post"), range(4))))
    assert {one[1] for one in found} == {"duck", "post"}
    assert len(found) < 10


def test_few_are_all_tried() -> None:
    both = list(product(range(2), range(2)))
    assert tried(both) == both


@pytest.mark.parametrize("third", range(5))
@pytest.mark.parametrize("second", range(3))
@pytest.mark.parametrize(("first", "known"), [(0, 0), (1, 2)])
def test_the_parameters_of_pytest_are_seen(
    request: pytest.FixtureRequest, first: int, known: int, second: int, third: int
) -> None:
    """Of this test, too: as pytest has them."""
    assert values_of([request.node]) == [(f"{first}-{known}", str(second), str(third))]
