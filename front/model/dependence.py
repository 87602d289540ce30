"""The dependence of predictions on a feature: by shuffling it, and by setting it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, nearest
from tuskml.model import scoring
from tuskml.model.fields import Fields
from tuskml.model.scoring import Floats

LEAST = 1e-15
"""A probability of the label's class is taken for at least this."""


@dataclass(frozen=True)
class Importance:
    """Rise of the loss when one feature's values are shuffled among the rows.

    features: d names; mean, std: (d,), over the repeats; loss: of the rows as they are.
    """

    features: tuple[str, ...]
    mean: Floats
    std: Floats
    loss: float


@dataclass(frozen=True)
class Dependence:
    """The mean prediction of rows where a feature has one value for all of them.

    values: (points,); mean: (points,) numbers or probabilities of the higher class, or of K > 2
    classes (points, K). classes: the names of these K, else none.
    """

    feature: str
    values: NDArray[Any]
    mean: Floats
    classes: tuple[str, ...] = ()


def permutation_importance(
    model: Fields, X: Any, y: Any, repeats: int = 5, seed: int = 0
) -> Importance:
    """The importance of each column of X (L. Breiman, Random forests, Machine Learning 45, 2001).

    X: (n, d), as `Model.predict` takes it; y: (n,), labels as the model has them. The loss is the
    mean squared error, or the log loss where the model has probabilities. Raises DataError for
    lengths that differ.
    """
    y = np.asarray(y)
    if len(X) != len(y) or not len(y):
        raise DataError(f"X has {len(X)} rows and y {len(y)}, expected as many, and one at least")
    random, names = np.random.default_rng(seed), columns_of(model, X)
    loss = loss_of(model, X, y)
    rise = np.empty((len(names), repeats))
    for j in range(len(names)):
        for k in range(repeats):
            order = random.permutation(len(y))
            rise[j, k] = loss_of(model, with_column(X, j, column_at(X, j)[order]), y) - loss
    return Importance(names, rise.mean(axis=1), rise.std(axis=1), loss)


def partial_dependence(model: Fields, X: Any, feature: str | int, points: int = 50) -> Dependence:
    """The dependence on one column of X (J. Friedman, Greedy function approximation, Annals of
    Statistics 29, 2001, section 8.2).

    feature: its name, or its index from 0 on; points: values at most, of numbers the quantiles of
    the column, of others the most frequent ones.
    """
    names = columns_of(model, X)
    place = place_of(feature, names)
    values = grid(column_at(X, place), points)
    told = [
        response(model, with_column(X, place, np.full(len(X), value, dtype=values.dtype)))
        for value in values
    ]
    mean = np.array([np.nanmean(one, axis=0) for one in told])
    classes = tuple(model.class_names or ()) if mean.ndim > 1 else ()
    return Dependence(names[place], values, mean, classes)


def columns_of(model: Fields, X: Any) -> tuple[str, ...]:
    """The names of the columns of X."""
    if hasattr(X, "columns"):
        return tuple(str(name) for name in X.columns)
    width = np.shape(X)[1]
    return model.features if len(model.features) == width else names_by_place(width)


def names_by_place(width: int) -> tuple[str, ...]:
    """x1, x2, ..."""
    return tuple(f"x{place}" for place in range(1, width + 1))


def place_of(feature: str | int, names: tuple[str, ...]) -> int:
    """The index of a column. Raises DataError if there is none."""
    if isinstance(feature, int) and 0 <= feature < len(names):
        return feature
    if feature in names:
        return names.index(str(feature))
    told = nearest(feature, names) if isinstance(feature, str) else ""
    raise DataError(f"X has no column {feature!r}, its columns are {', '.join(names)}{told}")


def column_at(X: Any, place: int) -> NDArray[Any]:
    """A column of an array or a frame."""
    return np.asarray(X.iloc[:, place] if hasattr(X, "iloc") else np.asarray(X)[:, place])


def with_column(X: Any, place: int, values: NDArray[Any]) -> Any:
    """The same rows with another column."""
    if hasattr(X, "iloc"):
        return X.assign(**{str(X.columns[place]): values})
    out = np.array(X, copy=True)
    out[:, place] = values
    return out


def grid(column: NDArray[Any], points: int) -> NDArray[Any]:
    """The values that a column is set to."""
    if column.dtype.kind not in "fiub":
        known = np.array([one for one in column.tolist() if one is not None], object)
        values, count = np.unique(known.astype(str), return_counts=True)
        return values[np.argsort(-count, kind="stable")[:points]].astype(object)
    values = np.unique(column[~np.isnan(column.astype(float))])
    if len(values) <= points:
        return values
    shares = np.linspace(0.05, 0.95, points)
    return np.unique(np.quantile(column[~np.isnan(column.astype(float))], shares))


def response(model: Fields, X: Any) -> Floats:
    """Probabilities where the model has them, otherwise predictions; texts as 0 and 1."""
    if model.many_classes:
        return scoring.probabilities(model, X)
    if scoring.answers(model).has_probabilities:
        return scoring.score_rows(model, "predict_proba", X)
    if model.has_text_classes:
        return scoring.score_rows(model, "predict_class", X) - 1
    return scoring.score_rows(model, "predict", X)


def loss_of(model: Fields, X: Any, y: NDArray[Any]) -> float:
    """The mean squared error, of texts the share of errors, or the log loss."""
    told = response(model, X)
    if not model.many_classes and not scoring.answers(model).has_probabilities:
        if model.has_text_classes:
            return float(np.mean(told != places_in(model, y)))
        return float(np.mean((told - y) ** 2))
    place = places_in(model, y)
    if told.ndim == 2:
        share = told[np.arange(len(y)), place]
    else:
        share = np.where(place == len(model.classes or ()) - 1, told, 1 - told)
    share = np.where(place < 0, 0.0, share)
    return float(-np.mean(np.log(np.maximum(share, LEAST))))


def places_in(model: Fields, y: NDArray[Any]) -> NDArray[np.intp]:
    """The indices of labels among the classes, -1 for a label that the model never saw, which
    is a wrong prediction. Raises DataError if it saw none of them.
    """
    classes: list[Any] = list(model.classes or ())
    if y.dtype.kind not in "fiub":
        classes = list(model.class_names or ())
    known = {one: place for place, one in enumerate(classes)}
    places = np.array([known.get(one, -1) for one in y.tolist()], np.intp)
    if len(places) and (places < 0).all():
        raise DataError(f"label is {y.tolist()[0]!r}, which is none of the classes of the model")
    return places
