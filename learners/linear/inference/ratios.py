"""Likelihood-ratio tests of whole terms: of all features that a column of a named row became.

For the greatest likelihoods L of all features and L0 without those of a term, 2 log(L / L0) is
asymptotically chi-squared with as many degrees of freedom as directions that only the term spans
(Wilks, The large-sample distribution of the likelihood ratio for testing composite hypotheses,
1938). The model without a term is trained on the same rows by the same plan: a feature whose
scale is 0 is not there. A dispersion of `gamma` is that of all features, as in R's `drop1`; that
of counts is estimated anew unless it is given.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.inference import determined
from tuskml.learners.linear.inference.dispersion import estimates_dispersion, with_dispersion
from tuskml.learners.linear.inference.goodness import log_likelihood, sums_of
from tuskml.learners.linear.inference.last_steps import step_once
from tuskml.learners.linear.inference.outcome import Inference, free_weights, wants_inference
from tuskml.learners.linear.problem import Index, Problem
from tuskml.learners.linear.request import LinearOptions, Request
from tuskml.learners.linear.turns import Turns
from tuskml.learners.models import Lists

"""Descends from weights v (G, p)."""


def term_widths(request: Request, widths: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The number of features of each term of G groups, (G, T), -1 after a group's last one.

    None unless likelihood ratios are requested; widths (G,): features of each group, each of which
    is a term where features are lists.
    """
    if not request.options.likelihood_ratio:
        return None
    terms = request.terms
    each = [[1] * int(d) if terms is None else terms(k) for k, d in enumerate(widths)]
    found = np.full((len(each), max(map(len, each))), -1, np.int64)
    for g, own in enumerate(each):
        found[g, : len(own)] = own
    return found


@dataclass(frozen=True)
class Whole:
    """G groups trained with all their features: inference, weights v (G, p) of the greatest
    likelihood, and for which groups (G,) these are known.
    """

    problem: Problem
    seen: Inference
    v: Floats
    known: NDArray[np.bool_]

    def of(self, which: Index) -> tuple[Problem, Floats]:
        """The problem of some groups and their weights (G, p), for a new descent."""
        part = self.problem.of(which)
        return replace(part, begun=None, before=None), self.v[which].copy()


def likelihood_ratios(
    whole: Whole,
    widths: NDArray[np.int64],
    options: LinearOptions,
    turns: Turns,
    over: Callable[[], bool],
) -> Lists:
    """Degrees of freedom and statistic of each term, two numbers each, of G groups.

    widths: how many features each term has, (G, T), -1 at the end for terms that a group lacks.
    The statistic is NaN where a model is not known to have the greatest likelihood, and where time
    was over() before it was trained.
    """
    usable = np.flatnonzero(has_likelihood(whole, options))

    def statistic(which: Index, dropped: NDArray[np.bool_]) -> Floats:
        return statistics(whole, which, dropped, options, replace(turns))

    return ratios_of(whole.problem, usable, widths, statistic, over)


def ratios_of(
    problem: Problem,
    usable: Index,
    widths: NDArray[np.int64],
    statistic: Callable[[Index, NDArray[np.bool_]], Floats],
    over: Callable[[], bool],
    times: int = 1,
) -> Lists:
    """As `likelihood_ratios`, from the statistic of some groups without some features, (G, d).

    usable: groups whose weights have the greatest likelihood; times: coefficients of a feature.
    """
    n, most = widths.shape
    own = np.maximum(widths, 0)
    found = np.stack([times * own.astype(float), np.full(own.shape, np.nan)], axis=2)
    first = np.cumsum(own, axis=1) - own
    for some in determined.blocks(len(usable), problem.d + 1):
        which = usable[some]
        spans = Spans(problem.of(which))
        for t in range(most):
            dropped = features(first[which, t], own[which, t], problem.d)
            found[which, t, 0] = times * spans.lost_directions(dropped)
            known = np.flatnonzero(found[which, t, 0] > 0)
            if len(known) and not over():
                found[which[known], t, 1] = statistic(which[known], dropped[known])
    return Lists.of_rows(found.reshape(n, 2 * most), 2 * (widths >= 0).sum(axis=1))


def has_likelihood(whole: Whole, options: LinearOptions) -> NDArray[np.bool_]:
    """Groups (G,) whose weights have the greatest likelihood of all."""
    if options.l1 or options.l2 or not wants_inference(whole.problem):
        return np.zeros(whole.problem.n_groups, bool)
    return whole.known


def features(first: Index, widths: NDArray[np.int64], d: int) -> NDArray[np.bool_]:
    """Tests which of d features a term has, (G, d)."""
    at = np.arange(d)
    return np.asarray((at >= first[:, None]) & (at < (first + widths)[:, None]))


class Spans:
    """Ranks of the rows of groups, with and without some features."""

    def __init__(self, problem: Problem) -> None:
        self.intercept = problem.rows.fit_intercept
        self.products = determined.products(problem)
        self.whole = determined.span_of(self.products, self.intercept)
        self.full = self.whole.rank == free_weights(problem)

    def lost_directions(self, dropped: NDArray[np.bool_]) -> Floats:
        """Directions (G,) that are lost without features, (G, d)."""
        gone: Floats = (dropped & (self.whole.sigma > 0)).sum(axis=1).astype(float)
        odd = np.flatnonzero(~self.full & dropped.any(axis=1))
        if len(odd):
            left = np.ones((len(odd), dropped.shape[1] + 1))
            left[:, :-1] = ~dropped[odd]
            kept = self.products[odd] * left[:, :, None] * left[:, None, :]
            gone[odd] = self.whole.rank[odd] - determined.span_of(kept, self.intercept).rank
        return np.asarray(gone, float)


def statistics(
    whole: Whole,
    which: Index,
    dropped: NDArray[np.bool_],
    options: LinearOptions,
    turns: Turns,
) -> Floats:
    """2 log(L / L0) of some groups, (G,); dropped: features that L0 is without, (G, d)."""
    problem, v = whole.of(which)
    v[:, :-1][dropped] = 0.0
    less = replace(problem, scale=np.where(dropped, 0.0, problem.scale))
    state = turns.begin(less, v)
    step_once(less, state)
    if estimates_dispersion(less, options):
        less, state = with_dispersion(less, state, options, turns)
    scale = whole.seen.scale[which]
    most = likelihoods(problem, whole.v[which], scale)
    ratio = 2 * (most - likelihoods(less, state.v, scale))
    return np.where(state.converged, np.maximum(ratio, 0.0), np.nan)


def likelihoods(problem: Problem, v: Floats, scale: Floats) -> Floats:
    """Log-likelihoods (G,) up to a constant that does not depend on weights v (G, p).

    scale (G,): the dispersion of `gamma`.
    """
    rows = replace(problem.rows, loss_only=True)
    losses = rows.gradient(problem.to_caller(v))[:, 0]
    if problem.task.name == "linear":
        return np.asarray(-problem.n_rows / 2 * np.log(losses))
    if problem.task.test == "t":
        return np.asarray(-losses / scale)
    if problem.task.parameter is None:
        return np.asarray(-losses)
    return np.fromiter(size_dispersions(problem, losses), float, len(losses))


def size_dispersions(problem: Problem, losses: Floats) -> Iterator[float]:
    """Log-likelihoods of counts, each with the dispersion of its group."""
    assert problem.rows.parameter is not None
    for g, a in enumerate(problem.rows.parameter[:, 0].tolist()):
        sums = sums_of(problem.rows.groups[g], a)
        yield log_likelihood(problem.task, float(losses[g]), sums, np.nan)
