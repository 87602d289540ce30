"""The explanation of a factorization of implicit feedback, as data."""

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Pass
from tuskml.learners.explaining.explanation import Document, document, plan_document
from tuskml.learners.factorization.explanation import model
from tuskml.learners.factorization.implicit.settings import ImplicitSettings
from tuskml.learners.factorization.implicit.training import refuse_feedback
from tuskml.learners.factorization.options import FactorizationOptions
from tuskml.learners.factorization.training import shape_of


def explain(
    group: NDArray[np.void], options: FactorizationOptions, reading: float | None
) -> Document:
    """Explains the training of one group."""
    settings = ImplicitSettings.of(options)
    rows = Pass(group, fit_intercept=False, threads=settings.threads)
    shape = shape_of(rows, settings)
    refuse_feedback(rows, settings.alpha)
    return document(
        group,
        "matrix_factorization",
        objective(settings),
        reading,
        model=model(shape),
        plan=plan_document(
            settings,
            settings.describe(),
            "blocks of triples that share no vector run side by side"
            if settings.ranks
            else "least squares have all pairs without rows for the price of one product",
            "triples by a hash of their number" if settings.ranks else "users, then items",
            settings.max_iter,
            epsilon=settings.epsilon,
        ),
    )


def objective(settings: ImplicitSettings) -> str:
    """The objective as a formula."""
    if settings.ranks:
        squares = "|p_u|^2 + |q_i|^2 + b_i^2 + |q_j|^2 + b_j^2"
        penalty = f" + {settings.l2 / 2:g} ({squares})" if settings.l2 else ""
        return f"mean of ln(1 + exp(-s)){penalty}, s = p_u.(q_i - q_j) + b_i - b_j"
    penalty = f" + {settings.l2:g} (|p_u|^2 + |q_i|^2)" if settings.l2 else ""
    return f"sum of c (p - p_u.q_i)^2{penalty}, c = 1 + {settings.alpha:g} y, p = 1 if y > 0"
