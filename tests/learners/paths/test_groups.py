"""The group lasso: the conditions of an optimum, other packages' optima, and the lasso's."""

import resource

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import block

from tuskml.kernels.passes import Pass
from tuskml.kernels.paths import LOGISTIC, SQUARED, Rules, fit

pytestmark = pytest.mark.native

KINDS = ("dense float64", "sparse float64", "dense float32", "sparse float32")


def data(n=150, d=60, seed=0):
    """Rows of correlated features with zeros, labels of the first ten, and blocks whose members
    are not neighbours: of one, three and eight features."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    x[:, 1:] += 0.8 * x[:, :-1]
    x[np.abs(x) < 0.7] = 0
    x = x.astype(np.float32).astype(float)
    y = x[:, :10] @ rng.normal(size=10) + rng.normal(size=n) + 2
    blocks = np.arange(d)
    blocks[::7] = 0
    blocks[3::20] = 3
    return x, y, blocks.astype(np.int32)


def fitted(x, y, blocks, penalties, kind=KINDS[0], loss=SQUARED, weight=None, **how):
    """Points and weights of one group's path."""
    positive = np.ones(1) if loss == LOGISTIC else None
    rows = Pass(block(x, y, kind, weight=weight), loss, positive, None, True, 1)
    chosen = {"alpha": 1.0, "tolerance": 1e-11, "max_epochs": 10**6} | how
    length = chosen.pop("length", None) or len(penalties)
    rules = Rules(loss, length, penalties=penalties and tuple(penalties), **chosen)
    points, weights = fit(
        rows, rules, None, 0, None if blocks is None else np.array([blocks], np.int32)
    )
    return points[0], weights[0]


def members(blocks):
    """The places of each block."""
    return [np.flatnonzero(blocks == one) for one in np.unique(blocks)]


def penalised(w, blocks, penalty, alpha=1.0):
    """The penalty's value."""
    norms = sum(np.sqrt(len(b)) * np.linalg.norm(w[b]) for b in members(blocks))
    return penalty * (alpha * norms + (1 - alpha) / 2 * w @ w)


def violation(gradient, w, blocks, penalty, alpha=1.0):
    """The largest subgradient of a block that is nearest to 0. gradient: of the mean loss."""
    worst = 0.0
    for one in members(blocks):
        g, at = gradient[one] + penalty * (1 - alpha) * w[one], np.sqrt(len(one)) * penalty * alpha
        norm = np.linalg.norm(w[one])
        far = np.linalg.norm(g + at * w[one] / norm) if norm else np.linalg.norm(g) - at
        worst = max(worst, far)
    return worst


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [1.0, 0.4])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_optimum_satisfies_its_conditions(kind, alpha, weighted):
    x, y, blocks = data()
    weight = np.random.default_rng(1).uniform(0.1, 3, len(y)) if weighted else None
    a = np.full(len(y), 1 / len(y)) if weight is None else weight / weight.sum()
    points, weights = fitted(x, y, blocks, [0.6, 0.2, 0.02], kind, alpha=alpha, weight=weight)
    for k, point in enumerate(points):
        w, penalty = weights.dense(k, x.shape[1]), point["lambda"]
        residual = x @ w + point["intercept"] - y
        assert violation(x.T @ (a * residual), w, blocks, penalty, alpha) < 1e-5
        reached = a @ residual**2 / 2 + penalised(w, blocks, penalty, alpha)
        assert point["objective"] == pytest.approx(reached, rel=1e-10)
        assert point["gap"] <= 1e-11 * point["null"]
        for one in members(blocks):
            assert (w[one] != 0).all() or not w[one].any()


@pytest.mark.parametrize("kind", KINDS[:2])
def test_the_logistic_optimum_satisfies_its_conditions(kind):
    x, y, blocks = data()
    y = (y + np.random.default_rng(3).normal(size=len(y)) > 2).astype(float)
    points, weights = fitted(x, y, blocks, [0.1, 0.02, 0.004], kind, LOGISTIC)
    for k, point in enumerate(points):
        w = weights.dense(k, x.shape[1])
        margin = x @ w + point["intercept"]
        gradient = x.T @ (1 / (1 + np.exp(-margin)) - y) / len(y)
        assert violation(gradient, w, blocks, point["lambda"]) < 1e-5
        loss = (np.logaddexp(0, margin) - y * margin).mean()
        reached = loss + penalised(w, blocks, point["lambda"])
        assert point["objective"] == pytest.approx(reached, rel=1e-10)


def test_a_path_begins_where_the_first_block_enters():
    x, y, blocks = data()
    points, weights = fitted(x, y, blocks, None, length=20, ratio=0.01)
    pull = (x - x.mean(axis=0)).T @ (y - y.mean()) / len(y)
    sizes = [np.linalg.norm(pull[b]) / np.sqrt(len(b)) for b in members(blocks)]
    largest = max(sizes)
    assert points["lambda"] == pytest.approx(np.geomspace(largest, largest / 100, 20), rel=1e-10)
    assert weights.start[1] == 0
    entered = weights.feature[weights.start[1] : weights.start[2]]
    assert set(members(blocks)[np.argmax(sizes)]) <= set(entered)


