"""Paths of penalties: scikit-learn's optima and paths, and the conditions of an optimum."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import block, together
from sklearn.linear_model import ElasticNet, Lasso, LassoCV, lasso_path
from sklearn.model_selection import LeaveOneOut

from tuskml.kernels.passes import Pass
from tuskml.kernels.paths import LOGISTIC, POINT, SQUARED, Rules, Weights, fit, write_paths
from tuskml.learners.paths.options import Path, PathOptions
from tuskml.learners.paths.outcome import choose_penalty, status_of

pytestmark = pytest.mark.native

KINDS = ("dense float64", "sparse float64", "dense float32", "sparse float32")
TOLERANCE = 1e-11


def correlated(n=120, d=300, seed=0):
    """Rows of correlated features, most of them 0, and labels of ten of them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    x[:, 1:] += 0.8 * x[:, :-1]
    x[np.abs(x) < 0.7] = 0
    x = x.astype(np.float32).astype(float)
    y = x[:, :10] @ rng.normal(size=10) + rng.normal(size=n) + 2
    return x, y


def fitted(groups, penalties, loss=SQUARED, intercept=True, free=None, threads=1, **how):
    """Points and weights of the paths of groups."""
    positive = np.ones(len(groups)) if loss == LOGISTIC else None
    rows = Pass(groups, loss, positive, None, intercept, threads)
    given = {"alpha": 1.0, "tolerance": TOLERANCE, "max_epochs": 10**6} | how
    length = given.pop("length", None) or len(penalties)
    rules = Rules(loss, length, penalties=penalties and tuple(penalties), **given)
    return fit(rows, rules, free, 0)


def objective(x, y, w, b, penalty, alpha=1.0, weight=None, logistic=False):
    """That of glmnet, with rows' weights that count by their share."""
    a = np.full(len(y), 1 / len(y)) if weight is None else weight / weight.sum()
    margin = x @ w + b
    loss = np.logaddexp(0, margin) - y * margin if logistic else (y - margin) ** 2 / 2
    return a @ loss + penalty * (alpha * np.abs(w).sum() + (1 - alpha) / 2 * w @ w)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [
    {}, {"weighted": True}, {"positive": True}, {"intercept": False}, {"alpha": 0.3},
    {"alpha": 0.5, "weighted": True, "positive": True, "intercept": False},
])  # fmt: skip
def test_the_optimum_is_scikit_learn_s(kind, how):
    x, y = correlated()
    how = dict(how)
    weight = np.random.default_rng(1).uniform(0.1, 3, len(y)) if how.pop("weighted", 0) else None
    penalties = [1.0, 0.3, 0.03]
    points, weights = fitted(block(x, y, kind, weight=weight), penalties, **how)
    given = {"tol": 1e-10, "max_iter": 10**6, "positive": how.get("positive", False)}
    given["fit_intercept"] = how.get("intercept", True)
    alpha = how.get("alpha", 1.0)
    for k, penalty in enumerate(penalties):
        reference = (
            Lasso(alpha=penalty, **given)
            if alpha == 1
            else ElasticNet(alpha=penalty, l1_ratio=alpha, **given)
        )
        reference.fit(x, y, sample_weight=weight)
        best = objective(x, y, reference.coef_, reference.intercept_, penalty, alpha, weight)
        point = points[0, k]
        ours = weights[0].dense(k, x.shape[1])
        reached = objective(x, y, ours, point["intercept"], penalty, alpha, weight)
        assert point["objective"] == pytest.approx(reached, rel=1e-12)
        assert reached == pytest.approx(best, rel=1e-8)
        assert reached - best <= point["gap"] + 1e-13
        assert point["gap"] <= TOLERANCE * point["null"]
        assert point["n_weights"] == (ours != 0).sum()


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize(("alpha", "intercept"), [(1.0, True), (0.5, True), (1.0, False)])
def test_the_logistic_optimum_satisfies_its_conditions(kind, alpha, intercept):
    """The smallest subgradient of each coordinate is 0."""
    x, y = correlated()
    y = (y + np.random.default_rng(3).normal(size=len(y)) > 2).astype(float)
    penalties = [0.1, 0.02, 0.004]
    points, weights = fitted(block(x, y, kind), penalties, LOGISTIC, intercept, alpha=alpha)
    for k, penalty in enumerate(penalties):
        w, b = weights[0].dense(k, x.shape[1]), points[0, k]["intercept"]
        assert bool(b) == intercept
        residual = (1 / (1 + np.exp(-(x @ w + b))) - y) / len(y)
        gradient = x.T @ residual + penalty * (1 - alpha) * w
        pushed = gradient + penalty * alpha * np.sign(w)
        resting = np.maximum(np.abs(gradient) - penalty * alpha, 0)
        assert np.abs(np.where(w != 0, pushed, resting)).max() < 1e-5
        if intercept:
            assert abs(residual.sum()) < 1e-7
        reached = objective(x, y, w, b, penalty, alpha, logistic=True)
        assert points[0, k]["objective"] == pytest.approx(reached, rel=1e-12)
        assert points[0, k]["gap"] <= TOLERANCE * points[0, k]["null"]


