"""Matrix factorization: the kernels of `kernels/native/factorization`."""

from tuskml.kernels.factorization.implicit import Interactions, feedback_outside
from tuskml.kernels.factorization.in_memory import Factorization
from tuskml.kernels.factorization.ratings import Ids, Shape, rating_ids
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