def test_blocks_of_one_feature_are_the_lasso():
    x, y, _ = data()
    points, weights = fitted(x, y, np.arange(60)[::-1], [0.3, 0.03])
    rows = Pass(block(x, y), SQUARED, None, None, True, 1)
    rules = Rules(SQUARED, 2, 1.0, 1e-11, 10**6, penalties=(0.3, 0.03))
    alone, of_lasso = fit(rows, rules, None, 0)
    for k in range(2):
        assert points[k]["objective"] == pytest.approx(alone[0, k]["objective"], rel=1e-10)
        assert weights.dense(k, 60) == pytest.approx(of_lasso[0].dense(k, 60), abs=1e-5)


def test_levels_that_add_up_to_one_and_wide_blocks():
    """200 features in a block, and all levels of a category, one of which never occurs."""
    rng = np.random.default_rng(5)
    level = rng.integers(0, 6, 400)
    x = np.hstack([np.eye(7)[level], rng.normal(size=(400, 200)), rng.normal(size=(400, 9))])
    y = np.array([3.0, -2, 0, 1, 4, -1])[level] + x[:, 7:20].sum(axis=1) + rng.normal(size=400)
    blocks = np.r_[np.zeros(7), np.ones(200), np.arange(2, 11)].astype(np.int32)
    for kind in KINDS[:2]:
        points, weights = fitted(x, y, blocks, [0.1, 0.01], kind)
        for k, point in enumerate(points):
            w = weights.dense(k, x.shape[1])
            residual = x @ w + point["intercept"] - y
            assert violation(x.T @ residual / 400, w, blocks, point["lambda"]) < 1e-5
            assert (w[:6] != 0).all()
            assert w[6] == 0
            assert point["gap"] <= 1e-11 * point["null"]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(3, 40), d=st.integers(1, 30),
       logistic=st.booleans(), standardize=st.booleans())  # fmt: skip
def test_the_gap_bounds_what_is_left(seed, n, d, logistic, standardize):
    """A rough fit is no further from a close one than its gap says."""
    rng = np.random.default_rng(seed)
    x, blocks = rng.normal(size=(n, d)).round(1), rng.integers(0, max(1, d // 3), d)
    y = rng.normal(size=n) + x[:, 0]
    y = (y > np.median(y)).astype(float) if logistic else y
    loss = LOGISTIC if logistic else SQUARED
    how = {"loss": loss, "length": 4, "ratio": 0.1, "standardize": standardize}
    rough, _ = fitted(x, y, blocks, None, tolerance=0.05, **how)
    close, _ = fitted(x, y, blocks, None, tolerance=1e-9, **how)
    slack = 1e-8 * close["null"]
    assert (rough["objective"] - close["objective"] <= rough["gap"] + slack).all()
    assert (close["gap"] <= 1e-9 * close["null"] + 1e-12).all()


def test_the_optimum_is_skglm_s():
    linear = pytest.importorskip("skglm")
    x, y, blocks = data()
    x, y = x - x.mean(axis=0), y - y.mean()
    groups = [one.tolist() for one in members(blocks)]
    root = np.sqrt([len(one) for one in groups])
    points, _ = fitted(x, y, blocks, [0.2, 0.02])
    for point in points:
        found = linear.GroupLasso(groups, point["lambda"], root, tol=1e-12, fit_intercept=False)
        w = found.fit(x, y).coef_
        best = ((y - x @ w) ** 2).mean() / 2 + penalised(w, blocks, point["lambda"])
        assert point["objective"] == pytest.approx(best, rel=1e-8)


def test_a_large_block_does_not_take_the_square_of_its_size():
    """Its matrix would take 200 MB."""
    d = 5000
    x = np.eye(d, dtype=np.float32)
    group = block(x, np.arange(d) % 7.0, "sparse float32")
    rows = Pass(group, SQUARED, None, None, True, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    points, _ = fit(rows, Rules(SQUARED, 1, 1.0, 1e-6, 100, penalties=(1e-6,)), None, 0,
                    np.zeros((1, d), np.int32))  # fmt: skip
    assert np.isfinite(points[0]["objective"]).all()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
@pytest.mark.parametrize("blocks", [None, np.zeros(1, np.int32)])
@pytest.mark.parametrize("standardize", [False, True])
def test_what_rounding_leaves_is_no_correlation(kind, loss, blocks, standardize):
    """The mean of the feature is the same for both labels: nothing is left for a penalty."""
    x, y = np.array([[-1.0], [-1.75], [-1.375]]), np.array([0.0, 0.0, 1.0])
    exact = [(0, 1), (0.125, 4), (1024, 2**-10), (-7.5, 2**20)]
    for shift, unit in exact + [(0.1, 1 / 3), (1e3, 1e-3)] * kind.endswith("64"):
        points, weights = fitted(
            (x + shift) * unit, y, blocks, None, kind, loss, length=5, ratio=0.01,
            standardize=standardize, tolerance=1e-9,
        )  # fmt: skip
        assert (points["epochs"] <= 1).all()
        assert not any(weights.dense(k, 1).any() for k in range(5))
