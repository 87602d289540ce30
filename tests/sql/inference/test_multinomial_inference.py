"""Robust errors, goodness of fit and stochastic training of many classes, against statsmodels."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.linalg import fractional_matrix_power

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there
from test_clusters import fit as fit_clusters

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(92)
N, CLUSTERS = 400, 23
G = RANDOM.integers(0, CLUSTERS, N)
SHARED = RANDOM.normal(size=CLUSTERS)[G]
X = RANDOM.normal(size=(N, 2)) * [1, 3] + np.c_[SHARED, np.full(N, 2.0)]
WHOLE = sm.add_constant(X)
MARGINS = WHOLE @ np.array([[0, 0, 0], [0.3, 0.5, -0.2], [-0.4, -0.6, 0.1]]).T
MARGINS[:, 1] += 0.6 * SHARED
Y = (MARGINS + RANDOM.gumbel(size=MARGINS.shape)).argmax(axis=1).astype(float)
WEIGHT = RANDOM.integers(0, 4, N)
PRECISE = {"epsilon": 1e-10}


def truth(**given: Any) -> Any:
    return sm.MNLogit(Y, WHOLE).fit(disp=False, method="newton", tol=1e-12, **given)


def errors(model: Any) -> Any:
    """(2, 3): of the classes but the first, the intercept's first."""
    return np.array(model.std_err, float).reshape(3, 3)[1:]


@pytest.mark.parametrize("storage", ["dense", "sparse", "float"])
def test_robust_errors_are_statsmodels(client: Client, storage: str) -> None:
    model = client.fit("logistic", X, Y, storage, covariance="HC0", **PRECISE)
    rel = 1e-4 if storage == "float" else 1e-7
    assert errors(model) == pytest.approx(truth(cov_type="HC0").bse.T, rel=rel)
    corrected = client.fit("logistic", X, Y, storage, covariance="HC1", **PRECISE)
    assert errors(corrected) == pytest.approx(errors(model) * np.sqrt(N / (N - 6)), rel=1e-9)


def by_leverage(x: Any, y: Any, power: float) -> Any:
    """The roots of the diagonal of the sandwich of scores (1 - W Z A Z')^-power r, Z the row for
    each class but the first: the block of a row in the hat matrix of least squares for vectors.
    """
    fitted = sm.MNLogit(y, x).fit(disp=False, method="newton", tol=1e-12)
    shares = fitted.predict(x)[:, 1:]
    k, p = shares.shape[1], x.shape[1]
    rows = [np.kron(np.eye(k), row) for row in x]
    curved = [np.diag(share) - np.outer(share, share) for share in shares]
    inverse = np.linalg.inv(sum(z.T @ w @ z for z, w in zip(rows, curved, strict=True)))
    middle = np.zeros((k * p, k * p))
    for z, w, share, own in zip(rows, curved, shares, y.astype(int), strict=True):
        left = np.eye(k) - w @ z @ inverse @ z.T
        slope = share - (np.arange(1, k + 1) == own)
        score = z.T @ fractional_matrix_power(left, -power) @ slope
        middle += np.outer(score, score)
    return np.sqrt(np.diag(inverse @ middle @ inverse)).reshape(k, p)


@pytest.mark.parametrize(("covariance", "power"), [("HC2", 0.5), ("HC3", 1.0)])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_leverages_are_those_of_the_hat_matrix(
    client: Client, covariance: str, power: float, storage: str
) -> None:
    """Of few rows, one of which lies far from the others."""
    x, y = np.r_[X[:60], [[7.0, -9.0]]], np.r_[Y[:60], 1.0]
    model = client.fit("logistic", x, y, storage, covariance=covariance, **PRECISE)
    assert errors(model) == pytest.approx(by_leverage(sm.add_constant(x), y, power), rel=1e-7)


def test_leverages_of_many_classes(here: Client) -> None:
    random = np.random.default_rng(5)
    x, y = random.normal(size=(160, 1)), random.integers(0, 12, 160).astype(float)
    model = here.fit("logistic", x, y, covariance="HC2", **PRECISE)
    found = np.array(model.std_err).reshape(12, 2)[1:]
    assert found == pytest.approx(by_leverage(sm.add_constant(x), y, 0.5), rel=1e-7)


@pytest.mark.parametrize("covariance", ["HC2", "HC3"])
def test_the_class_of_reference_makes_no_difference(client: Client, covariance: str) -> None:
    """The odds of the last class against the first have the errors of the reverse."""
    x, y, how = X[:80], Y[:80], PRECISE | {"covariance": covariance}
    model, other = client.fit("logistic", x, y, **how), client.fit("logistic", x, 2 - y, **how)
    assert errors(model)[1] == pytest.approx(errors(other)[1], rel=1e-7)


