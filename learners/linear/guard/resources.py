"""What a running training may use, and what its candidates would take with that."""

import math
from dataclasses import dataclass, replace

from tuskml.learners.linear.estimates.question import Question
from tuskml.learners.linear.planner.choice import Candidate, Choice, assess, dependable
from tuskml.learners.linear.planner.costs import PlanCosts
from tuskml.optimizer import constants
from tuskml.optimizer.constants import Constants


@dataclass
class Resources:
    """What a training may use: threads, and bytes beside what it has.

    on_disk: bytes of spilled rows that memory does not hold, so that each pass reads them; free:
    bytes that the system has for files, or for what a plan that takes over keeps.
    """

    threads: int
    room: float
    on_disk: float = 0.0
    free: float = math.inf

    def changed_to(self, other: "Resources") -> str:
        """In words, for the model's plan."""
        told = []
        if self.threads != other.threads:
            told.append(f"share {self.threads} -> {other.threads}")
        if (self.on_disk > 0) != (other.on_disk > 0):
            told.append("rows " + ("memory -> disk" if other.on_disk else "disk -> memory"))
        memory = f"memory {mebibytes(self.room)} -> {mebibytes(other.room)} MiB"
        return " and ".join(told) or memory


def mebibytes(size: float) -> str:
    """So many, to the hundredth where they are few."""
    found = size / 2**20
    return f"{found:,.0f}" if found >= 1 else f"{found:.2f}"


def judge(chosen: Choice, question: Question, now: Resources) -> tuple[Candidate, ...]:
    """The candidates of a choice that are known well, at other resources. Reads and changes
    nothing else, as it may run in another thread than the training."""
    names = [one.plan.algorithm for one in chosen.candidates if dependable(one)]
    known = constants.of_host()
    asked = with_resources(question, now, known)
    found = assess(asked, known, chosen.known, names)
    common = PlanCosts(asked, known).common()
    return tuple(
        replace(one, cost=replace(one.cost, setup=max(one.cost.setup - common, 0.0)))
        for one in found
    )


def with_resources(question: Question, now: Resources, known: Constants) -> Question:
    """The question of a training that has these; passes that were timed take longer."""
    seen = replace(question.seen, on_disk=now.on_disk)
    asked = replace(question, threads=now.threads, seen=seen, spent=0.0)
    before, after = PlanCosts(question, known), PlanCosts(asked, known)
    timed = dict(question.measured)
    for name, one in timed.items():
        kind = name.removeprefix("pass ")
        if kind != name and one.failure is None:
            slower = before.speedup(kind) / after.speedup(kind)
            timed[name] = replace(one, iteration=slower * one.iteration)
    return replace(asked, measured=timed)
