"""Stochastic epochs on the CPU (`kernels/native/epochs/api.h`)."""

from dataclasses import dataclass
from functools import cached_property

from tuskml.kernels import structures
from tuskml.kernels.library import Floats, pointer


@dataclass(frozen=True)
class Epoch:
    """The parameters of a stochastic epoch. step is (G,), the other arrays are (G, d)."""

    batch_size: int
    power: int
    epochs_done: float
    l1: float
    l2: float
    step: Floats
    shift: Floats
    scale: Floats
    frequency: Floats | None = None
    seed: int = 0
    shuffle: bool = False

    @cached_property
    def struct(self) -> structures.Epoch:
        """The structure that kernels read. It is made once, because the arrays do not move."""
        return structures.Epoch(
            self.batch_size,
            self.power,
            self.epochs_done,
            self.l1,
            self.l2,
            pointer(self.step),
            pointer(self.shift),
            pointer(self.scale),
            pointer(self.frequency),
            self.seed,
            self.shuffle,
        )
