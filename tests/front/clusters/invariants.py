"""The invariants of trainings by parts, over the units that workers ran for leaders.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 4.2.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise

from tuskml.groups.execution.leading import Ran


def grouped(ran: Iterable[Ran], key: Callable[[Ran], Hashable]) -> list[list[Ran]]:
    """The units by a key, each list in the order of time."""
    found = defaultdict(list)
    for one in sorted(ran, key=lambda one: one.begin):
        found[key(one)].append(one)
    return list(found.values())


def one_after_another(some: Sequence[Ran]) -> bool:
    """Whether each unit begins after the end of the one before."""
    return all(a.end <= b.begin for a, b in pairwise(some))


def assert_worker_exclusivity(ran: Iterable[Ran]) -> int:
    """A worker runs one unit at a time; returns the number of workers."""
    workers = grouped(ran, lambda one: one.worker)
    assert all(one_after_another(some) for some in workers)
    return len(workers)


def assert_data_sharding(ran: Iterable[Ran]) -> int:
    """Each part stays on one worker; returns the number of parts."""
    parts = grouped(ran, lambda one: one.unit.pin)
    assert all(len({one.worker for one in some}) == 1 for some in parts)
    return len(parts)


def hops(ran: Iterable[Ran], method: str) -> list[list[Ran]]:
    """The units of a method that moves a model, by group; of a training without a search."""
    mark = f'"method": "{method}"'.encode()
    return grouped((one for one in ran if mark in one.unit.payload), lambda one: one.unit.name)


def assert_config_isolation(ran: Iterable[Ran], method: str) -> list[list[Ran]]:
    """No two workers are on one model; returns the hops of each model."""
    models = hops(ran, method)
    assert models
    assert all(one_after_another(some) for some in models)
    return models


def assert_epochs(some: Sequence[Ran], n: int) -> list[tuple[str, ...]]:
    """A model hops over all parts once an epoch, n times; returns the orders of the parts."""
    pins = [str(one.unit.pin) for one in some]
    width = len(set(pins))
    orders = [tuple(pins[at : at + width]) for at in range(0, len(pins), width)]
    assert width > 1
    assert len(orders) == n
    assert all(set(order) == set(pins) for order in orders)
    return orders


def assert_asked_alike(ran: Iterable[Ran], groups: int) -> None:
    """All parts of a group are asked equally often."""
    asked = Counter(one.unit.pin for one in ran)
    assert len(set(asked.values())) <= groups
