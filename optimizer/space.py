"""The plans that might train a batch, and why some of them cannot.

ML4all (section 6 and figure 5 of the paper) has eleven plans: BGD; MGD and SGD by eager or lazy
transformation and by Bernoulli, random-partition or shuffled-partition sampling. Rows that an
aggregate was given are packed in memory already, which leaves four of the axes one value each:

* Transform is always lazy: kernels centre and scale what they read. An eager pass would write all
  rows once to save two operations a value that hide behind the memory's latency anyway.
* Bernoulli sampling reads every row to take some: it spares nothing where rows are in memory.
* A random partition that is drawn again and again differs from a shuffled one by rows that are
  seen twice or never: in memory, where going on to the next partition costs nothing, shuffling is
  at least as good.

So MGD and SGD come once, by the shuffled partitions; beyond the paper there are L-BFGS, Newton's
method with and without its systems, SVRG, dual coordinate descent, line search in BGD, and SGD and
MGD by several threads without locks.
"""

from tuskml.optimizer.costs import Question
from tuskml.optimizer.rule import SHARED, choose
from tuskml.udas.options import unfit
from tuskml.udas.own_operators import ALGORITHMS, steps_in_python
from tuskml.udas.plan import Plan
from tuskml.udas.tasks import CPU_ALONE, refusal

FAMILIES = (
    "newton",
    "newton_cg",
    "lbfgs",
    "bgd",
    "dcd",
    "svrg",
    "mgd",
    "sgd",
    "hogbatch",
    "hogwild",
)
FEW_GROUPS = 32
"""Whose epochs leave most of a GPU idle."""
STOCHASTIC = ("mgd", "sgd", "hogbatch", "hogwild")
MOST_NEWTON_FEATURES = 4096
MOST_NEWTON_BYTES = float(1 << 30)
MOST_DUAL_BYTES = float(1 << 30)
"""Beside rows that are visited in random order: so many of them may not all be in memory."""


def families(question: Question) -> tuple[str, ...]:
    """The algorithms that may be candidates: tuskml's own, and the user's."""
    return (*FAMILIES, *(name for name, own in ALGORITHMS.items() if own.candidate))


def takes_trial(question: Question, name: str) -> bool:
    """Whether only a trial tells what it costs: its steps are Python's."""
    return name in ALGORITHMS or steps_in_python(name, None, question.task.own is not None)


def by_trial(question: Question) -> list[str]:
    """Those that may be candidates whose cost only a trial tells."""
    return [name for name in families(question) if takes_trial(question, name)]


def untimed(question: Question, plan: Plan) -> str | None:
    """Why what takes a trial is no candidate."""
    timed = question.measured.get(plan.algorithm)
    if timed is not None:
        return timed.failure
    if question.options.ordered:
        return "what it takes only a trial tells, and the result is to be reproducible"
    return "what it takes only a trial tells"


def candidate(question: Question, algorithm: str) -> Plan:
    """The plan of one family, by the rule's defaults for it."""
    return choose(question.task, question.options, question.seen, algorithm, question.threads)


def why_not(question: Question, plan: Plan, memory: float) -> str | None:
    """Why a plan cannot meet the request; None where it can."""
    own = refusal(question.task, plan.family)
    if own is None and takes_trial(question, plan.algorithm):
        own = untimed(question, plan)
    if own is not None:
        return own
    wrong = unfit(question.options, plan.family)
    if wrong is not None:
        return wrong[1]
    if plan.family == "newton":
        return newton_refusal(question, memory)
    if plan.family == "dcd" and memory > MOST_DUAL_BYTES:
        return f"its dual variables would take {memory / 2**20:,.0f} MiB"
    reasons = refusals(question, plan.family)
    return next((text for text, holds in reasons if holds), None)


def refusals(question: Question, name: str) -> list[tuple[str, bool]]:
    """What may keep the other families from being candidates, and whether it does."""
    options, seen = question.options, question.seen
    shared, epochs = name in SHARED, name in (*STOCHASTIC, "svrg")
    corner = not question.task.smooth and "converge" not in options.given
    few = question.gpu and seen.groups < FEW_GROUPS
    uncounted = seen.sparse and not (options.l1 or options.l2)
    return [
        (
            "it runs on the CPU alone, and the rows go to the GPU",
            question.gpu and name in CPU_ALONE,
        ),
        (
            "an epoch is one block of the GPU's for each group, and these are few",
            epochs and few,
        ),
        (
            "without locks no two runs are alike, and the result is to be reproducible",
            shared and options.ordered,
        ),
        (
            "there is one thread, and nobody to share the model with",
            shared and question.threads == 1,
        ),
        (
            "at the hinge's corner its steps take long to prove an objective near the least",
            epochs and corner,
        ),
        (
            "its weights pass by zero: it does not meet l1's condition of optimality",
            name in STOCHASTIC and options.l1 > 0,
        ),
        (
            "it would need to count how often each feature occurs",
            name == "svrg" and uncounted,
        ),
    ]


def newton_refusal(question: Question, memory: float) -> str | None:
    """What keeps newton from being a candidate."""
    features = question.seen.n_features
    if features > MOST_NEWTON_FEATURES:
        return f"{features:,} features make systems of more than {MOST_NEWTON_FEATURES:,} unknowns"
    if memory > MOST_NEWTON_BYTES:
        return f"its curvature would take {memory / 2**20:,.0f} MiB"
    return None
