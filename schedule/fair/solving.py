"""Winner determination: at most one bundle for each bidder, within the capacity of each good.

`exactly` gets the prices of the relaxation from HiGHS, the solver in SciPy, and enumerates the
choices that these leave in question; if these are too many, HiGHS solves the integer program.

`greedily` takes steps along the upper hull of each bidder's bundles, those with the most gain per
worker first: P. Sinha and A. A. Zoltners, The multiple-choice knapsack problem, Operations
Research 27, 1979. It is the optimum of the relaxation except for the last steps, which a good that
runs out may break.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import sub
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_array, vstack

Uses = NDArray[np.int64]
Values = NDArray[np.float64]
Link = Any
"""The last chosen bundle, and the chain of those before it."""


class Bundles(NamedTuple):
    """Bundles of a bidder.

    use: (B, K) of each good; gain: (B,) increase of the logarithm of its value over getting
    nothing; size: (B,) workers.
    """

    use: Uses
    gain: Values
    size: Uses


@dataclass(frozen=True)
class Won:
    """Solution.

    chosen: index of each bidder's bundle, -1 for none; others: for each bidder the gain that all
    others lose by its presence; total: gain of all.
    """

    chosen: list[int]
    others: list[float]
    total: float


Solver = Callable[[Sequence[Bundles], Uses], Won]
"""Maximises the sum of gains within the capacity (K,) of each good."""


def exactly(bidders: Sequence[Bundles], capacity: Uses) -> Won:
    """Solves for all bidders, and without each winner in turn."""
    if not sum(len(one.gain) for one in bidders):
        return Won([-1] * len(bidders), [0.0] * len(bidders), 0.0)
    climbed = climbing(bidders)
    prices = relaxation_prices(bidders, capacity)
    known = [-1] * len(bidders)
    climb(*climbed, known, capacity.tolist(), range(len(climbed[0])))
    chosen = best_choice(bidders, capacity, known, prices)
    total, others = total_gain(bidders, chosen), [0.0] * len(bidders)
    for place, bundle in enumerate(chosen):
        if bundle >= 0:
            rest = [*bidders[:place], *bidders[place + 1 :]]
            known = solve_without(place, bidders, capacity, climbed, chosen)
            without = total_gain(rest, without_one(rest, capacity, known, prices))
            others[place] = max(0.0, without - total + float(bidders[place].gain[bundle]))
    return Won(chosen, others, total)


def solve_without(
    place: int,
    bidders: Sequence[Bundles],
    capacity: Uses,
    climbed: "Climbed",
    chosen: Sequence[int],
) -> list[int]:
    """A good choice without one bidder, by steps from nothing or from the optimum."""
    steps, uses = climbed
    order = [at for at, step in enumerate(steps) if step.bidder != place]
    afresh, left = [-1] * len(bidders), capacity.tolist()
    climb(steps, uses, afresh, left, order)
    on = [-1 if one == place else bundle for one, bundle in enumerate(chosen)]
    left = remaining_capacity(bidders, capacity, on)
    better = [at for at in order if gains(bidders, on, steps[at])]
    climb(steps, uses, on, left, better)
    best = max(afresh, on, key=lambda choice: total_gain(bidders, choice))
    return [*best[:place], *best[place + 1 :]]


def gains(bidders: Sequence[Bundles], chosen: Sequence[int], step: "Step") -> bool:
    """Returns whether a step improves on its bidder's bundle."""
    mine, has = bidders[step.bidder].gain, chosen[step.bidder]
    return has < 0 or bool(mine[step.bundle] > mine[has])


def remaining_capacity(
    bidders: Sequence[Bundles], capacity: Uses, chosen: Sequence[int]
) -> list[int]:
    """Returns the remaining capacity of each good (K,)."""
    pairs = zip(bidders, chosen, strict=True)
    taken = [one.use[bundle] for one, bundle in pairs if bundle >= 0]
    left: list[int] = (capacity - np.sum(taken, axis=0, dtype=np.int64)).tolist()
    return left


