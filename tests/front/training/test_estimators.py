"""The scikit-learn estimators: scikit-learn's own checks, and its coefficients."""

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from tuskml import DataError, OptionError, train
from tuskml.estimators import TuskClassifier, TuskRegressor, model_of

L2 = 0.01


@pytest.mark.sample(10)
@parametrize_with_checks([TuskRegressor(), TuskClassifier()])
def test_scikit_learn_s_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # separable data without a penalty
        check(estimator)


@pytest.mark.smoke
def test_the_classifier_is_logistic_regression() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    ours = TuskClassifier(l2=L2, epsilon=1e-9).fit(X, y)
    scaled = X / X.std()  # which scikit-learn's solvers need, and the penalty then must follow
    ours_scaled = TuskClassifier(l2=L2, epsilon=1e-9).fit(scaled, y)
    peer = LogisticRegression(C=1 / (L2 * len(X)), tol=1e-10, max_iter=10_000).fit(scaled, y)
    np.testing.assert_allclose(ours_scaled.coef_, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(ours_scaled.intercept_, peer.intercept_, atol=1e-5)
    np.testing.assert_allclose(
        ours_scaled.predict_proba(scaled), peer.predict_proba(scaled), atol=1e-5
    )
    assert ours.score(X, y) > 0.94
    assert list(ours.models_[0].coefficients) == list(X.columns)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_regressor_is_ridge_and_lasso(dtype: Any) -> None:
    X, y = load_diabetes(return_X_y=True)
    X = (X * 20).astype(dtype)
    ridge = Ridge(alpha=L2 * len(X)).fit(X.astype(float), y)
    ours = TuskRegressor(l2=L2).fit(X, y)
    np.testing.assert_allclose(ours.coef_, ridge.coef_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(ours.predict(X), ridge.predict(X.astype(float)), rtol=1e-4)
    lasso = Lasso(alpha=1.5, tol=1e-10, max_iter=100_000).fit(X.astype(float), y)
    sparse = TuskRegressor(l1=1.5, epsilon=1e-8).fit(X, y)
    np.testing.assert_allclose(sparse.coef_, lasso.coef_, atol=0.02)
    assert ((sparse.coef_ == 0) == (lasso.coef_ == 0)).all()


@pytest.mark.parametrize(
    ("given", "sparse"),
    [(load_iris, False), (load_iris, True), (load_wine, False), (load_digits, False)],
)
def test_more_classes_are_scikit_learn_s_softmax(given: Any, sparse: bool) -> None:
    X, y = (rows[:500] for rows in given(return_X_y=True))
    X = X / np.maximum(X.std(axis=0), 1e-9)
    names = np.array([f"class {k}" for k in range(10)])[y]
    rows = scipy.sparse.csr_matrix(X) if sparse else X
    ours = TuskClassifier(l2=L2, epsilon=1e-9).fit(rows, names)
    peer = LogisticRegression(C=1 / (L2 * len(X)), tol=1e-10, solver="newton-cholesky")
    peer.fit(X, names)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-4)
    np.testing.assert_allclose(ours.decision_function(rows), peer.decision_function(X), atol=2e-4)
    np.testing.assert_allclose(ours.predict_proba(rows), peer.predict_proba(X), atol=1e-5)
    assert (ours.predict(rows) == peer.predict(X)).all()
    assert model_of(ours).classes == list(range(len(peer.classes_)))


def test_sparse_features_beyond_the_last_one_weigh_nothing_in_any_class() -> None:
    X, y = load_iris(return_X_y=True)
    wide = np.hstack([X, np.zeros((len(X), 3))])
    ours = TuskClassifier(l2=L2).fit(scipy.sparse.csr_matrix(wide), y)
    narrow = TuskClassifier(l2=L2).fit(scipy.sparse.csr_matrix(X), y)
    assert ours.coef_.shape == (3, 7)
    np.testing.assert_array_equal(ours.coef_[:, :4], narrow.coef_)
    np.testing.assert_array_equal(ours.coef_[:, 4:], 0)
    np.testing.assert_allclose(ours.predict_proba(wide), narrow.predict_proba(X))


def test_an_svm_of_more_classes_is_one_against_the_rest() -> None:
    X, y = load_iris(return_X_y=True)
    ours = TuskClassifier("svm", l2=L2, fit_intercept=False).fit(X, y)
    one = LinearSVC(C=1 / (L2 * len(X)), loss="hinge", fit_intercept=False, tol=1e-8,
                    max_iter=1_000_000, dual=True)  # fmt: skip
    peer = OneVsRestClassifier(one).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=0.02)
    assert ours.coef_.shape == (3, 4)
    with pytest.raises(OptionError, match="has 3 models, one per class"):
        model_of(ours)


