"""Estimates of what the rows determine if the likelihood has no optimum, and a model for the rest.

Where some rows can be put on their side by ever larger weights (`separation.py`), the likelihood
nears its upper bound as these weights run away, and the bound is the greatest likelihood of the
other rows. So coefficients that the other rows determine have an estimate and standard errors,
those of a fit without the rows that run away (Konis, Linear programming algorithms for detecting
separated data in binary logistic regression models, 2007; Correia, Guimaraes and Zylkin, Verifying
the existence of maximum likelihood estimates for generalized linear models, 2019). No row has to
be left out for that: Newton's method goes where they have neither a slope nor a curvature any
more, and what is left is the others'.

Along the directions that run away a ridge finds the model, or it stays where the training ended.

Coordinates: u = v sigma of features centred by their mean, as in `determined.py`; of several
classes one class after another.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import OutOfTime
from tuskml.kernels.parts.sharded import anew
from tuskml.kernels.passes import Floats
from tuskml.learners.linear.inference import determined, dispersion, separation
from tuskml.learners.linear.inference.determined import ESTIMABLE
from tuskml.learners.linear.inference.separation import Reach
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Found, Index, Problem
from tuskml.learners.linear.tasks import LINEAR

Bools = NDArray[np.bool_]
Look = Callable[[Problem, Floats, Floats, Floats], Reach]
"""A function that takes a step (n, p) at weights v (n, p) and evaluates the rows that are not as
far away as (n,).
"""

MOST_STEPS = 80
AT_REST, LAST_STEPS = 1e-4, 3
"""Share of a proof (`separation.py`) below which all movement is rounding, and the steps that are
taken from there, each of which squares the error.
"""
JUMP = 45.0
"""Newton's steps along a direction that runs away, which moves by about 1 each."""
PRESENT = 1e-10
"""Eigenvalue of the correlations above which a direction is there."""
LOST = 1e-13
"""Mean curvature along a direction, of 1 at most, up to which it is rounding."""
INFORMED = 1e-9
"""Mean curvature along a direction, of 1 at most, up to which all its rows ran away."""
TOLD = 1e-9
"""Relative size below which rounding makes a direction."""
SETTLED = 1e-12
"""Part of the objective that Newton's last step lowers it by."""
ENOUGH = 1e-4
"""Share of a step's predicted decrease that the objective must reach."""


@dataclass(frozen=True)
class Frame:
    """Coordinates of n groups, (n, p, p) each: v is base u, u is back v, weights in the caller's
    units are caller u, and products are the mean ones of z and 1.
    """

    base: Floats
    back: Floats
    caller: Floats
    products: Floats

    def of(self, which: Index) -> "Frame":
        """Selects some of the groups."""
        return Frame(*(getattr(self, f.name)[which] for f in fields(Frame)))

    def to_own(self, v: Floats) -> Floats:
        """u of weights v, (n, p)."""
        return np.asarray(np.einsum("gjk,gk->gj", self.back, v))

    def to_v(self, own: Floats) -> Floats:
        """The inverse of `to_own`."""
        return np.asarray(np.einsum("gjk,gk->gj", self.base, own))

    @functools.cached_property
    def white(self) -> Floats:
        """The map from coordinates in which features are uncorrelated, of size 1, to u; 0 for
        others.
        """
        size, direction = np.linalg.eigh(self.bent(self.products))
        there = size > PRESENT * np.maximum(size[:, -1:], np.finfo(float).tiny)
        root = np.where(there, 1 / np.sqrt(np.where(there, size, 1.0)), 0.0)
        return np.asarray(direction * root[:, None, :])

    @property
    def finite(self) -> Bools:
        """Groups (n,) of which it is known how features vary."""
        return np.asarray(np.isfinite(self.bent(self.products)).all(axis=(1, 2)))

    def bent(self, curvature: Floats) -> Floats:
        """A curvature (n, p, p) by v as one by u."""
        return np.asarray(self.base.transpose(0, 2, 1) @ curvature @ self.base)