def without_one(
    rest: Sequence[Bundles], capacity: Uses, known: Sequence[int], prices: Values
) -> list[int]:
    """Solves without one bidder.

    The prices lie near those of all, so a few steps from there find them; the relaxation is solved
    only if that leaves too many choices.
    """
    if not sum(len(one.gain) for one in rest):
        return [-1] * len(rest)
    near = lower_bound(rest, capacity, prices, total_gain(rest, known))
    best = enumerate_choices(rest, capacity, known, near, FEW_STATES)
    if best is not None:
        return best
    return best_choice(rest, capacity, known, relaxation_prices(rest, capacity))


def lower_bound(
    bidders: Sequence[Bundles], capacity: Uses, prices: Values, known: float
) -> Values:
    """Lowers the bound by B. T. Polyak's subgradient steps on the prices towards the known gain
    (Minimization of unsmooth functionals, 1969).
    """
    use = np.concatenate([np.concatenate([one.use, one.use[:1] * 0]) for one in bidders])
    gain = np.concatenate([np.append(one.gain, 0.0) for one in bidders])
    first = np.cumsum([0] + [len(one.gain) + 1 for one in bidders])
    best, bound, at = prices, np.inf, prices
    for _ in range(DESCENTS):
        worth = gain - use @ at
        most = np.maximum.reduceat(worth, first[:-1])
        now = float(most.sum() + capacity @ at)
        if now < bound:
            best, bound = at, now
        taken = worth >= np.repeat(most, np.diff(first)) - 1e-12
        _, places = np.unique(np.repeat(np.arange(len(bidders)), np.diff(first))[taken], True)
        slope = capacity - use[taken][places].sum(axis=0)
        size = float(slope @ slope)
        if now - known <= GAP or not size:
            break
        at = np.maximum(0.0, at - 0.7 * (now - known) / size * slope)
    return best


def best_choice(
    bidders: Sequence[Bundles], capacity: Uses, known: Sequence[int], prices: Values
) -> list[int]:
    """Index of each bidder's bundle in an optimum.

    known: a feasible choice; prices: of the goods (K,).
    """
    best = enumerate_choices(bidders, capacity, known, prices, MOST_STATES)
    if best is None:
        best = program(bidders, capacity, GAP)
    return max(best, list(known), key=lambda choice: total_gain(bidders, choice))


def enumerate_choices(
    bidders: Sequence[Bundles], capacity: Uses, known: Sequence[int], prices: Values, most: int
) -> list[int] | None:
    """Enumerates choices; returns the optimum, or the known choice if it is within the gap.

    None if there are more than `most` states. Any prices bound the gain of any choice. A bundle
    that loses more at these prices than the known choice is below the bound is in no optimum.
    """
    worth = [
        np.append(one.gain - one.use @ prices, 0.0) for one in bidders
    ]  # the last entry is that of no bundle
    lost = [one.max() - one for one in worth]
    bound = sum(float(one.max()) for one in worth) + float(capacity @ prices)
    slack = bound - total_gain(bidders, known)
    if slack <= GAP:
        return list(known)
    few = [in_question(one, each, slack + GAP) for one, each in zip(bidders, lost, strict=True)]
    return search_choices(few, capacity.tolist(), prices.tolist(), slack + GAP, most)


class Option(NamedTuple):
    """A bundle and its loss.

    lost: gain below the bidder's best bundle at the prices of the relaxation.
    """

    lost: float
    bundle: int
    use: tuple[int, ...]


def in_question(bidder: Bundles, lost: Values, slack: float) -> list[Option]:
    """Bundles that may be in an optimum, and none (-1), by rising loss."""
    uses = [tuple(row) for row in bidder.use.tolist()] + [(0,) * bidder.use.shape[1]]
    n = len(uses) - 1
    places = np.flatnonzero(lost <= slack).tolist()
    candidates = [Option(float(lost[at]), at if at < n else -1, uses[at]) for at in places]
    return sorted(candidates)


MOST_STATES, FEW_STATES = 20_000, 1_000
"""Limits on enumerated states, and on those above which better prices are tried."""
GAP = 1e-7
"""Gain by which a solution may be below the optimum."""
DESCENTS = 40


