"""Tasks and operators that a user might write, for the tests of open operators."""

from contextlib import contextmanager

import numpy as np

from tuskml.learners.linear import tasks
from tuskml.learners.linear.own import operators as own_operators
from tuskml.learners.options.table import forget_parsed

DELTA = 1.345


def huber_loss(m, y):
    """Huber, Robust estimation of a location parameter, 1964."""
    r = np.abs(m - y)
    return np.where(r <= DELTA, 0.5 * r * r, DELTA * (r - 0.5 * DELTA))


HUBER = {
    "loss": huber_loss,
    "derivative": lambda m, y: np.clip(m - y, -DELTA, DELTA),
    "curvature": lambda m, y: (np.abs(m - y) <= DELTA) * 1.0,
    "formula": "Huber's loss of m - y",
}
POISSON = {
    "loss": lambda m, y: np.exp(m) - y * m,
    "derivative": lambda m, y: np.exp(m) - y,
    "curvature": lambda m, y: np.exp(m),
    "response": "exp",
    "likelihood": True,
    "formula": "exp(m) - y m",
}
LOGIT = {
    "loss": lambda m, y: np.logaddexp(0, -y * m),
    "derivative": lambda m, y: -y / (1 + np.exp(y * m)),
    "curvature": lambda m, y: 1 / (2 + np.exp(m) + np.exp(-m)),
    "labels": "classes",
    "response": "logistic",
    "likelihood": True,
}


@contextmanager
def own_things():
    """Unregisters custom objects at the end."""
    try:
        yield
    finally:
        tasks.OWN.clear()
        own_operators.ALGORITHMS.clear()
        for names in own_operators.OPERATORS.values():
            names.clear()
        forget_parsed()
