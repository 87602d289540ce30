"""Which of a test's parameters `make test` tries where all would take minutes."""

import random
from collections import defaultdict
from collections.abc import Iterable

import pytest


def leave_the_rest_to_the_night(items: Iterable[pytest.Item]) -> None:
    """Marks all but n items of each test marked sample(n) as nightly.

    They are drawn by the test's name, so every run and every process draws the same ones.
    """
    of_a_test: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sample"):
            of_a_test[item.nodeid.split("[", 1)[0]].append(item)
    for name, all_of_it in of_a_test.items():
        (n,) = all_of_it[0].get_closest_marker("sample").args
        drawn = random.Random(name).sample(all_of_it, min(n, len(all_of_it)))
        for item in all_of_it:
            if item not in drawn:
                item.add_marker(pytest.mark.nightly)
