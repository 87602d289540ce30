"""How much work it takes to prove that a training of the logistic loss has an optimum."""

import numpy as np
import pytest
from rows import block, rows_pass
from sklearn.linear_model import LogisticRegression

from tuskml.kernels.passes import Pass
from tuskml.learners.linear.inference import outcome
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import Plan
from tuskml.learners.linear.tasks import LINEAR

pytestmark = pytest.mark.native


def test_the_proof_goes_on_where_a_rough_training_ended(monkeypatch):
    """Newton's method converges from there; from 0 on it would begin all over again.

    The optimum is scikit-learn's. Weights a fifth above it are so far off that the first step
    proves nothing.
    """
    rng = np.random.default_rng(8)
    x = rng.standard_normal((3000, 1)) + 0.05 * rng.standard_normal((3000, 6))
    weights = 3 * rng.standard_normal(6)
    y = (x @ weights + rng.logistic(size=3000) > 0).astype(float)
    rows = rows_pass(block(x, y), "logistic")
    problem = Problem(rows, LINEAR["logistic"], 0.0, 0.0, np.zeros((1, 6)), np.ones((1, 6)))
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(x, y)

    def ended():
        state = State.at(1.2 * np.append(peer.coef_[0], peer.intercept_)[None, :])
        state.converged[:], state.running[:] = True, False
        return state

    passes = []
    curvature = Pass.curvature

    def counted(self, *given, **named):
        passes.append(given)
        return curvature(self, *given, **named)

    monkeypatch.setattr(Pass, "curvature", counted)
    monkeypatch.setattr(outcome, "refine", lambda *given: None)
    plan = Plan(
        "lbfgs", 5, 1e-2, "gradient", "auto", "constant", 1, False, False, False, 0, 1,
        (0.0,), 1, "",
    )  # fmt: skip
    seen = outcome.infer(problem, ended(), plan)
    assert not seen.parted.any()
    near = len(passes)
    monkeypatch.setattr(outcome.separation, "MOST_NEAR", 0)
    again = outcome.infer(problem, ended(), plan)
    assert not again.parted.any()
    assert 2 <= near < len(passes) - near
