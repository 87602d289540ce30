"""Gradient boosting of a group whose rows lie in parts, each where its rows are.

Parts answer histograms of their rows, which are integers: their sums are those over all rows, in
any order. The best splits are looked for here, and each part divides its own rows by them. Several
leaves are divided in a round: those that gain most at the time. What one place would split next is
split next here, so trees are the same.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 4.2: gradient accumulation parallelism (GAP), sampling.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from functools import reduce
from typing import Any

import numpy as np

from tuskml.kernels.library import library, raise_if_cancelled
from tuskml.kernels.parts.message import Array
from tuskml.kernels.parts.sharded import ShardedPass
from tuskml.kernels.trees.boosting import BY_LEVEL, Forest, Rules, Targets, boost_of
from tuskml.kernels.trees.parted.binning import Bins, bins_of
from tuskml.kernels.trees.parted.summed import Grower
from tuskml.kernels.trees.parted.trees import Tree, as_bytes, joined
from tuskml.kernels.trees.structures import EXTENT, NODE, PART_SPLIT


class Parted:
    """What parts are asked, and all that led here: a part that lacks it is told all of it.

    extent: EXTENT; trees: those that have grown; splits: of the tree that grows.
    """

    def __init__(self, rows: ShardedPass, rules: Rules, targets: Targets, bins: Bins) -> None:
        self.rows, self.rules, self.targets, self.bins = rows, rules, targets, bins
        self.extent = np.zeros(1, EXTENT)
        self.base = np.zeros(targets.outputs)
        self.trees: list[Tree] = []
        self.splits = np.zeros(0, PART_SPLIT)
        self.begun = False

    def ask(self, do: str, *arrays: Array) -> list[Array]:
        """What each part answers: an array each."""
        first = max(0, len(self.trees) - self.targets.outputs)
        recent = self.message(do, arrays, first)
        found = self.rows.asked("tree", *recent[0], **recent[1])
        lost = [place for place, one in enumerate(found) if one[0] is None]
        if lost:
            whole = self.message(do, arrays, 0, self.setup())
            for place in lost:
                found[place] = self.rows.asked_of(place, "tree", *whole[0], **whole[1])
        return [one[0] for one in found]

    def message(
        self, do: str, arrays: Sequence[Array], first: int, setup: Sequence[Array | None] = ()
    ) -> tuple[list[Array | None], dict[str, Any]]:
        """Arrays and members of a message that has the trees from `first` on."""
        tree = len(self.trees)
        given = {"do": do, "own": len(arrays), "first": first, "tree": tree}
        given["bins"] = self.bins.total
        if setup:
            extent = [float(self.extent[0][name]) for name in EXTENT.fields or ()]
            given["setup"] = {"rules": asdict(self.rules), "extent": extent, "trees": tree}
            given["setup"]["begun"] = self.begun
        return [*arrays, *joined(self.trees[first:]), *setup], given

    def setup(self) -> list[Array | None]:
        """What a part needs to begin with."""
        bins, classes = self.bins, self.targets.classes
        arrays = [bins.bound, bins.first, bins.missing, bins.by_level, classes, self.base]
        if not self.begun:
            return arrays
        return [*arrays, self.extent.view(np.float64), as_bytes(self.splits)]

    def grown(self, grower: Grower) -> Tree:
        """Grows the next tree."""
        tree, outputs = len(self.trees), self.targets.outputs
        self.splits, self.begun = self.splits[:0], False
        root = summed(self.ask("begin", self.extent.view(np.float64)))
        self.begun = True
        grower.begin(tree // outputs, tree % outputs, self.extent, root[0])
        while len(wanted := grower.wanted()):
            raise_if_cancelled(self.rows.cancel_mark)
            grower.given(summed(self.ask("divide", as_bytes(wanted))))
            self.splits = np.concatenate([self.splits, wanted])
        self.begun = False
        return grower.tree()

    def loss(self, do: str = "losses", *arrays: Array) -> float:
        """The mean loss; notes how large derivatives and curvatures are."""
        found = self.ask(do, *arrays)
        self.extent["derivative"] = max(float(one[2]) for one in found)
        self.extent["curvature"] = max(float(one[3]) for one in found)
        return float(summed([one[:1] for one in found])[0])

    def went_on(self) -> bool:
        """Whether the trees of the last iteration, or later ones, change anything."""
        last = self.trees[-self.targets.outputs :]
        return any(one.splits for one in last) or self.rules.feature_fraction < 1


def boosted_by_parts(rows: ShardedPass, rules: Rules, targets: Targets) -> Forest:
    """The trees of a group, as `boosting.boosted` grows them of rows in one place.

    Whoever calls this refuses objectives whose leaves are quantiles, rows that are drawn or held
    out, and trees of before.
    """
    bins, weights = bins_of(rows, rules, targets)
    boost = boost_of(rules, targets)
    parted = Parted(rows, rules, targets, bins)
    total = float(summed([one[:1] for one in weights])[0])
    parted.extent["total"], parted.extent["most"] = total, weights[:, 1].max()
    sums = summed(parted.ask("sums"))
    parted.base = np.array([library().tk_base_of(boost, one, total) for one in sums.tolist()])
    losses: list[float] = []
    loss = base_loss = parted.loss("start", parted.base)
    with closing(Grower(boost, bins)) as grower:
        while np.isfinite(loss) and len(losses) < rules.trees:
            for _ in range(targets.outputs):
                parted.trees.append(parted.grown(grower))
            if not parted.went_on():
                del parted.trees[-targets.outputs :]
                break
            losses.append(loss := parted.loss())
    return forest_of(parted, base_loss, losses)


def summed(terms: Sequence[Array]) -> Array:
    """The sum, from the first term to the last."""
    total: Array = reduce(np.add, terms)
    return total


def forest_of(parted: Parted, base_loss: float, losses: Sequence[float]) -> Forest:
    """The trees, with their sets one behind the other."""
    trees, nodes, n_sets = parted.trees, [np.zeros(0, NODE)], 0
    for tree in trees:
        own = tree.nodes.copy()
        own["value"][own["missing"] == BY_LEVEL] += n_sets
        n_sets += len(tree.sets)
        nodes.append(own)
    start = np.cumsum([0, *(len(one.nodes) for one in trees)])
    return Forest(
        parted.base,
        base_loss,
        start.astype(np.int64),
        np.concatenate(nodes),
        np.concatenate([np.zeros(0, np.float32), *(one.gain for one in trees)]),
        np.concatenate([np.zeros(0, np.int64), *(one.rows for one in trees)]),
        np.array(losses, np.float64),
        np.zeros(0),
        np.concatenate([np.zeros(0), *(one.sets for one in trees)]),
    )
