"""The lasso on STRADS's sample: its published optima, by the kernels and as a program."""

import sys
from pathlib import Path

import numpy as np
import pytest
from rows import block
from sklearn.linear_model import Lasso as SkLasso

import tuskml
from tuskml.kernels.passes import Pass
from tuskml.kernels.paths import SQUARED, Rules, fit
from tuskml.learners.paths.scheduled import Lasso, Rows
from tuskml.schedule import Correlations, Dynamic, Prioritised

sys.path.append(str(Path(__file__).parent))
from strads import OBJECTIVES, objective, sample


@pytest.mark.native
@pytest.mark.parametrize("kind", ["dense float64", "sparse float64"])
@pytest.mark.parametrize("penalty", OBJECTIVES)
def test_the_kernels_reach_the_published_optimum(kind, penalty):
    x, y = sample()
    rows = Pass(block(x, y, kind), SQUARED, None, None, False, 1)
    rules = Rules(SQUARED, 1, 1.0, 1e-12, 10**6, penalties=(penalty / len(y),))
    points, weights = fit(rows, rules, None, 0)
    best = OBJECTIVES[penalty]
    assert objective(x, y, weights[0].dense(0, 1000), penalty) == pytest.approx(best, abs=1e-10)
    assert points[0, 0]["objective"] * len(y) == pytest.approx(best, abs=1e-10)


@pytest.mark.parametrize(("depth", "workers"), [(1, 1), (3, 2)])
def test_scheduled_updates_reach_the_published_optimum(depth, workers):
    x, y = sample()
    best = OBJECTIVES[0.1]
    order = Prioritised(1000, Correlations(x), at_once=16, threshold=0.3)
    program = Lasso(0.1, (x**2).sum(axis=0), order)
    data = [Rows(x[part], y[part]) for part in np.array_split(np.arange(500), workers)]

    def after(n, w):
        return n % 20 == 0 and objective(x, y, w, 0.1) < best + 1e-8

    engine = Dynamic(2000, depth, after)
    found = tuskml.run_program(program, np.zeros(1000), data, engine)
    assert objective(x, y, found.model, 0.1) == pytest.approx(best, abs=1e-8)
    assert found.iterations < 2000


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("depth", [1, 3])
def test_dependent_weights_are_corrected_by_what_the_others_changed(depth):
    """All weights at once, whose columns are almost the same ones: no threshold excludes any."""
    random = np.random.default_rng(1)
    x = random.normal(size=(200, 1)) + 0.3 * random.normal(size=(200, 40))
    y = x @ random.normal(size=40) + random.normal(size=200)
    best = SkLasso(2.0 / 200, fit_intercept=False, tol=1e-12, max_iter=10**6).fit(x, y).coef_
    order = Prioritised(40, Correlations(x), at_once=20, threshold=2.0)
    program = Lasso(2.0, (x**2).sum(axis=0), order)
    data = [Rows(x[:50], y[:50]), Rows(x[50:], y[50:])]
    found = tuskml.run_program(program, np.zeros(40), data, Dynamic(3000, depth))
    reached = objective(x, y, found.model, 2.0)
    assert reached == pytest.approx(objective(x, y, best, 2.0), rel=1e-6)


@pytest.mark.parametrize("looks", [True, False])
def test_dependent_weights_are_not_updated_at_the_same_time(looks):
    """Eight copies of each column: each of their updates takes all of the residual."""
    random = np.random.default_rng(0)
    one = random.normal(size=(100, 8))
    x, y = np.repeat(one, 8, axis=1), one @ np.arange(8) + random.normal(size=100)
    order = Prioritised(64, Correlations(x) if looks else None, at_once=64, threshold=0.5)
    program = Lasso(1.0, (x**2).sum(axis=0), order)
    found = tuskml.run_program(program, np.zeros(64), [Rows(x, y)], Dynamic(10))
    best = objective(one, y, np.linalg.lstsq(one, y)[0], 1.0)
    assert (objective(x, y, found.model, 1.0) < 2 * best) == looks
