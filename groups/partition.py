"""The offline stage of stored models, in SQL: `feature_frequencies` and `partition_model`.

Rows pass in the order of a hash of their ids, which is the same whatever order a parallel scan
delivered them in; so is the sample, and so are the sketch's estimates.
"""

import base64
import ctypes
import json
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, Interrupted
from tuskml.groups.wide import narrow, refuse_wide
from tuskml.kernels import passes
from tuskml.kernels.passes import Pass
from tuskml.kernels.segments import sparse_segments
from tuskml.kvstore import (
    access,
    keep_partitioning,
    list_partitionings,
)
from tuskml.kvstore.access import default_root, make_root
from tuskml.learners.options.kinds import (
    BOOLEAN,
    DEFAULT_CACHE,
    STORE,
    Kind,
    Option,
    choice,
    integer,
    real,
)
from tuskml.learners.options.table import read
from tuskml.learners.stored.layout import live_features
from tuskml.learners.stored.partitions import Arrangement, Arranging
from tuskml.partitioner import (
    WARM_LEVELDB,
    Cost,
    Frequencies,
    FrequentFeatures,
    IndexMap,
    Partitioning,
    Profile,
)
from tuskml.partitioner.index_map import LARGEST
from tuskml.partitioner.merging import MOST_FEATURES
from tuskml.partitioner.plan import as_text
from tuskml.schedule import budget

MOST_COUNTED = 1 << 22
MOST_SAMPLED = 1 << 20
FEW_ROWS = 1000  # waking a thread takes longer than counting them


def _or_null(kind: Kind) -> Kind:
    return Kind(
        f"{kind.allowed} or null", lambda value: None if value is None else kind.parse(value)
    )


FREQUENCY_OPTIONS = {
    option.name: option
    for option in (
        Option("top", integer(1, MOST_COUNTED), 1000, "the number of features to return"),
    )
}
PARTITION_OPTIONS = {
    option.name: option
    for option in (
        Option(
            "top",
            integer(0, MOST_FEATURES),
            1000,
            "the number of frequent features that Algorithm 3 merges, where that costs less",
        ),
        Option(
            "sample",
            integer(1, MOST_SAMPLED),
            10_000,
            "sampled rows whose requests are counted",
        ),
        Option("seed", integer(0, 2**53), 0, "the seed of the sample"),
        Option(
            "batch_rows",
            integer(1, MOST_SAMPLED),
            1,
            "sampled rows that share their requests",
        ),
        Option(
            "block",
            _or_null(integer(1, LARGEST)),
            None,
            "rare features per key; null: the cheapest",
        ),
        Option(
            "layout",
            choice("affinity", "id"),
            "affinity",
            "the features that share keys: those that occur together, or neighbours by id",
        ),
        Option("name", _or_null(STORE), None, "the name under which the partitioning is kept"),
        Option(
            "list",
            BOOLEAN,
            False,
            "returns what is kept as JSON in `explanation`, and reads no rows",
        ),
        Option("t_seek", real(0, open_low=True), WARM_LEVELDB.t_seek, "seconds that a key costs"),
        Option("t_unit", real(0), WARM_LEVELDB.t_unit, "seconds that each weight adds"),
    )
}


@dataclass(frozen=True)
class Call:
    """options: JSON text; memory: address of the database's account; threads: 0 for
    as many as the budget allows; root: of stores, None for the default one; account: of the
    database whose rules for files hold (`access.follow_rule`).
    """

    options: str
    memory: int
    threads: int
    root: str | None = None
    account: int | None = None


class _Frequencies(ctypes.Structure):
    _fields_ = [
        ("n", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("feature", "estimate", "lower", "upper")),
    ]


class _Partitioning(ctypes.Structure):
    _fields_ = [
        ("features", ctypes.c_int64),
        ("partitions", ctypes.c_int64),
        ("n_block_sizes", ctypes.c_int64),
        ("block_sizes", ctypes.c_void_p),
        ("requests_before", ctypes.c_double),
        ("requests_after", ctypes.c_double),
        ("saved", ctypes.c_double),
        ("rows_seen", ctypes.c_int64),
        ("rows_skipped", ctypes.c_int64),
        ("rows_sampled", ctypes.c_int64),
        ("explanation", ctypes.c_char_p),
        ("index_map", ctypes.c_char_p),
    ]


