"""Average marginal effects of a model's features."""

from typing import Any

import numpy as np

from tuskml.errors import DataError
from tuskml.model import scorers, scoring
from tuskml.model.fields import Fields
from tuskml.model.scoring import Floats
from tuskml.model.summary import Term, freedom_of, test_term


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
