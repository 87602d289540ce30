"""`matrix_factorization` of implicit feedback: a batch of groups in, a batch of models out.

The objective and its source are in `kernels/factorization/implicit.py`. Models are those of
explicit feedback: `intercept` is 0, and a prediction is the preference x_u.y_i of least squares,
which have no biases, or with loss bpr the score x_u.y_i + b_i.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import RowsError
from tuskml.kernels import passes
from tuskml.kernels.factorization import Interactions, feedback_outside
from tuskml.kernels.passes import Pass
from tuskml.learners import events
from tuskml.learners.classes import Allowed
from tuskml.learners.factorization.epochs import Epochs
from tuskml.learners.factorization.implicit.settings import ImplicitSettings
from tuskml.learners.factorization.options import FactorizationOptions
from tuskml.learners.factorization.training import Fit, each, refuse_too_long, shape_of
from tuskml.learners.models import Models

MOST = 1e30
"""The largest feedback and the largest confidence whose products fit in floats."""


def train(
    groups: NDArray[np.void], options: FactorizationOptions, memory: int
) -> Iterator[Models]:
    """Trains each of the groups separately; models carry their groups' indices in `groups`."""
    settings = ImplicitSettings.of(options)
    mark = passes.cancel_mark()
    return each(groups, lambda group: fit(group, settings, memory, mark))


def fit(group: NDArray[np.void], settings: ImplicitSettings, memory: int, mark: int) -> Fit:
    """Trains one group."""
    began = time.monotonic()
    rows = Pass(group, fit_intercept=False, threads=settings.threads, cancel_mark=mark)
    shape = shape_of(rows, settings)
    refuse_feedback(rows, settings.alpha)
    refuse_too_long(shape, memory)
    with Interactions(rows, memory, shape, settings.alpha, settings.seed) as model:
        run = (Epochs if settings.ranks else Solving)(visit_of(model, settings), settings, began)
        run.n_rows = int(group["n_rows"][0])
        run.epochs(settings.step)
        if run.ran_away():  # steps are too long
            run.status = "diverged"
            model.start()
        coef = model.vectors()
    no_pairs = settings.ranks and not any(run.history)  # of an item with feedback and one without
    if rows.labels()["high"][0] <= 0 or no_pairs:
        run.status, run.converged, coef = "no feedback", False, np.zeros_like(coef)
    events.tell_trained(group)
    return Fit(
        settings,
        shape,
        0.0,
        coef,
        run.history[-1],
        run.history,
        run.converged,
        run.status,
        time.monotonic() - began,
    )


class Solving(Epochs):
    """Epochs that solve for vectors: they never raise the objective, which may be 0."""

    def ran_away(self) -> bool:
        """Returns whether the objective is infinite or NaN."""
        return not np.isfinite(self.history[-1])


def visit_of(model: Interactions, settings: ImplicitSettings) -> Callable[[int, float], float]:
    """The function that runs an epoch: steps for triples, or a solution for each vector."""
    if settings.ranks:
        return model.rank
    return lambda *_: model.solve(settings.cg_steps)


def feedback(alpha: float) -> Allowed:
    """Labels that are feedback."""
    most = MOST / max(alpha, 1.0)
    says = f"expected a number from 0 to {most:g} with option 'feedback': 'implicit'"
    return Allowed(says, 0.0, most)


def refuse_feedback(rows: Pass, alpha: float) -> None:
    """Raises RowsError for a row whose label is not valid feedback."""
    found = feedback_outside(rows, MOST / max(alpha, 1.0))
    if found is not None:
        row, label = found
        raise RowsError(f"label is {label:.17g} in row {row} of a group, {feedback(alpha).says}")
