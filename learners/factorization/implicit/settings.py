"""The options of `matrix_factorization` with `"feedback": "implicit"`, with their defaults."""

import json
from dataclasses import dataclass

from tuskml.errors import OptionError, one_of
from tuskml.learners.factorization.options import FactorizationOptions
from tuskml.learners.models import FORMAT
from tuskml.schedule import budget

L2 = 10.0
"""Where none is given."""
ALGORITHMS = ("auto", "als")
NOT_IMPLICIT = ("biases", "schedule", "step", "validation")
"""Options of explicit feedback alone, and the one that holds rows out: all pairs count."""


@dataclass(frozen=True)
class ImplicitSettings:
    """The options with the defaults of implicit feedback."""

    rank: int
    alpha: float
    l2: float
    cg_steps: int
    max_iter: int
    epsilon: float
    threads: int
    seed: int
    time: float | None
    algorithm: str = "als"
    biases: bool = False
    stored: bool = False

    @classmethod
    def of(cls, options: FactorizationOptions) -> "ImplicitSettings":
        """OptionError where options do not go together."""
        refuse_options(options)
        return cls(
            options.rank,
            options.alpha,
            options.l2 if "l2" in options.given else L2,
            options.cg_steps,
            options.max_iter,
            options.epsilon,
            budget.threads(options.threads),
            options.seed,
            options.time,
        )

    def step_of(self, epoch: int, first: float) -> float:
        """The step of an epoch, counted from 0."""
        return first

    def describe(self) -> str:
        """One line for the model's `plan`."""
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        steps = "step" if self.cg_steps == 1 else "steps"
        solver = f"{self.cg_steps} {steps} of conjugate gradient" if self.cg_steps else "Cholesky"
        return f"{self.algorithm}, implicit feedback, rank {self.rank}, {solver}, {threads}"

    def resolved(self) -> str:
        """As JSON, the version first."""
        shown = {
            "tuskml": FORMAT,
            "algorithm": self.algorithm,
            "feedback": "implicit",
            "rank": self.rank,
            "biases": self.biases,
            "alpha": self.alpha,
            "l2": self.l2,
            "cg_steps": self.cg_steps,
            "max_iter": self.max_iter,
            "epsilon": self.epsilon,
            "converge": "loss",
            "threads": self.threads,
            "seed": self.seed,
            "deterministic": True,
        }
        return json.dumps(shown, separators=(",", ":"))


def refuse_options(options: FactorizationOptions) -> None:
    """OptionError for what implicit feedback has not."""
    where = "option 'feedback': 'implicit'"
    refuse_stored(options)
    if options.algorithm not in ALGORITHMS:
        raise OptionError(
            f"algorithm '{options.algorithm}' is not available with {where}, "
            f"expected {one_of(ALGORITHMS)}"
        )
    if options.device == "gpu":
        raise OptionError(f"option 'device' is 'gpu', expected 'auto' or 'cpu' with {where}")
    for name in sorted(options.given & set(NOT_IMPLICIT)):
        raise OptionError(
            f"option '{name}' is for explicit feedback, it is not available with {where}"
        )


def refuse_stored(options: FactorizationOptions) -> None:
    """OptionError for implicit feedback with the vectors in a store."""
    if options.feedback == "implicit":
        for name in sorted(options.given & {"store", "cache", "partition", "resume"}):
            raise OptionError(
                f"option '{name}' is not available with option 'feedback': 'implicit', whose "
                "vectors are in memory"
            )
