"""Reports of a training: plan, options in force, progress, seconds against those estimated."""

import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tuskml.kernels.passes import Meter
from tuskml.learners import events
from tuskml.learners.explaining.shown import shown_seconds
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.inference.names import CLASSIC
from tuskml.learners.linear.operators import Loop, Operators, State
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.planner.candidates import PlanCosts
from tuskml.learners.linear.planner.choice import Choice
from tuskml.learners.linear.planner.cost import LOSS_ALONE, Cost
from tuskml.learners.linear.planner.iterations import Point, iterations_left
from tuskml.learners.linear.planner.question import Question
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import LinearOptions
from tuskml.learners.machine import constants
from tuskml.learners.machine.constants import (
    LEAST_SECONDS,
    key_of,
    layout_of,
    report,
    reports_file,
)
from tuskml.learners.models import FORMAT
from tuskml.learners.options.kinds import ByClass
from tuskml.schedule import devices


@dataclass
class Stamped:
    """Loop: as the inner one, noting when the first iteration began and the last one ended."""

    inner: Loop
    began: float = 0.0
    ended: float = 0.0

    def __call__(self, state: State) -> bool:
        self.ended = time.monotonic()
        if state.iteration == 0:
            self.began = self.ended
        return self.inner(state)


@dataclass
class Timing:
    """Of one training: iterations and their seconds, on a sample of the rows and on all."""

    planning: float = 0.0
    iterations: int = 0
    seconds: float = 0.0
    on_sample: int = 0
    sampled: float = 0.0
    expected: Cost | None = None
    given_up: list[dict[str, Any]] = field(default_factory=list)
    """Plans before the one that ended the training."""

    def watched(self, operators: Operators) -> tuple[Operators, Stamped]:
        """The same operators, and the clock in their loop."""
        clock = Stamped(operators.loop)
        return replace(operators, loop=clock), clock

    def add(self, state: State, clock: Stamped, on_sample: bool) -> None:
        """Counts a stage that ended."""
        took = clock.ended - clock.began
        if on_sample:
            self.on_sample += state.iteration
            self.sampled += took
        else:
            self.iterations += state.iteration
            self.seconds += took

    @property
    def each(self) -> float | None:
        """Seconds of an iteration on all rows; None where there was none."""
        return self.seconds / self.iterations if self.iterations else None

    def planned(self, chosen: Choice, seconds: float) -> None:
        """Notes what was expected of the plan, and what planning took."""
        self.planning = seconds
        if chosen.plan.estimated is not None:
            self.expected = cost_of(chosen)

    def switched(self, chosen: Choice, before: str, estimated: float | None = None) -> None:
        """Begins again with another plan; keeps what the one before it took."""
        took: dict[str, Any] = {
            "algorithm": before,
            "iterations": self.iterations + self.on_sample,
        }
        if estimated is not None:
            took["iterations_estimated"] = round(estimated)
        took["seconds"] = digits(self.seconds + self.sampled)
        self.given_up.append(took)
        self.iterations, self.seconds, self.on_sample, self.sampled = 0, 0.0, 0, 0.0
        self.expected = cost_of(chosen)

    def report(self, plan: Plan, question: Question | None) -> None:
        """Tells the planner what an iteration took, where this host wants to know."""
        if question is None or question.options.ordered or self.seconds < LEAST_SECONDS:
            return
        known = constants.of_host()
        if not known.refine or not self.iterations:
            return
        seen, costs = question.seen, PlanCosts(question, known)
        told = costs.unrefined(plan, self.iterations, self.on_sample).iteration
        key = key_of(plan.algorithm, layout_of(seen.storage), seen.entries)
        report(reports_file(Path(known.source)), key, self.seconds / self.iterations / told)

    def shown(self) -> dict[str, Any]:
        """For a model's options, where there are estimates to compare with."""
        if self.expected is None:
            return {}
        found: dict[str, Any] = {"planning": digits(self.planning)}
        if self.given_up:
            found["given_up"] = self.given_up
        stages = (
            ("all rows", self.iterations, self.seconds, self.expected.iteration),
            ("sample", self.on_sample, self.sampled, self.expected.sampled),
        )
        for name, iterations, seconds, expected in stages:
            if iterations:
                found[name] = {
                    "iterations": iterations,
                    "each": digits(seconds / iterations),
                    "each_estimated": digits(expected),
                }
        return {"actual": found}


def cost_of(chosen: Choice) -> Cost:
    """What the choice expects of its plan."""
    name = chosen.plan.algorithm
    return next(one.cost for one in chosen.candidates if one.plan.algorithm == name)


def digits(seconds: float) -> float:
    """Three digits."""
    return float(f"{seconds:.3g}")


# How far a stage of a linear training is, by its errors, for the host's list of trainings.

FEWEST = 3
"""Errors that tell something."""


