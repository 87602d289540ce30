"""The objective of a batch in coordinates that condition it, where its descent starts, and copies
of rows that lie far from zero.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError
from tuskml.kernels import passes
from tuskml.kernels.open_rows import Open
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.structures import OFFSETS
from tuskml.learners.class_weights import two_classes, weights_of
from tuskml.learners.classes import TINY
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.algorithms.parts.epochs import DRAWN
from tuskml.learners.linear.check import constant
from tuskml.learners.linear.inference.dispersion import by_moments
from tuskml.learners.linear.own.assembled import transform_problem
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import CLASSIC, CLUSTERED, SURVEY, LinearOptions, Plan, Request
from tuskml.learners.linear.tasks import LinearTask
from tuskml.learners.linear.turns import CROWDED
from tuskml.learners.near import Near

MOMENT_ROWS = 4096
CONSTANT = 1e-14
"""Rounding of the deviation of equal numbers, as a share of their size."""


def describe(rows: Pass, labels: NDArray[np.void], plan: Plan, request: Request) -> Problem:
    """The objective in coordinates that condition it."""
    options, task = request.options, request.task
    rows = replace(
        rows,
        positive=np.ascontiguousarray(labels["high"]) if task.classifies else None,
        class_weight=class_weights(task, options, labels),
        open=None if task.own is None else Open(task.own),
        parameter=parameters(task, options, labels),
    )
    frequency = None
    if rows.sparse:
        shift, scale, frequency = describe_sparse(rows, plan, options)
    else:
        shift, deviation = moments(rows, request.near)
        if not options.fit_intercept:  # nothing could take up the shift
            deviation = root_of_squares(deviation**2, deviation, shift)
            shift = np.zeros_like(shift)
        scale = np.where(deviation > 0, 1.0 / np.where(deviation > 0, deviation, 1.0), 0.0)
    size = label_size(labels) if task.quadratic or of_numbers(task) else None
    problem = Problem(rows, task, options.l1, options.l2, shift, scale, frequency, size)
    wanted = options.covariance if options.cluster is None else CLUSTERED
    if options.weight_kind == SURVEY and wanted == CLASSIC:
        wanted = SURVEY
    problem = replace(problem, covariance=wanted, weight_kind=options.weight_kind)
    problem = with_units(problem, labels)
    return problem if plan.is_plain else transform_problem(problem, plan)


def moments(rows: Pass, near: Near | None) -> tuple[Floats, Floats]:
    """Mean and standard deviation of dense features, (G, d) each, of some of the rows."""
    if near is None:
        return rows.feature_moments(MOMENT_ROWS)
    places = rows.groups["place"]
    return near.coordinates(places, rows.n_features, lambda: rows.feature_moments(MOMENT_ROWS))


def parameters(
    task: LinearTask, options: LinearOptions, labels: NDArray[np.void]
) -> Floats | None:
    """The loss's parameter and the unit of its corner's width, (G, 2); None where it has none."""
    if task.parameter is None:
        return None
    found = np.ones((len(labels), 2))
    if task.parameter == "delta":  # of least squares, from which the others are approached
        found[:, 0] = np.inf
        return found
    given = getattr(options, task.parameter)
    found[:, 0] = by_moments(labels) if given is None else given
    if not task.smooth:
        found[:, 1] = label_unit(labels, options.fit_intercept)
    return found


def of_numbers(task: LinearTask) -> bool:
    """Returns whether margins are in units of the label, by another loss than the squared one."""
    return task.general and task.of_label


def label_size(labels: NDArray[np.void]) -> Floats:
    """The root mean square of numbers, (G,)."""
    variance = labels["variance"]
    return root_of_squares(variance, np.sqrt(variance), labels["mean"])


def root_of_squares(square: Floats, a: Floats, b: Floats) -> Floats:
    """The root of a^2 + b^2 with a^2 given; a^2 and b^2 may overflow."""
    with np.errstate(over="ignore", under="ignore"):
        size = np.sqrt(square + b**2)
    return np.where(np.isfinite(size) & (size > TINY), size, np.hypot(a, b))


def with_units(problem: Problem, labels: NDArray[np.void]) -> Problem:
    """The problem with the units in which convergence is measured.

    Weights of standardised features are in units of the label where the margin is: of its standard
    deviation, or of its size where nothing takes up the mean or nothing varies. Gradients are in
    those times the mean curvature of the loss at the best constant, relative to the logistic
    loss's greatest: so a tolerance is one of the weights, also where labels are small numbers or
    events are rare.
    """
    task = problem.task
    weight: Floats | None = None
    gradient: Floats | None
    if task.link is not None and not task.classifies:
        weight, gradient = units_of_link(problem, labels)
    elif task.quadratic or task.general:
        numbers = task.quadratic or of_numbers(task)
        weight = label_unit(labels, problem.rows.fit_intercept) if numbers else None
        gradient = weight if task.quadratic else unit_of_own(problem, labels, weight)
    else:
        gradient = class_unit(problem, labels)
    return replace(problem, weight_unit=weight, gradient_unit=gradient)


def units_of_link(problem: Problem, labels: NDArray[np.void]) -> tuple[Floats, Floats]:
    """The spread of the labels in units of the margin, (G,), and that times the curvature at the
    best constant.
    """
    mean, spread = labels["mean"], label_unit(labels, True)
    near = np.maximum(1e-3 * np.abs(mean), 1e-300)
    slope = np.abs(constant(problem.task, mean + near) - constant(problem.task, mean)) / near
    v = np.zeros((problem.n_groups, problem.d + 1))
    v[:, -1] = best_constant(problem, labels)
    sums = problem.rows.curvature(v, *(np.zeros_like(problem.scale),) * 2, True)
    weight = usable_units(spread * slope)
    return weight, usable_units(weight * usable_units(sums[:, -1] / sums[:, 1]))


def usable_units(unit: Floats) -> Floats:
    """Units that can be measured in: 1 for those that cannot."""
    return np.where(np.isfinite(unit) & (unit > 0), unit, 1.0)


def label_unit(labels: NDArray[np.void], centred: bool) -> Floats:
    """The spread of numeric labels, (G,), or their size."""
    size, deviation = label_size(labels), np.sqrt(labels["variance"])
    varies = deviation > CONSTANT * size
    return usable_units(np.where(varies & centred, deviation, size))


def class_unit(problem: Problem, labels: NDArray[np.void]) -> Floats | None:
    """Four times the mean curvature of the logistic loss at the best constant, (G,).

    By weighted shares a and b of the classes that is 4 a b / (a + b). The hinge is not curved: its
    unit is the weights' mean.
    """
    low, high = (sizes / labels["weight"] for sizes in class_sizes(labels))
    weight = problem.rows.class_weight
    if weight is not None:
        low, high = low * weight[:, 0], high * weight[:, 1]
    if problem.task.name == "svm":
        return None if weight is None else usable_units(low + high)
    return usable_units(4.0 * low * (high / (low + high)))


def unit_of_own(
    problem: Problem, labels: NDArray[np.void], weight: Floats | None
) -> Floats | None:
    """The unit of any other loss, from its curvature within a unit of the margin, (G,)."""
    if problem.task.classifies and problem.task.response == "logistic":
        return class_unit(problem, labels)
    v = np.zeros((problem.n_groups, problem.d + 1))
    v[:, -1] = best_constant(problem, labels)
    by = np.ones(problem.n_groups) if weight is None else weight
    rows = replace(problem.rows, loss_only=True)
    total = np.zeros(problem.n_groups)
    for times, moved in ((1.0, by), (-2.0, 0.0 * by), (1.0, -by)):
        there = v.copy()
        there[:, -1] += moved
        sums = rows.gradient(there)
        total += times * sums[:, 0] / sums[:, 1]
    return usable_units(total / by)


def describe_sparse(
    rows: Pass, plan: Plan, options: LinearOptions
) -> tuple[Floats, Floats, Floats | None]:
    """Shift 0, which keeps zeros, and scales that make the largest values 1.

    Counting is a separate pass: it is left out if values are of the size of 1 anyway and no
    penalty needs the frequency of features. Nothing is scaled if all features' largest values are
    near 1.
    """
    shift = np.zeros((rows.n_groups, rows.n_features))
    plain, counts = False, None
    if not counts_features(plan, options):
        plain, counts = needs_no_scale(rows)
    if plain:
        return shift, np.ones_like(shift), None
    count, largest = rows.feature_counts() if counts is None else counts
    scale = np.where(largest > 0, 1.0 / np.where(largest > 0, largest, 1.0), 0.0)
    return shift, scale, np.maximum(count, 1.0) / rows.groups["n_rows"][:, None]


def counts_features(plan: Plan, options: LinearOptions) -> bool:
    """Returns whether the plan needs the frequency of sparse features, so that all are scaled
    anyway.
    """
    return options.l1 > 0 or options.l2 > 0 or ALGORITHMS[plan.family].counts_features


def needs_no_scale(rows: Pass) -> tuple[bool, tuple[Floats, Floats] | None]:
    """Tests whether the largest values of all features are near 1; also returns counts if it made
    them.
    """
    near = rows.values_near_one()
    if near is not None:
        return near, None
    counts = rows.feature_counts()
    low, high = 1.0 / passes.NEAR_ONE, passes.NEAR_ONE
    largest = counts[1]
    return bool(((largest == 0) | ((largest >= low) & (largest <= high))).all()), counts


def class_weights(
    task: LinearTask, options: LinearOptions, labels: NDArray[np.void]
) -> Floats | None:
    """Weights (G, 2) of the lower and the higher class, None: all 1."""
    return weights_of(options, *two_classes(labels)) if task.classifies else None


def class_sizes(labels: NDArray[np.void]) -> tuple[Floats, Floats]:
    """Rows of the lower and of the higher class by their weights, each (G,)."""
    low, high = two_classes(labels)[1].T
    return low, high


def start(
    problem: Problem,
    labels: NDArray[np.void],
    options: LinearOptions,
    near: Near | None = None,
) -> Floats:
    """The warm start, weights known to be near the optimum, or the best constant."""
    v = np.zeros((problem.n_groups, problem.d + 1))
    if options.warm_start is not None:
        coef = options.warm_start.coef
        if options.warm_start.store is not None:
            raise OptionError(
                f"warm_start is the stored model '{options.warm_start.store}', expected a model "
                "with coefficients, or option 'store' for the new one too"
            )
        if options.warm_start.several:
            raise DataError(
                f"warm_start is a model of {options.warm_start.several} classes, expected one of "
                "two classes or numbers as the labels"
            )
        if len(coef) != problem.d and not (problem.rows.sparse and len(coef) < problem.d):
            raise DataError(
                f"warm_start has {len(coef)} coefficients, expected {problem.d} as the features"
            )
        v[:, : len(coef)] = coef
        v[:, -1] = options.warm_start.intercept
        return problem.from_given(v)
    if options.fit_intercept:
        v[:, -1] = best_constant(problem, labels)
    return nearer(v, problem, near)


def nearer(v: Floats, problem: Problem, near: Near | None) -> Floats:
    """The weights v (G, p) to start from, of groups of dense rows those that are known instead."""
    if near is None or problem.rows.sparse:
        return v
    known = near.start(problem.rows.groups["place"], v.shape[1])
    if not problem.rows.fit_intercept:  # no step would move that of another candidate
        known[:, -1] = np.where(np.isnan(known[:, -1]), np.nan, 0.0)
    usable = np.isfinite(known).all(axis=1, keepdims=True)
    return np.where(usable, problem.from_caller(np.nan_to_num(known)), v)


def best_constant(problem: Problem, labels: NDArray[np.void]) -> Floats:
    """The best constant margin (G,), 0 where unknown."""
    task = problem.task
    if task.quadratic:
        return np.asarray(labels["mean"])
    if task.general and not task.classifies:
        best = constant(task, labels["mean"])
        return best - np.log(usable_units(labels["exposure"])) if task.response == "exp" else best
    if task.link is not None:
        return constant(task, class_sizes(labels)[1] / labels["weight"])
    if "logistic" in (task.name, task.response):
        weight = problem.rows.class_weight
        low, high = class_sizes(labels)
        if weight is not None:
            high, low = high * weight[:, 1], low * weight[:, 0]
        return np.asarray(np.log(high / low))
    return np.zeros(problem.n_groups)


# Rows that are far from zero relative to their spread are trained on as shifted copies.
#
# A margin w.x + b of such features is a small difference of large numbers, and so is a residual of
# such labels: rounding would hide the signal. A constant subtracted from features and labels
# changes the intercept alone, so the model of the copies is one of the rows.

FAR = 1e4
"""Rows further than this many times their spread are shifted."""
FAR_SPARSE = 10.0
"""The same for features of sparse rows, which are not centred otherwise."""


@dataclass(frozen=True)
class Far:
    """Where rows lie: origin, (G, d + 1), 0 where features and labels are near zero, None without
    any that are far; spread (G, d), as `Problem.spread`.
    """

    origin: Floats | None = None
    spread: Floats | None = None


def locate_rows(problem: Problem, labels: NDArray[np.void], options: LinearOptions) -> Far:
    """Finds where rows lie.

    In sparse rows a feature is shifted if most rows have it; the others get its zero, shifted as
    well. A feature whose values are crowded is shifted by their median.
    """
    rows, task, shifted = problem.rows, problem.task, options.fit_intercept
    own = task.own is not None or options.custom or options.sampler in DRAWN
    if type(rows) is not Pass or own:
        return Far()
    origin = np.zeros((problem.n_groups, problem.d + 1))
    centre, spread = crowds(problem)
    if rows.sparse and shifted:
        mean, deviation = far_means(problem)
        origin[:] = as_stored(mean, rows)
        spread = np.where(deviation[:, :-1] > 0, deviation[:, :-1], spread)
    elif not rows.sparse:
        far = np.abs(problem.shift) * problem.scale > FAR
        centre = np.where(spread > 0, centre, np.where(far, problem.shift, 0.0))
        origin[:, :-1] = as_stored(centre, rows) if shifted else 0.0
        if not shifted:
            spread = np.where(spread > 0, np.hypot(spread, centre), 0.0)
    if shifted and task.of_label and not (rows.groups["extras"] & OFFSETS).any():
        mean, deviation = labels["mean"], np.sqrt(labels["variance"])
        far = (np.abs(mean) > FAR * deviation) & (labels["low"] < labels["high"])
        origin[:, -1] = np.where(far, mean, 0.0)
    origin[~np.isfinite(origin)] = 0.0
    return Far(origin if origin.any() else None, spread if spread.any() else None)


def crowds(problem: Problem) -> tuple[Floats, Floats]:
    """The centre of crowded features, 0 in sparse rows, and their spread there, (G, d) each.

    Losses that do not saturate need neither: rows that are far decide their optimum.
    """
    centre, spread = np.zeros_like(problem.scale), np.zeros_like(problem.scale)
    if not problem.task.saturates:
        return centre, spread
    used = problem.scale > 0
    size = np.divide(1.0, problem.scale, where=used, out=np.zeros_like(problem.scale))
    if not problem.rows.sparse:
        return problem.rows.find_crowded_features(CROWDED, size)
    if (problem.scale == 1).all():  # all values are near 1
        return centre, spread
    return centre, problem.rows.find_crowded_entries(CROWDED, size)


def far_means(problem: Problem) -> tuple[Floats, Floats]:
    """Shifts of the features of sparse rows, (G, d + 1), the last one 0, and the deviations
    there.
    """
    rows, share = problem.rows, problem.frequency
    if share is None and not rows.values_near_one():
        share = rows.feature_counts()[0] / rows.groups["n_rows"][:, None]
    return rows.far_means(FAR_SPARSE, share)


def as_stored(shift: Floats, rows: Pass) -> Floats:
    """Rounds shifts to the rows' precision, so that differences of nearby rows are exact."""
    if rows.groups["kind"][0] & 1:
        return shift
    most = float(np.finfo(np.float32).max)
    return np.asarray(np.clip(shift, -most, most).astype(np.float32), np.float64)


@contextmanager
def move_origin(
    rows: Pass, held: NDArray[np.void] | None, origin: Floats
) -> Iterator[tuple[Pass, NDArray[np.void] | None]]:
    """Copies of the rows, and of those held out, less an origin; freed when the context ends."""
    memory = 0 if rows.charges is None else rows.charges.memory
    with rows.move(memory, origin) as groups:
        near = replace(rows, groups=groups, origin=origin)
        if held is None:
            yield near, None
            return
        with replace(rows, groups=held).move(memory, origin) as out:
            yield near, out