def test_a_path_is_scikit_learn_s():
    x, y = correlated()
    points, weights = fitted(block(x, y), None, length=30, ratio=0.01, intercept=False)
    penalties, coefs, _ = lasso_path(x, y, alphas=30, eps=0.01, tol=1e-10, max_iter=10**6)
    assert points[0]["lambda"] == pytest.approx(penalties, rel=1e-10)
    for k, penalty in enumerate(penalties):
        best = objective(x, y, coefs[:, k], 0, penalty)
        assert points[0, k]["objective"] == pytest.approx(best, rel=1e-8)
    assert not len(weights[0].feature[: weights[0].start[1]])
    assert weights[0].start[2] > 0


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", KINDS[:2])
def test_held_out_losses_are_those_of_leaving_one_out(kind):
    """Folds of one row are the same whichever way rows are dealt."""
    x, y = correlated(40, 15, seed=2)
    points, _ = fitted(block(x, y, kind), None, length=50, ratio=1e-3, folds=40)
    found = LassoCV(cv=LeaveOneOut(), alphas=50, tol=1e-10, max_iter=10**6).fit(x, y)
    assert points[0]["lambda"] == pytest.approx(found.alphas_, rel=1e-10)
    assert points[0]["held"] == pytest.approx(found.mse_path_.mean(axis=1), rel=1e-5)
    errors = found.mse_path_.std(axis=1) / np.sqrt(39)
    assert points[0]["held_error"] == pytest.approx(errors, rel=1e-4)
    options = PathOptions.__new__(PathOptions)
    for name, value in {"path": Path(), "penalty": None}.items():
        object.__setattr__(options, name, value)
    best = choose_penalty(points[0], options)
    assert found.alphas_[best] == found.alpha_
    object.__setattr__(options, "path", Path(one_standard_error=True))
    mean = found.mse_path_.mean(axis=1)
    simplest = np.flatnonzero(mean <= mean[best] + errors[best])[0]
    assert choose_penalty(points[0], options) == simplest < best


def test_standardised_features_have_the_penalty_of_scaled_ones():
    x, y = correlated()
    x *= np.random.default_rng(4).uniform(0.01, 100, x.shape[1])
    points, weights = fitted(block(x, y), [0.5, 0.05], standardize=True)
    scaled = x / x.std(axis=0)
    for k, penalty in enumerate([0.5, 0.05]):
        reference = Lasso(alpha=penalty, tol=1e-11, max_iter=10**6).fit(scaled, y)
        best = objective(scaled, y, reference.coef_, reference.intercept_, penalty)
        assert points[0, k]["objective"] == pytest.approx(best, rel=1e-8)
        ours = weights[0].dense(k, x.shape[1])
        assert x @ ours + points[0, k]["intercept"] == pytest.approx(
            reference.predict(scaled), abs=1e-4
        )


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
@pytest.mark.parametrize("kind", KINDS[:2])
def test_features_without_a_penalty_have_no_gradient(loss, kind):
    x, y = correlated(d=40)
    y = (y > 2).astype(float) if loss == LOGISTIC else y
    free = np.zeros((1, 40), np.uint8)
    free[0, [0, 7, 21]] = 1
    points, weights = fitted(block(x, y, kind), [0.05], loss, free=free)
    w = weights[0].dense(0, 40)
    margin = x @ w + points[0, 0]["intercept"]
    residual = (margin if loss == SQUARED else 1 / (1 + np.exp(-margin))) - y
    gradient = x.T @ residual / len(y)
    assert np.abs(gradient[free[0] == 1]).max() < 1e-6
    pushed = np.where(w != 0, np.abs(gradient + 0.05 * np.sign(w)), 0)
    assert pushed[free[0] == 0].max() < 1e-5
    assert np.abs(gradient).max() <= 0.05 + 1e-5
    assert (w[free[0] == 1] != 0).all()


