"""The options of the task `matrix_factorization`, with its defaults."""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from tuskml.errors import OptionError, one_of
from tuskml.kernels.factorization import Shape
from tuskml.learners.factorization.options import (
    ALGORITHMS,
    FALLING,
    REGISTERED,
    Algorithm,
    FactorizationOptions,
    Place,
    default_for,
)
from tuskml.learners.models import FORMAT
from tuskml.learners.options.kinds import POWERS
from tuskml.schedule import budget

L2 = 0.07
"""The default l2: on MovieLens 100K, whose deviation is 1.13, 0.05 to 0.09 does best."""
STORED_ALGORITHMS = ("auto", *(one.name for one in REGISTERED if one.stored))
"""Algorithms for a store, where two workers never hold the same vector."""


@dataclass(frozen=True, kw_only=True)
class AnySettings(ABC):
    """The settings of explicit and of implicit feedback."""

    rank: int
    biases: bool
    max_iter: int
    epsilon: float
    step: float
    schedule: str
    l2: float
    threads: int
    seed: int
    time: float | None
    relative: bool = False
    """True if l2 is that of ratings in units of their standard deviation."""

    @property
    def stored(self) -> bool:
        return False

    def step_of(self, epoch: int, first: float) -> float:
        """The step of an epoch, counted from 0."""
        if self.schedule == FALLING:
            return first * (1 - epoch / self.max_iter)
        return float(first / (epoch + 1) ** POWERS[self.schedule])

    @abstractmethod
    def describe(self) -> str:
        """One line for the model's `plan`."""

    @abstractmethod
    def resolve(self, shape: Shape) -> str:
        """The settings as JSON, starting with the version."""


def option_settings(options: FactorizationOptions) -> dict[str, Any]:
    """The settings that are options, without a default of the algorithm."""
    names = ("rank", "max_iter", "epsilon", "schedule", "seed", "time")
    threads = budget.threads(options.threads)
    return {name: getattr(options, name) for name in names} | {"threads": threads}


@dataclass(frozen=True, kw_only=True)
class Settings(AnySettings):
    """The options with this task's defaults."""

    algorithm: str
    ordered: bool
    validation: float
    store: str | None = None
    key_a_weight: bool = False
    device: str = "cpu"
    asked: bool = True
    gpu: str | None = None
    """The name of the GPU that trains. `asked`: the algorithm was named; `device`: the option."""
    own_step: bool = False
    """True if the options have a step."""

    @classmethod
    def of(cls, options: FactorizationOptions, place: Place | None = None) -> "Settings":
        """Raises OptionError if options do not go together; place: None where it is that of
        the options.
        """
        refuse_options(options)
        algorithm = choose_algorithm(options, place)
        return cls(
            **option_settings(options),
            algorithm=algorithm.name,
            biases=options.biases,
            step=algorithm.step if isinstance(options.step, str) else options.step,
            l2=L2 if isinstance(options.l2, str) else options.l2,
            ordered=options.keeps_order,
            validation=options.validation,
            store=options.store,
            key_a_weight=options.method == "kv",
            device=options.device,
            asked=options.algorithm != "auto",
            own_step=not isinstance(options.step, str),
            relative=isinstance(options.l2, str),
        )

    def on_gpu(self, name: str) -> "Settings":
        """Returns the settings for a GPU, with lock-free updates: blocks of ratings that share
        neither users nor items are too few to keep it busy.
        """
        if self.asked:
            return replace(self, gpu=name)
        chosen = default_for(Place.GPU_IN_ORDER if self.ordered else Place.GPU)
        step = self.step if self.own_step else chosen.step
        return replace(self, gpu=name, step=step, algorithm=chosen.name)

    @property
    def stored(self) -> bool:
        return self.store is not None

    @property
    def method(self) -> Algorithm:
        """The descriptor of the algorithm."""
        return ALGORITHMS[self.algorithm]

    @property
    def lock_free(self) -> bool:
        return self.method.lock_free and not self.ordered

    @property
    def first_solved(self) -> int:
        """The first epoch that solves for the vectors, counted from 0."""
        return self.method.first_solved(self.max_iter)

    def relax(self, epoch: int) -> float:
        """The over-relaxation of a solved epoch: 1 goes to the least objective."""
        return self.method.relax(epoch, self.max_iter)

    def describe(self, per_key: int | None = None) -> str:
        """One line for the model's `plan`; per_key: vectors in a key of the store, once known."""
        parts = [self.algorithm, f"rank {self.rank}"]
        parts += ["biases"] if self.biases else []
        parts.append(f"step {self.schedule}")
        parts.append("1 thread" if self.threads == 1 else f"{self.threads} threads")
        parts += [] if self.gpu is None else [f"on {self.gpu}"]
        parts += [self.layout(per_key)] if self.stored else []
        return ", ".join(parts)

    def layout(self, per_key: int | None = None) -> str:
        """Describes which numbers share a key in the store, in the paper's terms."""
        if self.key_a_weight:
            return "KV: one key per weight"
        if per_key is None:
            return "KV-VP: the cheapest number of vectors per key"
        return "KV-VP: one vector per key" if per_key == 1 else f"KV-VP: {per_key} vectors per key"

    def resolve(self, shape: Shape, more: dict[str, Any] | None = None) -> str:
        """The settings as JSON, starting with the version; more: members of a stored model.

        A penalty that follows the unit of the ratings is there as it was for the group.
        """
        shown: dict[str, Any] = {
            "tuskml": FORMAT,
            "algorithm": self.algorithm,
            "rank": self.rank,
            "biases": self.biases,
            "max_iter": self.max_iter,
            "epsilon": self.epsilon,
            "converge": "loss",
            "step": self.step,
            "schedule": self.schedule,
            "l2": "auto" if self.relative else self.l2,
            **({"l2_biases": shape.l2, "l2_factors": shape.l2_factors} if self.relative else {}),
            "threads": self.threads,
            "seed": self.seed,
            "deterministic": self.ordered,
        }
        if self.gpu is not None:
            shown["device"] = "gpu"
        if self.validation:
            shown["validation"] = self.validation
        return json.dumps(shown | (more or {}), separators=(",", ":"))


def choose_algorithm(options: FactorizationOptions, place: Place | None = None) -> Algorithm:
    """The algorithm; in a store or in parts each vector would have to meet all its ratings at a
    time.
    """
    if options.algorithm != "auto":
        return ALGORITHMS[options.algorithm]
    return default_for(place or (Place.MEMORY if options.store is None else Place.STORE))


def refuse_options(options: FactorizationOptions) -> None:
    """Raises OptionError for values that do not go together."""
    if options.store is None:
        return
    where = "task 'matrix_factorization' and option 'store'"
    if options.algorithm not in STORED_ALGORITHMS:
        raise OptionError(
            f"algorithm '{options.algorithm}' is not available with {where}, "
            f"expected {one_of(STORED_ALGORITHMS)}"
        )
