"""Which algorithm trains, by a rule, and every algorithm's defaults.

The rule plans what is instant anyway; beyond, `choice.py` leaves it where another plan costs less.
auto takes newton where its p x p systems are small beside the passes over the rows, lbfgs else:

1. l1 > 0: lbfgs (OWL-QN); newton's quadratic model has no kinks.
2. At most 512 features: newton. Its iterations are few and hardly dearer than a gradient's, and
   it yields standard errors; those of the hinge are of an interior-point method, which the
   condition of the problem does not slow down as it does what follows a smoothed corner.
3. Otherwise: lbfgs.

Large groups start on a sample of their rows, which leaves one or two iterations for all of them.
Sparse rows do where features are few and a penalty holds those that the sample hardly has.
"""

from tuskml.learners.linear.algorithms import (
    ALGORITHMS,
    FIRST_CHOICE,
    LAST_CHOICE,
    SAMPLED,
)
from tuskml.learners.linear.algorithms.parts.drawn import DRAWN
from tuskml.learners.linear.estimates.question import Statistics
from tuskml.learners.linear.own.operators import OPERATORS, base_of, steps_in_python
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.request import LinearOptions
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
    """Why the first choice is not the rule's for a task; None where it is."""
    why = None if task is None else FIRST_CHOICE.refusal(task)
    if why is not None:
        return f"{why} for {FIRST_CHOICE.name}"
    wrong = FIRST_CHOICE.unfit(options)
    return None if wrong is None else wrong.why


LEAST_CORNER, LEAST_EXTRAPOLATED = 1e-9, 1e-6


def choose(
    task: LinearTask,
    options: LinearOptions,
    seen: Statistics,
    only: str | None = None,
    threads: int = 0,
) -> Plan:
    """The plan for a batch: what the caller asked for, and the rule for the rest.

    only: the algorithm, whatever the options say; threads: 0 for what they say.
    """
    algorithm, reason = (only, "asked for") if only else choose_algorithm(options, seen, task)
    family = base_of(algorithm)
    known = ALGORITHMS[family]
    schedule = options.schedule or known.default_schedule(seen)
    smooth = task.smooth or not (known.smooths(task) or schedule == "line_search")
    drawn = options.sampler in DRAWN
    sampler = options.sampler if drawn or options.sampler in OPERATORS["sample"] else None
    in_python = steps_in_python(algorithm, sampler, task.general)
    return Plan(
        algorithm=algorithm,
        max_iter=options.max_iter or known.most_iterations(task) * (1 if smooth else 5),
        epsilon=options.epsilon,
        converge=options.converge,
        step=options.step,
        schedule=schedule,
        batch_size=options.batch_size or (PYTHON_BATCH if in_python else known.batch_size),
        canonical=options.ordered or options.validation > 0,
        shuffle=known.stochastic and options.sampler != "sequential",
        lock_free=known.lock_free and not options.ordered,
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

    Those of other corners need not be so narrow, since the rest is extrapolated.
    """
    last = max(epsilon, LEAST_CORNER if task.hinged else LEAST_EXTRAPOLATED)
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
    """Whether a sample of sparse rows leaves the weights of rare features near 0, by the penalty.

    At the optimum |w| <= mean|loss'| / l2: one row of the sample moves a weight by at most 1.
    """
    return seen.n_features <= FEW_FEATURES and options.l2 * SAMPLE_ROWS >= 1
