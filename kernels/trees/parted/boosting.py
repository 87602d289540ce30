"""Gradient boosting of a group whose rows lie in parts on different workers.

Parts reply with histograms of their rows, which are integers: their sums are those over all rows,
in any order. The best splits are found here, and each part divides its own rows by them. Several
leaves are divided in a round: those that gain most at the time. The order of splits is that on one
worker, so trees are the same.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 4.2: gradient accumulation parallelism (GAP), sampling.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import Floats, library, raise_if_cancelled
from tuskml.kernels.parts.dealing import earlier
from tuskml.kernels.parts.message import Array
from tuskml.kernels.parts.sharded import ShardedPass
from tuskml.kernels.structures import WEIGHTS
from tuskml.kernels.trees.boosting import (
    EXTENT,
    QUANTILE,
    Forest,
    Rules,
    Targets,
    boost_of,
    count_kept_iterations,
)
from tuskml.kernels.trees.parted.binning import Bins, bins_of, measure_weights
from tuskml.kernels.trees.parted.holding import Hold
from tuskml.kernels.trees.parted.messenger import NOTHING, Grower, Messenger, sum_terms
from tuskml.kernels.trees.parted.ranks import (
    constant,
    leaf_quantiles,
    one_side,
    share_of,
    with_quantile_leaves,
)
from tuskml.kernels.trees.parted.trees import Tree, as_bytes, of_forest, of_trees


class BoostingRequests(Messenger):
    """Requests to parts, and the state that they depend on; a part that lacks it gets all of it.

    extent: EXTENT; drawn: whether the tree grows on the drawn rows, or else on all; by: the drawn
    rows of an iteration that draws by gradients, ONE_SIDE; n_rows: number that trees grow on.
    """

    method = "tree"

    def __init__(
        self, rows: ShardedPass, rules: Rules, targets: Targets, bins: Bins, hold: Hold | None
    ) -> None:
        super().__init__(rows, rules, targets, bins)
        self.hold = hold
        self.drawn = rules.row_fraction < 1
        self.by: NDArray[np.void] | None = None
        self.n_rows = int(rows.groups["n_rows"][0]) - (hold.n if hold else 0)
        self.extent = np.zeros(1, EXTENT)
        self.extent["room"] = 1
        if rules.other_rate > 0:
            self.extent["room"] = self.n_rows / share_of(self.n_rows, rules.other_rate)
        self.base = np.zeros(targets.outputs)
        self.held: list[float] = []

    @property
    def draws(self) -> bool:
        """Returns whether trees grow on some of the rows."""
        return self.rules.row_fraction < 1 or self.rules.other_rate > 0

    @property
    def has_weights(self) -> bool:
        return bool(self.rows.groups["extras"][0] & WEIGHTS)

    def arguments_of(
        self, do: str, arrays: Sequence[Array | None], first: int, anew: bool = False
    ) -> dict[str, Any]:
        """Arguments of a message that has the trees from `first` on."""
        tree = len(self.trees)
        fields: dict[str, Any] = {"do": do, "own": len(arrays), "first": first, "tree": tree}
        fields |= {"name": self.name, "drawn": self.drawn, "draws": bool(self.earlier)}
        if anew:
            extent = [float(self.extent[0][name]) for name in EXTENT.fields or ()]
            fields["setup"] = {"rules": asdict(self.rules), "extent": extent, "trees": tree}
            fields["setup"] |= {"begun": self.begun, "drawn": self.drawn}
            fields["setup"] |= {"hold": self.hold.arguments if self.hold else None}
            fields["setup"] |= {"draws": bool(self.earlier)}
        return fields

    def setup(self, place: int) -> list[Array | None]:
        """Arrays with which one part starts."""
        bins, classes = self.bins, self.targets.classes
        arrays: list[Array | None] = [bins.bound, bins.first, bins.missing, bins.by_level]
        arrays += [classes, self.base, *of_forest(self.targets.started)]
        for table in (self.hold.earlier if self.hold else [], self.earlier):
            arrays += table[place] if table else NOTHING
        arrays.append(None if self.by is None else as_bytes(self.by))
        if not self.begun:
            return arrays
        return [*arrays, self.extent.view(np.float64), as_bytes(self.splits)]

    def grown(self, grower: Grower) -> Tree:
        """Grows the next tree."""
        tree, outputs = len(self.trees), self.targets.outputs
        self.splits, self.begun = self.splits[:0], False
        started = self.targets.started
        iteration = tree // outputs + (started.iterations if started else 0)
        if tree % outputs == 0:
            self.draw_by_gradients(iteration)
        self.drawn = self.rules.row_fraction < 1 or self.by is not None
        root = self.root()
        if self.drawn and not root[0, :, 2].any():  # then trees grow on all rows
            self.drawn = False
            root = self.root()
        self.begun = True
        grower.begin(iteration, tree % outputs, self.extent, root[0])
        while len(wanted := grower.next_leaves()):
            raise_if_cancelled(self.rows.cancel_mark)
            grower.take_sums(self.sum_replies("divide", as_bytes(wanted)))
            self.splits = np.concatenate([self.splits, wanted])
        grown = grower.tree()
        if self.rules.objective == QUANTILE:
            grown = with_quantile_leaves(self, grown, self.has_weights)
        self.begun = False
        return grown

    def root(self) -> Array:
        """Sums over the rows that the next tree grows on, (1, bins, 3)."""
        by = None if self.by is None else as_bytes(self.by)
        return self.sum_replies("begin", self.extent.view(np.float64), by)

    def draw_by_gradients(self, iteration: int) -> None:
        """Determines the rows of an iteration's trees if that depends on gradients.

        The first ones grow on all, as in `boost.cpp`.
        """
        self.by = None
        if self.rules.other_rate > 0 and iteration >= np.floor(1 / self.rules.learning_rate):
            self.by = one_side(self, iteration, self.n_rows, self.extent)

    def loss(self, do: str = "losses", *arrays: Array | None) -> float:
        """The mean loss; updates the range of derivatives and curvatures."""
        self.by = None  # a restarted part would otherwise draw the next iteration's rows by it
        replies = self.ask(do, *arrays)
        self.extent["derivative"] = max(float(one[2]) for one in replies)
        self.extent["curvature"] = max(float(one[3]) for one in replies)
        losses = sum_terms([one[:2] for one in replies])
        if self.hold:
            self.held.append(float(losses[1]))
        return float(losses[0])

    def went_on(self) -> bool:
        """Returns whether the trees of the last iteration, or later ones, change anything."""
        last = self.trees[-self.targets.outputs :]
        return any(one.splits for one in last) or self.rules.feature_fraction < 1 or self.draws

    def draw(self) -> None:
        """Sends each part its rows that earlier parts also have."""

        def ask(**given: int) -> list[list[Array]]:
            return self.answers("keys", **given)

        self.earlier = earlier(ask, int(self.rows.groups["n_rows"][0]))
        self.tell_each("tell", self.earlier)

    @property
    def best(self) -> int:
        """Iteration with the least held-out loss."""
        return int(np.argmin(self.held))

    @property
    def out_of_patience(self) -> bool:
        """Returns whether held-out losses have not fallen for long."""
        patience = self.rules.patience
        return bool(self.held and patience and len(self.held) - 1 - self.best >= patience)


def boost_by_parts(
    rows: ShardedPass, rules: Rules, targets: Targets, hold: Hold | None = None
) -> Forest:
    """Grows the trees of a group, like `boosting.boost` on rows of one worker.

    hold: which rows are held out.
    """
    bins, weights = bins_of(rows, rules, targets, hold)
    boost = boost_of(rules, targets)
    parted = BoostingRequests(rows, rules, targets, bins, hold)
    total, held = (float(one) for one in sum_terms(list(weights[:, [0, 3]])))
    parted.extent["total"], parted.extent["held"] = total, held
    measure_weights(parted.extent, weights)
    parted.base = base_of(parted, total)
    losses: list[float] = []
    if parted.draws:
        parted.draw()
    loss = base_loss = parted.loss("start", parted.base, *of_forest(targets.started))
    parted.held.clear()
    with closing(Grower(boost, bins)) as grower:
        while np.isfinite(loss) and len(losses) < rules.trees:
            for _ in range(targets.outputs):
                parted.trees.append(parted.grown(grower))
            if not parted.went_on():
                del parted.trees[-targets.outputs :]
                break
            losses.append(loss := parted.loss())
            if parted.out_of_patience:
                break
    if not any(one.splits for one in parted.trees):
        parted.trees.clear()
        losses.clear()
        parted.held.clear()
    judged = np.array(parted.held) if parted.held and rules.patience else None
    iterations = count_kept_iterations(base_loss, np.array(losses), judged)
    del parted.trees[iterations * targets.outputs :]
    return of_trees(parted.trees, parted.base, base_loss, losses, parted.held)


def base_of(parted: BoostingRequests, total: float) -> Floats:
    """Initial margins; total: the sum of the weights."""
    if parted.targets.started is not None:
        return parted.targets.started.base
    if parted.rules.objective == QUANTILE:
        return leaf_quantiles(parted, constant(), True, parted.has_weights)
    boost = boost_of(parted.rules, parted.targets)
    sums = sum_terms(parted.ask("sums")).tolist()
    return np.array([library().tk_base_of(boost, one, total) for one in sums])
