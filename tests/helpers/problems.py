"""Well and ill conditioned problems, and tests of an optimum."""

import numpy as np
import pytest
from fitting import conditioned, objective

EXACT = ["bgd", "lbfgs", "newton", "newton_cg", "svrg"]
STOCHASTIC = ["mgd", "sgd", "hogwild", "hogbatch"]
TASKS = ["linear", "logistic"]
N = 600


def labels(task, margins, rng):
    """Noisy labels that follow the margins; classes overlap."""
    if task == "linear":
        return margins + rng.normal(size=len(margins))
    return (margins + rng.logistic(size=len(margins)) > 0).astype(float)


def well(task, n=N, seed=0):
    """Four independent features of unit size."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    return x, labels(task, x @ [1.0, -0.5, 0.25, 0.0] + 0.3, rng)


def ill(task, n=N, seed=0):
    """Units from 1e-3 to 1e6 away from zero, and two features that correlate by 0.9999."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 5))
    z[:, 4] = z[:, 3] + 0.014 * z[:, 4]
    y = labels(task, z @ [1.0, -0.5, 0.25, 0.5, -0.25] + 0.3, rng)
    return z * [1e-3, 1.0, 1e3, 1e6, 1e6] + [5e-3, 0.0, -2e3, 1e6, 3e6], y


def measures(options):
    """The options that `objective` knows."""
    return {k: options[k] for k in ("l1", "l2", "class_weight") if k in options}


def assert_optimal(task, x, y, model, epsilon, options):
    """The optimality condition holds to epsilon in units of the data, and the loss is right."""
    assert (model.status, model.converged) == ("ok", True)
    fitted = options.get("fit_intercept", True)
    off = conditioned(task, x, y, model, fit_intercept=fitted, **measures(options))
    assert (off <= epsilon * (1 + 1e-9) + 1e-13).all(), off
    if not fitted:
        assert model.intercept == 0
    expected = objective(task, x, y, model, **measures(options))
    assert model.loss == pytest.approx(expected, rel=1e-12)


def standardised(x, model):
    """Coefficients in units of one standard deviation: comparable whatever the features' units."""
    return np.append(model.coef * x.std(axis=0), model.intercept + x.mean(axis=0) @ model.coef)