def test_the_svm_s_objective_is_liblinear_s() -> None:
    X, y = make_classification(300, 5, random_state=1)
    ours = TuskClassifier("svm", l2=L2, fit_intercept=False).fit(X, y)
    peer = LinearSVC(C=1 / (L2 * len(X)), loss="hinge", fit_intercept=False, tol=1e-8,
                     max_iter=1_000_000, dual=True).fit(X, y)  # fmt: skip

    def objective(w: np.ndarray) -> float:
        return np.maximum(0, 1 - (2 * y - 1) * (X @ w)).mean() + L2 / 2 * w @ w

    assert objective(ours.coef_[0]) == pytest.approx(objective(peer.coef_[0]), rel=1e-3)
    assert not hasattr(ours, "predict_proba")


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_sparse_rows_give_the_dense_model(kind: Any) -> None:
    X, y = make_classification(200, 6, random_state=2)
    X[np.abs(X) < 0.7] = 0
    X[:, 5] = 0  # an id that is never seen
    dense, sparse = (TuskClassifier(l2=L2, epsilon=1e-9).fit(rows, y) for rows in (X, kind(X)))
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-5)
    np.testing.assert_allclose(sparse.predict_proba(kind(X)), dense.predict_proba(X), atol=1e-5)
    assert model_of(sparse).n_features == 6


def test_the_model_is_sql_s(con) -> None:
    X, y = make_classification(100, 3, n_redundant=0, random_state=3)
    ours = TuskClassifier(l2=L2, options={"threads": 1, "class_weight": "balanced"}).fit(X, y)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    model = train(con, "logistic", source=frame, label="y", features=["a", "b", "c"], l2=L2,
                  threads=1, class_weight="balanced")  # fmt: skip
    assert model_of(ours).coef == model.coef
    assert ours.models_[0].plan == model.plan


def test_estimators_compose() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), TuskClassifier())
    search = GridSearchCV(pipe, {"tuskclassifier__l2": [0.001, 0.01, 0.1]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.95


def test_fits_with_one_seed_are_equal() -> None:
    X, y = make_classification(3000, 4, random_state=4)
    one = TuskClassifier(algorithm="sgd", random_state=7, max_iter=3, epsilon=0,
                         options={"threads": 1})  # fmt: skip
    first, second = one.fit(X, y).coef_, clone(one).fit(X, y).coef_
    other = clone(one).set_params(random_state=8).fit(X, y).coef_
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_threads_fit_side_by_side() -> None:
    X, y = make_classification(2000, 4, random_state=8)
    alone = TuskClassifier(l2=L2).fit(X, y)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: TuskClassifier(l2=L2).fit(X, y).coef_, range(8)))
    for coef in found:
        np.testing.assert_allclose(coef, alone.coef_, rtol=1e-6)
    assert pickle.loads(pickle.dumps(alone)).score(X, y) == alone.score(X, y)


def test_multinomial_is_logistic_by_another_name() -> None:
    X, y = make_classification(300, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=2)
    one, other = (TuskClassifier(task, l2=L2).fit(X, y) for task in ("logistic", "multinomial"))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_what_is_wrong_is_said() -> None:
    X, y = make_classification(40, 3, n_redundant=0, random_state=5)
    with pytest.raises(
        OptionError, match="task is 'linear', expected 'logistic', 'multinomial' or 'svm'"
    ):
        TuskClassifier("linear").fit(X, y)
    with pytest.raises(ValueError, match="y has one class"):
        TuskClassifier().fit(X, np.zeros(40))
    with pytest.raises(OptionError, match="option 'l2' is -1"):
        TuskRegressor(l2=-1).fit(X, y)
    with pytest.raises(OptionError, match="unknown option 'l3'"):
        TuskRegressor(options={"l3": 1}).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="'separable'.*give l2"):
        TuskClassifier().fit(X, X[:, 0] > 0)


def test_rows_of_many_columns_are_lists() -> None:
    X = np.random.default_rng(6).normal(size=(5, 100_001))
    ours = TuskRegressor(l2=1.0, max_iter=3, epsilon=0, options={"threads": 1})
    model = model_of(ours.fit(X, X[:, 0]))
    assert (model.n_features, model.n_rows) == (100_001, 5)


@pytest.mark.parametrize("weights", ["balanced", {0: 1.0, 1: 5.0}, {1: 3.0}, {0: 2}])
def test_class_weights_are_scikit_learn_s(weights: Any) -> None:
    """LogisticRegression does not divide by the sum of weights, neither do we: C = 1 / (l2 n)."""
    X, y = make_classification(400, 4, weights=[0.8], random_state=11)
    peer = LogisticRegression(
        C=1 / (L2 * len(X)), class_weight=weights, tol=1e-10, max_iter=10_000
    )
    peer.fit(X, y)
    ours = TuskClassifier(l2=L2, class_weight=weights, epsilon=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-5)
    names = np.array(["no", "yes"])
    named = weights if isinstance(weights, str) else {names[k]: w for k, w in weights.items()}
    text = TuskClassifier(l2=L2, class_weight=named, epsilon=1e-9).fit(X, names[y])
    np.testing.assert_array_equal(text.coef_, ours.coef_)