@dataclass(frozen=True)
class Limit:
    """The limits of n groups without an optimum: weights v (n, p), whose finite part is known
    where settled (n,).

    frame: from u to v and back; away (n, p, p): the projection of u on the diverging directions;
    inverse (n, p, p): of the mean curvature by u, 0 on these.
    """

    v: Floats
    settled: Bools
    frame: "Frame"
    away: Floats
    inverse: Floats

    def covariance(self, weight: Floats) -> Floats:
        """The covariances (n, p, p) of weights in the caller's units, NaN of those that run away
        or that the rows do not determine. weight (n,): of the rows.
        """
        c = self.frame.caller
        found = c @ self.inverse @ c.transpose(0, 2, 1) / weight[:, None, None]
        size = np.sqrt(np.einsum("gjk,gjk->gj", c, c))
        astray = c @ self.away
        lost = np.sqrt(np.einsum("gjk,gjk->gj", astray, astray)) > ESTIMABLE * size
        lost |= (size == 0) | ~self.settled[:, None]
        found[lost] = np.nan
        found.transpose(0, 2, 1)[lost] = np.nan
        return np.asarray(found)

    def with_the_rest(self, v: Floats) -> Floats:
        """The weights v (n, p) where they run away, and else those of the limit."""
        own = self.frame.to_own(self.v)
        own += np.einsum("gjk,gk->gj", self.away, self.frame.to_own(v) - own)
        return self.frame.to_v(own)

    def of(self, which: Index) -> "Limit":
        """Selects some of the groups."""
        own = self.v[which], self.settled[which], self.frame.of(which)
        return Limit(*own, self.away[which], self.inverse[which])

    @property
    def by_v(self) -> Floats:
        """The inverse of the mean curvature (n, p, p) by v, 0 along diverging directions."""
        base = self.frame.base
        return np.asarray(base @ self.inverse @ base.transpose(0, 2, 1))

    def with_errors(self, spread: Floats) -> "Limit":
        """Returns a copy with another covariance, n times that of v (n, p, p)."""
        back = self.frame.back
        return replace(self, inverse=back @ spread @ back.transpose(0, 2, 1))

    @property
    def rank(self) -> NDArray[np.int64]:
        """Weights (n,) that are determined."""
        found = self.away.shape[1] - np.einsum("gjj->g", self.away)
        return np.where(self.settled, np.rint(found), 0).astype(np.int64)

    @property
    def complete(self) -> Bools:
        """Groups (n,) of which nothing is known to be determined."""
        return np.asarray(self.rank == 0)


Runaways = list[tuple[Index, Limit]]
"""Places of groups and their limits."""


def runaways_of(problem: Problem, state: State, which: Index, deadline: float | None) -> Runaways:
    """The diverging directions of groups without an optimum; none if the time does not suffice, or
    if sums of squares of features overflow doubles.
    """
    problem, found = by_processor(problem, deadline), []
    try:
        for block in determined.blocks(len(which), problem.d + 1):
            places = which[block]
            frame = frame_of(problem.of(places))
            finite = np.flatnonzero(frame.finite)
            if not len(finite):
                continue
            places, frame = places[finite], frame.of(finite)
            part = problem.of(places)
            v, settled = follow_newton(part, separation.begin(part), frame, separation.along)
            curvature = dispersion.curvature(part, v)
            own = part if not problem.task.counts else bound_curvature(part)
            informed = own.evaluate(v, curvature=True).hessian
            both = [determined.unpack_triangles(np.asarray(one)) for one in (informed, curvature)]
            found.append((places, limit_of(frame, v, settled, *both)))
    except OutOfTime:
        state.out_of_time = True
    return found


def by_processor(problem: Problem, deadline: float | None) -> Problem:
    """The problem on rows that the processor reads, in double, until a deadline."""
    rows = problem.rows
    given = rows.loss, rows.positive, rows.class_weight, rows.fit_intercept
    fresh = replace(anew(rows, *given), parameter=rows.parameter, deadline=deadline)
    return replace(problem, rows=fresh, precise=True)


