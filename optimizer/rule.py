"""Which algorithm trains, by a rule, and every algorithm's defaults.

The rule plans what is instant anyway; beyond, `choice.py` leaves it where another plan costs less.
auto takes newton where its p x p systems are small beside the passes over the rows, lbfgs else:

1. l1 > 0: lbfgs (OWL-QN); newton's quadratic model has no kinks.
2. At most 512 features: newton. Its iterations are few and hardly dearer than a gradient's, and
   it yields standard errors; those of the hinge are of an interior-point method, which the
   condition of the problem does not slow down as it does what follows a smoothed corner.
3. Otherwise: lbfgs.

Large groups start on a sample of their rows, which leaves one or two iterations for all of them.
"""

import os
from dataclasses import dataclass

from tuskml.errors import OptionError
from tuskml.udas.options import NO_L1, STOCHASTIC, Options
from tuskml.udas.own_operators import OPERATORS, base_of, steps_in_python
from tuskml.udas.plan import Plan
from tuskml.udas.tasks import Task

SHARED = ("hogwild", "hogbatch")
NEWTON_FEATURES = 512
SAMPLED_ROWS = 1 << 17
SAMPLE_ROWS = 1 << 15
MAX_ITER = {"bgd": 1000, "lbfgs": 1000, "newton": 100, "newton_cg": 100, "svrg": 100, "dcd": 1000}
BATCH = {"sgd": 1, "hogwild": 1, "mgd": 32, "hogbatch": 32, "svrg": 32}
EPOCHS = 20
PYTHON_BATCH = 1024
"""Rows a step where each step is some calls of Python."""


@dataclass(frozen=True)
class Statistics:
    """What is known of a batch of groups with the same number of features.

    most_rows: of the largest group, as a power of two; the others, which costs are estimated
    from, are 0 where nobody has counted: rows and entries (values of the features) of all groups.
    """

    most_rows: int
    n_features: int
    sparse: bool
    rows: int = 0
    entries: int = 0
    groups: int = 1
    double: bool = False

    @property
    def storage(self) -> str:
        """How rows are kept, as `tuskml.udas.kernels.KINDS` says it."""
        return f"{'sparse' if self.sparse else 'dense'} float{64 if self.double else 32}"


def cores() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def choose_algorithm(
    options: Options, seen: Statistics, task: Task | None = None
) -> tuple[str, str]:
    """The algorithm and why."""
    if options.algorithm != "auto":
        return options.algorithm, "asked for"
    if options.sampler in OPERATORS["sample"]:
        return "mgd", f"sampler '{options.sampler}' is of mgd"
    slow = no_newton(task, options)
    if slow is not None:
        return "lbfgs", slow
    if seen.n_features <= NEWTON_FEATURES:
        return "newton", f"{seen.n_features} features are at most {NEWTON_FEATURES}"
    return "lbfgs", f"{seen.n_features} features are more than {NEWTON_FEATURES}"


def no_newton(task: Task | None, options: Options) -> str | None:
    """Why newton is not the rule's for a task; None where it is."""
    if task is not None and not task.curved:
        return f"task '{task.name}' has no curvature for newton"
    if options.l1 > 0:
        return NO_L1["newton"]
    return None


def choose(
    task: Task, options: Options, seen: Statistics, only: str | None = None, threads: int = 0
) -> Plan:
    """The plan for a batch: what the caller asked for, and the rule for the rest.

    only: the algorithm, whatever the options say; threads: 0 for what they say.
    """
    if options.schedule == "linear":
        raise OptionError(
            "schedule 'linear' is of task 'matrix_factorization' alone, expected 'constant', "
            "'1/sqrt(i)', '1/i', '1/i^2' or 'line_search'"
        )
    algorithm, reason = (only, "asked for") if only else choose_algorithm(options, seen, task)
    family = base_of(algorithm)
    schedule = options.schedule or default_schedule(family, seen)
    smooth = task.smooth or not follows_corners(family, schedule)
    sampler = options.sampler if options.sampler in OPERATORS["sample"] else None
    in_python = steps_in_python(algorithm, sampler, task.own is not None)
    return Plan(
        algorithm=algorithm,
        max_iter=options.max_iter or MAX_ITER.get(family, EPOCHS) * (1 if smooth else 5),
        epsilon=options.epsilon,
        converge=options.converge,
        step=options.step,
        schedule=schedule,
        batch_size=options.batch_size or (PYTHON_BATCH if in_python else BATCH.get(family, 1)),
        canonical=options.ordered or options.validation > 0,
        shuffle=family in STOCHASTIC and options.sampler != "sequential",
        lock_free=family in SHARED and not options.ordered,
        seed=options.seed,
        threads=threads or options.threads or cores(),
        smoothing=(0.0,) if smooth else corners(options.epsilon),
        sample_stride=stride(algorithm, options, seen, task),
        reason=reason,
        base=None if family == algorithm else family,
        sampler=sampler,
        transform=None if options.transform == "lazy" else options.transform,
    )


def default_schedule(algorithm: str, seen: Statistics) -> str:
    """Line search where there is one; a constant step where variance vanishes.

    So it is where sparse rows are fewer than their features: most weights are moved by a row now
    and then, and by smaller steps would not arrive.
    """
    if algorithm == "bgd":
        return "line_search"
    wide = seen.sparse and seen.n_features > seen.most_rows
    return "constant" if algorithm == "svrg" or wide else "1/sqrt(i)"


def follows_corners(algorithm: str, schedule: str) -> bool:
    """Whether an algorithm needs a gradient that is continuous; newton goes round the corners."""
    return algorithm == "lbfgs" or schedule == "line_search"


def corners(epsilon: float) -> tuple[float, ...]:
    """Smoothings of the hinge from 1 down to epsilon: the objective ends within epsilon / 2."""
    last = max(epsilon, 1e-9)
    found = [1.0]
    while found[-1] > last * 11:
        found.append(found[-1] / 10)
    return (*found, last) if last < 1 else (last,)


def stride(algorithm: str, options: Options, seen: Statistics, task: Task | None = None) -> int:
    """The start reads every so-maniest chunk; 1 for groups that are small anyway."""
    sampled = algorithm == "lbfgs" or (algorithm == "newton" and (task is None or task.smooth))
    if not sampled or options.warm_start or options.epsilon == 0:
        return 1
    if seen.most_rows < SAMPLED_ROWS or seen.sparse:
        return 1
    return min(64, seen.most_rows // SAMPLE_ROWS)
