"""Candidates: the plan of the rule, every algorithm's defaults, and their costs.

The rule's plan trains where it is instant anyway; else `choice.py` replaces it if another plan
costs less. auto takes newton where its p x p systems are small compared with the passes over the
rows, and lbfgs otherwise:

1. l1 > 0: lbfgs (OWL-QN); newton's quadratic model has no kinks. The interior-point
   method of the hinge and of quantiles has variables for them.
2. At most 512 features: newton. Its iterations are few and hardly dearer than a gradient's, and
   it yields standard errors; those of the hinge are of an interior-point method, which the
   condition of the problem does not slow down as it does the methods for a smoothed corner.
3. Otherwise: lbfgs.

Large groups start on a sample of their rows, which leaves one or two iterations for all of them.
Sparse rows do so if features are few and a penalty bounds those that are rare in the sample.
"""

import math
from dataclasses import replace

from tuskml.learners.linear.algorithms import ALGORITHMS, FIRST_CHOICE, LAST_CHOICE, SAMPLED
from tuskml.learners.linear.algorithms.parts.algorithm import Algorithm
from tuskml.learners.linear.algorithms.parts.epochs import DRAWN
from tuskml.learners.linear.own.operators import ALGORITHMS as OWN_ALGORITHMS
from tuskml.learners.linear.own.operators import OPERATORS, base_of, steps_in_python
from tuskml.learners.linear.planner.cost import LOSS_ALONE, TYPICAL, Cost, Costs
from tuskml.learners.linear.planner.curves import CustomSeconds, Question, Statistics
from tuskml.learners.linear.request import LinearOptions, Plan
from tuskml.learners.linear.tasks import LinearTask
from tuskml.schedule import budget

FEW_FEATURES = 512
SAMPLED_ROWS = 1 << 17
SAMPLE_ROWS = 1 << 15
PYTHON_BATCH = 1024
"""Rows a step where each step is some calls of Python."""


def choose_algorithm(
    options: LinearOptions, seen: Statistics, task: LinearTask | None = None
) -> tuple[str, str]:
    """The algorithm and why."""
    if options.algorithm != "auto":
        return options.algorithm, "asked for"
    if options.sampler in OPERATORS["sample"] or options.sampler in DRAWN:
        return SAMPLED.name, f"sampler '{options.sampler}' is of {SAMPLED.name}"
    slow = not_first(task, options)
    if slow is not None:
        return LAST_CHOICE.name, slow
    if seen.n_features <= FEW_FEATURES:
        return FIRST_CHOICE.name, f"{seen.n_features} features are at most {FEW_FEATURES}"
    return LAST_CHOICE.name, f"{seen.n_features} features are more than {FEW_FEATURES}"


def not_first(task: LinearTask | None, options: LinearOptions) -> str | None:
    """The reason why the first choice is not the rule's for a task; None where it is."""
    why = None if task is None else FIRST_CHOICE.refusal(task)
    if why is not None:
        return f"{why} for {FIRST_CHOICE.name}"
    wrong = FIRST_CHOICE.unfit(options, task)
    return None if wrong is None else wrong.why


LEAST_CORNER, LEAST_EXTRAPOLATED = 1e-9, 1e-6


def choose(
    task: LinearTask,
    options: LinearOptions,
    seen: Statistics,
    only: str | None = None,
    threads: int = 0,
) -> Plan:
    """The plan for a batch: the options, completed by the rule.

    only: the algorithm, overriding the options; threads: 0 for those of the options.
    """
    algorithm, reason = (only, "asked for") if only else choose_algorithm(options, seen, task)
    family = algorithm if algorithm in ALGORITHMS else base_of(algorithm)
    known = ALGORITHMS[family]
    schedule = options.schedule or known.default_schedule(seen)
    smooth = task.smooth or not (known.smooths(task, options) or schedule == "line_search")
    drawn = options.sampler in DRAWN
    sampler = options.sampler if drawn or options.sampler in OPERATORS["sample"] else None
    in_python = family == SAMPLED.name and steps_in_python(algorithm, sampler, task.general)
    return Plan(
        algorithm=algorithm,
        max_iter=options.max_iter or known.most_iterations(task) * (1 if smooth else 5),
        epsilon=options.epsilon,
        converge=options.converge,
        step=options.step,
        schedule=schedule,
        batch_size=options.batch_size or (PYTHON_BATCH if in_python else known.batch_size),
        canonical=options.keeps_order or options.validation > 0,
        shuffle=known.stochastic and options.sampler != "sequential",
        lock_free=known.lock_free and not options.keeps_order,
        seed=options.seed,
        threads=budget.threads(threads or options.threads),
        smoothing=(0.0,) if smooth else corners(options.epsilon, task),
        sample_stride=stride(algorithm, options, seen, task),
        reason=reason,
        base=None if family == algorithm else family,
        sampler=sampler,
        transform=options.transform if options.transform in OPERATORS["transform"] else None,
    )


def corners(epsilon: float, task: LinearTask) -> tuple[float, ...]:
    """Smoothings of the hinge from 1 down to epsilon: the objective ends within epsilon / 2.

    Those of other losses with corners need not be so narrow, since the rest is extrapolated.
    """
    last = max(epsilon, LEAST_CORNER if task.is_hinge else LEAST_EXTRAPOLATED)
    found = [1.0]
    while found[-1] > last * 11:
        found.append(found[-1] / 10)
    return (*found, last) if last < 1 else (last,)