def greatest(state: State, parted: Bools, runaways: Runaways) -> tuple[Floats, Bools]:
    """Weights (G, p) of the greatest likelihood without a penalty, before a ridge, and of which
    groups (G,) they are known.
    """
    v, known = state.v.copy(), state.converged & ~parted
    for places, limit in runaways:
        v[places], known[places] = limit.v, limit.settled
    return v, known


def bound_curvature(problem: Problem) -> Problem:
    """The same rows of counts with a loss whose curvature is at most 1, and proportional to the
    mean of small counts.
    """
    unit = 1 / separation.unit_of(problem)
    parameter = np.stack([unit, np.ones_like(unit)], axis=1)
    loss = LINEAR["negative_binomial"].expected
    assert loss is not None
    return problem.on(replace(problem.rows, loss=loss, parameter=parameter))


def far_away(problem: Problem) -> Floats:
    """Margins on the correct side (G,) beyond which a row has no influence."""
    unit = separation.unit_of(problem)
    return np.asarray(JUMP - 5.0 - np.log(unit))


def follow_newton(problem: Problem, v: Floats, frame: Frame, look: Look) -> tuple[Floats, Bools]:
    """Newton's method from v (n, p) on, with jumps where rows diverge, until the rest converges;
    and for which groups (n,) it does.
    """
    far, least, v = far_away(problem), LOST * separation.unit_of(problem), v.copy()
    settled, left = np.zeros(problem.n_groups, bool), np.arange(problem.n_groups)
    near, white = np.zeros(problem.n_groups, np.int64), frame.base @ frame.white
    for _ in range(MOST_STEPS):
        part = problem.of(left)
        found = part.evaluate(v[left], curvature=True)
        step = _step(found, white[left], least[left])
        seen = look(part, v[left], step, far[left])
        rests = seen.most_share < AT_REST
        moved = separation.halve_step(part, v[left], step, found.objective)
        moved[rests] = (v[left] - step)[rests]  # by less than the objective tells
        near[left[rests]] += 1
        jumps = np.flatnonzero(separation.find_backed(seen) & ~rests)
        if len(jumps):
            there = v[left[jumps]] - JUMP * step[jumps]
            lower = part.of(jumps).objective(there) <= (found.objective + found.slack)[jumps]
            moved[jumps[lower]] = there[lower]
        v[left] = moved
        settled[left] = near[left] >= LAST_STEPS
        left = left[~settled[left]]
        if not len(left):
            break
    return v, settled


def _step(found: Found, white: Floats, least: Floats) -> Floats:
    """Newton's step (n, p), without directions along which the curvature that is left is
    rounding.
    """
    by = white.transpose(0, 2, 1)
    curvature = np.nan_to_num(determined.unpack_triangles(np.asarray(found.hessian)))
    size, turned = np.linalg.eigh(by @ curvature @ white)
    there = size > least[:, None]
    inverse = np.divide(1.0, size, where=there, out=np.zeros_like(size))
    along = np.einsum("gkj,gk->gj", white @ turned, np.nan_to_num(found.gradient))
    return np.asarray(np.einsum("gjk,gk->gj", white @ turned, inverse * along))


