"""Custom tasks, registered for each test of a module, and rows for them."""

import numpy as np
import pytest
from fitting import put
from own import HUBER, LOGIT, POISSON, huber_loss, own_things
from scipy.optimize import minimize

import tuskml


@pytest.fixture
def own_tasks():
    with own_things():
        tuskml.register_task("own_huber", **HUBER)
        tuskml.register_task("own_poisson", **POISSON)
        tuskml.register_task("logit", **LOGIT)
        yield


@pytest.fixture
def counted(con):
    """3,000 rows: outliers in y, counts c, groups k."""
    rng = np.random.default_rng(5)
    n = 3000
    x = rng.normal(size=(n, 3)) * [1.0, 20.0, 0.1] + [0.0, 5.0, 0.0]
    y = x @ [1.0, -0.2, 3.0] + 2 + rng.standard_t(2, size=n)
    c = rng.poisson(np.exp(x @ [0.3, 0.02, -1.0] + 0.2))
    put(con, x, y, c=c, k=np.arange(n) % 5)
    return x, y, c, np.arange(n) % 5


def huber_optimum(x, y, l2=0.0):
    """Coefficients and intercept by scipy."""
    wide = np.column_stack([x, np.ones(len(x))])
    ridge = np.r_[np.full(x.shape[1], l2), 0.0]

    def objective(w):
        r = np.clip(wide @ w - y, -1.345, 1.345)
        return huber_loss(wide @ w, y).mean() + ridge @ w**2 / 2, wide.T @ r / len(y) + ridge * w

    start = np.linalg.lstsq(wide, y, rcond=None)[0]
    found = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-10})
    return found.x, found.fun