@pytest.mark.parametrize("weights", ["balanced", {0: 2.0, 1: 5.0}])
def test_weights_of_many_classes_are_scikit_learn_s(weights: Any) -> None:
    X, y = load_iris(return_X_y=True)
    ours = TuskClassifier(l2=L2, class_weight=weights, epsilon=1e-9).fit(X, y)
    peer = LogisticRegression(
        C=1 / (L2 * len(X)), tol=1e-10, max_iter=10_000, class_weight=weights
    )
    np.testing.assert_allclose(ours.coef_, peer.fit(X, y).coef_, atol=1e-4)


def test_class_weights_that_are_wrong_are_said() -> None:
    X, y = make_classification(60, 3, n_redundant=0, random_state=5)
    wrong = (
        ({"yes": 2}, "class_weight has the class 'yes', expected classes of y: 0, 1"),
        ({0: -1}, r"class_weight of the class 0 is -1, expected a number greater than 0"),
        ([1, 2], r"class_weight is \[1, 2\], expected 'balanced' or a dict of weights by class"),
        ("balance", "class_weight is 'balance', expected 'balanced' or a dict"),
    )
    for given, sentence in wrong:
        with pytest.raises(OptionError, match=sentence):
            TuskClassifier(class_weight=given).fit(X, y)
    with pytest.raises(OptionError, match="class_weight is given twice"):
        TuskClassifier(class_weight={0: 2}, options={"class_weight": "balanced"}).fit(X, y)


SKLEARN = {
    "C": r"TuskClassifier has no parameter 'C'; scikit-learn's C is l2 = 1 / \(C \* n\)",
    "alpha": "no parameter 'alpha'; alpha is l2 = alpha / n of scikit-learn's Ridge",
    "penalty": "no parameter 'penalty'; the penalty is a number here: l2 = 0.01",
    "tol": "no parameter 'tol'; the tolerance is epsilon here",
    "solver": "no parameter 'solver'; the solver is algorithm here",
    "n_jobs": "no parameter 'n_jobs'; n_jobs is threads here",
    "max_itr": "no parameter 'max_itr'; did you mean 'max_iter'",
    "threads": "no parameter 'threads'; give options={'threads': ...}",
    "nonsense": "no parameter 'nonsense', expected algorithm, class_weight, .* or task",
}


@pytest.mark.parametrize("name", SKLEARN)
def test_scikit_learn_s_names_have_a_sentence(name: str, con) -> None:
    with pytest.raises(OptionError, match=SKLEARN[name]):
        TuskClassifier(**{name: 1})
    if name in ("threads", "nonsense"):
        return
    given = {"source": "SELECT x, x > 4 AS y FROM range(9) r(x)", "label": "y", "features": "x"}
    conversion = SKLEARN[name].partition("; ")[2]
    with pytest.raises(OptionError, match=f"option '{name}'.*{conversion}"):
        train(con, "logistic", **given, **{name: 1})
    with pytest.raises(Exception, match=f"option '{name}'.*{conversion}"):
        con.execute(f"SELECT train_model('logistic', true, [1.0], '{{\"{name}\": 1}}')")


@pytest.mark.parametrize(
    "given",
    [{0: 1, 1: 5}, {False: 1, True: 5}, {np.int64(1): 5, np.int64(0): 1}],
)
def test_an_option_s_weights_by_class(given: dict[Any, float], con) -> None:
    X, y = make_classification(300, 3, n_redundant=0, weights=[0.8], random_state=6)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    asked = {"source": frame, "label": "y", "features": ["a", "b", "c"], "l2": L2, "threads": 1}
    by_class = train(con, "logistic", **asked, class_weight=given)
    assert by_class.coef == train(con, "logistic", **asked, class_weight=[1, 5]).coef
    assert by_class.coef == train(con, "logistic", **asked, class_weight=given | {2: 9}).coef
    with pytest.raises(OptionError, match=r"option 'class_weight' is .*, expected 'balanced', "):
        train(con, "logistic", **asked, class_weight={1: 5})
    for names in ({"no": 1, "yes": 5}, {"nan": 1, "1": 2}):
        with pytest.raises(DataError, match="expected weights of two classes that are numbers"):
            train(con, "logistic", **asked, class_weight=names)


@pytest.mark.parametrize("classes", [2, 3])
def test_sample_weights_are_repetitions(classes: int) -> None:
    """Of two classes and of more; a class without a row of weight is refused."""
    random = np.random.default_rng(5)
    X, y = random.normal(size=(60, 4)), np.arange(60) % classes
    times = random.integers(0, 4, 60)
    weighted = TuskClassifier(l2=0.1).fit(X, y, sample_weight=times)
    repeated = TuskClassifier(l2=0.1).fit(X.repeat(times, axis=0), y.repeat(times))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-9, atol=1e-12)
    plain = TuskClassifier(l2=0.1).fit(X, y)
    assert not np.allclose(weighted.coef_, plain.coef_, rtol=1e-3)
    with pytest.raises(ValueError, match="all rows of the class 1 have the weight zero"):
        TuskClassifier(l2=0.1).fit(X, y, sample_weight=y != 1)
