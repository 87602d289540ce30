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
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from tuskml import OptionError, train
from tuskml.estimators import TuskClassifier, TuskRegressor, model_of

L2 = 0.01


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


def test_more_classes_are_one_against_the_rest() -> None:
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    ours = TuskClassifier(l2=L2, epsilon=1e-9).fit(X, names)
    one = LogisticRegression(C=1 / (L2 * len(X)), tol=1e-10, max_iter=10_000)
    peer = OneVsRestClassifier(one).fit(X, names)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-5)
    assert (ours.predict(X) == peer.predict(X)).all()
    assert ours.coef_.shape == (3, 4)
    with pytest.raises(OptionError, match="has 3 models, one a class"):
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


def test_what_is_wrong_is_said() -> None:
    X, y = make_classification(40, 3, n_redundant=0, random_state=5)
    with pytest.raises(OptionError, match="task is 'linear', expected 'logistic' or 'svm'"):
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
