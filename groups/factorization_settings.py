"""The options of the task `matrix_factorization`, with its defaults."""

import json
from dataclasses import dataclass, replace
from typing import Any

from tuskml.errors import OptionError, one_of
from tuskml.groups.models import FORMAT
from tuskml.optimizer.rule import cores
from tuskml.udas.options import Options

ALGORITHMS = ("auto", "sgd", "hogwild")
IN_FORCE = (
    "algorithm", "max_iter", "epsilon", "time", "converge", "step", "schedule", "l2", "threads",
    "seed", "deterministic", "validation", "rank", "biases", "transform", "device",
)  # fmt: skip
STORED_ALGORITHMS = ("auto", "sgd")
"""In a store, where no two workers hold one vector."""
NOT_STORED = ("validation",)
"""Early stopping goes back to the best vectors, which are no longer there."""
OF_STORES = ("store", "cache", "partition", "resume")
STORED_IN_FORCE = (*(name for name in IN_FORCE if name not in NOT_STORED), *OF_STORES)
EPOCHS = 20
STEP = 0.05
L2 = 0.07
"""Without a penalty every epoch more would overfit; on MovieLens 100K 0.05 to 0.09 does best."""
POWERS = {"constant": 0.0, "1/sqrt(i)": 0.5, "1/i": 1.0, "1/i^2": 2.0}


@dataclass(frozen=True)
class Settings:
    """The options with this task's defaults."""

    algorithm: str
    rank: int
    biases: bool
    max_iter: int
    epsilon: float
    step: float
    schedule: str
    l2: float
    threads: int
    seed: int
    ordered: bool
    validation: float
    time: float | None
    store: str | None = None
    key_a_weight: bool = False
    device: str = "cpu"
    asked: bool = True
    gpu: str | None = None
    """The name of the one that trains; asked: for the algorithm; device: the option."""

    @classmethod
    def of(cls, options: Options) -> "Settings":
        """OptionError where the task does not have what was given.

        A set number of epochs is the custom of the field, so epsilon is 0 unless given; the step
        falls in a straight line to 0 at the last of them, which reaches in 6 epochs what a
        constant one does in 20.
        """
        refuse_options(options)
        given = options.given
        return cls(
            "sgd" if options.algorithm == "auto" else options.algorithm,
            options.rank,
            options.biases,
            options.max_iter or EPOCHS,
            options.epsilon if "epsilon" in given else 0.0,
            STEP if isinstance(options.step, str) else options.step,
            options.schedule or "linear",
            options.l2 if "l2" in given else L2,
            options.threads or cores(),
            options.seed,
            options.ordered,
            options.validation,
            options.time,
            options.store,
            options.partition == 0,
            options.device,
            options.algorithm != "auto",
        )

    def on_gpu(self, name: str) -> "Settings":
        """The same on a GPU, where lock-free updates are the rule: blocks of ratings that share
        neither users nor items are too few to keep it busy."""
        lock_free = not self.asked and not self.ordered
        return replace(self, gpu=name, algorithm="hogwild" if lock_free else self.algorithm)

    @property
    def stored(self) -> bool:
        return self.store is not None

    @property
    def lock_free(self) -> bool:
        return self.algorithm == "hogwild" and not self.ordered

    def step_of(self, epoch: int, first: float) -> float:
        """The step of an epoch, counted from 0."""
        if self.schedule == "linear":
            return first * (1 - epoch / self.max_iter)
        return float(first / (epoch + 1) ** POWERS[self.schedule])

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
        """What shares a key in the store, in the paper's terms."""
        if self.key_a_weight:
            return "KV: a key a weight"
        if per_key is None:
            return "KV-VP: as many vectors a key as are cheapest"
        return "KV-VP: a key a vector" if per_key == 1 else f"KV-VP: {per_key} vectors a key"

    def resolved(self, more: dict[str, Any] | None = None) -> str:
        """As JSON, the version first; more: members of a stored model."""
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
            "l2": self.l2,
            "threads": self.threads,
            "seed": self.seed,
            "deterministic": self.ordered,
        }
        if self.gpu is not None:
            shown["device"] = "gpu"
        if self.validation:
            shown["validation"] = self.validation
        return json.dumps(shown | (more or {}), separators=(",", ":"))


def refuse_options(options: Options) -> None:
    """What only other tasks have, or only models that are values, or in a store."""
    stored = options.store is not None
    where = "task 'matrix_factorization'" + (" and option 'store'" if stored else "")
    algorithms = STORED_ALGORITHMS if stored else ALGORITHMS
    if options.algorithm not in algorithms:
        raise OptionError(
            f"algorithm '{options.algorithm}' is not available with {where}, "
            f"expected {one_of(algorithms)}"
        )
    in_force = STORED_IN_FORCE if stored else IN_FORCE
    others = sorted(options.given - set(in_force))
    if others and not stored and others[0] in OF_STORES:
        raise OptionError(f"option '{others[0]}' is of a stored model, which needs option 'store'")
    if others:
        raise OptionError(
            f"option '{others[0]}' is not available with {where}, which has {', '.join(in_force)}"
        )
    if "converge" in options.given and options.converge != "loss":
        raise OptionError(
            f"option 'converge' is \"{options.converge}\", expected 'loss' with task "
            "'matrix_factorization'"
        )


def refuse_elsewhere(options: Options) -> None:
    """What only this task has; for the others."""
    for name in ("rank", "biases"):
        if name in options.given:
            raise OptionError(f"option '{name}' is of the task 'matrix_factorization' alone")
