"""Published models: of prostate cancer (The Elements of Statistical Learning, table 3.3), and
glmnet's of salaries in baseball (An Introduction to Statistical Learning, section 6.6)."""

import csv
from pathlib import Path

import numpy as np
import pytest
from rows import block

from tuskml.kernels.passes import Pass
from tuskml.kernels.paths import SQUARED, Rules, fit

pytestmark = pytest.mark.native

DATA = Path(__file__).parent / "data"
LEAST_SQUARES = [2.465, 0.680, 0.263, -0.141, 0.210, 0.305, -0.288, -0.021, 0.267]
LASSO = [2.468, 0.533, 0.169, 0, 0.002, 0.094, 0, 0, 0]
"""The intercept, and the weights of lcavol, lweight, age, lbph, svi, lcp, gleason and pgg45."""


def path(penalties):
    """Intercepts and weights, (k, 9), of the training rows; columns have variance 1 over all."""
    table = np.loadtxt(DATA / "prostate.csv", delimiter=",", skiprows=1)
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


HITTERS = [
    "AtBat", "Hits", "HmRun", "Runs", "RBI", "Walks", "Years", "CAtBat", "CHits", "CHmRun",
    "CRuns", "CRBI", "CWalks", "League", "Division", "PutOuts", "Assists", "Errors", "NewLeague",
]  # fmt: skip
GRID = 10 ** np.linspace(10, -2, 100)
"""The penalties of the book's fits; glmnet interpolates between two of them for others."""
CATEGORIES = {"N": 1.0, "W": 1.0, "A": 0.0, "E": 0.0}
SALARIES = {
    16.78016: {  # the first edition's choice, page 255
        "": 18.5394844, "Hits": 1.8735390, "Walks": 2.2178444, "CRuns": 0.2071252,
        "CRBI": 0.4130132, "League": 3.2666677, "Division": -103.4845458, "PutOuts": 0.2204284,
    },
    9.286955: {  # that of the second edition, page 279
        "": 1.27479059, "AtBat": -0.05497143, "Hits": 2.18034583, "Walks": 2.29192406,
        "Years": -0.33806109, "CHmRun": 0.02825013, "CRuns": 0.21628385, "CRBI": 0.41712537,
        "League": 20.28615023, "Division": -116.16755870, "PutOuts": 0.23752385,
        "Errors": -0.85629148,
    },
}  # fmt: skip
RIDGE = [
    407.356050200, 0.036957182, 0.138180344, 0.524629976, 0.230701523, 0.239841459, 0.289618741,
    1.107702929, 0.003131815, 0.011653637, 0.087545670, 0.023379882, 0.024138320, 0.025015421,
    0.085028114, -6.215440973, 0.016482577, 0.002612988, -0.020502690, 0.301433531,
]  # fmt: skip
"""At the penalty 11497.57 (first edition, page 252)."""


def salaries():
    """Features (263, 19) and salaries."""
    with (DATA / "hitters.csv").open() as file:
        table = list(csv.DictReader(file))
    x = [[float(CATEGORIES.get(one[name], one[name])) for name in HITTERS] for one in table]
    return np.array(x), np.array([float(one["Salary"]) for one in table])


def of_salaries(penalties, alpha=1.0):
    """Intercepts and weights, (k, 20), with the penalty on scaled features as glmnet has it."""
    x, y = salaries()
    given = tuple(penalties)
    rules = Rules(SQUARED, len(given), alpha, 1e-12, 10**6, standardize=True, penalties=given)
    points, weights = fit(Pass(block(x, y), SQUARED, None, None, True, 1), rules, None, 0)
    coefs = [weights[0].dense(k, len(HITTERS)) for k in range(len(given))]
    return np.column_stack([points[0]["intercept"], coefs])


def objective(model, penalty):
    """That of the lasso for an intercept and weights."""
    x, y = salaries()
    residual = y - model[0] - x @ model[1:]
    return residual @ residual / (2 * len(y)) + penalty * np.abs(model[1:] * x.std(axis=0)).sum()


@pytest.mark.parametrize("penalty", SALARIES)
def test_the_lasso_of_salaries_is_glmnet_s(penalty):
    """It ends at 1e-7 of the labels' squares; effects differ by 3 of 450, the spread."""
    published = np.array([SALARIES[penalty].get(name, 0.0) for name in ["", *HITTERS]])
    at = np.searchsorted(-GRID, -penalty)
    above, below = of_salaries(GRID[at - 1 : at + 1])
    share = (penalty - GRID[at]) / (GRID[at - 1] - GRID[at])
    found = share * above + (1 - share) * below
    assert np.flatnonzero(found).tolist() == np.flatnonzero(published).tolist()
    scale = np.r_[1, salaries()[0].std(axis=0)]
    assert found * scale == pytest.approx(published * scale, abs=3)
    (exact,) = of_salaries([penalty])
    assert objective(exact, penalty) <= objective(published, penalty)
    assert objective(published, penalty) == pytest.approx(objective(found, penalty), rel=1e-4)


@pytest.mark.parametrize(("penalty", "norm"), [(11497.57, 6.360612), (705.4802, 57.11001)])
def test_ridge_regression_of_salaries_is_glmnet_s(penalty, norm):
    """A ridge penalty counts there for labels of variance 1 (glmnet's appendix on families)."""
    _, y = salaries()
    (found,) = of_salaries([penalty / y.std()], alpha=1e-9)
    assert np.linalg.norm(found[1:]) == pytest.approx(norm, rel=2e-5)
    if norm < 10:
        assert found == pytest.approx(RIDGE, rel=1e-5, abs=5e-6)
