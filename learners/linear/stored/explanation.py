"""The explanation of a stored training: its plan, and its expected requests to the store.

Nothing is written. Features are mapped to keys as the training does, but on some of the chunks if
they are many, and the keys are left unchanged.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.passes import Pass
from tuskml.kernels.segments import sparse_segments
from tuskml.kernels.stored.chunks import FRAME_BYTES, Keys, Widths
from tuskml.kvstore.routes import piece_of
from tuskml.learners.linear.check import many_classes
from tuskml.learners.linear.multinomial.choice import plan_of_classes
from tuskml.learners.linear.multinomial.stored import Several, several_of, trains_in_store
from tuskml.learners.linear.planner.choice import Choice, stored_candidate
from tuskml.learners.linear.planner.curves import Interval, Question
from tuskml.learners.linear.planner.planning import statistics
from tuskml.learners.linear.request import Plan, Request
from tuskml.learners.linear.stored.estimate import (
    WEIGHT_BYTES,
    StoreUse,
    demand_of,
    estimate_epochs,
    estimate_routed_use,
    store_use,
)
from tuskml.learners.linear.stored.in_memory import without_store
from tuskml.learners.linear.stored.run import FEWEST_CHUNKS, Run
from tuskml.learners.linear.stored.training import check, make_plan
from tuskml.learners.machine import constants
from tuskml.learners.stored.routing import TRIES, fewer_rows, most_features, most_rows
from tuskml.partitioner import IndexMap

Ids = NDArray[np.integer]
FREQUENT = 1000
"""Features that share keys, if a named partitioning is missing."""
MOST_ENTRIES = 1 << 23
"""Entries of the rows that are looked at."""


def consider_stored(group: NDArray[np.void], request: Request, memory: int = 0) -> Choice:
    """The choice for explanations; raises what a training would. memory: address of the
    account.
    """
    check(group, request)
    plan = make_plan(group, request)
    options, mark = request.options, passes.cancel_mark()
    intercept = options.fit_intercept
    rows = Pass(group, request.task.loss, None, None, intercept, plan.threads, cancel_mark=mark)
    classes, labels = None, rows.labels()
    if many_classes(request.task, options, labels).any():
        classes = several_of(rows, labels, request)
        if not trains_in_store(group, request, len(classes.label), memory):
            return Choice(plan_of_classes(rows, without_store(request)), ())
    epochs = estimate_epochs(group, request, plan)
    use = foresee_use(group, request, plan, epochs, classes).as_dict()
    question = Question(request.task, request.options, statistics(group), plan.threads)
    found = stored_candidate(question, constants.of_host())
    moved = use["store_bytes_read"] + use["store_bytes_written"]
    why = "option 'store' is given" if request.unasked is None else request.unasked
    reason = (
        f"{why}; about {use['store_requests']:,} requests to the store and {moved / 1e6:,.1f} MB "
        f"in {epochs:,.0f} epochs"
    )
    if isinstance(options.partition, str):
        reason += f", estimated without partitioning '{options.partition}', which a training reads"
    plan = replace(plan, reason=reason)
    iterations = Interval(epochs, epochs, epochs)
    one = replace(found, plan=plan, iterations=iterations, refusal=None, store=use)
    return Choice(plan, (one,))


def foresee_use(
    group: NDArray[np.void],
    request: Request,
    plan: Plan,
    epochs: float,
    classes: Several | None = None,
) -> StoreUse:
    """The use of a training of one sparse group, GROUP (1,), of `epochs` epochs; classes: more
    than two.

    Costs are not measured, as there may be no store yet.
    """
    task, mark = request.task, passes.cancel_mark()
    options = replace(request.options, deterministic=True, warm_start=None, resume=False)
    if isinstance(options.partition, str):  # kept in the store's directory, which is not read
        options = replace(options, partition=FREQUENT)
    rows = Pass(
        group, task.loss, None, None, options.fit_intercept, plan.threads, cancel_mark=mark
    )
    labels, asked = rows.labels(), replace(request, options=options)
    run = Run(rows, labels, asked, plan, None, classes=classes)
    if run.travels():
        return on_routes(group[0], run, epochs)
    index = run.layout()
    each, most = run.rows_per_chunk(), run.most_bytes(index)
    n_chunks = -(-int(group["n_rows"][0]) // each)
    step = max(1, -(-rows.nonzeros() // MOST_ENTRIES))
    chunks: list[tuple[Keys, Widths]] = []
    for starts, ids in in_chunks(group[0], each, step, mark):
        chunks += keys_of(run, index, starts, ids, most)
    whole = round(len(chunks) / max(1, -(-n_chunks // step)) * n_chunks)
    settles = bool(options.l1 or options.l2)
    return store_use(demand_of(whole, chunks), run.cache, epochs, settles)


def on_routes(group: np.void, run: Run, epochs: float) -> StoreUse:
    """The use of a training whose weights travel, by the features of some chunks of rows.

    Each chunk is taken to share features with all others.
    """
    n_rows, entries = int(group["n_rows"]), run.rows.nonzeros()
    step, most = max(1, -(-entries // MOST_ENTRIES)), most_features(run.cache, run.several)
    each = most_rows(run.cache, n_rows, entries, FEWEST_CHUNKS, run.several)
    for _ in range(TRIES):
        chunks = in_chunks(group, each, step, run.rows.cancel_mark)
        found = [np.unique(ids) for _, ids in chunks]
        largest = max(map(len, found))
        if largest <= most or each == 1:
            break
        each = fewer_rows(each, largest, most)
    n = -(-n_rows // each)
    size = float(np.mean([len(ids) for ids in found]))
    pairs = pairwise(found)
    near = [len(np.intersect1d(a, b, assume_unique=True)) for a, b in pairs] or [0]
    weights = size - float(np.mean(near))
    buckets = n * min(n - 1, weights)
    use = estimate_routed_use(buckets, n * weights * run.several, epochs, min(buckets, 2 * n))
    if not (run.options.l1 or run.options.l2):
        return use
    features = run.n_features()
    runs = n + features / piece_of(int(size), run.feature_bytes)
    return use + estimate_routed_use(n * (n + 1) / 2, features * run.several, 0, runs)


def in_chunks(group: np.void, each: int, step: int, mark: int) -> Iterator[tuple[Ids, Ids]]:
    """(starts, ids) of every few chunks of `each` rows."""
    number, rows, starts, parts = 0, 0, [np.zeros(1, np.int64)], []
    for begins, ids in sparse_segments(group):
        passes.raise_if_cancelled(mark)
        first, n = 0, len(begins) - 1
        while first < n:
            end = min(n, first + each - rows)
            if number % step == 0:
                before = starts[-1][-1]
                starts.append(
                    begins[first + 1 : end + 1].astype(np.int64) - begins[first] + before
                )
                parts.append(ids[begins[first] : begins[end]])
            rows, first = rows + end - first, end
            if rows == each:
                if parts:
                    yield np.concatenate(starts), np.concatenate(parts)
                number, rows, starts, parts = number + 1, 0, [np.zeros(1, np.int64)], []
    if parts:
        yield np.concatenate(starts), np.concatenate(parts)


def keys_of(
    run: Run, index: IndexMap, starts: Ids, ids: Ids, most: int
) -> list[tuple[Keys, Widths]]:
    """Keys and widths of a chunk, cut into parts whose payloads take at most `most` bytes."""
    keys, _ = index.locate(np.unique(ids).astype(np.int64))
    keys = np.unique(keys)
    widths = run.widths(index, keys)
    size = WEIGHT_BYTES * int(widths.sum()) + FRAME_BYTES * len(keys)
    rows = len(starts) - 1
    parts = 1 << (max(1, -(-size // most)) - 1).bit_length()
    if parts == 1 or rows < 2:
        return [(keys.astype(np.uint64), widths.astype(np.uint32))]
    found = []
    for first in range(0, rows, -(-rows // parts)):
        end = min(rows, first - (-rows // parts))
        part = ids[starts[first] : starts[end]]
        found += keys_of(run, index, starts[first : end + 1] - starts[first], part, most)
    return found
