"""Contributions of features to the margins of rows, by the C that SQL's `explain_prediction`
calls.

Boosted trees: exact path-dependent Shapley values (S. Lundberg et al., From local explanations to
global understanding with explainable AI for trees, Nature Machine Intelligence 2, 2020). Linear
and ordinal models: coefficient times value; factorization machines: that and half of each pair's
term. Nets: integrated gradients (M. Sundararajan, A. Taly and Q. Yan, Axiomatic Attribution for
Deep Networks, ICML 2017) from the row whose features are 0.
"""

from dataclasses import dataclass
from typing import Any

from tuskml.model import scoring
from tuskml.model.fields import Fields
from tuskml.model.scoring import Floats


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