def search_choices(
    bidders: Sequence[Sequence[Option]],
    capacity: list[int],
    prices: list[float],
    slack: float,
    most: int,
) -> list[int] | None:
    """The choice that loses least, at most `slack`; None if it takes more than `most` states.

    After each bidder there is one state for each remaining capacity, so alike bidders, which an
    integer program tries in all orders, cost no more. Capacity that the bidders to come cannot use
    is lost at its price, and no longer part of the state.
    """
    goods = range(len(capacity))
    wants = [[max(one.use[k] for one in options) for options in bidders] for k in goods]
    coming = [[sum(mine[place:]) for mine in wants] for place in range(len(bidders) + 1)]
    first = clip_capacity(capacity, coming[0], prices)
    states: dict[tuple[int, ...], tuple[float, Link]] = {first[1]: (first[0], None)}
    for options, useful in zip(bidders, coming[1:], strict=True):
        after: dict[tuple[int, ...], tuple[float, Link]] = {}
        for left, (lost, link) in states.items():
            for more, bundle, use in options:
                if lost + more > slack:
                    break
                rest = list(map(sub, left, use))
                if min(rest) < 0:
                    continue
                unused, key = clip_capacity(rest, useful, prices)
                now = lost + more + unused
                if now <= slack and (key not in after or now < after[key][0]):
                    after[key] = now, (bundle, link)
        states = after
        if len(states) > most:
            return None
    return chain(min(states.values(), key=first_of)[1]) if states else None


def first_of(pair: tuple[float, Link]) -> float:
    """The loss of a state."""
    return pair[0]


def chain(link: Link) -> list[int]:
    """Chosen bundles, the first bidder's first."""
    points = []
    while link is not None:
        points.append(link[0])
        link = link[1]
    return points[::-1]


def clip_capacity(
    left: Sequence[int], useful: Sequence[int], prices: Sequence[float]
) -> tuple[float, tuple[int, ...]]:
    """Price of the capacity that no further bidder can use, and the rest of the capacity."""
    lost = 0.0
    options = []
    for have, most, price in zip(left, useful, prices, strict=True):
        if have > most:
            lost += price * (have - most)
        options.append(min(have, most))
    return lost, tuple(options)


def constraints(bidders: Sequence[Bundles], capacity: Uses) -> tuple[csr_array, Values, Values]:
    """Constraints of the integer program: one bundle a bidder, then the goods.

    Returns the matrix, its right side, and all gains.
    """
    sizes = [len(one.gain) for one in bidders]
    gain = np.concatenate([one.gain for one in bidders])
    owner, every = np.repeat(np.arange(len(bidders)), sizes), np.arange(len(gain))
    one_each = csr_array((np.ones(len(gain)), (owner, every)), shape=(len(bidders), len(gain)))
    use = csr_array(np.concatenate([one.use for one in bidders]).T.astype(float))
    most = np.concatenate([np.ones(len(bidders)), capacity.astype(float)])
    return vstack([one_each, use]).tocsr(), most, gain


def relaxation_prices(bidders: Sequence[Bundles], capacity: Uses) -> Values:
    """Returns the price of each good (K,) in the linear relaxation."""
    matrix, most, gain = constraints(bidders, capacity)
    result = linprog(  # type: ignore[call-overload]
        -gain, A_ub=matrix, b_ub=most, bounds=(0, None), method="highs"
    )
    prices: Values = np.maximum(0.0, -result.ineqlin.marginals[len(bidders) :])
    return prices


def program(bidders: Sequence[Bundles], capacity: Uses, gap: float) -> list[int]:
    """Index of each bidder's bundle, by HiGHS, with the greatest gain up to the gap."""
    chosen = [-1] * len(bidders)
    if not sum(len(one.gain) for one in bidders):
        return chosen
    matrix, most, gain = constraints(bidders, capacity)
    result = milp(
        -gain,
        integrality=np.ones(len(gain), np.int64),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, -np.inf, most),
        options={"mip_rel_gap": gap},
    )
    first = np.cumsum([0] + [len(one.gain) for one in bidders])
    for place in np.flatnonzero(np.round(result.x)).tolist() if result.x is not None else []:
        bidder = int(np.searchsorted(first, place, side="right")) - 1
        chosen[bidder] = int(place - first[bidder])
    return chosen


