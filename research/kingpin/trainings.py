"""Trainings by group on two workers: the one place that calls the product's placements.

Rows are those of the benchmark of placements. `one giant` has a group with four fifths of the
rows: with two workers as much more than a worker's share as the paper's largest country is with
four.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import placements

import tuskml
from research import report

placements.GROUP["one giant"] = (
    "CASE WHEN u < 0.8 THEN 0 ELSE 1 + ((u - 0.8) / 0.2 * ({groups} - 1))::INTEGER END"
)
CONFIGURATIONS = 4


@contextmanager
def shards(shape: str, groups: int, rows: int) -> Iterator[tuple[Any, str]]:
    """A connection and the files of the groups, of 12 features each, in many shards."""
    given = argparse.Namespace(
        shape=shape, groups=groups, rows=rows, shard_bytes=max(rows // 4, 20_000)
    )
    with tuskml.connect() as con:
        yield con, placements.shards(con, given)


def train(con: Any, source: str, placement: str, task: str, **more: Any) -> Any:
    """The models of all groups, each of the configurations with the best validation."""
    name, least, options = placements.TASKS[task]
    values = [least * 2**number for number in range(CONFIGURATIONS)]
    search = {name: values, "folds": 2}
    return tuskml.train(
        con,
        task,
        source=source,
        label="y",
        group_by="g",
        features=[f"x{k}" for k in range(placements.FEATURES)],
        executor="threads",
        placement=placement,
        **options | search | more,
    )


def seconds(
    con: Any, source: str, names: list[str], task: str, repeat: int, **more: Any
) -> dict[str, float]:
    """Seconds of each placement by the clock, in turns: medians."""
    works = {name: lambda name=name: train(con, source, name, task, **more) for name in names}
    return report.in_turns(works, repeat, report.wall_seconds)
