"""A net that visits the parts of a group's rows one after another, with all of its state.

The state is an array (3, floats) of single precision: the weights in the kernels' layout, and the
two numbers per weight of the algorithm. `units` is an array (2 d + 3,): the shifts of the d
features outside of tables, their scales, the shift and the scale of the labels, and a factor of
the rows' weights.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 4.2: gradient accumulation parallelism (GAP), sequential.
"""

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import Floats, check_code, library, pointer
from tuskml.kernels.nets.structures import Visit
from tuskml.kernels.nets.training import ByGroup, Rules
from tuskml.kernels.passes import Pass

State = NDArray[np.float32]


@dataclass(frozen=True)
class VisitResult:
    """Result of a visit: total steps of the state, sums of losses, in the net's units, and of row
    weights, and whether the time was over.
    """

    steps: int
    loss: float
    weight: float
    late: bool


def initial_state(rules: Rules, units: Floats, start: Floats | None) -> State:
    """Initial state.

    start: weights (1, weights) in the caller's units, None: drawn.
    """
    net, d = rules.struct(), width(rules, units)
    ByGroup(start=start).put(net)
    state = np.empty((3, library().tk_net_floats(net, d)), np.float32)
    check_code(library().tk_net_begin(net, ctypes.byref(visit_of(units)), d, pointer(state)))
    return state


def width(rules: Rules, units: Floats) -> int:
    """Returns the number of features of a row, those of tables included."""
    return (len(units) - 3) // 2 + sum(levels for _, levels, _ in rules.tables)


def moments(rows: Pass, rules: Rules) -> tuple[Floats, Floats, Floats]:
    """Means and deviations of the features outside of tables, and the weights of rows by level of
    each table and without one.
    """
    net = rules.struct()
    out = np.empty(library().tk_net_moments(rows.struct, net, None))
    library().tk_net_moments(rows.struct, net, pointer(out))
    plain = rows.n_features - sum(levels for _, levels, _ in rules.tables)
    return out[:plain], out[plain : 2 * plain], out[2 * plain :]


def centre_levels(rules: Rules, units: Floats, count: Floats, state: State) -> State:
    """Shifts the vectors of levels to mean 0 over all rows.

    count: weights of rows from `moments`, of all parts.
    """
    state, total = state.copy(), float(count[: rules.tables[0][1] + 1].sum())
    arguments = pointer(count), total, pointer(state)
    check_code(library().tk_net_centre(rules.struct(), width(rules, units), *arguments))
    return state


def weights_of(rules: Rules, units: Floats, state: State) -> Floats:
    """Weights, (1, weights), in the layout and the units of `training.NetResult`."""
    net, d = rules.struct(), width(rules, units)
    out = np.empty((1, rules.weights(d)))
    arguments = pointer(state), pointer(out)
    check_code(library().tk_net_end(net, ctypes.byref(visit_of(units)), d, *arguments))
    return out


@dataclass(frozen=True)
class NetOnRows:
    """A net and the rows of a part; memory: address of the account that copies are charged to."""

    rows: Pass
    rules: Rules
    given: ByGroup
    units: Floats
    memory: int = 0

    def visit(self, name: str, state: State, where: dict[str, int]) -> VisitResult:
        """Calls the kernel of this name."""
        net, visit = self.rules.struct(), visit_of(self.units, **where)
        self.given.put(net)
        own = self.memory, ctypes.byref(visit), pointer(state)
        check_code(getattr(library(), name)(self.rows.struct, net, *own))
        return VisitResult(visit.steps, visit.loss, visit.weight, bool(visit.late))


def make_steps(net: NetOnRows, state: State, **where: int) -> VisitResult:
    """Makes steps over the rows, which modify the state.

    where: the epoch, the number of the part, rows_before and steps (`tk_net_visit`).
    """
    return net.visit("tk_visit_net", state, where)


def compute_losses(net: NetOnRows, state: State, **where: int) -> VisitResult:
    """Computes losses of the rows without a step."""
    return net.visit("tk_net_losses", state, where)


def visit_of(units: Floats, **where: int) -> Visit:
    """The structure of a visit, valid while the units live."""
    return Visit(units=pointer(units), **where)
