"""What some rows tell: the spread of the features' variances beside that of all rows."""

from dataclasses import replace

import numpy as np
import pytest
from rows import block, rows_pass

from tuskml.learners.linear.planner.sampling import penalised_spread, spread_of
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.tasks import LINEAR

pytestmark = pytest.mark.native


def with_factors(n, d, shared, seed=0):
    """Features, a share of whose variance a tenth as many factors make."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n, max(2, d // 10)))
    loads = rng.normal(size=(factors.shape[1], d)) / np.sqrt(factors.shape[1])
    return np.sqrt(shared) * factors @ loads + np.sqrt(1 - shared) * rng.normal(size=(n, d))


def problem(x, kind="dense float64", segment_rows=1000):
    """Of one group, in coordinates of mean 0 and variance 1."""
    groups = block(x, np.zeros(len(x)), kind, segment_rows)
    deviation = x.std(axis=0)
    scale = np.divide(1.0, deviation, where=deviation > 0, out=np.zeros_like(deviation))
    shift = x.mean(axis=0)
    made = Problem(rows_pass(groups), LINEAR["linear"], 0.0, 0.0, shift[None], scale[None])
    return groups, made


def true_spread(x):
    """By the correlations of all rows."""
    c = np.corrcoef(x, rowvar=False)
    return np.square(c).sum() / len(c)


@pytest.mark.parametrize("kind", ["dense float32", "dense float64"])
@pytest.mark.parametrize("shared", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("d", [10, 60, 300])
def test_spread_is_that_of_the_correlations(kind, shared, d):
    x = with_factors(5000, d, shared) * np.linspace(1, 100, d) + np.linspace(-50, 50, d)
    _, made = problem(x, kind)
    assert spread_of(made) == pytest.approx(true_spread(x), rel=0.35)


@pytest.mark.parametrize("segment_rows", [100, 700, 20_000])
def test_rows_in_order_do_not_mislead(segment_rows):
    """Sorted by a feature, rows side by side are alike."""
    x = with_factors(20_000, 40, 0.5)
    x = x[np.argsort(x[:, 0])]
    _, made = problem(x, segment_rows=segment_rows)
    assert spread_of(made) == pytest.approx(true_spread(x), rel=0.35)


def test_constant_features_do_not_count():
    x = with_factors(3000, 40, 0.5)
    _, alone = problem(x)
    _, beside = problem(np.hstack([x, np.full((3000, 40), 7.0)]))
    assert spread_of(beside) == pytest.approx(spread_of(alone), rel=1e-6)


def test_too_few_rows_tell_nothing():
    _, made = problem(with_factors(10, 5, 0.5))
    assert spread_of(made) is None
    _, made = problem(np.ones((100, 5)))
    assert spread_of(made) is None


@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_a_penalty_makes_features_of_very_different_units_ill_conditioned(task):
    """The curvature of standardised features with the penalty's own, summed up by hand."""
    x = with_factors(5000, 40, 0.5) * np.logspace(-4, 3, 40)
    _, made = problem(x)
    made = replace(made, task=LINEAR[task], l2=1e-3)
    bend = 0.25 if task == "logistic" else 1.0
    whole = np.corrcoef(x, rowvar=False) + np.diag(1e-3 / x.var(axis=0)) / bend
    expected = np.square(whole).sum() * 40 / np.trace(whole) ** 2
    assert expected > 5 * true_spread(x)
    spread = spread_of(made)
    assert spread == pytest.approx(true_spread(x), rel=0.35)
    assert penalised_spread(made, spread) == pytest.approx(expected, rel=0.05)
    assert penalised_spread(replace(made, l2=0.0), spread) == pytest.approx(spread)