def stride(
    algorithm: str, options: LinearOptions, seen: Statistics, task: LinearTask | None = None
) -> int:
    """The start reads every k-th chunk; 1 for groups that are small anyway."""
    known = ALGORITHMS.get(algorithm)
    if known is None or not known.starts_on_sample(task):
        return 1
    if options.warm_start or options.epsilon == 0:
        return 1
    if seen.most_rows < SAMPLED_ROWS or (seen.sparse and not holds_rare(options, seen)):
        return 1
    return min(64, seen.most_rows // SAMPLE_ROWS)


def holds_rare(options: LinearOptions, seen: Statistics) -> bool:
    """Returns whether a sample of sparse rows leaves the weights of rare features near 0, by the
    penalty.

    At the optimum |w| <= mean|loss'| / l2: one row of the sample moves a weight by at most 1.
    """
    return seen.n_features <= FEW_FEATURES and options.l2 * SAMPLE_ROWS >= 1


# The plans that might train a batch, and why some of them cannot.
#
# ML4all (section 6 and figure 5 of the paper) has eleven plans: BGD; MGD and SGD by eager or lazy
# transformation and by Bernoulli, random-partition or shuffled-partition sampling, but not lazily
# by Bernoulli's. All of them can be asked for (options `transform` and `sampler`). To transform
# is to evaluate and pack rows: eagerly all of them, lazily those that a training by row group
# reads (`streamed/`); kernels centre and scale what they read in any case. Rows that an aggregate
# was given are packed already, which leaves `auto` one sampler:
#
# * Bernoulli sampling takes each step's rows from all over the memory: it spares nothing there.
# * A random partition that is drawn again and again differs from a shuffled one by rows that are
#   seen twice or never: in memory, where going on to the next partition costs nothing, shuffling
#   is at least as good.
#
# So MGD and SGD come once, by the shuffled partitions; beyond the paper there are L-BFGS,
# Newton's method with and without its systems, SVRG, dual coordinate descent, line search in BGD,
# and SGD and MGD by several threads without locks.

CURVATURE = "pass curvature"
"""The relative cost of a pass for the curvature, by its measured name."""
FEW_GROUPS = 32
"""With fewer groups, epochs leave most of a GPU idle."""


def families(question: Question) -> tuple[str, ...]:
    """The algorithms that may be candidates, built-in and custom ones."""
    return (*ALGORITHMS, *(name for name, own in OWN_ALGORITHMS.items() if own.candidate))


def takes_trial(question: Question, name: str) -> bool:
    """Returns whether its cost is known only from a trial, as its steps run in Python."""
    return name in OWN_ALGORITHMS or steps_in_python(name, None, question.task.general)


def by_trial(question: Question) -> list[str]:
    """The candidates whose cost is known only from a trial."""
    return [
        name
        for name in families(question)
        if takes_trial(question, name) and not never_tried(question, name)
    ]


def never_tried(question: Question, name: str) -> bool:
    """Tests for built-in stochastic algorithms with a built-in task whose steps are not compiled.

    Compiled passes over all rows win, and the trial would take longer than many a training.
    """
    return name not in OWN_ALGORITHMS and question.task.own is None


def refuse_untimed(question: Question, plan: Plan) -> str | None:
    """The reason why a plan that needs a trial is no candidate."""
    timed = question.measured.get(plan.algorithm)
    if timed is not None:
        return timed.failure
    if never_tried(question, plan.algorithm):
        return "its steps run in Python with this task, to be asked for"
    if question.options.keeps_order:
        return "only a trial shows its time, and the result must be reproducible"
    return "only a trial shows its time"


def candidate(question: Question, algorithm: str) -> Plan:
    """The plan of one family, by the rule's defaults for it."""
    return choose(question.task, question.options, question.seen, algorithm, question.threads)


def why_not(question: Question, plan: Plan, memory: float) -> str | None:
    """The reason why a plan cannot meet the request; None where it can."""
    own = ALGORITHMS[plan.family].refusal(question.task)
    if own is None and takes_trial(question, plan.algorithm):
        own = refuse_untimed(question, plan)
    return own or unable(question, plan, memory)


def unable(question: Question, plan: Plan, memory: float) -> str | None:
    """The reason why a plan cannot meet the request at any number of iterations; None if it can.

    memory: bytes in addition to the rows.
    """
    algorithm = ALGORITHMS[plan.family]
    wrong = algorithm.unfit(question.options, question.task)
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
    """Reasons that exclude any algorithm, and whether each applies."""
    options, seen = question.options, question.seen
    corner = not question.task.smooth and "converge" not in options.given
    few = question.gpu and seen.groups < FEW_GROUPS
    uncounted = seen.sparse and not question.has_penalty
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
            algorithm.lock_free and options.keeps_order,
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


# The cost of whole plans: estimates from their algorithms, corrected by reported trainings.

SAMPLING, BOUNDED = 3.0, 0.4
"""Standard errors of a mean, about the largest of a gradient's; the deviation of a derivative that
is at most 1, about."""


class PlanCosts(Costs):
    """The costs of one question's plans, by a machine's constants."""

    def of(self, plan: Plan, iterations: float = TYPICAL, on_sample: float = 0.0) -> Cost:
        """A plan's cost; an iteration's is averaged over about `iterations` of them."""
        timed = self.question.measured.get(plan.algorithm)
        if timed is not None:
            return self._cost_by_times(plan, timed)
        cost = self.uncorrected_cost(plan, iterations, on_sample)
        if not self.constants.factors:
            return cost
        seen = self.question.seen
        by = self.constants.factor(plan.algorithm, seen.storage, seen.entries)
        return replace(cost, iteration=by * cost.iteration, sampled=by * cost.sampled)

    def uncorrected_cost(self, plan: Plan, iterations: float, on_sample: float) -> Cost:
        """The cost without the correction by reported trainings."""
        return ALGORITHMS[plan.family].cost(self, plan, iterations, on_sample)

    def _cost_by_times(self, plan: Plan, timed: CustomSeconds) -> Cost:
        """The cost of a custom algorithm."""
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