@dataclass(frozen=True)
class Frequent:
    """One group's answer to `feature_frequencies`."""

    found: FrequentFeatures

    def emit(self, library: Any, batch: Any, group: int) -> None:
        """Passes it to the database."""
        found = self.found
        columns = [
            np.ascontiguousarray(column, np.int64)
            for column in (found.ids, found.estimate, found.lower, found.upper)
        ]
        struct = _Frequencies(len(found), *(column.ctypes.data for column in columns))
        library.tusk_emit_frequencies(batch, ctypes.c_int64(group), ctypes.byref(struct))


@dataclass(frozen=True)
class PartitionAnswer:
    """One group's answer to `partition_model`; told: text that replaces the explanation."""

    made: Partitioning
    rows_skipped: int
    told: str | None = None

    def emit(self, library: Any, batch: Any, group: int) -> None:
        """Passes it to the database."""
        index, told = self.made.index, self.made.explanation
        sizes = np.array(index.blocks.sizes, np.int64)
        before, after = told.by_feature.requests, told.after_blocks.requests
        struct = _Partitioning(
            features=len(index.features),
            partitions=index.n_partitions,
            n_block_sizes=len(sizes),
            block_sizes=sizes.ctypes.data,
            requests_before=before,
            requests_after=after,
            saved=1 - after / before if before else 0.0,
            rows_seen=told.rows_seen,
            rows_skipped=self.rows_skipped,
            rows_sampled=told.rows_sampled,
            explanation=(as_text(told) if self.told is None else self.told).encode(),
            index_map=base64.b64encode(index.to_bytes()),
        )
        library.tusk_emit_partitioning(batch, ctypes.c_int64(group), ctypes.byref(struct))


class Rows:
    """The groups' rows in a private order, until the context ends. Handles Ctrl-C."""

    def __init__(self, groups: NDArray[np.void], call: Call, seed: int) -> None:
        self._groups, self._call, self._seed = groups, call, seed
        self._stack = ExitStack()
        self.mark = passes.cancel_mark()
        self.threads = budget.threads(call.threads)

    def __enter__(self) -> "Rows":
        with ExitStack() as stack:
            stack.enter_context(passes.watching_sigint())
            rows = Pass(
                self._groups, fit_intercept=False, threads=self.threads, cancel_mark=self.mark
            )
            nothing = np.zeros(len(self._groups), np.int64)
            kept, held = rows.shuffle(self._call.memory, self._seed, nothing)
            stack.enter_context(held)
            self._groups = stack.enter_context(kept)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator["GroupRows"]:
        for group in self._groups:
            yield GroupRows(group, self.check)

    def check(self) -> None:
        """Raises Interrupted where the statement is to end."""
        if passes.cancel_count() != self.mark:
            raise Interrupted("the statement was interrupted")


@dataclass(frozen=True)
class GroupRows:
    """One group's rows, chunk by chunk; `check` raises if the work is cancelled."""

    group: np.void
    check: Callable[[], None]

    @property
    def n_rows(self) -> int:
        """Returns the number of rows."""
        return int(self.group["n_rows"])

    def chunks(self) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int32]]]:
        """The index arrays of CSR matrices of about two megabytes."""
        for starts, ids in sparse_segments(self.group):
            self.check()
            yield starts, ids


def count_features(groups: NDArray[np.void], call: Call) -> Iterator[Frequent]:
    """Yields the `feature_frequencies` of each group."""
    top = read(call.options, FREQUENCY_OPTIONS)[0]["top"]
    with narrow(groups, call.memory) as (few, names), Rows(few, call, seed=0) as rows:
        for place, group in enumerate(rows):
            counted = Frequencies(top)
            for _, ids in group.chunks():
                counted.update(ids)
            found = counted.top(top)
            if place in names:
                found = replace(found, ids=names[place][found.ids])
            yield Frequent(found)


