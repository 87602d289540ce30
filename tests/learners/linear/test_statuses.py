"""The status of a group says how far its model can be trusted."""

import json

import numpy as np
import pandas as pd
import pytest
from by_group import ALGORITHMS, by_group
from fitting import fit, put

from tuskml.learners.linear.result import STATUSES

pytestmark = pytest.mark.native

LINE = np.linspace(-1, 1, 20)[:, None]
SQUARE = np.sin(np.arange(1.0, 26.0)).reshape(5, 5)
OVERLAP = np.tile([0.0, 1.0, 0.0, 1.0, 1.0], 4)

CASES = {
    "fine": ("logistic", LINE, OVERLAP, {}, "ok"),
    "separable": ("logistic", LINE, (LINE[:, 0] > 0) * 1.0, {}, "separable"),
    "separable far from zero": (
        "logistic", LINE * 1e-3 + 1e3, (LINE[:, 0] > 0) * 1.0, {}, "separable",
    ),
    "quasi-separable": (
        "logistic", np.array([[-2], [-1], [0], [0], [1], [2.0]]),
        np.array([0, 0, 0, 1, 1, 1.0]), {}, "separable",
    ),
    "separable with a penalty": ("logistic", LINE, (LINE[:, 0] > 0) * 1.0, {"l2": 0.1}, "ok"),
    "separable by lbfgs": (
        "logistic", LINE, (LINE[:, 0] > 0) * 1.0, {"algorithm": "lbfgs"}, "separable",
    ),
    "separable for the hinge": ("svm", LINE, (LINE[:, 0] > 0) * 1.0, {}, "ok"),
    "one class": ("logistic", LINE, np.zeros(20), {}, "one class"),
    "one class for the hinge": ("svm", LINE, np.zeros(20), {}, "one class"),
    "one row": ("linear", LINE[:1], np.ones(1), {}, "too few rows"),
    "one labelled row": ("logistic", LINE[:1], np.zeros(1), {}, "one class"),
    "fewer rows than weights": ("linear", SQUARE[:3], np.arange(3.0), {}, "too few rows"),
    "fewer rows with a penalty": ("linear", SQUARE[:3], np.arange(3.0), {"l2": 1}, "ok"),
    "as many rows as weights": ("linear", LINE[:2], np.arange(2.0), {}, "ok"),
    "constant feature": (
        "linear", np.column_stack([LINE, np.full(20, 7.1)]), OVERLAP, {}, "constant feature",
    ),
    "constant feature, no intercept": (
        "linear", np.column_stack([LINE, np.full(20, 7.1)]), OVERLAP,
        {"fit_intercept": False}, "ok",
    ),
    "feature of zeros": (
        "logistic", np.column_stack([LINE, np.zeros(20)]), OVERLAP, {}, "constant feature",
    ),
    "collinear": ("linear", np.hstack([LINE, 3 * LINE]), OVERLAP, {}, "collinear features"),
    "collinear, logistic": (
        "logistic", np.hstack([LINE, LINE, LINE]), OVERLAP, {}, "collinear features",
    ),
    "collinear with a penalty": ("linear", np.hstack([LINE, LINE]), OVERLAP, {"l2": 0.1}, "ok"),
    "constant label": ("linear", LINE, np.full(20, 3.5), {}, "ok"),
    "perfect fit": ("linear", LINE, 2 * LINE[:, 0] + 1, {}, "ok"),
    "not converged": (
        "logistic", LINE, OVERLAP, {"algorithm": "bgd", "max_iter": 1}, "not converged",
    ),
    "time limit": (
        "logistic", LINE, OVERLAP,
        {"algorithm": "sgd", "epsilon": 1e-300, "max_iter": 2**30, "time": "0.05s"}, "time limit",
    ),
    "time limit, no tolerance": (
        "logistic", LINE, OVERLAP,
        {"algorithm": "sgd", "epsilon": 0, "max_iter": 2**30, "time": "0.05s"}, "time limit",
    ),
    "huge numbers": ("linear", LINE * 1e150, OVERLAP, {}, "ok"),
    "tiny numbers": ("logistic", LINE * 1e-150, OVERLAP, {}, "ok"),
}  # fmt: skip


@pytest.mark.parametrize(("task", "x", "y", "options", "status"), CASES.values(), ids=CASES)
def test_status(con, task, x, y, options, status):
    put(con, x, y)
    model = fit(con, task, **options)
    assert model.status == status
    assert model.converged == (
        status in ("ok", "constant feature", "collinear features")
        or (status == "too few rows" and model.converged)
    )
    assert np.isfinite([*model.coef, model.intercept, model.loss]).all()
    assert (model.n_rows, model.n_features) == x.shape


