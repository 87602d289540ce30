"""Plans run by one thread on rows in memory, and the processor seconds that they took."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from truth_data import Rows

from tuskml.errors import TuskError
from tuskml.kernels import passes
from tuskml.kernels.passes import Pass
from tuskml.learners.learner import Request
from tuskml.learners.linear import training
from tuskml.learners.linear.algorithms import ALGORITHMS, REGISTERED
from tuskml.learners.linear.objective import describe, start
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner import choice, planning, sampling
from tuskml.learners.linear.planner.calibration import groups_of
from tuskml.learners.linear.planner.choice import Candidate, Choice
from tuskml.learners.linear.planner.curves import Question
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.tasks import LINEAR
from tuskml.learners.machine import constants

RUNS, SHORT = 3, 0.1
"""The number of runs, for those below so many seconds."""
AUTO_LIMIT = 60.0


@dataclass(frozen=True)
class Case:
    """A data set with a task and a tolerance, and its rows in the packers' layout."""

    name: str
    task: str
    epsilon: float
    l2: float
    groups: NDArray[np.void]
    segment: NDArray[np.uint64]
    condition: float | None = None

    def request(self, **more: Any) -> Any:
        options = {"epsilon": self.epsilon, "l2": self.l2} | more
        return Request(LINEAR[self.task], parse(json.dumps(options)))


def case_of(name: str, rows: Rows, task: str, epsilon: float, l2: float) -> Case:
    """The rows with the labels of a task."""
    label = rows.classes if LINEAR[task].classifies else rows.number
    if rows.dense is not None:
        storage, arrays, entries = "dense float32", [rows.dense], 0
    else:
        assert rows.sparse is not None
        storage, arrays, entries = "sparse float32", list(rows.sparse), len(rows.sparse[1])
    segment, groups = groups_of(label, arrays, entries, storage, rows.width)
    return Case(name, task, epsilon, l2, groups, segment)


def run_once(case: Case, algorithm: str, limit: float) -> dict[str, Any] | None:
    """A training by one algorithm; None where it cannot be."""
    asked = {"algorithm": algorithm, "time": f"{limit:f}s"}
    try:
        request = case.request(**asked)
        clock, began = time.perf_counter(), time.process_time()
        models = next(iter(training.train(case.groups, request, 0)))
        took, clock = time.process_time() - began, time.perf_counter() - clock
    except (TuskError, MemoryError):
        return None
    return {
        "seconds": took,
        "clock": clock,
        "iterations": int(models.iterations[0]),
        "converged": bool(models.converged[0]),
        "loss": float(models.loss[0]),
        "ended_by": json.loads(models.options.pool[models.options.code[0]])["algorithm"],
    }


def run(case: Case, algorithm: str, limit: float) -> dict[str, Any] | None:
    """Runs an algorithm; short runs are repeated, and the one of median seconds counts."""
    found = [run_once(case, algorithm, limit)]
    if found[0] is None:
        return None
    while found[0]["seconds"] < SHORT and len(found) < RUNS:
        found.append(run_once(case, algorithm, limit))
    return sorted((one for one in found if one), key=lambda one: one["seconds"])[len(found) // 2]


def beside(case: Case, best: str) -> dict[str, Any]:
    """auto and the best plan in turns, so that other work on the machine slows both alike."""
    found: dict[str, list[Any]] = {"auto": [], best: []}
    for _ in range(RUNS):
        for name, runs in found.items():
            runs.append(run_once(case, name, AUTO_LIMIT))
    by = {name: sorted(runs, key=lambda one: one["seconds"]) for name, runs in found.items()}
    return {"auto": by["auto"][RUNS // 2], "best": by[best][RUNS // 2]}


def planned(case: Case, best: str) -> dict[str, Any]:
    """Auto's choice for a case, its candidates' estimates, and the seconds of planning.

    best: the fastest plan; "" if only planning and auto are timed.
    """
    request = case.request()
    plan, question = planning.first_plan(case.groups, request)
    assert question is not None
    mark = passes.cancel_mark()
    rows = Pass(case.groups, request.task.loss, None, None, True, plan.threads, cancel_mark=mark)
    labels = rows.labels()
    with np.errstate(all="ignore"), passes.watching_sigint():
        problem = describe(rows, labels, plan, request)
        begin = start(problem, labels, request.options)
        chosen, seconds = decided(problem, begin, plan, question)
        if not best:
            return {"planning": seconds, "auto": run(case, "auto", AUTO_LIMIT)}
        seen = every_candidate(problem, begin, question, chosen)
    return {
        "chosen": chosen.plan.algorithm,
        "planning": seconds,
        "trials": list(chosen.known),
        "told": {one.plan.algorithm: estimate(one) for one in seen},
    } | beside(case, best)


def decided(problem: Problem, begin: Any, plan: Any, question: Question) -> tuple[Choice, float]:
    """The choice, and the processor seconds that it took: the median of a few."""
    runs = []
    for _ in range(RUNS):
        began = time.process_time()
        chosen = planning.decide(problem, begin, plan, question)
        runs.append(time.process_time() - began - taken_over(chosen))
    return chosen, sorted(runs)[len(runs) // 2]


def taken_over(chosen: Choice) -> float:
    """Seconds of planning that the training is spared, since it takes over their result."""
    used = ALGORITHMS[chosen.plan.family].begins_by_curvature
    return chosen.kept.seconds if chosen.kept is not None and used else 0.0


def every_candidate(problem: Problem, begin: Any, question: Question, chosen: Choice) -> Any:
    """The candidates of a choice, and those that were out of the question before."""
    seen = chosen.candidates
    if len(seen) == len(REGISTERED):
        return seen
    asked = chosen.asked
    if asked is None:
        asked = planning.with_rows_seen(problem, question)
        asked = sampling.add_sketch(problem, begin, asked, planning.most_overhead(seen))
    names = {one.plan.algorithm for one in seen}
    more = choice.assess(asked, constants.of_host(), chosen.known)
    return *seen, *(one for one in more if one.plan.algorithm not in names)


def estimate(one: Candidate) -> dict[str, Any]:
    """The estimates of a candidate."""
    return {
        "iterations": one.counted.point,
        "low": one.counted.low,
        "high": one.counted.high,
        "seconds": one.seconds.point,
        "tried": one.seen,
        "refused": one.refusal,
    }