def partition_features(groups: NDArray[np.void], call: Call) -> Iterator[PartitionAnswer]:
    """`partition_model` of each group."""
    options, given = read(call.options, PARTITION_OPTIONS)
    if options["list"]:
        yield from _read_partitionings(groups, call)
        return
    cost = Cost(options["t_seek"], options["t_unit"])
    by_id = options["layout"] == "id"
    if "layout" in given and not by_id:
        refuse_wide(groups, "option 'layout': 'affinity'")
    with narrow(groups, call.memory) as (few, names), Rows(few, call, options["seed"]) as rows:
        each = zip(rows, groups["n_skipped"].tolist(), strict=True)
        for place, (group, skipped) in enumerate(each):
            profile = Profile(options["top"], options["sample"], options["seed"])
            for starts, ids in group.chunks():
                profile.update(starts, ids)
            plain = partial(
                profile.partition,
                cost,
                batch_rows=options["batch_rows"],
                threads=rows.threads if group.n_rows > FEW_ROWS else 1,
                interrupted=rows.check,
            )
            arranged = None
            if not by_id and place not in names and group.n_rows:
                arranged = _arrange(group, profile, options, cost, rows.mark, given)
            made = _cheapest(plain, arranged, options)
            if place in names:
                made = with_ids(made, names[place])
            if options["name"] is not None:
                _keep(made, options["name"], call)
            yield PartitionAnswer(made, skipped)


def with_ids(made: Partitioning, ids: NDArray[np.int64]) -> Partitioning:
    """The partitioning of features that were numbers, by their ids."""
    index, told = made.index, made.explanation
    shared = [replace(one, features=ids[one.features]) for one in told.partitions]
    return replace(
        made,
        index=IndexMap(ids[index.features], index.partition, index.blocks),
        explanation=replace(told, partitions=shared),
    )


def _arrange(
    group: GroupRows,
    profile: Profile,
    options: dict[str, Any],
    cost: Cost,
    mark: int,
    given: Collection[str],
) -> Arrangement | None:
    """The features that occur, those that occur together side by side; None if there are none, or
    too many and the layout is not given.
    """
    dimension, rows = int(group.group["dim"]), options["batch_rows"]
    live = live_features(group.group, lambda: (), dimension, DEFAULT_CACHE, mark)
    if live is None and "layout" in given:
        raise DataError(
            "option 'layout' is 'affinity', for which the ids take more than "
            f"{DEFAULT_CACHE} bytes: number them anew, or use 'id'"
        )
    if not live:
        return None
    sample = profile.sample.rows().in_batches(rows).distinct()
    found = Arranging(group.group, live.together(), rows, np.inf, cost, mark, chunks=sample)
    return found("affinity", options["block"])


def _cheapest(
    partition: Callable[..., Partitioning], arranged: Arrangement | None, options: dict[str, Any]
) -> Partitioning:
    """The partitioning by affinity, with the frequent features apart only where that costs less,
    as it tears them from those that they occur with; arranged: None for that by id.
    """
    if arranged is None:
        return partition(block=options["block"])
    both = [
        partition(block=arranged.block, live=arranged.live, top=top)
        for top in dict.fromkeys((0, options["top"]))
    ]
    return min(both, key=lambda made: made.explanation.after_blocks.seconds)


def _read_partitionings(groups: NDArray[np.void], call: Call) -> Iterator[PartitionAnswer]:
    """The saved partitioning of each group; nothing if there is no root yet."""
    root = _root_of(call)
    found = list_partitionings(root) if root.is_dir() else []
    nothing = Profile(0, 1, 0).partition(Cost(1.0, 0.0))
    for skipped in groups["n_skipped"].tolist():
        yield PartitionAnswer(nothing, skipped, json.dumps(found))


def _root_of(call: Call) -> Path:
    """The root of stores, which this database may use."""
    root = call.root if call.root is not None else default_root()
    access.check_files(root, call.account)
    return Path(root)


def _keep(made: Partitioning, name: str, call: Call) -> None:
    """Writes the partitioning into the root of stores."""
    _root_of(call)
    told = made.explanation
    facts = {
        "features": len(made.index.features),
        "keys": made.index.n_partitions,
        "others": str(made.index.blocks),
        "rows_seen": told.rows_seen,
        "requests_before": told.by_feature.requests,
        "requests_after": told.after_blocks.requests,
    }
    keep_partitioning(make_root(call.root), name, made.index, facts)


OFFLINE: dict[int, Callable[[NDArray[np.void], Call], Iterator[Any]]] = {
    2: count_features,
    3: partition_features,
}
"""Functions that answer the requests of `udas/rowblock/batch.h`, by number."""
