"""The line search: the parabola's least value, and objectives that may rise for a while."""

import numpy as np
import pytest
from fitting import fit, put
from hypothesis import given
from hypothesis import strategies as st

from tuskml.learners.linear.algorithms import lbfgs
from tuskml.learners.linear.algorithms.parts.batch import (
    LEAST_SHRUNK,
    MOST_SHRUNK,
    Bounds,
    backtrack,
    shrunk,
)
from tuskml.learners.linear.problem import Found, Problem

pytestmark = pytest.mark.native


def quadratic(curvature):
    """1/2 curvature v^2 of G groups of one weight, as a pass would find it."""

    def look(which, v):
        a = curvature[which]
        objective = 0.5 * a * v[:, 0] ** 2
        return Found(objective, a[:, None] * v, np.abs(a * v[:, 0]), np.zeros(len(v)))

    return look


def searched(curvature, step, highest=None):
    """From v = 1 along minus the gradient; weights and steps."""
    look, v = quadratic(curvature), np.ones((len(curvature), 1))
    every = np.arange(len(curvature))
    found, step = look(every, v), np.array(step, float)

    def propose(which, by):
        return v[which] - by[:, None] * found.gradient[which]

    def gain(which, candidate):
        return ((candidate - v[which]) * found.gradient[which])[:, 0]

    new, there, moved = backtrack(look, v, found, step, propose, gain, Bounds(highest))
    assert moved.all()
    np.testing.assert_allclose(there.objective, look(every, new).objective)
    return new[:, 0], step


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=5), st.floats(2.5, 40))
def test_a_parabola_s_least_value_is_found_at_once(curvatures, times):
    """A step that is too long by so many times is shortened to the one that minimises."""
    a = np.array(curvatures)
    new, step = searched(a, times / a)
    np.testing.assert_allclose(step, 1 / a, rtol=1e-9)
    np.testing.assert_allclose(new, 0, atol=1e-9)


@given(st.floats(-1e9, 1e9) | st.sampled_from([np.inf, np.nan]), st.floats(-1e9, -1e-9))
def test_steps_shrink_within_bounds(rise, promised):
    share = shrunk(np.array([rise]), np.array([promised]))[0]
    assert MOST_SHRUNK <= share <= LEAST_SHRUNK


def test_an_objective_may_rise_to_the_highest_of_late():
    """2.5 times too long a step makes the objective 1.5^2 times as high: one may."""
    a = np.ones(2)
    new, step = searched(a, [2.5, 2.5], highest=np.array([0.5, 2.0]))
    np.testing.assert_allclose(step, [1.25, 2.5])
    np.testing.assert_allclose(new, [-0.25, -1.5])


def evaluations(monkeypatch):
    """Counts passes over the rows."""
    count, inner = [0], Problem.evaluate

    def counted(self, *args, **kwargs):
        count[0] += 1
        return inner(self, *args, **kwargs)

    monkeypatch.setattr(Problem, "evaluate", counted)
    return count


def rare(n=1200, d=120, seed=0):
    """Classes by features of which few occur often."""
    rng = np.random.default_rng(seed)
    x = (rng.random((n, d)) < 0.5 / np.arange(1, d + 1)) * rng.uniform(0.2, 1, (n, d))
    y = x @ rng.normal(scale=3, size=d) + rng.logistic(size=n) > 0
    return x, y.astype(float)


@pytest.mark.nightly
def test_first_guess_of_rare_features_spares_passes(con, monkeypatch):
    """It ends at the same objective as newton, by fewer passes in all than without a guess."""
    x, y = rare()
    put(con, x, y)
    features = f"sparse([{', '.join(str(i) for i in range(x.shape[1]))}], x)"
    count, took = evaluations(monkeypatch), {True: 0, False: 0}
    for task in ("linear", "logistic", "svm"):
        best = fit(con, task, features=features, algorithm="newton", l2=1e-4, epsilon=1e-7)
        for guessed in (True, False):
            with monkeypatch.context() as changed:
                if not guessed:
                    changed.setattr(lbfgs, "first_guess", lambda problem: None)
                count[0] = 0
                options = {"algorithm": "lbfgs", "l2": 1e-4, "epsilon": 1e-4}
                model = fit(con, task, features=features, **options)
            took[guessed] += count[0]
            assert model.converged
            assert model.loss == pytest.approx(best.loss, abs=2e-4)
    assert took[True] < took[False]


def test_line_search_of_bgd_seldom_looks_twice(con, monkeypatch):
    """Barzilai and Borwein's steps are left as long as they are."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 20)) + 2 * rng.normal(size=(2000, 1))
    y = x @ rng.normal(size=20) + rng.normal(size=2000)
    put(con, x, y)
    count = evaluations(monkeypatch)
    model = fit(con, "linear", algorithm="bgd", epsilon=1e-10)
    assert model.converged
    assert model.iterations > 20
    assert count[0] < 1.5 * model.iterations
    assert min(np.diff(model.history)) < 0 < max(np.diff(model.history))


def test_where_the_loss_decides_bgd_s_objective_falls(con):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 20)) + 2 * rng.normal(size=(2000, 1))
    y = x @ rng.normal(size=20) + rng.normal(size=2000)
    put(con, x, y)
    model = fit(con, "linear", algorithm="bgd", epsilon=1e-9, converge="loss")
    assert model.converged
    assert (np.diff(model.history) <= 0).all()