def test_the_largest_penalty_is_that_beside_unpenalised_features():
    """At it no other weight moves, and just below it one does."""
    x, y = correlated(d=30)
    free = np.zeros((1, 30), np.uint8)
    free[0, 3] = 1
    points, weights = fitted(block(x, y), None, length=200, ratio=0.9, free=free)
    assert weights[0].feature[: weights[0].start[1]].tolist() == [3]
    assert weights[0].start[3] - weights[0].start[2] == 2
    centred = x - x.mean(axis=0)
    left = y - y.mean() - centred[:, 3] * (centred[:, 3] @ y) / (centred[:, 3] @ centred[:, 3])
    assert points[0, 0]["lambda"] == pytest.approx(np.abs(centred.T @ left).max() / len(y))


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
def test_bits_do_not_depend_on_threads(loss):
    x, y = correlated(d=3000)
    y = (y > 2).astype(float) if loss == LOGISTIC else y
    found = [
        fitted(block(x, y, "dense float32"), None, loss, length=20, ratio=0.05, threads=threads)
        for threads in (1, 3)
    ]
    (one, one_weights), (three, three_weights) = found
    assert one.tobytes() == three.tobytes()
    assert one_weights[0].value.tobytes() == three_weights[0].value.tobytes()


def test_groups_are_fitted_as_if_alone():
    blocks = [block(*correlated(60, 20, seed)) for seed in range(5)]
    every, weights = fitted(together(blocks), None, length=10, ratio=0.01, folds=4, threads=2)
    for g, one in enumerate(blocks):
        alone, own = fitted(one, None, length=10, ratio=0.01, folds=4)
        assert every[g].tobytes() == alone[0].tobytes()
        assert weights[g].value.tobytes() == own[0].value.tobytes()


