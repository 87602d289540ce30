"""What a training took: seconds of planning, and of an iteration, beside what was estimated."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tuskml.learners.linear.estimates.costs import Cost
from tuskml.learners.linear.estimates.question import Question
from tuskml.learners.linear.operators import Loop, Operators, State
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.planner.choice import Choice
from tuskml.learners.linear.planner.costs import PlanCosts
from tuskml.optimizer import constants
from tuskml.optimizer.constants import layout_of
from tuskml.optimizer.refinement import LEAST_SECONDS, key_of, report, reports_file


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
