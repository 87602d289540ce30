"""Random forests of a group whose rows lie in parts, each where its rows are.

The trees are those of the rows in one place, node by node. Rows are drawn by their places in the
order of keys of their content. Parts send these keys once, and learn which places among those of
all parts are their own; then each part makes all draws by itself and keeps those of its rows.

Parts answer histograms as in `boosting.py`. Which features a split draws depends on how many nodes
were made before it, so splits are made in the order of one place. A tree whose number of leaves is
no limit has about as many of them as rows: the rows of a branch that has few are sent here, and
the branch grows here.

Sources: L. Breiman, Random forests, Machine Learning 45, 2001. S. Li and A. Kumar, Towards an
Optimized GROUP BY Abstraction for Large-Scale Machine Learning, PVLDB 2021, section 4.2. That
branches grow where all their rows are is from B. Panda, J. Herbach, S. Basu and R. Bayardo,
PLANET: Massively parallel learning of tree ensembles with MapReduce, PVLDB 2009.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import Floats, library, raise_if_cancelled
from tuskml.kernels.parts.dealing import TOGETHER, earlier
from tuskml.kernels.parts.message import Array
from tuskml.kernels.parts.sharded import ShardedPass
from tuskml.kernels.trees.boosting import EXTENT, GINI, Forest, Growing, Rules, Targets, boost_of
from tuskml.kernels.trees.parted.bagged_part import APART, CODED, PLACED, STARTED
from tuskml.kernels.trees.parted.binning import Bins, bins_of, measure_weights
from tuskml.kernels.trees.parted.messenger import NOTHING, Grower, Messenger, sum_terms
from tuskml.kernels.trees.parted.trees import Tree, as_bytes, of_trees

MOST_DRAWN = 32
"""Largest number of draws of a row, as in `forest/drawing.hpp`."""
ADDEND = 16
"""Bytes that a row adds to histograms."""
BRANCH_BYTES = 1 << 20
"""Largest size of the rows of a branch that grows here, in bytes."""


class BaggingRequests(Messenger):
    """Requests to parts, and the state that they depend on.

    extent: EXTENT; n_rows: of all parts; places: for each part the indices of its keys among those
    of all parts; means: of the labels, (K,); widest: the largest derivatives there, (K,); total:
    of the weights.
    """

    method = "bagged_tree"

    def __init__(
        self, rows: ShardedPass, rules: Rules, targets: Targets, bins: Bins, weights: Array
    ) -> None:
        super().__init__(rows, rules, targets, bins)
        self.boost = boost_of(rules, targets)
        self.n_rows, self.stage = int(rows.groups["n_rows"][0]), CODED
        self.total = float(sum_terms(list(weights[:, 0])))
        self.extent = np.zeros(1, EXTENT)
        self.extent["total"] = MOST_DRAWN * self.total
        measure_weights(self.extent, weights)
        self.extent["room"], self.extent["curvature"] = 1, 1
        self.places = list[NDArray[np.uint32]]()
        self.means = self.widest = np.zeros(0)

    def arguments_of(
        self, do: str, arrays: Sequence[Array | None], first: int, anew: bool = False
    ) -> dict[str, Any]:
        fields: dict[str, Any] = {"do": do, "own": len(arrays), "first": first}
        fields |= {"tree": len(self.trees), "name": self.name, "stage": self.stage}
        fields |= {"all_rows": self.n_rows, "total": self.total}
        extent = self.extent.view(np.float64).tolist()
        return fields | (
            {"setup": {"rules": asdict(self.rules), "extent": extent}} if anew else {}
        )

    def setup(self, place: int) -> list[Array | None]:
        bins = self.bins
        arrays: list[Array | None] = [bins.bound, bins.first, bins.missing, bins.by_level]
        arrays.append(self.targets.classes)
        arrays += self.earlier[place] if self.stage >= APART else NOTHING
        arrays.append(self.places[place] if self.stage >= PLACED else None)
        arrays.append(self.means if self.stage >= STARTED else None)
        if not self.begun:
            return arrays
        return [*arrays, self.extent.view(np.float64), as_bytes(self.splits)]

    def draw(self) -> None:
        """Sends each part the indices of its rows among those of all parts."""

        def ask(**given: int) -> list[list[Array]]:
            return self.answers("keys", **given)

        self.earlier = earlier(ask, self.n_rows)
        self.tell_each("tell", self.earlier)
        self.stage = APART
        self.places = self.merge_keys()
        self.tell_each("place", [[one] for one in self.places])
        self.stage = PLACED

    def merge_keys(self) -> list[NDArray[np.uint32]]:
        """Indices of the keys of each part, rising."""
        bits, before = max(0, (self.n_rows // TOGETHER).bit_length()), 0
        merged: list[list[NDArray[np.uint32]]] = []
        for number in range(1 << bits):
            keys = [one[0] for one in self.answers("sorted", bits=bits, slice=number)]
            order = np.argsort(np.concatenate(keys), kind="stable")
            place = np.empty(len(order), np.uint32)
            place[order] = np.arange(before, before + len(order), dtype=np.uint32)
            before += len(order)
            merged.append(np.split(place, np.cumsum([len(one) for one in keys])[:-1]))
        return [np.concatenate(each) for each in zip(*merged, strict=True)]

    def start(self) -> float:
        """The mean loss before the first tree."""
        sums = sum_terms(self.ask("sums")).tolist()
        means = [library().tk_base_of(self.boost, one, self.total) for one in sums]
        replies = self.ask("start", np.array(means))
        self.means, self.stage = np.array(means), STARTED
        self.widest = np.max([one[1:] for one in replies], axis=0)
        return float(sum_terms([one[:1] for one in replies])[0])

    def grown(self, grower: Grower) -> Tree:
        """Grows the next tree."""
        iteration, output = divmod(len(self.trees), self.targets.outputs)
        self.splits, self.begun = self.splits[:0], False
        self.extent["derivative"] = self.widest[output]
        root = self.sum_replies("begin", self.extent.view(np.float64))
        self.begun = True
        grower.begin(iteration, output, self.extent, root[0])
        while True:
            raise_if_cancelled(self.rows.cancel_mark)
            wanted, leaves = grower.next_leaves(), grower.rows_wanted()
            if len(leaves):
                self.give_rows(grower, wanted, leaves)
            elif len(wanted):
                grower.take_sums(self.sum_replies("divide", as_bytes(wanted)))
            else:
                break
            self.splits = np.concatenate([self.splits, wanted])
        self.begun = False
        return grower.tree()

    def give_rows(
        self, grower: Grower, splits: NDArray[np.void], leaves: NDArray[np.int32]
    ) -> None:
        """Grows the branches of some leaves, once parts have made some splits."""
        parts = self.answers("rows", as_bytes(splits), leaves)
        ends = [np.cumsum(counts)[:-1] for counts, _, __ in parts]
        cut = [
            [np.split(one, end) for one in part[1:]] for part, end in zip(parts, ends, strict=True)
        ]
        for place in range(len(leaves)):
            raise_if_cancelled(self.rows.cancel_mark)
            codes, addends = (np.concatenate([one[i][place] for one in cut]) for i in range(2))
            grower.take_rows(codes, addends)

    def loss(self, none: float) -> float:
        """Out-of-bag mean loss.

        none: its value if there are no such rows.
        """
        loss, weight = sum_terms(self.ask("losses")).tolist()
        return loss / weight if weight > 0 else none


def bag_by_parts(rows: ShardedPass, rules: Rules, targets: Targets) -> Forest:
    """Grows the forest of a group, like `boosting.boost` on rows of one worker."""
    bins, weights = bins_of(rows, rules, targets, None)
    parted = BaggingRequests(rows, rules, targets, bins, weights)
    parted.draw()
    base_loss = parted.start()
    losses: list[float] = []
    growing = Growing(branch_rows(rows.n_features), rows.threads, rows.cancel_mark)
    with closing(Grower(parted.boost, bins, growing)) as grower:
        while np.isfinite(base_loss) and len(losses) < rules.trees:
            for _ in range(targets.outputs):
                parted.trees.append(parted.grown(grower))
            losses.append(parted.loss(base_loss))
    trees = parted.trees if any(one.splits for one in parted.trees) else []
    return of_trees(trees, base_of(parted.means, rules), base_loss, losses)


def branch_rows(n_features: int) -> int:
    """Largest number of rows of a branch that grows here."""
    return max(1, BRANCH_BYTES // (n_features + ADDEND))


def base_of(means: Floats, rules: Rules) -> Floats:
    """Returns the initial margins; with two classes the sign of a margin is the class."""
    return means - 0.5 if rules.objective == GINI and len(means) == 1 else means