def test_folds_do_not_depend_on_the_order_of_rows():
    x, y = correlated(60, 20)
    order = np.random.default_rng(5).permutation(60)
    found = [
        fitted(block(x[rows], y[rows], kind), None, length=10, ratio=0.01, folds=4)[0]["held"]
        for rows, kind in itertools.product([np.arange(60), order], KINDS[:1])
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_folds_of_equal_rows_with_other_weights_do_not_either():
    x, y = (np.repeat(part, 4, axis=0) for part in correlated(15, 10))
    weight, order = np.arange(60) % 4 * 3 + 0.5, np.random.default_rng(5).permutation(60)
    found = [
        fitted(block(x[rows], y[rows], weight=weight[rows]), None, length=5, ratio=0.1, folds=4)
        for rows in (np.arange(60), order)
    ]
    assert found[0][0]["held"] == pytest.approx(found[1][0]["held"], rel=1e-6)


def test_a_feature_whose_squares_overflow_is_out_of_range():
    x, y = correlated(d=10)
    x[:, 2] *= 1e160
    points, _ = fitted(block(x, y), [0.1])
    assert np.isnan(points[0]["null"][0])


@pytest.mark.parametrize("scale", [1e-160, 1e-200])
def test_a_feature_whose_squares_underflow_is_out_of_range(scale):
    """Its variance has few digits, or none: no penalty on scaled features could be right."""
    x, y = correlated(d=10)
    x[:, 2] *= scale
    points, _ = fitted(block(x, y), [0.1], standardize=True)
    assert np.isnan(points[0]["null"][0])
    x[:, 2] = 0
    points, _ = fitted(block(x, y), [0.1], standardize=True)
    assert points[0]["null"][0] > 0


@pytest.mark.parametrize(("time", "held", "status"), [
    (None, [3.0, 2.0, 1.0], "ok"), (1.0, [3.0, 2.0, 1.0], "ok"),
    (1.0, [3.0, 2.0, np.nan], "time limit"), (None, [np.nan] * 3, "too few rows"),
])  # fmt: skip
def test_a_path_that_time_ended_in_the_folds_says_so(time, held, status):
    points = np.zeros(3, POINT)
    points["lambda"], points["null"], points["held"] = [3, 2, 1], 1, held
    given = {"penalty": None, "path": Path(), "time": time, "tol": 1e-6}
    options = PathOptions.__new__(PathOptions)
    for name, value in given.items():
        object.__setattr__(options, name, value)
    assert status_of(points, choose_penalty(points, options), options) == status


def test_kept_paths_are_json_with_all_digits():
    """Numbers that overflow are null, and penalties that were not fitted are left out."""
    points = np.zeros((2, 3), POINT)
    points["lambda"], points["objective"] = [[2, 1, 0.1], [1e-7, np.nan, np.nan]], 1 / 3
    points["held"], points["held_error"], points["n_weights"][0] = np.inf, -np.inf, [0, 2, 1]
    one, none = np.array([0, 0, 2, 3]), np.zeros(4, np.int64)
    values = np.array([2.0, np.nan, -1e300])
    weights = [
        Weights(one, np.array([3, 5, 0], np.int32), values),
        Weights(none, np.zeros(0, np.int32), np.zeros(0)),
    ]
    found = [
        json.loads(text, parse_constant=pytest.fail)
        for text in write_paths(points, weights, np.array([1, 0]), 2)
    ]
    steps = found[0]["path"]
    assert [len(path["path"]) for path in found] == [3, 1]
    assert [path["chosen"] for path in found] == [1, 0]
    assert [step["lambda"] for step in steps] == [2, 1, 0.1]
    assert {step["loss"] for step in steps} == {1 / 3}
    assert {(step["held_out"], step["held_out_error"]) for step in steps} == {(None, None)}
    assert [step["feature"] for step in steps] == [[], [4, 6], [1]]
    assert [step["weight"] for step in steps] == [[], [2.0, None], [-1e300]]
    assert found[1]["path"][0]["lambda"] == 1e-7


def test_a_constant_feature_and_a_constant_label_have_weight_0():
    x, y = correlated(d=10)
    x[:, 4] = 7
    points, weights = fitted(block(x, y), [0.01])
    assert weights[0].dense(0, 10)[4] == 0
    points, weights = fitted(block(x, np.full(len(y), 3.0)), None, length=5, ratio=0.1)
    assert points[0]["intercept"] == pytest.approx([3.0] * 5)
    assert not len(weights[0].value)


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
def test_a_feature_whose_squares_overflow_has_weight_0(loss):
    x, y = correlated(d=10)
    y = (y > 2).astype(float) if loss == LOGISTIC else y
    wide = np.c_[x, 1e300 * (np.arange(len(y)) > 0)]
    found, alone = (fitted(block(z, y), [0.05], loss, intercept=False) for z in (wide, x))
    assert found[1][0].dense(0, 11) == pytest.approx([*alone[1][0].dense(0, 10), 0], abs=1e-6)
    assert np.isnan(found[0]["null"][0, 0])


@pytest.mark.parametrize("kind", ["dense float64", "dense float32"])
def test_few_features_of_many_rows_are_scikit_learn_s(kind):
    """Their products are sums over blocks of rows, of which the last one is short."""
    x, y = correlated(n=1100, d=40)
    x[:, 7] = 3
    weight = np.random.default_rng(1).uniform(0.1, 3, len(y))
    _, weights = fitted(block(x, y, kind, weight=weight), [0.05])
    reference = Lasso(alpha=0.05, tol=1e-12, max_iter=10**6).fit(x, y, sample_weight=weight)
    assert weights[0].dense(0, 40) == pytest.approx(reference.coef_, abs=1e-4)


def test_far_features_keep_their_digits():
    """Values near 1e6 that differ by 1."""
    x, y = correlated(d=10)
    near, far = (fitted(block(x + shift, y), [0.02])[1][0].dense(0, 10) for shift in (0, 1e6))
    assert far == pytest.approx(near, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 30),
    d=st.integers(1, 40),
    share=st.floats(0.001, 1.2),
    alpha=st.sampled_from([1.0, 0.5, 0.01]),
    sparse=st.booleans(),
    logistic=st.booleans(),
)
def test_no_other_weights_are_better_than_the_gap_says(seed, n, d, share, alpha, sparse, logistic):
    """Against a long proximal descent from the same weights."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    y = rng.normal(size=n)
    if logistic:
        y = np.arange(n) % 2.0
    loss = LOGISTIC if logistic else SQUARED
    kind = KINDS[int(sparse)]
    penalty = share * max(np.abs(x.T @ (y - y.mean())).max() / n, 1e-3) / alpha
    points, weights = fitted(block(x, y, kind), [penalty], loss, alpha=alpha, tolerance=1e-6)
    point, w = points[0, 0], weights[0].dense(0, d)
    assert point["gap"] <= 1e-6 * point["null"]
    best = point["objective"]
    b, curvature = point["intercept"], np.linalg.norm(np.c_[x, np.ones(n)], 2) ** 2 / n
    step = 1 / (curvature + penalty * (1 - alpha))
    for _ in range(300):
        margin = x @ w + b
        residual = (1 / (1 + np.exp(-margin)) if logistic else margin) - y
        moved = w - step * (x.T @ residual / n + penalty * (1 - alpha) * w)
        w = np.sign(moved) * np.maximum(np.abs(moved) - step * penalty * alpha, 0)
        b -= step * residual.mean()
        best = min(best, objective(x, y, w, b, penalty, alpha, logistic=logistic))
    assert point["objective"] - best <= point["gap"] + 1e-13


def test_a_step_that_changes_nothing_is_followed_by_a_finer_one():
    """The gap of the approximation was below the tolerance, that of the logistic loss above."""
    rng = np.random.default_rng(357180)
    x = rng.normal(size=(15, 6)) * (rng.random((15, 6)) < 0.7)
    y = np.arange(15) % 2.0
    penalty = 0.875 * np.abs(x.T @ (y - y.mean())).max() / 15
    points, _ = fitted(block(x, y), [penalty], LOGISTIC, tolerance=1e-6)
    assert points[0, 0]["gap"] <= 1e-6 * points[0, 0]["null"]
