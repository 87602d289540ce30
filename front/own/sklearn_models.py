"""Estimators of scikit-learn by their fitted numbers: linear models, trees, nets, pipelines."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tuskml.errors import DataError
from tuskml.formats.onnx_reading.values import Dense, Forest, Tree
from tuskml.learners.nets.layers import head_of, layers_in
from tuskml.model.scoring import Floats
from tuskml.own.converted import ModelFields, of_margins
from tuskml.own.nodes import Nodes, up_to

GRID = 2.0**51
"""Shares of leaves are whole multiples of 1 / GRID, so that sums of them are exact and votes that
are tied stay tied, to 1e-12 of a thousand trees."""
LOG_LINKS = ("PoissonRegressor", "GammaRegressor", "TweedieRegressor")


def linear(of: Any) -> ModelFields:
    """A model of numbers with `coef_` and `intercept_`, by an identity or a log link."""
    coef = np.asarray(of.coef_, np.float64)
    if coef.size != coef.shape[-1]:
        raise DataError("the estimator predicts several numbers of a row, expected one")
    bias = np.asarray(of.intercept_, np.float64).reshape(-1)
    logs = type(of).__name__ in LOG_LINKS
    if type(of).__name__ == "TweedieRegressor":
        logs = of.link == "log" or (of.link == "auto" and of.power > 0)
    layer = coef.reshape(1, -1), np.broadcast_to(bias, (1,))
    return of_margins(Dense(coef.size, (layer,)), "exp" if logs else "identity")


def linear_classes(of: Any) -> ModelFields:
    """A model of classes with `coef_`: by margins alone, or by probabilities."""
    coef = np.atleast_2d(np.asarray(of.coef_, np.float64))
    bias = np.broadcast_to(np.asarray(of.intercept_, np.float64).reshape(-1), (len(coef),))
    dense = Dense(coef.shape[1], ((coef, bias),))
    if len(coef) == 1:
        return of_margins(dense, "logistic", None if hasattr(of, "predict_proba") else "svm")
    if not hasattr(of, "predict_proba"):
        raise DataError(
            "the estimator has more than two classes and no probabilities, expected one that has "
            "predict_proba"
        )
    return of_margins(dense, "softmax")


def words_of_classes(of: Any) -> ModelFields:
    """Naive Bayes of counts, whose logarithms of shares are weights."""
    layer = np.asarray(of.feature_log_prob_), np.asarray(of.class_log_prior_)
    return of_margins(Dense(layer[0].shape[1], (layer,)), "softmax")


def nodes_of(tree: Any, value: Floats) -> Nodes:
    """The nodes of a `tree_`; value: of its nodes, (nodes,)."""
    left, right = tree.children_left, tree.children_right
    weight, impurity = tree.weighted_n_node_samples, tree.impurity
    loss = weight * impurity
    missing = getattr(tree, "missing_go_to_left", None)
    return Nodes(
        left,
        right,
        tree.feature,
        up_to(tree.threshold),
        value,
        np.where(left >= 0, np.maximum(loss - loss[left] - loss[right], 0.0), 0.0),
        tree.n_node_samples,
        np.zeros(len(left)) if missing is None else np.asarray(missing),
    )


def trees_in(of: Any) -> list[Any]:
    """The trees of a forest, or a tree alone."""
    return [one.tree_ for one in getattr(of, "estimators_", [of])]


def forest(of: Any) -> ModelFields:
    """The means of trees of numbers."""
    trees = trees_in(of)
    if trees[0].n_outputs > 1:
        raise DataError("the estimator predicts several numbers of a row, expected one")
    tables = [Tree(nodes_of(one, one.value[:, 0, 0] / len(trees)).table()) for one in trees]
    whole = Forest(int(of.n_features_in_), (tuple(tables),), np.zeros(1))
    return of_margins(whole, "identity", "random_forest", "squared")


def forest_of_classes(of: Any) -> ModelFields:
    """The mean shares of classes in the leaves of trees."""
    trees, n = trees_in(of), int(of.n_features_in_)
    if trees[0].n_outputs > 1:
        raise DataError("the estimator predicts several classes of a row, expected one")

    def grown(k: int, less: float) -> tuple[Tree, ...]:
        out = []
        for one in trees:
            counts = one.value[:, 0, :]
            share = counts[:, k] / counts.sum(axis=1) - less
            value = np.rint(share / len(trees) * GRID) / GRID
            out.append(Tree(nodes_of(one, value).table()))
        return tuple(out)

    k = int(trees[0].n_classes[0])
    margins = (grown(1, 0.5),) if k == 2 else tuple(grown(one, 0.0) for one in range(k))
    lower = -1 / GRID if k == 2 else 0.0  # a tie is the lower class
    whole = Forest(n, margins, np.full(len(margins), lower))
    return of_margins(whole, "softmax" if k > 2 else "logistic", "random_forest", "gini")


def convert_boosting(of: Any) -> ModelFields:
    """GradientBoosting: the sums of trees, times the learning rate."""
    if of.init is not None and of.init != "zero":
        raise DataError("option 'init' is an estimator, expected none")
    n, classes = int(of.n_features_in_), hasattr(of, "classes_")
    base = np.asarray(of._raw_predict_init(np.zeros((1, n))), np.float64).reshape(-1)
    rate, margins = of.learning_rate, len(base)
    trees = tuple(
        tuple(
            Tree(nodes_of(one.tree_, rate * one.tree_.value[:, 0, 0]).table())
            for one in of.estimators_[:, k]
        )
        for k in range(margins)
    )
    whole = Forest(n, trees, base)
    if not classes:
        named = {"huber": "huber", "quantile": "quantile", "absolute_error": "quantile"}
        return of_margins(whole, "identity", None, named.get(of.loss, "squared"))
    if of.loss == "exponential":  # whose margins are half the log-odds
        whole = whole.times(np.array(2.0))
    return of_margins(whole, "softmax" if margins > 1 else "logistic")


def histograms(of: Any) -> ModelFields:
    """HistGradientBoosting, whose thresholds are of doubles."""
    base = np.asarray(of._baseline_prediction, np.float64).reshape(-1)
    if of.is_categorical_ is not None and np.any(of.is_categorical_):
        raise DataError("a feature is a category, expected features that are numbers")

    def grown(nodes: Any) -> Tree:
        leaf = nodes["is_leaf"].astype(bool)
        left, right = (np.where(leaf, -1, nodes[s].astype(np.int64)) for s in ("left", "right"))
        found = Nodes(
            left,
            right,
            nodes["feature_idx"],
            nodes["num_threshold"],
            nodes["value"],
            np.where(leaf, 0.0, nodes["gain"]),
            nodes["count"],
            nodes["missing_go_to_left"],
        )
        return Tree(found.table())

    trees = tuple(tuple(grown(one[k].nodes) for one in of._predictors) for k in range(len(base)))
    whole = Forest(int(of.n_features_in_), trees, base)
    if hasattr(of, "classes_"):
        return of_margins(whole, "softmax" if len(base) > 1 else "logistic")
    logs = of.loss in ("poisson", "gamma")
    named = {"gamma": "gamma", "poisson": "poisson", "quantile": "quantile"}
    objective = "quantile" if of.loss == "absolute_error" else named.get(of.loss, "squared")
    return of_margins(whole, "exp" if logs else "identity", None, objective)


def net(of: Any) -> ModelFields:
    """An MLP. Sigmoids are hyperbolic tangents of half the sums, scaled and shifted."""
    layers = [
        (np.asarray(w, np.float64).T, np.asarray(b, np.float64))
        for w, b in zip(of.coefs_, of.intercepts_, strict=True)
    ]
    name, ends = of.activation, {"identity", "logistic", "softmax", "exp"}
    if of.out_activation_ not in ends or (of.out_activation_ != "softmax" and of.n_outputs_ > 1):
        raise DataError("the estimator predicts several numbers of a row, expected one")
    if name == "logistic":
        for place in range(len(layers) - 1):
            (w, b), (after, bias) = layers[place], layers[place + 1]
            layers[place] = w / 2, b / 2
            layers[place + 1] = after / 2, bias + after.sum(axis=1) / 2
        name = "tanh"
    while name == "identity" and len(layers) > 1:
        (w, b), (after, bias) = layers[:2]
        layers[:2] = [(after @ w, after @ b + bias)]
    dense = Dense(layers[0][0].shape[1], tuple(layers), (name,) * (len(layers) - 1))
    return of_margins(dense, of.out_activation_, iterations=int(of.n_iter_))


# Pipelines: transformations x -> A x + b fold into the first layer.


def affine(of: Any, n: int) -> tuple[Floats, Floats]:
    """A (m, n) and b (m,) of a fitted transformer. Raises DataError for one of another kind."""
    name = type(of).__name__
    if name == "StandardScaler":
        scale = np.ones(n) if of.scale_ is None else of.scale_
        return np.diag(1 / scale), (np.zeros(n) if of.mean_ is None else -of.mean_ / scale)
    if name == "MinMaxScaler" and not of.clip:
        return np.diag(of.scale_), of.min_
    if name == "MaxAbsScaler" and not getattr(of, "clip", False):
        return np.diag(1 / of.scale_), np.zeros(n)
    if name == "RobustScaler":
        scale = np.ones(n) if of.scale_ is None else of.scale_
        return np.diag(1 / scale), (np.zeros(n) if of.center_ is None else -of.center_ / scale)
    if name == "PCA":
        by = np.sqrt(of.explained_variance_)[:, None] if of.whiten else 1.0
        table = of.components_ / by
        return table, -(table @ of.mean_)
    if name == "TruncatedSVD":
        return of.components_, np.zeros(len(of.components_))
    raise DataError(
        f"a step is {name}, expected StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, "
        "PCA or TruncatedSVD before a linear model or a net"
    )


AFFINE = ["StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "PCA", "TruncatedSVD"]
"""Transformers that `affine` reads."""


def steps_in(pipeline: Any) -> tuple[list[Any], Any]:
    """The transformers of a pipeline and its estimator, without those that pass rows through."""
    *before, last = [one for _, one in pipeline.steps]
    return [one for one in before if one is not None and one != "passthrough"], last


def fold_steps(of: ModelFields, steps: list[Any], n: int) -> ModelFields:
    """The model of the features before the transformers, of n features."""
    table, shift = np.eye(n), np.zeros(n)
    for step in steps:
        a, b = affine(step, len(table))
        table, shift = a @ table, a @ shift + b
    return fold_transform(of, table, shift)


def fold_transform(of: ModelFields, table: Floats, shift: Floats) -> ModelFields:
    """A model of table @ x + shift as one of x."""
    n = table.shape[1]
    if of.task == "mlp":
        kind, layers = layers_in(of.coef.tolist())
        (w, b), *others = layers
        new = [(w @ table, b + w @ shift), *others]
        head = head_of(n, [len(bias) for _, bias in layers], kind)
        parts = [np.column_stack([bias, weights]).ravel() for weights, bias in new]
        return replace(of, coef=np.concatenate([head, *parts]), n_features=n)
    if np.isnan(of.intercept):
        blocks = of.coef.reshape(-1, of.n_features + 1)
        weights = blocks[:, 1:]
        whole = np.column_stack([blocks[:, 0] + weights @ shift, weights @ table])
        return replace(of, coef=whole.ravel(), n_features=n)
    more = float(of.coef @ shift)
    return replace(of, coef=of.coef @ table, intercept=of.intercept + more, n_features=n)


BY_CLASS: dict[str, Callable[[Any], ModelFields]] = {
    **dict.fromkeys(
        ("DecisionTreeRegressor", "RandomForestRegressor", "ExtraTreesRegressor"), forest
    ),
    **dict.fromkeys(
        ("DecisionTreeClassifier", "RandomForestClassifier", "ExtraTreesClassifier"),
        forest_of_classes,
    ),
    **dict.fromkeys(("GradientBoostingRegressor", "GradientBoostingClassifier"), convert_boosting),
    **dict.fromkeys(
        ("HistGradientBoostingRegressor", "HistGradientBoostingClassifier"), histograms
    ),
    **dict.fromkeys(("MLPRegressor", "MLPClassifier"), net),
    "MultinomialNB": words_of_classes,
    **dict.fromkeys(
        (
            *("LogisticRegression", "LogisticRegressionCV", "SGDClassifier", "Perceptron"),
            *("LinearSVC", "RidgeClassifier", "RidgeClassifierCV"),
            *("LinearDiscriminantAnalysis", "PassiveAggressiveClassifier"),
        ),
        linear_classes,
    ),
    **dict.fromkeys(
        (
            *("LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "LassoLars"),
            *("LassoLarsCV", "LassoLarsIC", "Lars", "LarsCV", "ElasticNet", "ElasticNetCV"),
            *("OrthogonalMatchingPursuit", "OrthogonalMatchingPursuitCV", "BayesianRidge"),
            *("ARDRegression", "HuberRegressor", "TheilSenRegressor", "QuantileRegressor"),
            *("SGDRegressor", "PassiveAggressiveRegressor", "LinearSVR", *LOG_LINKS),
        ),
        linear,
    ),
}
"""Functions by the name of the estimator's class, or of one that it derives from."""
OF_STEPS = {linear, linear_classes, words_of_classes, net}
"""Those whose models a pipeline may have behind its transformers."""
