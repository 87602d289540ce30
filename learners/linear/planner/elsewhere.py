"""Plans that do not train on rows packed in memory, and why a call's rows do not train by them.

They are shown beside the others: what one of them would take, and what to ask for to get it.
"""

import math
from dataclasses import replace

from tuskml.learners.explaining.shown import shown_seconds
from tuskml.learners.linear.algorithms import (
    ALGORITHMS,
    BY_SAMPLER,
    LAST_CHOICE,
    STORED,
    UNASKED,
)
from tuskml.learners.linear.estimates.costs import Cost, Costs
from tuskml.learners.linear.estimates.question import Question, Statistics
from tuskml.learners.linear.estimates.ways import Way, drawing, seconds, ways
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.planner.choice import Candidate, rounded
from tuskml.learners.linear.planner.costs import PlanCosts
from tuskml.learners.linear.planner.space import candidate, why_not
from tuskml.optimizer.constants import Constants
from tuskml.optimizer.curves import Interval, decades

WAYS = tuple(way for one in (UNASKED, BY_SAMPLER) for way in ways(one.name))
"""Those of ML4all's eleven plans (figure 5) that packed rows do not train by unasked."""
ELSEWHERE = ("stored", "one pass", *(way.name for way in WAYS), "gpu")
CHUNK_ENTRIES = 1 << 20
"""Entries of the rows that a stored model's training reads the store for at a time."""
SEEK_SECONDS, WEIGHT_SECONDS = 0.83e-6, 0.86e-9
"""Of a request to a store in memory and of each weight it brings (`partitioner/cost.py`)."""
WEIGHT_BYTES = 4
BUDGET = float(4 << 30)
"""Bytes for weights and what is kept beside them, beyond which a stored model is advised."""


def assess_elsewhere(
    question: Question, constants: Constants, gpu: str | None
) -> tuple[Candidate, ...]:
    """The candidates that are not for packed rows, all of them refused with a reason.

    gpu: why these rows do not train on the GPU; None where they do.
    """
    own = candidate(question, BY_SAMPLER.name)
    found = [stored(question, constants), one_pass(own)]
    plain = rounded(question) if question.options.ordered else question
    costs = PlanCosts(plain, constants)
    found += [another_way(way, plain, costs) for way in WAYS]
    if gpu is not None:
        found.append(refused(own, "gpu", gpu))
    return tuple(found)


def another_way(way: Way, question: Question, costs: PlanCosts) -> Candidate:
    """One of the eleven plans: what it would take, and why it does not train these rows."""
    plan, algorithm = candidate(question, way.algorithm), ALGORITHMS[way.algorithm]
    why = why_not(question, plan, algorithm.memory(costs))
    if why is not None:
        return refused(plan, way.name, why)
    epochs = algorithm.usual(question, decades(plan.epsilon))
    if epochs.low > plan.max_iter:
        why = f"{epochs.low:,.0f} iterations or more, max_iter is {plan.max_iter:,}"
        return refused(plan, way.name, why)
    took, share = seconds(way, question, costs.of(plan, epochs.point), epochs.point)
    if way.lazy:
        why = (
            f"about {shown_seconds(took)} and {share:.0%} of the reading, but these rows are "
            "packed already; train(...) on a table or on Parquet files reads what it needs"
        )
    else:
        more = shown_seconds(drawing(way, question))
        why = (
            f"about {shown_seconds(took)}: to draw rows takes {more} an epoch more than shuffled "
            "partitions take (option 'sampler' asks for it)"
        )
    return refused(plan, way.name, why)


def refused(plan: Plan, name: str, why: str) -> Candidate:
    """A candidate that nothing is estimated for."""
    nothing, none = Cost(0.0, 0.0, 0.0, 0.0, 0.0), Interval(0.0, 0.0, 0.0)
    return Candidate(replace(plan, algorithm=name), nothing, none, 0.0, False, why)


def one_pass(own: Plan) -> Candidate:
    """Stochastic gradient descent while rows arrive."""
    return refused(
        own,
        "one pass",
        "steps need the features' scales and the classes, which are known only after all rows, "
        "and the models of several scanning threads cannot be combined",
    )


def stored(question: Question, constants: Constants) -> Candidate:
    """HogBatch on weights in a store (`stored/training.py`), by the paper of KV-VP."""
    plan = candidate(question, STORED.name)
    iterations = STORED.usual(question, decades(plan.epsilon))
    plan = replace(plan, algorithm="stored")
    seen = question.seen
    epoch = Costs(question, constants).rows_pass(STORED.name) if seen.sparse else 0.0
    requests = requests_of(seen)
    moved = 2 * (requests * SEEK_SECONDS + weights_read(seen) * WEIGHT_SECONDS)
    cost = Cost(0.0, epoch + moved, 0.0, 0.0, float(WEIGHT_BYTES * seen.n_features))
    return Candidate(plan, cost, iterations, 0.0, False, stored_refusal(question, requests))


def stored_refusal(question: Question, requests: float) -> str:
    """Why the weights do not go to a store."""
    seen = question.seen
    if not seen.sparse:
        return "with option 'store' dense features train in memory, and the weights are stored"
    needed = in_memory(question)
    told = f"about {requests:,.0f} requests to the store per epoch"
    if needed <= BUDGET:
        return f"the weights fit in memory; option 'store' would take {told}"
    return (
        f"weights and moves take {needed / 2**30:,.1f} GiB in memory; option 'store' would take "
        f"{told}"
    )


def in_memory(question: Question) -> float:
    """Bytes that the rule's choice for wide sparse rows keeps beside the rows."""
    return float(LAST_CHOICE.vectors) * 8 * (question.seen.n_features + 1) * question.seen.groups


def chunks(seen: Statistics) -> float:
    """How many times an epoch asks the store for what the next rows need."""
    return max(4.0, seen.entries / CHUNK_ENTRIES)


def weights_read(seen: Statistics) -> float:
    """Weights an epoch reads: those of each chunk once."""
    return chunks(seen) * distinct(seen.entries / chunks(seen), seen.n_features)


def requests_of(seen: Statistics) -> float:
    """Requests an epoch makes to a store with one key per feature, the most possible.

    How much fewer they are where features share keys, only the partitioner knows.
    """
    return weights_read(seen)


def distinct(entries: float, features: int) -> float:
    """Different features among so many entries, by Zipf's law: the r-th has a share of 1 / r.

    Features are seen for sure up to rank m = entries / log features; beyond, each as often as
    it is expected to be.
    """
    if features < 2:
        return float(min(entries, features))
    log = math.log(features)
    sure = entries / log
    if sure >= features:
        return min(float(features), entries)
    if sure <= 1:
        return entries
    return min(float(features), entries, sure + entries * (1 - math.log(sure) / log))