def limit_of(
    frame: Frame, v: Floats, settled: Bools, informed: Floats, curvature: Floats
) -> Limit:
    """The finite part at weights v (n, p), where all diverging rows are far.

    informed, curvature (n, p, p): by v, the mean curvature of a loss whose largest is about 1, and
    that of the likelihood.
    """
    finite = [np.isfinite(one).all(axis=(1, 2)) for one in (informed, curvature)]
    settled = settled & finite[0] & finite[1]
    informed, curvature = np.nan_to_num(informed), np.nan_to_num(curvature)
    spread, white = frame.bent(frame.products), frame.white
    bent, turned = np.linalg.eigh(white.transpose(0, 2, 1) @ frame.bent(informed) @ white)
    # The other rows determine the part that is constant along all diverging directions.
    told = spread @ white @ (turned * (bent > INFORMED)[:, None, :])
    left, sizes, _ = np.linalg.svd(told)
    kept = left * (sizes > TOLD * np.maximum(sizes[:, :1], np.finfo(float).tiny))[:, None, :]
    on = kept @ kept.transpose(0, 2, 1)
    off = np.eye(on.shape[1]) - on
    h = on @ frame.bent(curvature) @ on
    scale = np.maximum(np.einsum("gjj->g", h) / on.shape[1], np.finfo(float).tiny)
    whole = np.linalg.pinv(h + scale[:, None, None] * off, rcond=1e-15, hermitian=True)
    return Limit(v, settled, frame, off, on @ whole @ on)


def frame_of(problem: Problem) -> Frame:
    """The frame of features and the intercept."""
    products, intercept = determined.products(problem), float(problem.rows.fit_intercept)
    spanned = determined.span_of(products, problem.rows.fit_intercept)
    n, p = problem.n_groups, problem.d + 1
    unit = np.divide(1.0, spanned.sigma, where=spanned.sigma > 0, out=np.zeros((n, p - 1)))
    base, back, caller = (np.zeros((n, p, p)) for _ in range(3))
    at = np.arange(p - 1)
    base[:, at, at], back[:, at, at] = unit, spanned.sigma
    base[:, -1, :-1], back[:, -1, :-1] = -spanned.mean * unit, spanned.mean
    base[:, -1, -1] = back[:, -1, -1] = intercept
    base[:, -1], back[:, -1] = base[:, -1] * intercept, back[:, -1] * intercept
    caller[:, at, at] = problem.scale
    caller[:, -1, :-1], caller[:, -1, -1] = -problem.scale * problem.shift, 1.0
    return Frame(base, back, caller @ base, products)


def soften_directions(problem: Problem, limit: Limit, ridge: Floats) -> tuple[Floats, Floats]:
    """Weights v (n, p) with the least mean loss and u (ridge u) / 2 along diverging directions,
    all else as at the limit; and that sum (n,). ridge: (n, p, p).
    """
    frame, away = limit.frame, limit.away
    own = frame.to_own(limit.v)
    own -= np.einsum("gjk,gk->gj", away, own)

    def penalise(which: Index, at: Floats) -> Floats:
        added = 0.5 * np.einsum("gj,gjk,gk->g", at, ridge[which], at)
        found = problem.of(which).objective(frame.of(which).to_v(at)) + added
        return np.where(np.isfinite(found), found, np.inf)

    left = np.arange(len(own))
    value = penalise(left, own)
    for _ in range(MOST_STEPS):
        some, off = frame.of(left), away[left]
        found = problem.of(left).evaluate(some.to_v(own[left]), curvature=True)
        gradient = np.einsum("gkj,gk->gj", some.base, found.gradient)
        gradient += np.einsum("gjk,gk->gj", ridge[left], own[left])
        h = some.bent(determined.unpack_triangles(np.asarray(found.hessian))) + ridge[left]
        inverse = np.linalg.pinv(off @ h @ off, rcond=1e-13, hermitian=True)
        step = np.einsum("gjk,gk->gj", off @ inverse @ off, gradient)
        fall = np.einsum("gj,gj->g", step, gradient)
        there, by = penalise(left, own[left] - step), np.ones(len(left))
        near = fall <= SETTLED * np.abs(value[left])
        for _ in range(separation.HALVINGS):
            worse = np.flatnonzero(~near & ~(there <= value[left] - ENOUGH * by * fall))
            if not len(worse):
                break
            by[worse] *= 0.5
            there[worse] = penalise(left[worse], own[left[worse]] - by[worse, None] * step[worse])
        moved = near | (there < value[left])
        own[left[moved]] -= (by[:, None] * step)[moved]
        value[left[moved]] = there[moved]
        left = left[moved & ~near]
        if not len(left):
            break
    return frame.to_v(own), value
