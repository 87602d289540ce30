"""The estimated and actual time of a training on workers.

A pilot trains one unit of the groups on one thread, which gives the seconds of a row in a pass. Of
a unit that is large, it takes some rows. The other costs were measured once. Nothing of the run
itself is used.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, sections 3, 4.3 (the pilot) and 4.6.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tuskml.cluster.parts.placement import possible
from tuskml.cluster.shards.catalogue import Group
from tuskml.cluster.shards.storages import register
from tuskml.cluster.units import BATCH_ROWS, Batch, Units
from tuskml.databases.connection import connect
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.sources import Source
from tuskml.learners.registry import learner_of
from tuskml.model.execution import Execution, Pilot
from tuskml.schedule.placement import Sizes
from tuskml.schedule.simulation import Costs, Workload, estimates, imbalance

ON_RAY = Costs(
    row=0.0,
    byte=0.0,
    model=0.0,
    task=0.033,
    dispatch=1.4e-4,
    sync=1.3e-3,
    send=1.2e-9,
    start=1.9,
)
"""Costs on a running Ray cluster; row and byte come from the pilot. Measured by `-m
research.kingpin.cluster_simulation --calibrate`.
"""
IN_THREADS = replace(ON_RAY, dispatch=0.0, sync=0.0, send=0.0, start=0.0)
NEGLIGIBLE = 0.03
"""Share of the workers' time: a choice that gains less is not worth a pilot."""


def is_balanced(groups: Sequence[Group], workers: int) -> bool:
    """Returns whether TP keeps all workers busy, up to a negligible time, at any cost of a row.

    Each other approach does the work of TP and more: it gains only the idle time of TP.
    """
    sizes = sizes_of(groups)
    return imbalance(sizes, workers) * workers <= NEGLIGIBLE * float(sizes.sum())


def sizes_of(groups: Sequence[Group]) -> Sizes:
    """Rows of each group (G,)."""
    return np.array([group.rows for group in groups], np.int64)


def execution(units: Units, workers: int, remote: bool) -> Execution:
    """Estimates for the units' groups. remote: whether workers are other processes."""
    found = train_pilot(units)
    groups = units.catalogue.groups
    sizes = sizes_of(groups)
    call = units.training.call
    request, s = call.requests[0], len(call.requests)
    hops = any(learner_of(one.task).by_parts.hops(one) for one in call.requests)
    known = found.passes, found.coefficients, found.features, int(sizes.max(initial=1))
    passes, exchanged = learner_of(request.task).by_parts.exchanges(request, *known)
    by_parts = learner_of(request.task).by_parts.slowdown
    work = Workload(sizes, s, passes, 1.0, exchanged, hops, by_parts, BATCH_ROWS)
    trained = max(found.seconds - found.reading, 0.0) / (found.rows * passes * s)
    base = ON_RAY if remote else IN_THREADS
    costs = replace(base, row=trained, byte=found.reading / found.rows)
    made = tuple(estimates(work, workers, costs))
    among = possible(units.training, groups, workers)
    chosen = next(one.approach for one in made if one.approach in among)
    rows = int(sizes.sum())
    return Execution(workers, len(groups), rows, s, found, made, chosen=chosen)


def train_pilot(units: Units) -> Pilot:
    """Trains the unit in the middle by its rows, a small one; the second of two times counts."""
    ordered = sorted(units.batches.values(), key=lambda one: one[1].rows)
    small = [one for one in ordered if one[1].rows <= 2 * BATCH_ROWS] or ordered[:1]
    unit, batch = small[len(small) // 2]
    training = units.training
    with connect(threads=1) as connection:
        register(connection, units.storages)
        database = DuckDB(connection)
        rows, share = batch.rows, 1.0
        if rows > 2 * BATCH_ROWS:
            rows, query, source = some_of(database, units, batch)
        else:
            query = json.loads(unit.payload)["query"]
            shards = [units.catalogue.shards[place].path for place in batch.shards]
            listed = ", ".join(map(database.text, shards))
            share = share_of(database, listed, batch)
            source = f"read_parquet([{listed}]) AS source"
        reading = f"SELECT max(hash({training.label}, {training.features})) FROM {source}"
        about = (
            "SELECT max(model.iterations), max(coalesce(len(model.coef), 1)), "
            "max(model.n_features) "
            f"FROM ({query}) WHERE model IS NOT NULL"
        )
        for _ in range(2):
            began = time.perf_counter()
            passes, coefficients, features = database.fetch(about)[0]
            trained = time.perf_counter() - began
            began = time.perf_counter()
            database.fetch(reading)
            read = (time.perf_counter() - began) * share
    models = max(passes or 1, 1), coefficients or 1, features or 1
    return Pilot(rows, trained, min(read, trained), *models)


def some_of(database: DuckDB, units: Units, batch: Batch) -> tuple[int, str, str]:
    """Selects as many rows of a large batch as a usual one has: their number, the query that
    trains on them, and their files. They are from its first file, which may have fewer.
    """
    shard = units.catalogue.shards[batch.shards[0]]
    only = units.only(batch, units.covers(batch))
    source = (
        f"(SELECT source.* FROM read_parquet({database.text(shard.path)}) AS source {only} "
        f"LIMIT {BATCH_ROWS}) AS source"
    )
    ((rows,),) = database.fetch(f"SELECT count(*) FROM {source}")
    there = Source(source, units.training.source.name)
    return max(rows, 1), replace(units.training, source=there, keys=()).query(database), source


def share_of(database: DuckDB, listed: str, batch: Batch) -> float:
    """The share of the rows of these files, all that hold the batch, that are its own: 0 to 1."""
    ((rows,),) = database.fetch(f"SELECT count(*) FROM read_parquet([{listed}])")
    return batch.rows / max(int(rows), 1)
