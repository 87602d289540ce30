"""Covariances of a model's coefficients, and intervals of its predictions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuskml.errors import DataError
from tuskml.model import scoring
from tuskml.model.fields import Fields
from tuskml.model.scoring import Floats
from tuskml.model.summary import Term, freedom_of, has_ratios, terms, test_term

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
    errors = (model.std_err or [])[-n:] if n else []
    known = [place for place, error in enumerate(errors) if error is not None]
    names = model.term_names if model.several else ("intercept", *model.term_names)
    terms = tuple(names[len(names) - n + place] for place in known)
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
