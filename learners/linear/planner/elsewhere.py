"""Plans that do not train on rows packed in memory, and why a call's rows do not train by them.

They are shown beside the others: what one of them would take, and what to ask for to get it.
"""

import math
from dataclasses import replace

from tuskml.learners.linear.algorithms import BY_SAMPLER, LAST_CHOICE, STORED
from tuskml.learners.linear.estimates.costs import Cost, Costs
from tuskml.learners.linear.estimates.question import Question, Statistics
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.planner.choice import Candidate
from tuskml.learners.linear.planner.space import candidate
from tuskml.optimizer.constants import Constants
from tuskml.optimizer.curves import Interval, decades

AXES = {
    "lazy transform": "an aggregate gets rows that are evaluated and packed; train(...) on a "
    "table evaluates those that it reads",
    "bernoulli": "each step takes rows from all over the memory; shuffled partitions cost less "
    "and leave no row out (option 'sampler' asks for it)",
    "random-partition": "rows come again before others have come; in memory shuffled partitions "
    "cost no more (option 'sampler' asks for it)",
}
"""Transforms and samplers of ML4all's eleven plans (figure 5 of the paper) that are pointless
where rows are packed in memory, and why."""
ELSEWHERE = ("stored", "row groups", "one pass", *AXES, "gpu")
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
    found = [stored(question, constants), row_groups(own), one_pass(own)]
    found += [refused(own, name, why) for name, why in AXES.items()]
    if gpu is not None:
        found.append(refused(own, "gpu", gpu))
    return tuple(found)


def refused(plan: Plan, name: str, why: str) -> Candidate:
    """A candidate that nothing is estimated for."""
    nothing, none = Cost(0.0, 0.0, 0.0, 0.0, 0.0), Interval(0.0, 0.0, 0.0)
    return Candidate(replace(plan, algorithm=name), nothing, none, 0.0, False, why)


def row_groups(own: Plan) -> Candidate:
    """Stochastic gradient descent that reads some row groups (`streamed/training.py`)."""
    return refused(
        own,
        "row groups",
        f"an aggregate gets all rows; train(...) with algorithm '{own.algorithm}' on a table "
        "reads some",
    )


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
