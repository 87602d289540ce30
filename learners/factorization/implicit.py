"""`matrix_factorization` of implicit feedback: a batch of groups in, a batch of models out.

The objective and its source are in `kernels/factorization/ratings.py`. Models are those of
explicit feedback: `intercept` is 0, and a prediction is the preference x_u.y_i of least squares,
which have no biases, or with loss bpr the score x_u.y_i + b_i.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError, RowsError, one_of
from tuskml.kernels import passes
from tuskml.kernels.factorization import Interactions, Shape, feedback_outside
from tuskml.kernels.passes import Pass
from tuskml.learners import events
from tuskml.learners.classes import LabelRange
from tuskml.learners.explaining import Document, document, plan_document
from tuskml.learners.factorization.epochs import Epochs
from tuskml.learners.factorization.explanation import model
from tuskml.learners.factorization.options import BPR, IMPLICIT, REGISTERED, FactorizationOptions
from tuskml.learners.factorization.settings import AnySettings, option_settings
from tuskml.learners.factorization.training import Fit, each, refuse_too_long, shape_of
from tuskml.learners.models import FORMAT, Models
from tuskml.schedule import shares

WHERE = "option 'feedback': 'implicit'"
L2 = {False: 10.0, True: 0.01}
"""The default l2 for least squares (False) and for the loss bpr (True)."""
STEP = 0.1
ALGORITHMS = {
    one.implicit == BPR: ("auto", one.name) for one in REGISTERED if one.implicit is not None
}


@dataclass(frozen=True, kw_only=True)
class ImplicitSettings(AnySettings):
    """The options with the defaults of implicit feedback; ranks: whether the loss is bpr.

    biases: of bpr the vectors of items have one, and the users' is 0.
    """

    ranks: bool
    alpha: float
    cg_steps: int

    @classmethod
    def of(cls, options: FactorizationOptions) -> "ImplicitSettings":
        """Raises OptionError if options do not go together."""
        refuse_options(options)
        ranks = options.loss == BPR
        return cls(
            **option_settings(options),
            ranks=ranks,
            biases=ranks,
            alpha=options.alpha,
            l2=L2[ranks] if isinstance(options.l2, str) else options.l2,
            cg_steps=options.cg_steps,
            step=STEP if isinstance(options.step, str) else options.step,
        )

    @property
    def algorithm(self) -> str:
        return ALGORITHMS[self.ranks][1]

    def describe(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        how = "personalised ranking" if self.ranks else self._solver()
        if self.ranks:
            how += f", step {self.schedule}"
        return f"{self.algorithm}, implicit feedback, rank {self.rank}, {how}, {threads}"

    def _solver(self) -> str:
        if not self.cg_steps:
            return "Cholesky"
        return f"{self.cg_steps} {'step' if self.cg_steps == 1 else 'steps'} of conjugate gradient"

    def resolve(self, shape: Shape) -> str:
        own: dict[str, Any] = {"alpha": self.alpha, "cg_steps": self.cg_steps}
        if self.ranks:
            own = {"loss": BPR, "step": self.step, "schedule": self.schedule}
        shown = {
            "tuskml": FORMAT,
            "algorithm": self.algorithm,
            "feedback": IMPLICIT,
            "rank": self.rank,
            "biases": self.biases,
            **own,
            "l2": self.l2,
            "max_iter": self.max_iter,
            "epsilon": self.epsilon,
            "converge": "loss",
            "threads": self.threads,
            "seed": self.seed,
            "deterministic": True,
        }
        return json.dumps(shown, separators=(",", ":"))


def refuse_options(options: FactorizationOptions) -> None:
    """Raises OptionError for values that implicit feedback has not."""
    ranks = options.loss == BPR
    where = f"{WHERE} and 'loss': 'bpr'" if ranks else WHERE
    if options.algorithm not in ALGORITHMS[ranks]:
        raise OptionError(
            f"algorithm '{options.algorithm}' is not available with {where}, "
            f"expected {one_of(ALGORITHMS[ranks])}"
        )
    if options.device == "gpu":
        raise OptionError(f"option 'device' is 'gpu', expected 'auto' or 'cpu' with {where}")


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
    shares.note_plan(settings.describe())
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


def feedback(alpha: float) -> LabelRange:
    """Labels that are feedback."""
    most = MOST / max(alpha, 1.0)
    says = f"expected a number from 0 to {most:g} with option 'feedback': 'implicit'"
    return LabelRange(says, 0.0, most)


def refuse_feedback(rows: Pass, alpha: float) -> None:
    """Raises RowsError for a row whose label is not valid feedback."""
    found = feedback_outside(rows, MOST / max(alpha, 1.0))
    if found is not None:
        row, label = found
        raise RowsError(f"label is {label:.17g} in row {row} of a group, {feedback(alpha).says}")


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
