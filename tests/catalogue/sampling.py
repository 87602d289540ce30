"""Which of a test's parameters `make test` tries where all would take minutes."""

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

FEW = 4
"""Items of a test that are all tried."""


def leave_the_rest_to_the_night(items: Iterable[pytest.Item]) -> None:
    """Marks as nightly what `make test` leaves out.

    Of a test marked sample(n) it tries n items. Of another one with several parameters, each with
    values of its own, it tries as many as have every value, the database being one of them.
    The choice depends on the test's name, so every run and every process makes the same.
    """
    of_a_test: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("nightly"):
            of_a_test[item.nodeid.split("[", 1)[0]].append(item)
    for name, all_of_it in of_a_test.items():
        marker = all_of_it[0].get_closest_marker("sample")
        if marker is not None:
            (n,) = marker.args
            kept = random.Random(name).sample(all_of_it, min(n, len(all_of_it)))
        else:
            kept = covering(name, all_of_it)
        for item in all_of_it:
            if item not in kept:
                item.add_marker(pytest.mark.nightly)


def covering(name: str, items: Sequence[Any]) -> Sequence[Any]:
    """Items in which every value of each parameter occurs.

    All items where they are few, or have one parameter.
    """
    values = values_of(items) if len(items) > FEW else []
    if not values or len(values[0]) < 2:
        return items
    wanted = [set(enumerate(one)) for one in values]
    missing: set[tuple[int, str]] = set().union(*wanted)
    left = list(range(len(items)))
    random.Random(name).shuffle(left)
    kept = []
    while missing:
        best = max(left, key=lambda index: len(wanted[index] & missing))
        left.remove(best)
        kept.append(best)
        missing -= wanted[best]
    return [items[index] for index in sorted(kept)]


def values_of(items: Sequence[Any]) -> list[tuple[str, ...]]:
    """Of each item the values of its parameters, a `parametrize` each; [] if some have others.

    pytest has no public way to ask for them: its `callspec.id` joins them by hyphens.
    """
    found = [tuple(getattr(getattr(item, "callspec", None), "_idlist", ())) for item in items]
    return found if len({len(one) for one in found}) == 1 else []
