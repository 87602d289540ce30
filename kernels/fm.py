"""Training of a factorization machine per group of a pass (`kernels/native/fm/api.h`)."""

import ctypes
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import address_of, check_code, library, pointer
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.structures import KERNELS

TRAINED = KERNELS.dtype("tk_fm_trained")
"""Dtype of the C structure `tk_fm_trained`."""


@KERNELS.structure("tk_fm")
class Machine(ctypes.Structure):
    """The C structure `tk_fm`."""


SQUARED, LOGISTIC = KERNELS.constants("TK_FM_", "SQUARED LOGISTIC")
ALGORITHMS = ("adagrad", "sgd")
DONE, PATIENCE, DIVERGED, OUT_OF_RANGE, LATE = KERNELS.constants(
    "TK_FM_", "DONE PATIENCE DIVERGED OUT_OF_RANGE LATE"
)
"""Reasons for the end of a training."""


@dataclass(frozen=True)
class Rules:
    """Options of a machine's training; the fields of `tk_fm` by their names there.

    algorithm: an index into `ALGORITHMS`.
    """

    loss: int
    algorithm: int
    rank: int
    epochs: int
    patience: int
    lock_free: bool
    learning_rate: float
    entries: float
    l2: float
    l2_factors: float
    init: float
    seed: int

    def struct(self) -> Machine:
        """The structure that kernels read, without groups."""
        return Machine(**asdict(self))

    def numbers(self, n_features: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts the numbers of a machine of `n_features`, without the intercept."""
        return n_features * (self.rank + 1)

    def bytes(self, n_features: int) -> int:
        """Bytes of memory for the training of one group, in addition to its rows."""
        size: int = library().tk_fm_bytes(self.struct(), n_features)
        return size


@dataclass(frozen=True)
class MachineResult:
    """The machines of G groups.

    coef: one array per group, with room for the caller's `head` numbers and then w_i and v_i of
    each feature, in the caller's units; they are views of one array, one behind the other;
    history: (G, epochs), the mean loss of an epoch's rows before their steps, NaN behind the last
    one; about: `TRAINED` of shape (G,).
    """

    coef: list[Floats]
    history: Floats
    about: NDArray[np.void]
    rank: int
    head: int = 0

    @property
    def numbers(self) -> list[Floats]:
        """Returns each group's weights and vectors, (features, 1 + rank)."""
        return [one[self.head :].reshape(-1, self.rank + 1) for one in self.coef]


def train_machines(
    rows: Pass,
    rules: Rules,
    memory: int,
    held: Pass | None = None,
    left_out: NDArray[np.uint8] | None = None,
    head: int = 0,
) -> MachineResult:
    """The machine of each group, whose rows are copies that the training may change.

    held: held-out rows of the same groups, copies too; left_out: (G,), not 0 for groups that are
    not trained; head: see `Trained.coef`; memory: the account that is charged, 0 for the
    heap. Raises Interrupted, MemoryError and TuskError.
    """
    ends = np.cumsum(head + rules.numbers(rows.groups["dim"].astype(np.int64)))
    place = np.concatenate([[head], ends[:-1] + head]).astype(np.int64)
    machine = rules.struct()
    machine.held = None if held is None else address_of(held.groups)
    machine.left_out, machine.place = pointer(left_out), pointer(place)
    numbers = np.zeros(ends[-1])
    history = np.full((rows.n_groups, rules.epochs), np.nan)
    about = np.zeros(rows.n_groups, TRAINED)
    for name in ("intercept", "base_loss", "loss", "held_loss"):
        about[name] = np.nan
    out = pointer(numbers), pointer(history), pointer(about)
    check_code(library().tk_train_fms(rows.struct, machine, memory, *out))
    return MachineResult(np.split(numbers, ends[:-1]), history, about, rules.rank, head)
