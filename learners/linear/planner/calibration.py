"""Measures the planner's constants on generated rows. `tuskml calibrate` stores them.

Some seconds: each kernel on rows of a few megabytes, some of them on fewer and on more rows, by
one thread and by two, and each algorithm's work on weights on rows so few that nothing else takes
time. The middle one of several runs counts: trainings are disturbed too.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import GROUP, KINDS, Floats, Pass, address_of
from tuskml.learners.linear.algorithms import ALGORITHMS, REGISTERED
from tuskml.learners.linear.algorithms.parts.algorithm import Algorithm
from tuskml.learners.linear.operators import State, run
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner.candidates import choose
from tuskml.learners.linear.planner.cost import curvature_units
from tuskml.learners.linear.planner.curves import Statistics
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.tasks import LINEAR
from tuskml.learners.machine.constants import LAYOUTS, LOSSES, STORAGE, VERSION
from tuskml.schedule import budget
from tuskml.user_folders import cache_folder

SPARSE_ROW = 32
"""Entries of a sparse row in the mean."""

Arrays = list[NDArray[Any]]


def make_arrays(
    storage: str, rows: int, features: int, each: int
) -> tuple[NDArray[np.float64], Arrays, int]:
    """Labels 0 and 1, the rows' arrays, and how many entries sparse ones have.

    Dense values are normal, float32 at heart: drawing doubles takes longer, and kernels do not
    look at them. Sparse ids follow Zipf's law, as words do, and lie in no order; the lengths of
    rows vary, which processors notice.
    """
    rng = np.random.default_rng(rows + features)
    dtype = np.float32 if storage.endswith("32") else np.float64
    labels = (rng.random(rows) < 0.5).astype(np.float64)
    if not storage.startswith("sparse"):
        block = rng.standard_normal((min(rows, 1 << 14), features), np.float32).astype(dtype)
        return labels, [np.resize(block, (rows, features))], 0
    lengths = np.clip(rng.poisson(min(each, features), rows), 1, None)
    start = np.zeros(rows + 1, np.uint32)
    np.cumsum(lengths, out=start[1:])
    entries = int(start[-1])
    rank = np.minimum(features ** rng.random(entries), features).astype(np.int64) - 1
    ids = rng.permutation(features).astype(np.int32)[rank]
    return labels, [start, ids, rng.random(entries, np.float32).astype(dtype)], entries


def groups_of(
    labels: NDArray[np.float64], arrays: Arrays, entries: int, storage: str, features: int
) -> tuple[NDArray[np.uint64], NDArray[np.void]]:
    """The segment, which must outlive the group (GROUP, shape (1,)) that points to it."""
    head = np.zeros(4, np.uint64)
    head[2:] = np.array([len(labels), len(labels), entries, entries], np.uint32).view(np.uint64)
    pieces = [piece.tobytes() for piece in (head, labels, *arrays)]
    whole = b"".join(piece + bytes(-len(piece) % 8) for piece in pieces)
    segment = np.frombuffer(whole, np.uint64).copy()
    group = np.zeros(1, GROUP)
    group["head"], group["n_rows"] = address_of(segment), len(labels)
    group["dim"], group["kind"] = features, KINDS.index(storage)
    return segment, group


ENTRIES = 1 << 20
WIDTHS = {"dense": (8, 32, 128, 512), "sparse": (128, 8192, 1 << 19)}
CURVED = {"dense": (8, 32, 128, 512), "sparse": (32, 128, 512)}
TRIANGLES = 1 << 25
SIZES = {"dense": (1 << 17, 1 << 19, 1 << 21, 1 << 24), "sparse": (1 << 17, 1 << 19, 1 << 21)}
SIZED_WIDTH = {"dense": 64, "sparse": 8192}
SHORT_ROW = 4
ITERATIONS = 8
"""Iterations of a training whose work on weights is timed."""
RUNS = 3
TIMED = tuple(one.name for one in REGISTERED if one.calibrated)
EPOCHS = tuple(one.name for one in REGISTERED if one.calibrated and one.stochastic)
"""The epochs that may apply a penalty or a scale."""
PASSES = ("gradient", "curvature", *TIMED)
Tell = Callable[[str], None]


@contextmanager
def make_group(
    storage: str, rows: int, features: int, each: int = SPARSE_ROW
) -> Iterator[NDArray[np.void]]:
    """Makes one group of such rows, with labels 0 and 1; each: entries of a sparse row."""
    segment, groups = groups_of(*make_arrays(storage, rows, features, each), storage, features)
    yield groups
    del segment  # alive until here


def problem_of(groups: NDArray[np.void], threads: int, task: str = "linear") -> Problem:
    """A task on one group, unscaled."""
    chosen = LINEAR[task]
    positive = np.ones(1) if chosen.classifies else None
    rows = Pass(groups, chosen.loss, positive, None, True, threads)
    if not chosen.smooth:
        rows = replace(rows, smoothing=1.0)
    d = rows.n_features
    frequency = np.full((1, d), 0.5) if rows.sparse else None
    return Problem(rows, chosen, 0.0, 0.0, np.zeros((1, d)), np.ones((1, d)), frequency)


def penalise(problem: Problem) -> Problem:
    """Returns the problem with a penalty, and scales that are not 1."""
    return replace(problem, l2=1e-5, scale=np.full((1, problem.d), 0.5))


def seconds(work: Callable[[], object]) -> float:
    """The median seconds of a few runs."""
    took = []
    for _ in range(RUNS):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return max(sorted(took)[RUNS // 2], 1e-9)


def once(kind: str, problem: Problem) -> Callable[[], object]:
    """A function that runs one pass or epoch of a kind."""
    v = 0.1 * np.random.default_rng(0).standard_normal((1, problem.d + 1))
    rows = problem.rows
    if kind == "gradient":
        return lambda: rows.gradient(v)
    if kind == "curvature":
        return lambda: rows.curvature(v, problem.shift, problem.scale, False)
    algorithm = ALGORITHMS[kind]
    seen = Statistics(1, problem.d, rows.sparse)
    plan = choose(problem.task, parse(""), seen, algorithm.name)
    return algorithm.one_epoch(problem, plan, v)


def row_count(kind: str, storage: str, features: int) -> tuple[int, float]:
    """The number of rows to measure on, and the units of work that they are."""
    p = features + 1
    sparse, double = storage.startswith("sparse"), storage.endswith("64")
    each = SPARSE_ROW if sparse else features
    if kind == "curvature":
        rows = min(max(256, TRIANGLES * 2 // p**2), 1 << 16)
        return rows, curvature_units(
            Statistics(rows, features, sparse, rows, rows * each, 1, double), p
        )
    return ENTRIES // each, float(ENTRIES // each * each)


def pass_table(
    kind: str, storage: str, rows_take: float, with_penalty: bool = False
) -> list[list[float]]:
    """Seconds per unit of work by features, one thread; rows_take: further seconds per row."""
    table = []
    for features in (CURVED if kind == "curvature" else WIDTHS)[storage.split(maxsplit=1)[0]]:
        rows, units = row_count(kind, storage, features)
        with make_group(storage, rows, features) as groups:
            problem = problem_of(groups, 1)
            whole = seconds(once(kind, penalise(problem) if with_penalty else problem))
        table.append([features, max((whole - rows * rows_take) / units, whole / units / 4)])
    return table


def by_loss(kind: str, layout: str) -> dict[str, float]:
    """Seconds per row in addition to its entries, by task: short rows show them best."""
    storage, wide = f"{layout} float32", layout == "sparse" and kind != "curvature"
    rows = ENTRIES // SPARSE_ROW
    features = (SIZED_WIDTH if wide else {"dense": 8, "sparse": 32})[layout]
    found = {}
    with make_group(storage, rows, features, SHORT_ROW) as groups:
        for task in LOSSES:
            found[task] = seconds(once(kind, problem_of(groups, 1, task))) / rows
    base = 0.0
    if wide:  # the squared loss's rows too take time: longer ones tell how much
        with make_group(storage, rows, features) as groups:
            long = seconds(once(kind, problem_of(groups, 1))) / rows
        an_entry = (long - found["linear"]) / (SPARSE_ROW - SHORT_ROW)
        base = max(found["linear"] - SHORT_ROW * an_entry, 0.0)
    least = found["linear"]
    return {task: base + max(took - least, 0.0) for task, took in found.items()}


def sizes_of(layout: str) -> dict[str, list[list[float]]]:
    """Rows of a table by kind: entries, the relative cost of an entry, two threads' speed-up."""
    storage, features = f"{layout} float32", SIZED_WIDTH[layout]
    each = SPARSE_ROW if layout == "sparse" else features
    kinds = [kind for kind in PASSES if layout == "dense" or kind != "curvature"]
    found: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
    alone = dict.fromkeys(kinds, 0.0)
    for entries in sorted({*SIZES[layout], ENTRIES}):
        with make_group(storage, entries // each, features) as groups:
            for kind in kinds:
                one = seconds(once(kind, problem_of(groups, 1))) / entries
                if entries == ENTRIES:
                    alone[kind] = one
                found[kind].append([entries, one, speedup(kind, groups, one * entries)])
    for kind, points in found.items():
        for point in points:
            point[1] = min(max(point[1] / alone[kind], 0.5), 4.0)
    return found


def speedup(kind: str, groups: NDArray[np.void], one: float) -> float:
    """The speed-up of two threads on rows that take one thread `one` seconds."""
    if budget.threads() < 2:
        return 1.8  # nothing to measure on, nothing to decide
    return min(max(one / seconds(once(kind, problem_of(groups, 2))), 0.5), 2.0)


def steps() -> dict[str, list[list[float]]]:
    """Seconds of an iteration on rows that take no time, by weights."""
    found: dict[str, list[list[float]]] = {}
    for algorithm in REGISTERED:
        for n in algorithm.step_widths:
            for name, took in algorithm.steps(step_seconds(algorithm, n)).items():
                found.setdefault(name, []).append([n + 1, took])
    return found


def step_seconds(algorithm: Algorithm, features: int) -> list[float]:
    """The median seconds of each iteration of a training on 16 rows."""
    storage = algorithm.step_storage
    told = (
        f'{{"algorithm": "{algorithm.name}", "epsilon": 0, "max_iter": {ITERATIONS}, "l2": 0.1}}'
    )
    options = parse(told)
    with make_group(storage, 16, features) as groups:
        problem = replace(problem_of(groups, 1, "logistic"), l2=0.1)
        plan = choose(problem.task, options, Statistics(16, features, problem.rows.sparse))
        start: Floats = np.zeros((1, features + 1))
        operators = algorithm.operators(problem, plan, start, None)
        runs = []
        for _ in range(RUNS):
            times: list[float] = []

            def loop(state: State, times: list[float] = times) -> bool:
                times.append(time.perf_counter())
                return operators.loop(state)

            run(problem, replace(operators, loop=loop))
            runs.append(np.diff(times))
        ended = min(len(run) for run in runs)
        return [float(one) for one in np.median([run[:ended] for run in runs], axis=0)]


def looks() -> dict[str, float]:
    """The work before any plan starts: seconds per row, or per entry."""
    found = {}
    with make_group("dense float32", 1 << 14, 32) as groups:
        for name, task in (("labels", "linear"), ("classes", "logistic")):
            found[name] = seconds(problem_of(groups, 1, task).rows.labels) / (1 << 14)
        rows = problem_of(groups, 1).rows
        found["moments"] = seconds(lambda: rows.feature_moments(1 << 14)) / (1 << 19)
    with make_group("sparse float32", 1 << 14, 8192) as groups:
        entries = SPARSE_ROW << 14
        found["counts"] = seconds(problem_of(groups, 1).rows.feature_counts) / entries
    return found


def measure(tell: Tell = lambda _: None) -> dict[str, Any]:
    """Measures all constants, as `optimizer.constants.parse` reads them; tell: receives the name
    of each.
    """
    passes: dict[str, dict[str, list[list[float]]]] = {}
    with_penalty: dict[str, dict[str, list[list[float]]]] = {}
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for kind in PASSES:
        tell(kind)
        rows[kind] = {layout: by_loss(kind, layout) for layout in LAYOUTS}
        beside = {s: rows[kind][s.split(maxsplit=1)[0]]["linear"] for s in STORAGE}
        passes[kind] = {s: pass_table(kind, s, beside[s]) for s in STORAGE}
        if kind in EPOCHS:
            with_penalty[kind] = {s: pass_table(kind, s, beside[s], True) for s in STORAGE[2:]}
    tell("sizes")
    by_size = {layout: sizes_of(layout) for layout in LAYOUTS}
    by_size["sparse"]["curvature"] = by_size["dense"]["curvature"]
    tell("steps")
    return {
        "version": VERSION,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": processor(),
        "cores": budget.processors(),
        "passes": passes,
        "penalised": with_penalty,
        "rows": rows,
        "sizes": {kind: {at: by_size[at][kind] for at in LAYOUTS} for kind in PASSES},
        "steps": steps(),
        "looks": looks(),
        "store": requests(),
    }


def requests() -> list[float]:
    """Seconds of a request to a store in the user's cache folder, and of each of its weights."""
    from tuskml.kvstore import measure_store  # loads LevelDB

    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return list(astuple(measure_store(folder)))


def processor() -> str:
    """The model's name, where the system tells it."""
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        return "unknown"