def test_clustered_errors_are_statsmodels(client: Client) -> None:
    model = fit_clusters(client, "logistic", Y, x=X, g=G)
    fitted = truth(cov_type="cluster", cov_kwds={"groups": G})
    assert errors(model) == pytest.approx(fitted.bse.T, rel=1e-6)
    assert model.options["clusters"] == CLUSTERS
    assert model.features == ["a", "b"]


@pytest.mark.parametrize("covariance", ["HC0", "HC1", "HC2", "HC3"])
def test_a_row_of_weight_two_is_two_rows(client: Client, covariance: str) -> None:
    how = PRECISE | {"covariance": covariance}
    weighted = client.fit("logistic", X, Y, more={"w": WEIGHT}, **how)
    x, y = np.repeat(X, WEIGHT, axis=0), np.repeat(Y, WEIGHT)
    assert errors(weighted) == pytest.approx(errors(client.fit("logistic", x, y, **how)), rel=1e-6)


def test_two_classes_and_many_have_the_same_robust_errors(here: Client) -> None:
    """A third class far away, of which one row is left, changes next to nothing."""
    two = Y < 2
    x, y = np.r_[X[two], [[0.0, 0.0]]], np.r_[Y[two], 2.0]
    many = here.fit("logistic", x, y, l2=0, more={"w": np.r_[np.ones(two.sum()), 1e-9]})
    plain = here.fit("logistic", X[two], Y[two])
    assert many.coef[4:6] == pytest.approx(plain.coef, abs=1e-3)


FIT = "SELECT n, parameters, log_likelihood, deviance, null_deviance, aic, bic, r2 FROM model_fit"


@pytest.mark.parametrize("weighted", [False, True])
def test_goodness_of_fit_is_statsmodels(client: Client, weighted: bool) -> None:
    weight = WEIGHT if weighted else np.ones(N, int)
    y, x = np.repeat(Y, weight), np.repeat(WHOLE, weight, axis=0)
    fitted = sm.MNLogit(y, x).fit(disp=False, method="newton", tol=1e-12)
    source, parameters = client.rows(X, Y, w=weight)
    call = "train_model('logistic', y, ARRAY[c0, c1], '{\"fit\": true, \"epsilon\": 1e-10}', w)"
    sql = f"{FIT}((SELECT {call} FROM {source}))"
    (found,) = client.connection.execute(sql, parameters).fetchall()
    expected = (
        *(len(y), 6, fitted.llf, -2 * fitted.llf, -2 * fitted.llnull),
        *(fitted.aic, fitted.bic, fitted.prsquared),
    )
    assert found == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", [{}, {"l2": 0.05}, {"class_weight": "balanced"}])
@pytest.mark.parametrize("algorithm", ["sgd", "mgd"])
def test_stochastic_steps_end_at_the_optimum(
    here: Client, algorithm: str, options: dict[str, Any], weighted: bool
) -> None:
    more = {"w": WEIGHT} if weighted else None
    best = here.fit("logistic", X, Y, more=more, **PRECISE, **options)
    how = {"epsilon": 0, "max_iter": 200, "algorithm": algorithm, "seed": 3}
    model = here.fit("logistic", X, Y, more=more, **how, **options)
    assert np.abs(model.coef - best.coef).max() < 0.05
    assert best.loss <= model.loss + 1e-12
    assert model.loss == pytest.approx(best.loss, abs=3e-4)


@pytest.mark.parametrize("algorithm", ["sgd", "mgd"])
def test_stochastic_steps_on_sparse_rows(here: Client, algorithm: str) -> None:
    """Many rare features, as of words, with the penalty that these want."""
    features = RANDOM.integers(0, 60, (1500, 4))
    x = np.zeros((1500, 60))
    x[np.arange(1500)[:, None], features] = 1.0
    margins = x @ RANDOM.normal(size=(60, 4))
    y = (margins + RANDOM.gumbel(size=margins.shape)).argmax(axis=1).astype(float)
    how = {"l2": 0.001, "fit_intercept": False}
    best = here.fit("logistic", x, y, "sparse", **PRECISE, **how)
    how |= {"epsilon": 0, "max_iter": 60, "algorithm": algorithm, "seed": 3}
    model = here.fit("logistic", x, y, "sparse", **how)
    zero = np.log(4)
    assert best.loss <= model.loss + 1e-12
    assert model.loss - best.loss < 0.02 * (zero - best.loss)


def test_both_databases_have_the_stochastic_algorithms(client: Client) -> None:
    model = client.fit("logistic", X, Y, algorithm="mgd", deterministic=True, max_iter=100)
    best = client.fit("logistic", X, Y)
    assert model.loss == pytest.approx(best.loss, abs=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "hogwild"}, "expected 'auto', 'newton', .*'sgd'"),
    ],
)
def test_others_are_refused(here: Client, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        here.fit("logistic", X, Y, **options)
