"""When each worker trains which configuration on which shard, and the promises of a timetable.

Source: sections 4.2 and 4.3 of the paper. Times are in rows of one configuration.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tuskml.schedule.placement import SHARD, Sizes

Tasks = NDArray[np.void]
TASK = np.dtype([*SHARD.descr, ("configuration", "i8"), ("begin", "i8"), ("end", "i8")])


def timetable(shards: NDArray[np.void], configurations: int) -> Tasks:
    """One epoch of all configurations on all shards, as tasks (S * configurations,) of dtype TASK.

    A worker goes through its shards in their order, and on each through all configurations. Of
    `wrap_around`'s shards, a group that lies on two workers ends the first one's list and begins
    the second one's. It has no more than C* rows, so it has left the second one before the first
    one comes to it: configurations hop from one to the other, and nobody waits.
    """
    rows = shards["last"] - shards["first"]
    before = np.cumsum(rows) - rows
    first_of_worker = np.r_[True, np.diff(shards["worker"]) != 0] if len(shards) else []
    begins = before - np.maximum.accumulate(np.where(first_of_worker, before, 0))
    number = np.arange(configurations)
    tasks = np.empty((len(shards), configurations), TASK)
    for name in SHARD.names or ():
        tasks[name] = shards[name][:, None]
    tasks["configuration"] = number
    tasks["begin"] = begins[:, None] * configurations + number * rows[:, None]
    tasks["end"] = tasks["begin"] + rows[:, None]
    return tasks.ravel()


def broken(tasks: Tasks, sizes: Sizes, configurations: int) -> Iterator[str]:
    """The invariants of section 4.2 that a timetable breaks, by name; sizes: rows by group (G,).

    Data sharding: each configuration sees each row once, and a shard is on one worker. Worker
    exclusivity: a worker trains one configuration at a time. Config isolation: a configuration of
    a group is trained by one worker at a time. Group isolation: so is a group.
    """
    if not _whole(tasks, sizes, configurations) or not _placed_once(tasks):
        yield "data sharding"
    if _overlap(tasks, ["worker"]):
        yield "worker exclusivity"
    if _overlap(tasks, ["group", "configuration"]):
        yield "config isolation"
    if _shared(tasks):
        yield "group isolation"


def _whole(tasks: Tasks, sizes: Sizes, configurations: int) -> bool:
    """Returns whether the shards of each group and configuration follow each other from 0 to its
    size.
    """
    ordered = np.sort(tasks, order=["group", "configuration", "first"])
    groups = np.flatnonzero(sizes)
    key = ordered["group"] * configurations + ordered["configuration"]
    starts = np.r_[True, np.diff(key) != 0] if len(key) else np.zeros(0, bool)
    expected = (groups[:, None] * configurations + np.arange(configurations)).ravel()
    if not np.array_equal(key[starts], expected):
        return False
    ends = np.roll(starts, -1)
    joined = ordered["first"][1:][~starts[1:]] == ordered["last"][:-1][~starts[1:]]
    return bool(
        (ordered["first"][starts] == 0).all()
        and (ordered["last"][ends] == sizes[ordered["group"][ends]]).all()
        and joined.all()
    )


def _placed_once(tasks: Tasks) -> bool:
    """Returns whether all configurations find a shard on the same worker."""
    shards = np.unique(tasks[["group", "first", "last", "worker"]])
    return len(shards) == len(np.unique(tasks[["group", "first"]]))


def _overlap(tasks: Tasks, by: list[str]) -> bool:
    """Returns whether two tasks of the same key overlap in time."""
    ordered = np.sort(tasks, order=[*by, "begin"])
    same = np.all([ordered[name][1:] == ordered[name][:-1] for name in by], axis=0)
    return bool((same & (ordered["begin"][1:] < ordered["end"][:-1])).any())


def _shared(tasks: Tasks) -> bool:
    """Returns whether a group is on two workers at the same time."""
    ordered = np.sort(tasks, order=["group", "begin"])
    same = ordered["group"][1:] == ordered["group"][:-1]
    moved = ordered["worker"][1:] != ordered["worker"][:-1]
    # Tasks of a group on one worker may overlap only where `_overlap` by worker tells of it, so
    # an overlap with any earlier task shows between neighbours of different workers.
    latest = _latest_end(ordered, same)
    return bool((same & moved & (ordered["begin"][1:] < latest)).any())


def _latest_end(ordered: Tasks, same: NDArray[np.bool_]) -> Sizes:
    """The latest end of a group's tasks up to each one but the last."""
    latest = ordered["end"].copy()
    run = np.r_[0, np.cumsum(~same)] if len(ordered) else latest
    shift = run * (latest.max(initial=0) + 1)
    running: Sizes = np.maximum.accumulate(latest + shift) - shift
    return running[:-1]