@dataclass
class Telling:
    """Loop: as the inner one, telling how far the stage is; before: iterations of earlier ones."""

    inner: Loop
    problem: Problem
    plan: Plan
    pace: events.Pace
    meter: Meter
    before: int
    points: list[Point] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def __call__(self, state: State) -> bool:
        if state.running.any() and self.pace.is_due():
            self.points.append((state.iteration, float(state.violation[state.active].max())))
            self.tell(state)
        return self.inner(state)

    def tell(self, state: State) -> None:
        """TurnError with the weights, where the training loses its turn at the GPU, or gets it."""
        part = self.part(state)
        try:
            self.pace.tell(part, self.passes(state))
            if devices.hopes():
                devices.look(self.seconds_left(state, part))
        except devices.TurnError as turn:
            turn.weights = self.problem.to_caller(state.v)
            turn.iterations = self.before + state.iteration
            raise

    def seconds_left(self, state: State, part: float) -> float:
        """At the pace of this stage; 0 where nothing tells. part: of the work that is done."""
        if not (state.iteration and part > 0):
            return 0.0
        each = (time.monotonic() - self.began) / state.iteration
        return each * (self.before + state.iteration) * (1 - part) / part

    def part(self, state: State) -> float:
        """Of the iterations that the stage is expected to take, how many were made."""
        made = self.before + state.iteration
        if self.plan.epsilon == 0:
            return made / self.plan.max_iter
        if state.iteration and len(self.points) >= FEWEST:
            goal = self.plan.epsilon
            return made / (made + min(iterations_left(self.points, goal), self.plan.max_iter))
        expected = self.plan.max_iter if self.plan.estimated is None else self.plan.estimated[0]
        return made / max(expected, made + 1)

    def passes(self, state: State) -> float:
        """Over all rows, at least one an iteration: some kernels make several and count none."""
        iterations = float(self.before + state.iteration)
        if ALGORITHMS[self.plan.family].stochastic:
            return iterations
        made = self.meter
        counted = made.gradients + LOSS_ALONE * made.losses + made.curvatures + made.products
        return max(iterations, counted)


def telling(operators: Operators, problem: Problem, plan: Plan, before: int) -> Operators:
    """The same operators on a problem, whose rows have a meter, after so many iterations."""
    rows, meter = problem.rows, problem.rows.meter
    if rows.stride > 1 or meter is None:
        return operators
    pace = events.Pace(problem.n_groups, int(rows.groups["n_rows"].sum()))
    return replace(operators, loop=Telling(operators.loop, problem, plan, pace, meter, before))


# What a model says of its training: a line on the plan, and the options that were in force.


def plan_line(plan: Plan) -> str:
    """One line for the model's `plan`."""
    algorithm = ALGORITHMS[plan.family]
    parts = [plan.algorithm if plan.base is None else f"{plan.algorithm} (of {plan.base})"]
    if plan.after is not None:
        parts.append(plan.after)
    if algorithm.batched:
        parts.append(f"batches of {plan.batch_size}")
    if algorithm.stepped:
        parts.append(f"step {plan.schedule}")
    parts += [f"{kind} {name}" for kind, name in plan.own_parts()]
    if plan.sample_stride > 1:
        parts.append(f"started on 1/{plan.sample_stride} of the rows")
    if len(plan.smoothing) > 1:
        parts.append(f"hinge smoothed down to {plan.smoothing[-1]:g}")
    parts.append("1 thread" if plan.threads == 1 else f"{plan.threads} threads")
    if plan.device is not None:
        parts.append(f"on {plan.device}")
    if plan.estimated is not None:
        iterations, seconds = plan.estimated
        parts.append(f"estimated {iterations:.0f} iterations, {shown_seconds(seconds)}")
    if plan.unmet is not None:
        parts.append(f"{plan.unmet} is too little for epsilon {plan.epsilon:g}")
    return ", ".join(parts)


def resolved(options: LinearOptions, plan: Plan, more: dict[str, Any] | None = None) -> str:
    """The options that were in force, as JSON; the version comes first, where `predict` looks.

    more: members of a stored model.
    """
    shown: dict[str, Any] = {
        "tuskml": FORMAT,
        "algorithm": plan.algorithm,
        "max_iter": plan.max_iter,
        "epsilon": plan.epsilon,
        "converge": plan.converge,
        "l1": options.l1,
        "l2": options.l2,
        "fit_intercept": options.fit_intercept,
        "threads": plan.threads,
        "seed": options.seed,
        "deterministic": options.ordered,
    }
    shown |= dict(plan.own_parts())
    if ALGORITHMS[plan.family].sets_steps:
        shown |= {"step": plan.step, "schedule": plan.schedule, "batch_size": plan.batch_size}
    if plan.device is not None:
        shown["device"] = "gpu"
    if plan.estimated is not None:
        iterations, seconds = plan.estimated
        shown["estimated"] = {
            "iterations": round(iterations),
            "seconds": float(f"{seconds:.2g}"),
        }
    if options.class_weight is not None:
        shown["class_weight"] = shown_weights(options.class_weight)
    if options.classes is not None:
        shown["classes"] = getattr(options.classes, "names", options.classes)
    if options.covariance != CLASSIC:
        shown["covariance"] = options.covariance
    if options.cluster is not None:
        shown["cluster"] = options.cluster
    if options.validation:
        shown["validation"] = options.validation
    return json.dumps(shown | (more or {}), separators=(",", ":"))


def shown_weights(weight: str | tuple[float, ...]) -> Any:
    """Class weights as the option has them."""
    if not isinstance(weight, ByClass):
        return weight
    if weight.are_text:
        return weight.by_name
    return {f"{one:.17g}": of_one for one, of_one in zip(weight.classes, weight, strict=True)}
