"""The invariants of trainings by parts, over the units that workers ran for leaders.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 4.2.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import count, pairwise
from typing import Any

import numpy as np

from research.kingpin.timetable import TASK, Tasks, broken
from tuskml.cluster.parts.part_rows import cut_sections
from tuskml.groups.execution.leading import Ran
from tuskml.kernels.parts.message import unpack_message


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


def configuration(header: dict[str, Any]) -> Hashable:
    """The configuration of a search over l2 whose step of an epoch this is, and its folds."""
    return header["given"]["epoch"]["l2"], str(header["folds"])


def recorded(ran: Iterable[Ran], method: str, passes: int) -> tuple[Tasks, Any, int]:
    """The units of a method as tasks of the research's timetable, the rows of each group, and the
    number of configurations.

    Each of the passes of a configuration counts as one, since each visits all rows once.
    """
    groups, workers, configurations = (defaultdict(count().__next__) for _ in range(3))
    parts: dict[str, tuple[int, int]] = {}
    sizes: dict[int, int] = defaultdict(int)
    visits: Counter[Hashable] = Counter()
    found = []
    for one in sorted(ran, key=lambda each: each.begin):
        message = cut_sections(one.unit.payload)[1]
        header = unpack_message(message)[0] if message else {"method": "forget"}
        if header["method"] != method:
            continue
        group, pin, rows = groups[one.unit.name], str(one.unit.pin), int(one.unit.size)
        if pin not in parts:
            parts[pin] = sizes[group], sizes[group] + rows
            sizes[group] += rows
        key = configuration(header)
        number = configurations[key] * passes + visits[key, pin]
        visits[key, pin] += 1
        times = int(one.begin * 1e9), int(one.end * 1e9)
        found.append((group, workers[one.worker], *parts[pin], number, *times))
    rows_of = np.array([sizes[group] for group in range(len(groups))], np.int64)
    return np.array(found, TASK), rows_of, len(configurations) * passes


def broken_by(ran: Iterable[Ran], method: str, passes: int) -> list[str]:
    """The invariants that recorded units break, as `research.kingpin.timetable` checks them."""
    tasks, sizes, configurations = recorded(ran, method, passes)
    assert len(tasks)
    return list(broken(tasks, sizes, configurations))


def parts_by_worker(ran: Iterable[Ran]) -> set[frozenset[str | None]]:
    """The parts that each worker has."""
    found = grouped(ran, lambda one: one.worker)
    return {frozenset(one.unit.pin for one in some) for some in found}