def total_gain(bidders: Sequence[Bundles], chosen: Sequence[int]) -> float:
    """Returns the total gain of one bundle for each bidder."""
    pairs = zip(bidders, chosen, strict=True)
    return float(sum(one.gain[bundle] for one, bundle in pairs if bundle >= 0))


class Step(NamedTuple):
    """A step from one bundle of a bidder to the next on its hull.

    density: gain per worker.
    """

    density: float
    bidder: int
    bundle: int


def greedily(bidders: Sequence[Bundles], capacity: Uses) -> Won:
    """Solves greedily by steps along hulls.

    A bidder's cost to the others is what they would gain with its goods.
    """
    steps, uses = climbing(bidders)
    left, chosen = capacity.tolist(), [-1] * len(bidders)
    skipped = climb(steps, uses, chosen, left, range(len(steps)))
    total, others = total_gain(bidders, chosen), [0.0] * len(bidders)
    for place, bundle in enumerate(chosen):
        if bundle >= 0:
            freed = [a + b for a, b in zip(left, uses[place][bundle], strict=True)]
            trial = chosen.copy()
            trial[place] = -1
            mine = [at for at in skipped if steps[at].bidder != place]
            climb(steps, uses, trial, freed, mine)
            without = total_gain(bidders, trial)
            others[place] = max(0.0, without - total + float(bidders[place].gain[bundle]))
    return Won(chosen, others, total)


Climbed = tuple[list[Step], list[list[tuple[int, ...]]]]


def climbing(bidders: Sequence[Bundles]) -> Climbed:
    """All steps by falling density, and the uses of all bundles."""
    steps = [step for place, one in enumerate(bidders) for step in hull(place, one)]
    steps.sort(key=lambda step: (-step.density, step.bidder))
    return steps, [[tuple(row) for row in one.use.tolist()] for one in bidders]


def climb(
    steps: Sequence[Step],
    uses: Sequence[Sequence[tuple[int, ...]]],
    chosen: list[int],
    left: list[int],
    order: Sequence[int],
) -> list[int]:
    """Takes each step that fits; changes `chosen` and `left`. Returns indices of the other
    steps.
    """
    skipped = []
    for at in order:
        _, bidder, bundle = steps[at]
        use, held = uses[bidder][bundle], chosen[bidder]
        before = uses[bidder][held] if held >= 0 else (0,) * len(use)
        now = [have + old - new for have, old, new in zip(left, before, use, strict=True)]
        if min(now) < 0:
            skipped.append(at)
            continue
        left[:], chosen[bidder] = now, bundle
    return skipped


def hull(place: int, bundles: Bundles) -> list[Step]:
    """Steps of a bidder by falling gain per worker: the upper hull of gain over size."""
    order = np.lexsort((-bundles.gain, bundles.size)).tolist()
    size, gain = bundles.size.tolist(), bundles.gain.tolist()
    corners: list[tuple[int, float, int]] = [(0, 0.0, -1)]
    for at in order:
        if gain[at] <= corners[-1][1] or size[at] == corners[-1][0]:
            continue
        while len(corners) > 1 and bent(corners[-2], corners[-1], (size[at], gain[at])):
            corners.pop()
        corners.append((size[at], gain[at], at))
    points = []
    for (less, low, _), (more, high, at) in pairwise(corners):
        points.append(Step((high - low) / (more - less), place, at))
    return points


def bent(one: tuple[int, float, int], two: tuple[int, float, int], to: tuple[int, float]) -> bool:
    """Returns whether the corner `two` lies below the line from `one` to `to`."""
    return (two[1] - one[1]) * (to[0] - one[0]) <= (to[1] - one[1]) * (two[0] - one[0])
