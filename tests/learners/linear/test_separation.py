"""Rows that separate: the status is what a linear program says, whatever the algorithm and the storage, and terms
that the other rows determine have the estimates and standard errors of a fit to these.
"""

# ruff: noqa: E501

import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import expit

pytestmark = pytest.mark.native

GROUPS = 6
COUNTS = ("poisson", "negative_binomial")
OUT_OF_REACH = 1e-7
"""Least move of a row, of 1, that the linear program tells from none."""


@dataclass
class Rows:
    """A group: features x (n, d), labels y, weights, and offsets."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    offset: np.ndarray
    intercept: bool = True

    @property
    def z(self) -> np.ndarray:
        one = np.ones((len(self.y), 1)) if self.intercept else np.zeros((len(self.y), 0))
        return np.hstack([self.x, one])


def separated(rows: Rows, task: str) -> np.ndarray:
    """Rows that some direction moves to their side while it moves none away: of a linear program with the sum of
    all moves, of at most 1 each (Konis 2007)."""
    z = rows.z
    n, p = z.shape
    sign = np.where(rows.y > 0, 1.0, -1.0) if task == "logistic" else -np.ones(n)
    fixed = (rows.y > 0) & (task != "logistic")
    free = ~fixed
    moves = np.hstack([-sign[free, None] * z[free], np.eye(free.sum())])
    found = linprog(
        np.concatenate([np.zeros(p), -np.ones(free.sum())]),
        A_ub=moves,
        b_ub=np.zeros(free.sum()),
        A_eq=np.hstack([z[fixed], np.zeros((fixed.sum(), free.sum()))]) if fixed.any() else None,
        b_eq=np.zeros(fixed.sum()) if fixed.any() else None,
        bounds=[(None, None)] * p + [(0, 1)] * free.sum(),
    )
    out = np.zeros(n, bool)
    out[free] = found.x[p:] > OUT_OF_REACH
    return out


def drawn_rows(rng: np.random.Generator, task: str, kind: str) -> Rows:
    """Few rows of whole numbers, so that rows often separate, or nearly do."""
    n, d = int(rng.integers(6, 40)), int(rng.integers(1, 4))
    x = rng.integers(-2, 3, size=(n, d)).astype(float)
    if kind == "named":
        x = np.column_stack([rng.integers(0, 4, size=n), x[:, 0]]).astype(float)
    own = (x - x.mean(axis=0)) @ rng.normal(size=x.shape[1]) * rng.choice([0.2, 1.0, 3.0])
    if task == "logistic":
        y = (rng.random(n) < expit(own + rng.normal())).astype(float)
        y[:2] = 0, 1
    else:
        y = rng.poisson(np.exp(np.clip(own - rng.choice([0.0, 1.0, 2.0, 4.0]), -20, 4))).astype(
            float
        )
    scale = 10.0 ** rng.integers(-2, 3, size=x.shape[1]) if kind != "named" else 1.0
    weight = rng.integers(1, 4, size=n).astype(float) if rng.random() < 0.5 else np.ones(n)
    offset = (
        np.round(rng.normal(size=n), 2) if rng.random() < 0.5 and task in COUNTS else np.zeros(n)
    )
    x = x * scale
    columns = np.column_stack([x, x[:, :1] == np.unique(x[:, 0])]) if kind == "named" else x
    if (columns == y[:, None]).all(axis=0).any():  # which has a status of its own
        y[-1] = 1 - y[-1] if task == "logistic" else y[-1] + 1
    return Rows(x, y, weight, offset)


def put_rows(con, groups: list[Rows]) -> None:
    con.execute("CREATE OR REPLACE TABLE t (k INTEGER, x DOUBLE[], y DOUBLE, w DOUBLE, o DOUBLE)")
    for k, one in enumerate(groups):
        columns = [
            np.asarray(part, float).tolist() for part in (one.x, one.y, one.weight, one.offset)
        ]
        con.execute(
            "INSERT INTO t SELECT $1, unnest($2::DOUBLE[][]), unnest($3::DOUBLE[]), "
            "unnest($4::DOUBLE[]), unnest($5::DOUBLE[])",
            [k, *columns],
        )


def dense(storage: str, rows: Rows) -> Rows:
    """The rows as columns of numbers; the first of named rows is a category."""
    if storage != "named":
        return rows
    levels = np.unique(rows.x[:, 0])[1:]
    x = np.column_stack([rows.x[:, :1] == levels, rows.x[:, 1]]).astype(float)
    return Rows(x, rows.y, rows.weight, rows.offset)


FEATURES = {
    "dense": "x",
    "sparse": "sparse(range(len(x)), x)",
    "named": "{'a': 'l' || x[1]::INTEGER, 'b': x[2]}",
}


def models(con, task: str, storage: str, **options):
    rows = con.execute(
        f"SELECT k, m.status, m.converged, m.coef, m.intercept, m.std_err FROM (SELECT k, train_model('{task}', y, {FEATURES[storage]}, $1{', w, o' if task in COUNTS else ', w'}) AS m FROM t GROUP BY k ORDER BY k)",
        [json.dumps(options)],
    ).fetchall()
    return [row[1:] for row in rows]


def fit_of_the_rest(rows: Rows, task: str, away: np.ndarray, dispersion: float = 0.0):
    """Estimates and standard errors of a fit without the rows that separate, NaN of what these alone determine."""
    z, y, w, o = (one[~away] for one in (rows.z, rows.y, rows.weight, rows.offset))
    p = z.shape[1]
    unit = np.abs(rows.z).max(axis=0)
    unit[unit == 0] = 1
    z = z / unit
    _, s, vt = np.linalg.svd(z, full_matrices=False)
    basis = vt[s > 1e-9 * max(s.max(initial=0), 1e-300)].T
    lost = np.abs(np.eye(p) - basis @ basis.T).max(axis=1) > 1e-7
    if not basis.shape[1]:
        return np.full(p, np.nan), np.full(p, np.nan)
    c = np.zeros(basis.shape[1])
    a = z @ basis

    def parts(c):
        m = a @ c + o
        if task == "logistic":
            q = expit(m)
            return np.logaddexp(0, m) - y * m, q - y, q * (1 - q)
        mu = np.exp(np.clip(m, -300, 300))
        return mu - y * m, mu - y, mu

    for _ in range(200):
        loss, g, h = parts(c)
        step = np.linalg.solve(
            (a * (w * h)[:, None]).T @ a + 1e-300 * np.eye(len(c)), a.T @ (w * g)
        )
        by = 1.0
        while not (w @ parts(c - by * step)[0] <= w @ loss + 1e-12 * abs(w @ loss)) and by > 1e-10:
            by /= 2
        c = c - by * step
        if np.abs(step).max() < 1e-12:
            break
    h = parts(c)[2]
    covariance = basis @ np.linalg.inv((a * (w * h)[:, None]).T @ a) @ basis.T
    estimate, error = basis @ c / unit, np.sqrt(np.diag(covariance)) / unit
    estimate[lost], error[lost] = np.nan, np.nan
    return estimate, error


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    task=st.sampled_from(["logistic", *COUNTS]),
    storage=st.sampled_from(sorted(FEATURES)),
    algorithm=st.sampled_from(["auto", "newton", "lbfgs", "newton_cg"]),
    epsilon=st.sampled_from([None, 1e-3, 1e-9]),
)
def test_separable_as_a_linear_program_has_it(con, seed, task, storage, algorithm, epsilon):
    rng = np.random.default_rng(seed)
    groups = [drawn_rows(rng, task, storage) for _ in range(GROUPS)]
    put_rows(con, groups)
    options = {} if epsilon is None else {"epsilon": epsilon}
    if task == "negative_binomial":
        options["dispersion"] = 1e-9  # a Poisson distribution, whose fit is known
    found = models(con, task, storage, algorithm=algorithm, **options)
    check(groups, found, task, storage)


def check(groups: list[Rows], found: list, task: str, storage: str) -> None:
    """Statuses, and what the other rows determine."""
    for rows, (status, converged, coef, intercept, std_err) in zip(groups, found, strict=True):
        own = dense(storage, rows)
        away = separated(own, task)
        if status in ("not converged", "time limit") and not away.any():
            continue  # nothing is claimed
        assert (status == "separable") == away.any(), (status, away)
        assert converged != away.any() or status == "not converged"
        assert np.isfinite([*coef, intercept]).all()
        if not away.any() or away.all():
            continue
        estimate, error = fit_of_the_rest(own, task, away)
        errors = np.full(len(estimate), np.nan) if std_err is None else np.array(std_err, float)
        errors = np.roll(errors, -1)
        varies = np.append(np.ptp(own.x, axis=0) > 0, True)
        known = ~np.isnan(error) & varies
        assert (np.isnan(errors) == ~known).all(), (errors, error)
        assert np.array([*coef, intercept])[known] == pytest.approx(
            estimate[known], rel=1e-5, abs=1e-6 * np.nanmax(error[known], initial=0)
        )
        assert errors[known] == pytest.approx(error[known], rel=1e-4)


def kept_classes(rows: Rows) -> np.ndarray:
    """Which classes (n, 3) of each row no direction moves away from its own, by a linear program."""
    z, own = rows.z, rows.y.astype(int)
    n, p = z.shape
    pairs = [(i, k) for i in range(n) for k in range(3) if k != own[i]]
    moves = np.zeros((len(pairs), 3 * p))
    for at, (i, k) in enumerate(pairs):
        moves[at, own[i] * p : (own[i] + 1) * p] = -z[i]
        moves[at, k * p : (k + 1) * p] = z[i]
    found = linprog(
        np.concatenate([np.zeros(3 * p), -np.ones(len(pairs))]),
        A_ub=np.hstack([moves, np.eye(len(pairs))]),
        b_ub=np.zeros(len(pairs)),
        bounds=[(None, None)] * (3 * p) + [(0, 1)] * len(pairs),
    )
    kept = np.ones((n, 3), bool)
    for (i, k), move in zip(pairs, found.x[3 * p :], strict=True):
        kept[i, k] = move <= OUT_OF_REACH
    return kept


def classes_of_the_rest(rows: Rows, kept: np.ndarray):
    """Estimates and standard errors (3, p) of the likelihood without these classes, against the first class."""
    unit = np.abs(rows.z).max(axis=0)
    unit[unit == 0] = 1
    z, own, w = rows.z / unit, rows.y.astype(int), rows.weight
    n, p = z.shape
    c, size = np.zeros(2 * p), 2 * p

    def parts(c):
        m = np.where(kept, np.c_[np.zeros(n), z @ c.reshape(2, p).T], -np.inf)
        top = m.max(axis=1, keepdims=True)
        q = np.exp(m - top)
        loss = w @ (np.log(q.sum(axis=1)) + top[:, 0] - m[np.arange(n), own])
        q /= q.sum(axis=1, keepdims=True)
        r = (q - np.eye(3)[own])[:, 1:]
        bent = q[:, 1:, None] * np.eye(2) - q[:, 1:, None] * q[:, None, 1:]
        h = np.einsum("i,iab,ij,ik->ajbk", w, bent, z, z).reshape(size, size)
        return loss, np.einsum("i,ia,ij->aj", w, r, z).ravel(), h

    for _ in range(200):
        loss, g, h = parts(c)
        step, by = np.linalg.pinv(h, rcond=1e-11, hermitian=True) @ g, 1.0
        while not (parts(c - by * step)[0] <= loss + 1e-12 * abs(loss)) and by > 1e-10:
            by /= 2
        c = c - by * step
        if np.abs(step).max() < 1e-12:
            break
    h = parts(c)[2]
    values, vectors = np.linalg.eigh(h)
    gone = vectors[:, values <= 1e-9 * max(values[-1], 1e-300)]
    lost = (np.abs(gone) > 1e-6).any(axis=1)
    error = np.sqrt(np.diag(np.linalg.pinv(h, rcond=1e-9, hermitian=True)))
    for one in (c, error):
        one[lost] = np.nan
    return c.reshape(2, p) / unit, error.reshape(2, p) / unit


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    storage=st.sampled_from(sorted(FEATURES)),
    algorithm=st.sampled_from(["auto", "newton", "lbfgs"]),
    epsilon=st.sampled_from([None, 1e-3]),
)
def test_three_classes_separate_as_a_linear_program_has_it(con, seed, storage, algorithm, epsilon):
    rng = np.random.default_rng(seed)
    groups = []
    for _ in range(GROUPS):
        rows = drawn_rows(rng, "logistic", storage)
        second = rng.random(len(rows.y)) < expit(rng.normal() + rows.x[:, 0])
        y = rows.y + (second & (rows.y > 0))
        y[:3] = 0, 1, 2
        groups.append(Rows(rows.x, y, rows.weight, rows.offset))
    put_rows(con, groups)
    options = {} if epsilon is None else {"epsilon": epsilon}
    found = models(con, "logistic", storage, algorithm=algorithm, **options)
    check_classes(groups, found, storage)


def check_classes(groups: list[Rows], found: list, storage: str) -> None:
    """Statuses, and what the other rows determine."""
    for rows, (status, converged, coef, _, std_err) in zip(groups, found, strict=True):
        own = dense(storage, rows)
        kept = kept_classes(own)
        if status == "not converged" and kept.all():
            continue
        assert (status == "separable") == (not kept.all())
        assert converged == kept.all() or status == "not converged"
        assert np.isfinite(coef).all()
        if kept.all() or (kept.sum(axis=1) == 1).all():
            continue
        estimate, error = classes_of_the_rest(own, kept)
        p = estimate.shape[1]
        errors = (
            np.full((3, p), np.nan)
            if std_err is None
            else np.reshape(std_err, (3, p)).astype(float)
        )
        errors, here = (np.roll(one, -1, axis=1)[1:] for one in (errors, np.reshape(coef, (3, p))))
        known = ~np.isnan(error)
        known[:, :-1] &= np.ptp(own.x, axis=0) > 0
        assert (np.isnan(errors) == ~known).all(), (errors, error)
        assert here[known] == pytest.approx(
            estimate[known], rel=1e-4, abs=1e-5 * np.nanmax(error[known], initial=0)
        )
        assert errors[known] == pytest.approx(error[known], rel=1e-4)


@pytest.mark.parametrize("errors", [{}, {"covariance": "HC0"}, {"covariance": "HC3"}])
def test_a_level_without_positives_leaves_the_other_terms_their_errors(con, errors):
    """A rare level, as in census data: each algorithm has the numbers of a fit without its rows."""
    con.execute(
        "CREATE TABLE t AS SELECT i, ['a', 'b', 'c'][1 + i % 3] AS g, sin(i) AS x, i * 7919 % 13 > 8 AND i % 3 < 2 AS y FROM range(300) r(i)"
    )
    call = "train_model('logistic', y, {'g': g, 'x': x}, $1)"
    (fitted,) = con.execute(
        "SELECT m.coef[1], m.coef[2], m.intercept, m.std_err FROM (SELECT train_model('logistic', y, {'g': g, 'x': x}, $1) AS m FROM t WHERE g < 'c')",
        [json.dumps(errors)],
    ).fetchall()
    for options in ({}, {"epsilon": 1e-2}, {"epsilon": 1e-10}, {"algorithm": "lbfgs"}, {"l2": 0}):
        status, coef, intercept, std_err = con.execute(
            f"SELECT m.status, m.coef, m.intercept, m.std_err FROM (SELECT {call} AS m FROM t)",
            [json.dumps(options | errors)],
        ).fetchone()
        assert status == "separable"
        assert [coef[0], coef[2], intercept] == pytest.approx(fitted[:3], rel=1e-6)
        assert std_err[2] is None
        assert [std_err[0], std_err[1], std_err[3]] == pytest.approx(fitted[3], rel=1e-6)
    shown = con.execute(
        f"SELECT term, p_value, note FROM model_summary((SELECT {call} FROM t))", ["{}"]
    ).fetchall()
    assert [p is None for _, p, _ in shown] == [False, False, True, False]
    assert [note is None for _, _, note in shown] == [True, True, False, True]


@pytest.mark.parametrize("task", COUNTS)
@pytest.mark.parametrize("features", ["[i]", "[0]", "{'g': i % 3}", "sparse([i % 3], [1.0])"])
@pytest.mark.parametrize(
    "options", [{}, {"l2": 0.1}, {"l1": 0.1}, {"epsilon": 1e-2}, {"algorithm": "lbfgs"}]
)
def test_counts_of_nothing_expect_half_a_count(con, task, features, options):
    status, converged, intercept, coef, std_err = con.execute(
        f"SELECT m.status, m.converged, m.intercept, m.coef, m.std_err FROM (SELECT train_model('{task}', 0, {features}, $1, 2, ln(3)) AS m FROM range(50) r(i))",
        [json.dumps(options)],
    ).fetchone()
    assert (status, converged, std_err) == ("separable", False, None)
    assert intercept == pytest.approx(np.log(0.5 / (50 * 2 * 3)))
    assert not np.any(coef)


@pytest.mark.parametrize("algorithm", ["hogbatch", "sgd", "lbfgs", "newton_cg", "auto"])
def test_a_ridge_of_many_features_keeps_to_the_iterations_and_the_algorithm(con, algorithm):
    """Beyond 512 features it would take as long as a training."""
    con.execute(
        "CREATE TABLE t AS SELECT hash(i) % 7 < 2 AS y, [hash(i * 31 + j) % 5000 for j in range(20)]::BIGINT[] AS ids FROM range(400) r(i)"
    )
    call = "train_model('logistic', y, sparse(ids, [1.0 for j in ids]), $1)"
    iterations, options, plan = con.execute(
        f"SELECT m.iterations, m.options, m.plan FROM (SELECT {call} AS m FROM t)",
        [json.dumps({"algorithm": algorithm, "max_iter": 5})],
    ).fetchone()
    assert iterations <= 5
    assert ("l2_standardized" in options) == ("ridge" in plan)


def test_trials_of_counts_that_separate_say_so(con):
    """In one fold a level has no event."""
    con.execute(
        "CREATE TABLE t AS SELECT i % 4 AS f, CASE WHEN i % 8 = 3 THEN 'rare' ELSE 'common' END AS g, CASE WHEN i % 8 = 3 THEN 0 ELSE i % 3 END AS y FROM range(80) r(i)"
    )
    trials = con.execute(
        "SELECT status FROM model_trials((SELECT train_model('poisson', y, {'g': g}, '{\"l2\": [0, 0.1], \"folds\": 4}') FROM t))"
    ).fetchall()
    assert ("separable",) in trials
