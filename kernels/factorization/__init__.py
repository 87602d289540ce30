"""Matrix factorization: the kernels of `kernels/native/factorization`."""

from tuskml.kernels.factorization.ratings import (
    Factorization,
    Ids,
    Interactions,
    Shape,
    feedback_outside,
    rating_ids,
)
from tuskml.kernels.factorization.stored import StoredFactorization, Visit

__all__ = [
    "Factorization",
    "Ids",
    "Interactions",
    "Shape",
    "StoredFactorization",
    "Visit",
    "feedback_outside",
    "rating_ids",
]
