"""The cost of whole plans: what their algorithms put together, and what trainings reported."""

import math
from dataclasses import replace

from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.estimates.costs import LOSS_ALONE, TYPICAL, Cost, Costs
from tuskml.learners.linear.estimates.question import Measured, Question
from tuskml.learners.linear.plan import Plan

SAMPLING, BOUNDED = 3.0, 0.4
"""Standard errors of a mean, about the largest of a gradient's; the deviation of a derivative that
is at most 1, about."""


class PlanCosts(Costs):
    """The costs of one question's plans, by a machine's constants."""

    def of(self, plan: Plan, iterations: float = TYPICAL, on_sample: float = 0.0) -> Cost:
        """A plan's cost, an iteration's being the mean of about so many."""
        timed = self.question.measured.get(plan.algorithm)
        if timed is not None:
            return self._timed(plan, timed)
        cost = self.unrefined(plan, iterations, on_sample)
        if not self.constants.factors:
            return cost
        seen = self.question.seen
        by = self.constants.factor(plan.algorithm, seen.storage, seen.entries)
        return replace(cost, iteration=by * cost.iteration, sampled=by * cost.sampled)

    def unrefined(self, plan: Plan, iterations: float, on_sample: float) -> Cost:
        """The same without what trainings reported."""
        return ALGORITHMS[plan.family].cost(self, plan, iterations, on_sample)

    def _timed(self, plan: Plan, timed: Measured) -> Cost:
        """Of an algorithm of the user's own."""
        last = 2 * LOSS_ALONE * self.rows_pass("gradient") + self.inference(fresh=0.0)
        setup, memory = self.common() + timed.setup, ALGORITHMS[plan.family].memory(self)
        return Cost(setup, timed.iteration, last, 0.0, memory)


def sampling_error(question: Question, plan: Plan) -> float:
    """The gradient on all rows where the sample's vanishes; infinite without a sample."""
    if plan.sample_stride <= 1:
        return math.inf
    deviation = BOUNDED if question.task.classifies else 1.0
    rows = question.seen.most_rows / plan.sample_stride
    return SAMPLING * deviation / math.sqrt(max(rows, 1))
