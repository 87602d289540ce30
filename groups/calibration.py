"""Measures what the planner's constants say, on rows made up here. `tuskml calibrate` stores it.

A few seconds: each kernel on rows of a few megabytes, and each algorithm's work on weights on rows
so few that nothing else takes time. The least of several runs counts: what disturbs only adds.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.optimizer.constants import PASSES, STORAGE, VERSION
from tuskml.optimizer.rule import Statistics, choose, cores
from tuskml.udas.algorithms import ALGORITHMS
from tuskml.udas.algorithms.sgd import epoch_of
from tuskml.udas.kernels import GROUP, KINDS, Floats, Pass, address_of
from tuskml.udas.operators import run
from tuskml.udas.options import parse
from tuskml.udas.problem import Problem
from tuskml.udas.tasks import TASKS

ENTRIES = 1 << 20
WIDTHS = {"dense": (8, 32, 128, 512), "sparse": (128, 8192, 1 << 19)}
CURVED = {"dense": (8, 32, 128, 512), "sparse": (32, 128, 512)}
TRIANGLES = 1 << 25
SPARSE_ROW = 32
"""Entries of a sparse row."""
STEP_WIDTHS = {"lbfgs": (8, 1024, 1 << 16, 1 << 19), "newton": (8, 64, 256, 512)}
STEP_WIDTHS["bgd"] = STEP_WIDTHS["lbfgs"]
RUNS = 3
Tell = Callable[[str], None]


@contextmanager
def made(storage: str, rows: int, features: int) -> Iterator[NDArray[np.void]]:
    """One group of such rows, labels 0 and 1, in the layout of `udas/rowblock/rowblock.h`."""
    rng = np.random.default_rng(rows + features)
    dtype = np.float32 if storage.endswith("32") else np.float64
    labels = (rng.random(rows) < 0.5).astype(np.float64)
    entries = 0
    if storage.startswith("sparse"):
        entries = rows * min(SPARSE_ROW, features)
        start = np.arange(rows + 1, dtype=np.uint32) * min(SPARSE_ROW, features)
        index = rng.integers(0, features, entries, dtype=np.int32)
        arrays = [start, index, rng.random(entries, np.float32).astype(dtype)]
    else:
        arrays = [rng.standard_normal((rows, features), np.float32).astype(dtype)]
    head = np.zeros(4, np.uint64)
    head[2:] = np.array([rows, rows, entries, entries], np.uint32).view(np.uint64)
    pieces = [piece.tobytes() for piece in (head, labels, *arrays)]
    whole = b"".join(piece + bytes(-len(piece) % 8) for piece in pieces)
    segment = np.frombuffer(whole, np.uint64).copy()
    yield np.array([(address_of(segment), rows, 0, features, KINDS.index(storage))], GROUP)
    del segment  # alive until here


def problem_of(groups: NDArray[np.void], threads: int) -> Problem:
    """Logistic regression on one group, unscaled."""
    rows = Pass(groups, TASKS["logistic"].loss, np.ones(1), None, True, threads)
    d = rows.n_features
    frequency = np.full((1, d), 0.5) if rows.sparse else None
    return Problem(rows, TASKS["logistic"], 0.0, 0.0, np.zeros((1, d)), np.ones((1, d)), frequency)


def seconds(work: Callable[[], object]) -> float:
    """The least of a few runs."""
    best = np.inf
    for _ in range(RUNS):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return max(best, 1e-9)


def once(kind: str, problem: Problem) -> Callable[[], object]:
    """One pass or epoch of a kind."""
    v = np.zeros((1, problem.d + 1))
    rows = problem.rows
    if kind == "gradient":
        return lambda: rows.gradient(v)
    if kind == "curvature":
        return lambda: rows.curvature(v, problem.shift, problem.scale, False)
    options = parse(f'{{"algorithm": "{kind}"}}')
    plan = choose(problem.task, options, Statistics(1, problem.d, rows.sparse))
    epoch = epoch_of(problem, plan, np.full(1, 1e-6), 0.0)
    mean = None if rows.sparse else np.empty_like(v)
    if kind == "svrg":
        return lambda: rows.svrg(epoch, v, v, v.copy(), np.empty_like(v))
    return lambda: rows.sgd(epoch, v.copy(), mean, kind in ("hogwild", "hogbatch"))


def row_count(kind: str, storage: str, features: int) -> tuple[int, float]:
    """How many rows to measure on, and how many units of work they are."""
    p = features + 1
    if kind == "curvature":
        rows = max(256, TRIANGLES * 2 // p**2)
        return min(rows, 1 << 16), min(rows, 1 << 16) * p * (p + 1) / 2
    each = min(SPARSE_ROW, features) if storage.startswith("sparse") else features
    return ENTRIES // each, float(ENTRIES // each * each)


def pass_table(kind: str, storage: str) -> list[list[float]]:
    """Seconds a unit of work by features, of one thread."""
    table = []
    for features in (CURVED if kind == "curvature" else WIDTHS)[storage.split(maxsplit=1)[0]]:
        rows, units = row_count(kind, storage, features)
        with made(storage, rows, features) as groups:
            table.append([features, seconds(once(kind, problem_of(groups, 1))) / units])
    return table


def scaling_of(kind: str) -> float:
    """How many threads' work two threads do."""
    if cores() < 2:
        return 1.8  # nothing to measure on, nothing to decide
    rows, _ = row_count(kind, "dense float32", 32)
    with made("dense float32", 2 * rows, 32) as groups:
        one, two = (seconds(once(kind, problem_of(groups, n))) for n in (1, 2))
    return min(max(one / two, 1.0), 2.0)


def step_table(algorithm: str) -> list[list[float]]:
    """Seconds of an iteration on rows that take no time, by weights."""
    return [[n + 1, step_seconds(algorithm, n)] for n in STEP_WIDTHS[algorithm]]


def step_seconds(algorithm: str, features: int) -> float:
    """Of a few iterations on 16 rows, a step."""
    storage = "dense float64" if algorithm == "newton" else "sparse float64"
    task = TASKS["logistic"]
    options = parse(f'{{"algorithm": "{algorithm}", "epsilon": 0, "max_iter": 6, "l2": 0.1}}')
    with made(storage, 16, features) as groups:
        problem = replace(problem_of(groups, 1), l2=0.1)
        plan = choose(task, options, Statistics(16, features, problem.rows.sparse))
        start: Floats = np.zeros((1, features + 1))
        operators = ALGORITHMS[algorithm](problem, plan, start, None)
        best = np.inf
        for _ in range(2):
            began = time.perf_counter()
            state = run(problem, operators)
            best = min(best, (time.perf_counter() - began) / max(state.iteration, 1))
    return best


def measure(tell: Tell = lambda _: None) -> dict[str, Any]:
    """All constants, as `optimizer.constants.parse` reads them; tell hears what is measured."""
    passes: dict[str, dict[str, list[list[float]]]] = {}
    for kind in PASSES:
        tell(kind)
        passes[kind] = {storage: pass_table(kind, storage) for storage in STORAGE}
    tell("steps")
    return {
        "version": VERSION,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": processor(),
        "cores": cores(),
        "passes": passes,
        "steps": {name: step_table(name) for name in STEP_WIDTHS},
        "scaling": {kind: scaling_of(kind) for kind in PASSES},
    }


def processor() -> str:
    """The model's name, where the system tells it."""
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        return "unknown"
