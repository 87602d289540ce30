"""Training of a dense net per group of a pass (`kernels/native/nets/api.h` has the objective)."""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import address_of, check_code, library, pointer
from tuskml.kernels.nets.structures import MOST_HIDDEN, TRAINED, Net
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.structures import KERNELS

SQUARED, LOGISTIC, SOFTMAX = KERNELS.constants("TK_NET_", "SQUARED LOGISTIC SOFTMAX")
ACTIVATIONS = ("relu", "tanh", "gelu")
ALGORITHMS = ("adam", "sgd")
SCHEDULES = ("constant", "cosine", "step")
DONE, PATIENCE, DIVERGED, OUT_OF_RANGE, LATE, WORSE = KERNELS.constants(
    "TK_NET_", "DONE PATIENCE DIVERGED OUT_OF_RANGE LATE WORSE"
)
"""Reasons for the end of a training."""
ABOVE = 1 + 1e-6
"""Ratio to the loss of the initial weights above which a final loss counts as worse, as in the
kernel.
"""


@dataclass(frozen=True)
class Rules:
    """A net and the options of its training; the fields of `tk_net` by their names there.

    hidden: the units of each hidden layer; activation, algorithm, schedule: indices into
    `ACTIVATIONS`, `ALGORITHMS` and `SCHEDULES`; tables: for each embedded category the first
    feature, the number of levels and the length of its vectors; seconds: time limit, 0 for none;
    sparse: whether a step changes only the vectors of the levels of its batch.
    """

    loss: int
    activation: int
    algorithm: int
    schedule: int
    outputs: int
    hidden: tuple[int, ...]
    epochs: int
    batch: int
    patience: int
    decay_every: int
    learning_rate: float
    decay: float
    momentum: float
    weight_decay: float
    dropout: float
    seed: int
    shuffle: bool = True
    standardise: bool = True
    tables: tuple[tuple[int, int, int], ...] = ()
    seconds: float = 0.0
    sparse: bool = False

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> "Rules":
        """Rules from the fields of a JSON object."""
        tables = tuple(map(tuple, given["tables"]))
        return cls(**{**given, "hidden": tuple(given["hidden"]), "tables": tables})

    def struct(self) -> Net:
        """The structure that kernels read, without groups."""
        fields = {name: getattr(self, name) for name in Rules.__dataclass_fields__}
        hidden, tables = fields.pop("hidden"), fields.pop("tables")
        width = (ctypes.c_int32 * MOST_HIDDEN)(*hidden)
        net = Net(**fields, n_hidden=len(hidden), width=width, n_tables=len(tables))
        net.of_tables = np.array(tables, np.int32)  # keeps the array alive
        net.table = pointer(net.of_tables)
        return net

    def weights(self, n_features: int) -> int:
        """Number of weights of a net, including biases."""
        number: int = library().tk_net_weights(self.struct(), n_features)
        return number

    def bytes(self, n_rows: int, n_features: int) -> int:
        """Bytes of memory for the training of one group, in addition to its rows and held-out
        rows.
        """
        size: int = library().tk_net_bytes(self.struct(), n_rows, n_features)
        return size


@dataclass(frozen=True)
class NetResult:
    """The nets of G groups.

    weights: (G, weights) in the caller's units: the vector of each level of each table; then for
    each unit of each layer the bias and the weight of each input; history: (G, epochs), the mean
    loss of an epoch's batches before their steps, NaN after the last one; about: `TRAINED` of
    shape (G,).
    """

    weights: Floats
    history: Floats
    about: NDArray[np.void]


@dataclass(frozen=True)
class ByGroup:
    """Inputs of G groups in addition to their rows.

    held: held-out rows of the same groups; classes: (G, outputs), rising, for the softmax loss;
    start: (G, weights) in the caller's units; left_out: (G,), nonzero for groups that are not
    trained, whose weights are NaN; class_weight: (G, classes), factors of the losses by class.
    """

    held: Pass | None = None
    classes: Floats | None = None
    start: Floats | None = None
    left_out: NDArray[np.uint8] | None = None
    class_weight: Floats | None = None

    def put(self, net: Net) -> None:
        """Sets the fields of the structure."""
        net.held = None if self.held is None else address_of(self.held.groups)
        for name in ("start", "left_out", "class_weight"):
            setattr(net, name, pointer(getattr(self, name)))
        net.label = pointer(self.classes)


def train_nets(rows: Pass, rules: Rules, memory: int, given: ByGroup | None = None) -> NetResult:
    """Trains the net of each group of dense rows, or with tables of rows that have a feature per
    level.

    memory: the account that is charged, 0 for the heap. Raises Interrupted, MemoryError and
    TuskError.
    """
    g = rows.n_groups
    net = rules.struct()
    given = given or ByGroup()
    given.put(net)
    weights = np.full((g, rules.weights(rows.n_features)), np.nan)
    history = np.full((g, rules.epochs), np.nan)
    about = np.zeros(g, TRAINED)
    for name in ("base_loss", "loss", "held_loss"):
        about[name] = np.nan
    out = pointer(weights), pointer(history), pointer(about)
    check_code(library().tk_train_nets(rows.struct, net, memory, *out))
    return NetResult(weights, history, about)


def gradient(rows: Pass, rules: Rules, start: Floats, classes: Floats | None = None) -> Floats:
    """Gradient of the first group's mean loss at `start`, in the layout of weights."""
    net = rules.struct()
    net.label, net.start = pointer(classes), pointer(start)
    out = np.empty(start.shape[-1])
    check_code(library().tk_net_gradient(rows.struct, net, pointer(out)))
    return out