def test_constant_feature_has_no_weight(con):
    task, x, y, options, _ = CASES["constant feature"]
    put(con, x, y)
    model = fit(con, task, **options)
    put(con, LINE, y)
    without = fit(con, task)
    assert model.coef[1] == 0
    assert [model.coef[0], model.intercept] == pytest.approx([without.coef[0], without.intercept])
    assert model.std_err[:2] == pytest.approx(without.std_err)


def test_collinear_features_share_the_fit_of_one(con):
    """Predictions are those of the model without the copy."""
    task, x, y, options, _ = CASES["collinear"]
    put(con, x, y)
    model = fit(con, task, **options)
    put(con, LINE, y)
    without = fit(con, task)
    assert model.coef @ [1, 3] == pytest.approx(without.coef[0])
    assert model.loss == pytest.approx(without.loss, rel=1e-12)


@pytest.mark.parametrize(("label", "margin"), [(1.0, None), (2.0, None), (0.0, -1000)])
def test_one_class_is_predicted(con, label, margin):
    """A constant model, with a margin where the label tells which of two classes it is."""
    put(con, LINE, np.full(20, label))
    model = fit(con, "logistic")
    assert (model.status, model.classes, model.converged) == ("one class", [label], False)
    assert (model.intercept, model.loss) == (margin, 0)
    assert not model.coef.any()
    predicted = con.execute(
        "SELECT DISTINCT predict(m, x) FROM t, (SELECT train_model('logistic', y, x) AS m FROM t)"
    ).fetchall()
    assert predicted == [(label,)]


@pytest.mark.parametrize("table", ["(FROM t WHERE false)", "(SELECT NULL AS y, x FROM t)"])
def test_no_usable_rows(con, table):
    put(con, LINE, OVERLAP)
    value = con.execute(f"SELECT train_model('logistic', y::DOUBLE, x) FROM {table}").fetchone()[0]
    assert value is None


@pytest.mark.sample(12)
@pytest.mark.parametrize(
    ("task", "algorithm"),
    [
        (task, algorithm)
        for task in ("linear", "logistic", "svm")
        for algorithm in ("auto", *ALGORITHMS, "dcd")
        if task != "svm" or algorithm != "newton_cg"
        if task == "svm" or algorithm != "dcd"
    ],
)
def test_no_group_spoils_a_query(con, task, algorithm):
    """All cases as groups of one query, two features each: every one answers, in numbers."""
    frames = []
    for k, (_, x, y, _, _) in enumerate(CASES.values()):
        if np.abs(x).max() > 1e100 or (task != "linear" and len(set(y)) > 2):
            continue
        wide = np.column_stack([x, x[:, 0]])[:, :2]
        frames.append(pd.DataFrame({"k": k, "y": y, "x": list(wide)}))
    frame = pd.concat(frames)  # noqa: F841
    con.execute("CREATE TABLE t AS SELECT k, y, x::DOUBLE[] AS x FROM frame")
    needed = {"l2": 1e-3} if algorithm == "dcd" else {}
    models = by_group(con, task, algorithm=algorithm, max_iter=40, **needed)
    assert len(models) == len(frames)
    for model in models.values():
        assert model.status in STATUSES
        assert (model.intercept is None) == (model.classes in ([1.0], [3.5]))
        assert np.isfinite([*model.coef, model.intercept or 0.0, model.loss]).all()


@pytest.mark.parametrize("pair", [("-1", "1"), ("3", "7.5"), ("false", "true"), ("2", "1e9")])
@pytest.mark.parametrize("task", ["logistic", "svm"])
def test_labels_are_any_two_values(con, task, pair):
    """The higher one is the positive class; the model is the same."""
    put(con, LINE, OVERLAP)
    expected = fit(con, task, l2=0.01)
    low, high = pair
    table = f"(SELECT CASE WHEN y = 1 THEN {high} ELSE {low} END AS y, x FROM t)"
    model = fit(con, task, table=table, l2=0.01)
    np.testing.assert_array_equal(model.coef, expected.coef)
    assert model.classes == [float(json.loads(low)), float(json.loads(high))]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_early_stop_says_so(con, algorithm):
    """Labels that no feature explains: held-out loss rises, in each group by itself."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 60))
    y = rng.integers(0, 2, 400).astype(float)
    put(con, x, y, k=np.arange(400) % 2)
    for model in by_group(
        con, "logistic", algorithm=algorithm, validation=0.3, max_iter=3000
    ).values():
        assert (model.status, model.converged, model.n_rows) == ("early stop", False, 200)
