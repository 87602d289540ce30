"""An explanation of a training as data: plan, candidates, and the actual costs."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.gpu import placement
from tuskml.kernels.segments import dense_bytes
from tuskml.learners import explaining
from tuskml.learners.explaining import format_explanation
from tuskml.learners.linear import gpu
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.planner.choice import (
    ALL_ROWS,
    ELSEWHERE,
    SHUFFLED,
    Candidate,
    Choice,
    SampleRun,
)
from tuskml.learners.linear.planner.curves import Curve, Interval, Question
from tuskml.learners.linear.planner.planning import (
    by_statistics,
)
from tuskml.learners.linear.request import Plan, Request
from tuskml.learners.linear.result import plan_line

CURVE_POINTS = 30


@dataclass(frozen=True)
class Actual:
    """The actual costs of a batch of groups: iterations (G,), seconds, and the number of groups
    that converged.
    """

    iterations: NDArray[np.int64]
    seconds: float
    converged: int

    @property
    def each(self) -> float:
        """Seconds an iteration; groups iterate together."""
        return self.seconds / max(1, int(self.iterations.max(initial=0)))

    def document(self) -> dict[str, Any]:
        """The costs as JSON."""
        return {
            "iterations": spread(self.iterations),
            "seconds_per_iteration": self.each,
            "seconds": self.seconds,
            "groups_converged": self.converged,
        }


def spread(counts: NDArray[np.int64]) -> dict[str, float]:
    """Least, mean and most of some counts."""
    return {
        "least": int(counts.min(initial=2**62)) if len(counts) else 0,
        "mean": float(counts.mean()) if len(counts) else 0.0,
        "most": int(counts.max(initial=0)),
    }


def objective(request: Request) -> str:
    """The objective as a formula."""
    options, task = request.options, request.task
    penalty = "".join(
        f" + {weight:g}{term}"
        for weight, term in ((options.l2 / 2, " ||w||^2"), (options.l1, " ||w||_1"))
        if weight
    )
    return f"mean {task.formula}{penalty}, m = w.x" + (" + b" if options.fit_intercept else "")


def row_order(plan: Plan) -> str:
    """Describes the order in which rows are read."""
    first = "by a hash of each row" if plan.canonical else "as delivered"
    if plan.sampler is not None:
        return f"{first}, then as the sampler {plan.sampler} takes them"
    return first + (", partitions shuffled each epoch" if plan.shuffle else "")


def device(groups: NDArray[np.void], request: Request) -> str | None:
    """The device of the kernels; None for small groups unless the option names it."""
    options = request.options
    small = groups["kind"][0] >= 2 or dense_bytes(groups) < placement.least_bytes()
    if small and "device" not in options.given:
        return None
    return gpu.answer(groups, request).describe(options.device)


def by_total(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    """Candidates by total seconds, possible ones first; those of packed rows before others."""

    def place(one: Candidate) -> tuple[bool, bool, float]:
        return one.refusal is not None, one.plan.algorithm in ELSEWHERE, one.seconds.point

    return sorted(candidates, key=place)


def document(
    groups: NDArray[np.void], request: Request, chosen: Choice, actual: Actual | None = None
) -> dict[str, Any]:
    """The explanation of one batch of groups, of JSON's types."""
    plan = chosen.plan
    return explaining.document(
        groups,
        request.task.name,
        objective(request),
        request.reading,
        plan={
            "algorithm": plan.algorithm,
            "description": plan_line(plan),
            "because": plan.reason,
            "order": row_order(plan),
            "threads": plan.threads,
            "max_iter": plan.max_iter,
            "epsilon": plan.epsilon,
            "converge": plan.converge,
            "time": request.options.time,
        },
        device=device(groups, request),
        cannot=chosen.note,
        candidates=[one_document(one, chosen) for one in by_total(chosen.candidates)],
        actual=None if actual is None else actual.document(),
        source=None if request.source is None else with_chosen(request.source, plan),
    )


def with_chosen(source: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """The plans that were compared before the rows were read, that which trains being marked."""
    names = plan.family + ALL_ROWS, f"{plan.family} eager {plan.sampler or SHUFFLED}"
    marked = [one | {"chosen": one["algorithm"] in names} for one in source["candidates"]]
    return dict(source) | {"candidates": marked}


def one_document(one: Candidate, chosen: Choice) -> dict[str, Any]:
    """One candidate: its estimated costs, or the reason why it is not possible."""
    possible, asked = one.refusal is None, one.store or {}
    seen = chosen.known.get(one.plan.algorithm)
    return {
        "algorithm": one.plan.algorithm,
        "chosen": one.plan.algorithm == chosen.plan.algorithm,
        "refusal": one.refusal,
        "iterations": ends(one.counted_iterations) if possible else None,
        "seconds_per_iteration": one.cost.iteration if possible else None,
        "seconds": ends(one.seconds) if possible else None,
        "memory_bytes": round(one.cost.memory) if possible else None,
        "store_requests": asked.get("store_requests", 0) if possible else None,
        "store_bytes": asked.get("store_bytes_read", 0) + asked.get("store_bytes_written", 0)
        if possible
        else None,
        "tried": None if seen is None else trial(seen, one.plan.epsilon),
    }


def ends(interval: Interval) -> dict[str, float]:
    """An interval."""
    return {"low": interval.low, "point": interval.point, "high": interval.high}


def trial(seen: SampleRun, epsilon: float) -> dict[str, Any]:
    """A candidate's run on a sample, and the curve that was fitted to it."""
    return {
        "share": seen.share,
        "errors": list(seen.curve.errors),
        "shape": seen.curve.shape,
        "curve": [list(point) for point in continue_curve(seen.curve, epsilon)],
    }


def continue_curve(curve: Curve, epsilon: float) -> list[tuple[float, float]]:
    """(iteration, error) on the fitted curve, from its first iteration to the tolerance."""
    last = curve.iterations(epsilon).point
    if curve.shape == "superlinear":
        return by_drops(curve, epsilon)
    first = 1.0 if curve.shape == "sublinear" else 0.0
    end = max(last, len(curve.errors) - 1.0, first + 1.0)
    if curve.shape == "sublinear":
        at = np.geomspace(first, end, CURVE_POINTS)
    else:
        at = np.linspace(first, end, CURVE_POINTS)
    x = np.log(at) if curve.shape == "sublinear" else at
    logs = curve.middle[1] - curve.rate * (x - curve.middle[0])
    return [(float(i), math.exp(float(e))) for i, e in zip(at, logs, strict=True)]


def by_drops(curve: Curve, epsilon: float) -> list[tuple[float, float]]:
    """The superlinear curve: it continues from the last error by growing drops."""
    number, at, drop = len(curve.errors) - 1, math.log(curve.errors[-1]), curve.middle[1]
    points = [(float(number), math.exp(at))]
    while at > math.log(epsilon) and len(points) < CURVE_POINTS:
        drop *= max(curve.rate, 1.0)
        number, at = number + 1, at - drop
        points.append((float(number), math.exp(max(at, -700.0))))
    return points


# The explanation of a finished training.


def explain_training(
    groups: NDArray[np.void],
    request: Request,
    chosen: Choice,
    question: Question | None,
    state: State,
    began: float,
) -> str:
    """The whole explanation of a batch's training, with its actual costs."""
    if question is not None and not chosen.candidates:  # it was instant anyway
        whole = by_statistics(chosen.plan, question)
        chosen = replace(chosen, candidates=whole.candidates)
    took = time.monotonic() - began
    actual = Actual(state.iterations, took, int(state.converged.sum()))
    return format_explanation(document(groups, request, chosen, actual), request.options.format)
