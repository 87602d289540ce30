"""Predictions of a model in NumPy: the numbers of SQL's `decision`, `predict`, `predict_proba`."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError

if TYPE_CHECKING:
    from tuskml.model import Model

Floats = NDArray[np.float64]


def margins(model: "Model", X: Any, device: str = "cpu") -> Floats:
    """coef · features + intercept, of shape (n,)."""
    if device != "cpu":
        return margins_on(device, model, X)
    coef = np.asarray(model.weights(), np.float64)
    if model.task == "matrix_factorization":
        return ratings(model, coef, matrix(model, X))
    if hasattr(X, "tocsr"):
        return sparse_margins(X, coef) + model.intercept
    x = matrix(model, X)
    if x.shape[1] != len(coef):
        raise DataError(f"the model has {len(coef)} features, X has {x.shape[1]} columns")
    return np.asarray(x @ coef + model.intercept, np.float64)


def margins_on(device: str, model: "Model", X: Any) -> Floats:
    """The same on the GPU, of an array in its memory or the host's; DataError where it cannot."""
    from tuskml.udas.gpu import predictions

    if device != "gpu":
        raise OptionError(f"device is {device!r}, expected 'cpu' or 'gpu'")
    if model.task == "matrix_factorization" or hasattr(X, "tocsr"):
        what = "X is a sparse matrix" if hasattr(X, "tocsr") else f"the model is '{model.task}'"
        raise DataError(
            f"the GPU predicts dense features of linear models, {what}: expected device 'cpu'"
        )
    coef = np.asarray(model.weights(), np.float64)
    if not hasattr(X, "dtype") or X.dtype not in (np.float32, np.float64):
        X = matrix(model, X)
    if X.ndim == 2 and X.shape[1] != len(coef):
        raise DataError(f"the model has {len(coef)} features, X has {X.shape[1]} columns")
    return predictions.decision(X, coef, model.intercept)


def sparse_margins(X: Any, coef: Floats) -> Floats:
    """Of a SciPy sparse matrix, whose columns are feature ids; unseen ones weigh nothing."""
    rows = X.tocsr()
    width = min(rows.shape[1], len(coef))
    return np.asarray(rows[:, :width] @ coef[:width], np.float64).ravel()


def predictions(model: "Model", X: Any, device: str = "cpu") -> Floats:
    """The number, or the class on that side of the margin; 0 is the higher class's."""
    m = margins(model, X, device)
    if model.task in ("linear", "matrix_factorization"):
        return m
    classes = model.classes or [0.0]
    low, high = classes[0], classes[-1]
    return np.where(m >= 0, high, np.where(m < 0, low, m))


def probabilities(model: "Model", X: Any, device: str = "cpu") -> Floats:
    """Of the higher class: 1 / (1 + exp(-m)), by exp of a number <= 0 only."""
    if model.task != "logistic":
        raise DataError(
            f"the model is '{model.task}', only 'logistic' models give probabilities; use decision"
        )
    return logistic(margins(model, X, device))


def logistic(m: Floats) -> Floats:
    """1 / (1 + exp(-m))."""
    e = np.exp(-np.abs(m))
    return np.asarray(np.where(m < 0, e, 1.0) / (1.0 + e), np.float64)


def ratings(model: "Model", coef: Floats, x: Floats) -> Floats:
    """intercept + bias of the user + bias of the item + the dot product of their factors.

    Koren, Bell, Volinsky, Matrix Factorization Techniques for Recommender Systems, 2009,
    equation 4; who was never seen has zeros.
    """
    if x.shape[1] != 2:
        raise DataError(f"X has {x.shape[1]} columns, expected two, [user, item]")
    if not (np.isfinite(x).all() and (x >= 0).all() and (x == np.floor(x)).all()):
        raise DataError("X holds an id that is no integer from 0 on")
    users, items, width = (int(number) for number in model.classes or (0, 0, 1))
    table = np.vstack([coef.reshape(users + items, width), np.zeros((1, width))])
    user = np.where(x[:, 0] < users, x[:, 0], users + items).astype(np.intp)
    item = np.where(x[:, 1] < items, users + x[:, 1], users + items).astype(np.intp)
    u, v = table[user], table[item]
    first = int(bool(model.options.get("biases", True)))
    dots = np.einsum("nk,nk->n", u[:, first:], v[:, first:])
    return np.asarray(model.intercept + (u[:, 0] + v[:, 0]) * first + dots, np.float64)


def matrix(model: "Model", X: Any) -> Floats:
    """Rows of numbers, of shape (n, d); of a data frame the columns of the model's features."""
    if hasattr(X, "tocsr"):
        X = X.toarray()
    elif hasattr(X, "columns"):
        X = X[frame_columns(model, [str(name) for name in X.columns])]
    try:
        x = np.asarray(X, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"X is no array of numbers ({error})") from error
    if x.ndim != 2:
        raise DataError(f"X has {x.ndim} dimensions, expected two: rows and features")
    return x


def frame_columns(model: "Model", there: list[str]) -> list[str]:
    """The model's features, all of which must be columns."""
    names = list(model.features or model.feature_names)
    for name in names:
        if name not in there:
            raise DataError(
                f"X has no column {name!r}: expected one for each of the model's features, or an "
                "array without names; tuskml.predict computes features that are SQL expressions"
            )
    return names
