"""Plans that do not train on rows packed in memory, and why a call's rows do not train by them.

They are shown beside the others: what one of them would take, and what to ask for to get it.
"""

import math
from dataclasses import replace

from tuskml.optimizer.choice import Candidate
from tuskml.optimizer.constants import Constants
from tuskml.optimizer.costs import Cost, Costs, Question
from tuskml.optimizer.curves import Interval
from tuskml.optimizer.rule import Statistics
from tuskml.optimizer.space import candidate
from tuskml.optimizer.usual import usual
from tuskml.udas.plan import Plan

ELSEWHERE = ("stored", "row groups", "one pass", "gpu")
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
    own = candidate(question, "sgd")
    found = [stored(question, constants), row_groups(own), one_pass(own)]
    if gpu is not None:
        found.append(refused(own, "gpu", gpu))
    return tuple(found)


def refused(plan: Plan, name: str, why: str) -> Candidate:
    """A candidate that nothing is estimated for."""
    nothing, none = Cost(0.0, 0.0, 0.0, 0.0, 0.0), Interval(0.0, 0.0, 0.0)
    return Candidate(replace(plan, algorithm=name), nothing, none, 0.0, False, why)


def row_groups(own: Plan) -> Candidate:
    """Stochastic gradient descent that reads some row groups (`groups/streaming.py`)."""
    return refused(
        own,
        "row groups",
        "an aggregate is handed all rows; tuskml.train with algorithm 'sgd' on a table reads some",
    )


def one_pass(own: Plan) -> Candidate:
    """Stochastic gradient descent while rows arrive."""
    return refused(
        own,
        "one pass",
        "steps need the features' scales and the classes, which only all rows tell, and the "
        "models of several scanning threads do not combine into one",
    )


def stored(question: Question, constants: Constants) -> Candidate:
    """HogBatch on weights in a store (`groups/stored.py`), by the paper of KV-VP."""
    plan = replace(candidate(question, "hogbatch"), algorithm="stored")
    iterations = usual(question, candidate(question, "hogbatch"))
    seen = question.seen
    epoch = Costs(question, constants).rows_pass("hogbatch") if seen.sparse else 0.0
    requests = requests_of(seen)
    moved = 2 * (requests * SEEK_SECONDS + weights_read(seen) * WEIGHT_SECONDS)
    cost = Cost(0.0, epoch + moved, 0.0, 0.0, float(WEIGHT_BYTES * seen.n_features))
    return Candidate(plan, cost, iterations, 0.0, False, stored_refusal(question, requests))


def stored_refusal(question: Question, requests: float) -> str:
    """Why the weights do not go to a store."""
    seen = question.seen
    if not seen.sparse:
        return "a stored model needs sparse features"
    needed = in_memory(question)
    told = f"about {requests:,.0f} requests to the store an epoch"
    if needed <= BUDGET:
        return f"the weights fit in memory; option 'store' would take {told}"
    return (
        f"it needs a name: weights and moves take {needed / 2**30:,.1f} GiB here, with option "
        f"'store' {told}"
    )


def in_memory(question: Question) -> float:
    """Bytes that lbfgs, which trains wide sparse rows, keeps beside the rows."""
    return 30.0 * 8 * (question.seen.n_features + 1) * question.seen.groups


def chunks(seen: Statistics) -> float:
    """How many times an epoch asks the store for what the next rows need."""
    return max(4.0, seen.entries / CHUNK_ENTRIES)


def weights_read(seen: Statistics) -> float:
    """Weights an epoch reads: those of each chunk once."""
    return chunks(seen) * distinct(seen.entries / chunks(seen), seen.n_features)


def requests_of(seen: Statistics) -> float:
    """Requests an epoch makes to a store with a key a feature, the most that there can be.

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
