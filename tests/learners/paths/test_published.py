"""Published models of prostate cancer: The Elements of Statistical Learning, table 3.3."""

from pathlib import Path

import numpy as np
import pytest
from rows import block

from tuskml.kernels.passes import Pass
from tuskml.kernels.paths.fitting import SQUARED, Rules, fit

pytestmark = pytest.mark.native

FILE = Path(__file__).parent / "data" / "prostate.csv"
LEAST_SQUARES = [2.465, 0.680, 0.263, -0.141, 0.210, 0.305, -0.288, -0.021, 0.267]
LASSO = [2.468, 0.533, 0.169, 0, 0.002, 0.094, 0, 0, 0]
"""The intercept, and the weights of lcavol, lweight, age, lbph, svi, lcp, gleason and pgg45."""


def path(penalties):
    """Intercepts and weights, (k, 9), of the training rows; columns have variance 1 over all."""
    table = np.loadtxt(FILE, delimiter=",", skiprows=1)
    x, y, train = table[:, :8], table[:, 8], table[:, 9] == 1
    x = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    rows = Pass(block(x[train], y[train]), SQUARED, None, None, True, 1)
    given = tuple(penalties.tolist())
    rules = Rules(SQUARED, len(given), 1.0, 1e-12, 10**6, standardize=True, penalties=given)
    points, weights = fit(rows, rules, None, 0)
    coefs = [weights[0].dense(k, 8) for k in range(len(given))]
    return np.column_stack([points[0]["intercept"], coefs])


def test_a_small_penalty_gives_the_published_least_squares():
    assert path(np.array([1e-9]))[0] == pytest.approx(LEAST_SQUARES, abs=5.1e-4)


def test_a_penalty_of_the_path_gives_the_published_lasso():
    """The book has the share of the largest norm with two digits alone, not the penalty."""
    found = path(np.geomspace(0.3, 0.15, 300))
    far = np.abs(found - LASSO).max(axis=1)
    nearest = found[far.argmin()]
    assert far.min() < 1e-3
    assert np.flatnonzero(nearest).tolist() == np.flatnonzero(LASSO).tolist()
