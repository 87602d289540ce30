"""The estimators of nets: scikit-learn's own checks, its scores, frames with categories."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from tuskml import OptionError
from tuskml.estimators import TuskNetClassifier, TuskNetRegressor


@pytest.mark.sample(8)
@parametrize_with_checks([TuskNetRegressor(), TuskNetClassifier()])
def test_scikit_learn_s_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits])
def test_classes_are_told_as_well_as_by_scikit_learn_s_net(load: Any) -> None:
    X, y = load(return_X_y=True)
    train, test, y_train, y_test = train_test_split(X[:900], y[:900], random_state=0)
    ours = TuskNetClassifier(layers=[32], max_iter=40, random_state=1).fit(train, y_train)
    peer = make_pipeline(
        StandardScaler(), MLPClassifier(hidden_layer_sizes=[32], max_iter=40, random_state=1)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer.fit(train, y_train)
    assert ours.score(test, y_test) > peer.score(test, y_test) - 0.03
    assert ours.predict_proba(test).shape == (len(test), len(ours.classes_))
    assert ours.n_iter_ == 40


def test_numbers_are_told_as_well_as_by_scikit_learn_s_net() -> None:
    X, y = load_diabetes(return_X_y=True)
    train, test, y_train, y_test = train_test_split(X, y, random_state=0)
    ours = TuskNetRegressor(layers=(16,), max_iter=40).fit(train, y_train)
    peer = make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=[16], max_iter=400, random_state=1)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer.fit(train, y_train)
    assert ours.score(test, y_test) > peer.score(test, y_test) - 0.1


def test_categories_of_a_frame_are_embedded() -> None:
    n = np.arange(1500)
    frame = pd.DataFrame({"k": [f"k{i % 6}" for i in n], "x": (n * 7919) % 1009 / 1009})
    y = np.where(n % 6 > 2, frame["x"], -frame["x"])
    ours = TuskNetRegressor(layers=[16], learning_rate=0.01, max_iter=20).fit(frame, y)
    assert ours.score(frame, y) > 0.99
    assert '"k5"' in ours.models_[0].preparation
    names = np.where(y > 0, "up", "down")
    told = TuskNetClassifier(layers=[16], learning_rate=0.01, max_iter=20).fit(frame, names)
    assert told.score(frame, names) > 0.98


def test_weights_of_classes() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    given = {"layers": [4], "max_iter": 3}
    names = np.where(y == 1, "benign", "malignant")
    share = {}
    for weight in (None, "balanced", {"malignant": 30}):
        net = TuskNetClassifier(class_weight=weight, **given).fit(X, names)
        share[str(weight)] = (net.predict(X) == "malignant").mean()
    assert share["{'malignant': 30}"] > share["None"]
    with pytest.raises(OptionError, match="class_weight has the class 'x', expected classes of y"):
        TuskNetClassifier(class_weight={"x": 1}, **given).fit(X, names)
    with pytest.raises(OptionError, match="has no parameter 'layer'"):
        TuskNetClassifier(layer=[3])
