"""The options of `matrix_factorization` with `"feedback": "implicit"`, with their defaults."""

import json
from dataclasses import dataclass
from typing import Any

from tuskml.errors import OptionError, one_of
from tuskml.kernels.factorization import Shape
from tuskml.learners.factorization.algorithms import REGISTERED
from tuskml.learners.factorization.options import BPR, IMPLICIT, FactorizationOptions
from tuskml.learners.factorization.settings import AnySettings, given_by
from tuskml.learners.models import FORMAT

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
            **given_by(options),
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

    def resolved(self, shape: Shape) -> str:
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
