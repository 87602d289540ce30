"""Contributions and marginal effects of features, covariances, and intervals of predictions.

Contributions to the margins of rows come from the C that SQL's `explain_prediction` calls. Boosted
trees: exact path-dependent Shapley values (S. Lundberg et al., From local explanations to global
understanding with explainable AI for trees, Nature Machine Intelligence 2, 2020). Linear and
ordinal models: coefficient times value; factorization machines: that and half of each pair's term.
Nets: integrated gradients (M. Sundararajan, A. Taly and Q. Yan, Axiomatic Attribution for Deep
Networks, ICML 2017) from the row whose features are 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuskml.errors import DataError
from tuskml.model import scorers, scoring
from tuskml.model.fields import Fields
from tuskml.model.scoring import Floats
from tuskml.model.summary import Term, freedom_of, has_ratios, terms, test_term


@dataclass(frozen=True)
class Explanation:
    """Contributions of d features to the margins of n rows: `base` and `contributions` add up to
    `Model.decision`.

    base: (n,); contributions: (n, d); values: (n, d), the features as the model has them, in the
    order of `features`. Of K > 2 classes base is (n, K) and contributions (n, K, d). NaN in a row
    of boosted trees goes where training sends missing values; other models answer NaN. classes:
    the names of the classes that the margins speak for: all of K > 2, of two the higher one.
    """

    features: tuple[str, ...]
    base: Floats
    contributions: Floats
    values: Floats
    classes: tuple[str, ...] = ()


def explain_rows(model: Fields, X: Any) -> Explanation:
    """The contributions of the features of rows; raises DataError for a model that has none."""
    several = model.many_classes and not model.cuts
    margins = len(model.classes or ()) if several else 1
    d = features_of(model)
    columns = 1 + d + margins * (d + 1)
    told = scoring.score_lists(model, "explain_prediction", X, columns)
    table = told[:, 1 + d :].reshape(len(told), margins, d + 1)
    base, contributions = table[:, :, 0], table[:, :, 1:]
    if not several:
        base, contributions = base[:, 0], contributions[:, 0]
    names = names_of(model, d)
    classes = model.names_of_classes if several else model.names_of_classes[1:]
    classes = () if model.cuts else classes
    return Explanation(names, base, contributions, told[:, 1 : 1 + d], classes)


def features_of(model: Fields) -> int:
    """The features that contributions are of; none of a model that is a constant."""
    if not model.coef:
        return 0
    return model.width if model.has_terms else int(model.coef[0])


def names_of(model: Fields, d: int) -> tuple[str, ...]:
    """The names of the features, x1, x2, ... where the model does not know them."""
    if len(model.features) == d:
        return model.features
    found = model.feature_names
    return found if len(found) == d else tuple(f"x{place}" for place in range(1, d + 1))


def marginal_effects(model: Fields, X: Any, weights: Any, offsets: Any) -> tuple[Term, ...]:
    """The effects as SQL's aggregate has them, X as `Model.predict` takes it, without rows that
    miss a number; raises DataError for a model without effects.
    """
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    given = {"weights": numbers("weights", weights, n), "offsets": numbers("offsets", offsets, n)}
    kept = np.all([~np.isnan(one) for one in given.values() if one is not None], axis=0)
    kept = np.broadcast_to(kept, n).astype(bool)
    rows: Any
    if model.preparation is not None:
        columns = scoring.prepare_columns(model, X)
        rows = {name: column[kept] for name, column in columns.items()}
    elif hasattr(X, "tocsr"):
        rows = X.tocsr()
        kept = kept & ~np.isnan(np.asarray(rows.sum(axis=1), float).ravel())
        rows = rows[kept]
    else:
        rows = scoring.matrix(model, X)
        scoring.check_width(model, rows)
        kept = kept & ~np.isnan(rows).any(axis=1)
        rows = rows[kept]
    w, o = (None if one is None else one[kept] for one in given.values())
    found = scorers.effects(model.payload, rows, int(kept.sum()), w, o)
    freedom = freedom_of(model)
    names = model.feature_names
    return tuple(
        test_term(
            names[feature], effect, None if np.isnan(error) else error, freedom, ratios=False
        )
        for feature, effect, error in found
    )


def numbers(name: str, values: Any, n: int) -> Floats | None:
    """A number for each row; raises DataError if they are not as many."""
    if values is None:
        return None
    found = np.ascontiguousarray(values, np.float64)
    if found.shape != (n,):
        raise DataError(f"{name} has {found.size} numbers, X has {n} rows")
    return found


ENDS = 6
"""Numbers of an interval."""


@dataclass(frozen=True)
class Covariance:
    """The covariance matrix of coefficients, (terms, terms), in the order of `terms`."""

    terms: tuple[str, ...]
    matrix: Floats


@dataclass(frozen=True)
class Intervals:
    """Predictions of n rows, (n,) each; NaN where a number is not known.

    fit: the mean; std_err: its standard error; lower, upper: its confidence interval;
    prediction_lower, prediction_upper: the interval of a label.
    """

    fit: Floats
    std_err: Floats
    lower: Floats
    upper: Floats
    prediction_lower: Floats
    prediction_upper: Floats


def covariance(model: Fields) -> Covariance:
    """The covariance of all coefficients that have a standard error; raises DataError for a model
    that does not keep it.
    """
    if model.options.get("intervals") != "covariance":
        raise DataError(
            "the model does not keep the covariance of its coefficients, train it with the option "
            "'intervals': 'covariance'"
        )
    n = round((2 * len(model.spread or ()) + 0.25) ** 0.5 - 0.5)
    factor = np.zeros((n, n))
    factor[np.tril_indices(n)] = model.spread or []
    names = model.term_names if model.several else ("intercept", *model.term_names)
    kept = [at for at in range(len(names)) if at - 1 not in model.absorbed][-n:] if n else []
    first = len(model.std_err or ()) - len(names)
    errors = [(model.std_err or [])[first + at] for at in kept]
    known = [place for place, error in enumerate(errors) if error is not None]
    terms = tuple(names[kept[place]] for place in known)
    return Covariance(terms, (factor @ factor.T)[np.ix_(known, known)])


def contrast(model: Fields, weights: Mapping[str, float]) -> Term:
    """A weighted sum of coefficients with its test, weights by term; raises DataError for a term
    without a standard error, and for a model that does not keep the covariance.
    """
    kept = covariance(model)
    for name in weights:
        if name not in kept.terms:
            raise DataError(
                f"weights has {name!r}, expected terms that have a standard error: "
                f"{', '.join(map(repr, kept.terms[:12]))}"
            )
    estimates = {term.name: term.estimate or 0.0 for term in terms(model)}
    w = np.array([weights.get(name, 0.0) for name in kept.terms])
    estimate = float(w @ [estimates[name] for name in kept.terms])
    error = float(np.sqrt(max(w @ kept.matrix @ w, 0.0)))
    return test_term("contrast", estimate, error, freedom_of(model), has_ratios(model))


def intervals(model: Fields, X: Any, level: float) -> Intervals:
    """The intervals of rows; raises DataError for a model that does not keep what they need."""
    found = scoring.score_lists(model, "predict_interval", X, ENDS, level)
    return Intervals(*np.ascontiguousarray(found.T))
