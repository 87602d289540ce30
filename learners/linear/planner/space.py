"""The plans that might train a batch, and why some of them cannot.

ML4all (section 6 and figure 5 of the paper) has eleven plans: BGD; MGD and SGD by eager or lazy
transformation and by Bernoulli, random-partition or shuffled-partition sampling, but not lazily by
Bernoulli's. All of them can be asked for (options `transform` and `sampler`). To transform is to
evaluate and pack rows: eagerly all of them, lazily those that a training by row group reads
(`streamed/`); kernels centre and scale what they read in any case. Rows that an aggregate was
given are packed already, which leaves `auto` one sampler:

* Bernoulli sampling takes each step's rows from all over the memory: it spares nothing there.
* A random partition that is drawn again and again differs from a shuffled one by rows that are
  seen twice or never: in memory, where going on to the next partition costs nothing, shuffling is
  at least as good.

So MGD and SGD come once, by the shuffled partitions; beyond the paper there are L-BFGS, Newton's
method with and without its systems, SVRG, dual coordinate descent, line search in BGD, and SGD and
MGD by several threads without locks.
"""

from tuskml.learners.linear.algorithms import ALGORITHMS as BUILT_IN
from tuskml.learners.linear.algorithms.parts.algorithm import Algorithm
from tuskml.learners.linear.estimates.question import Question
from tuskml.learners.linear.own.operators import ALGORITHMS, steps_in_python
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.planner.rule import choose

CURVATURE = "pass curvature"
"""What a pass for the curvature is among what was measured."""
FEW_GROUPS = 32
"""Whose epochs leave most of a GPU idle."""


def families(question: Question) -> tuple[str, ...]:
    """The algorithms that may be candidates: tuskml's own, and the user's."""
    return (*BUILT_IN, *(name for name, own in ALGORITHMS.items() if own.candidate))


def takes_trial(question: Question, name: str) -> bool:
    """Whether only a trial tells what it costs: its steps are Python's."""
    return name in ALGORITHMS or steps_in_python(name, None, question.task.general)


def by_trial(question: Question) -> list[str]:
    """Those that may be candidates whose cost only a trial tells."""
    return [
        name
        for name in families(question)
        if takes_trial(question, name) and not never_tried(question, name)
    ]


def never_tried(question: Question, name: str) -> bool:
    """tuskml's own stochastic algorithms with one of its own tasks whose steps are not compiled.

    Compiled passes over all rows win, and the trial would take longer than many a training.
    """
    return name not in ALGORITHMS and question.task.own is None


def untimed(question: Question, plan: Plan) -> str | None:
    """Why what takes a trial is no candidate."""
    timed = question.measured.get(plan.algorithm)
    if timed is not None:
        return timed.failure
    if never_tried(question, plan.algorithm):
        return "its steps run in Python with this task, to be asked for"
    if question.options.ordered:
        return "only a trial shows its time, and the result must be reproducible"
    return "only a trial shows its time"


def candidate(question: Question, algorithm: str) -> Plan:
    """The plan of one family, by the rule's defaults for it."""
    return choose(question.task, question.options, question.seen, algorithm, question.threads)


def why_not(question: Question, plan: Plan, memory: float) -> str | None:
    """Why a plan cannot meet the request; None where it can."""
    own = BUILT_IN[plan.family].refusal(question.task)
    if own is None and takes_trial(question, plan.algorithm):
        own = untimed(question, plan)
    return own or unable(question, plan, memory)


def unable(question: Question, plan: Plan, memory: float) -> str | None:
    """Why a plan cannot meet the request, whatever its iterations take; None where it can.

    memory: bytes that it takes beside the rows.
    """
    algorithm = BUILT_IN[plan.family]
    wrong = algorithm.unfit(question.options)
    if wrong is not None:
        return wrong.why
    own = algorithm.why_not(question, memory)
    if own is not None:
        return own
    if memory > question.room:
        return (
            f"it would take {memory / 2**20:,.0f} MiB beside the rows, and memory_limit leaves "
            f"{question.room / 2**20:,.0f} MiB"
        )
    timed = question.measured.get(CURVATURE) if algorithm.begins_by_curvature else None
    if timed is not None and timed.failure is not None:
        return timed.failure
    reasons = refusals(question, algorithm)
    return next((text for text, holds in reasons if holds), None)


def refusals(question: Question, algorithm: Algorithm) -> list[tuple[str, bool]]:
    """What may keep any algorithm from being a candidate, and whether it does."""
    options, seen = question.options, question.seen
    corner = not question.task.smooth and "converge" not in options.given
    few = question.gpu and seen.groups < FEW_GROUPS
    uncounted = seen.sparse and not question.penalised
    return [
        (
            "it runs on the CPU only, and the rows go to the GPU",
            question.gpu and not algorithm.on_gpu,
        ),
        (
            "an epoch is one block of the GPU per group, and there are few groups",
            algorithm.stochastic and few,
        ),
        (
            "without locks no two runs are alike, and the result must be reproducible",
            algorithm.lock_free and options.ordered,
        ),
        (
            "there is only one thread",
            algorithm.lock_free and question.threads == 1,
        ),
        (
            "at the hinge's corner its steps take long to prove that they are near the optimum",
            algorithm.stochastic and corner,
        ),
        (
            "its weights step across zero, so it does not reach the optimality condition of l1",
            algorithm.noisy and options.l1 > 0,
        ),
        (
            "it would need to count how often each feature occurs",
            algorithm.counts_features and uncounted,
        ),
    ]
