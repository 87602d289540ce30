"""Auctions of workers: the thesis' examples, the optimum by trying all, and what theorem 3.2
says."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from research.themis.pieces import SIZES, capacity, fits, packed, split, use
from tuskml.schedule.fair.auction import (
    Bid,
    Phase,
    Slowdowns,
    draw_kept_workers,
    halving,
    ideal_seconds,
    partial_allocation,
    rho,
    worst_off,
)
from tuskml.schedule.fair.solving import Bundles, exactly, greedily, program, total_gain

SEEDS = st.integers(0, 2**32 - 1)


def some_bids(seed: int, machines: int = 3, bidders: int = 4) -> tuple[list[Bid], np.ndarray]:
    """Tables over machines; more workers are worth more, spread ones less."""
    draw = np.random.default_rng(seed)
    free = draw.integers(1, 4, machines)
    bids = []
    for _ in range(draw.integers(2, bidders + 1)):
        every = [row for row in itertools.product(*(range(n + 1) for n in free)) if any(row)]
        picked = draw.permutation(len(every))[: draw.integers(1, 9)]
        rows = np.array([every[place] for place in picked])
        spread = np.where((rows > 0).sum(axis=1) > 1, draw.uniform(1, 1.6), 1.0)
        work, waited = draw.lognormal(3, 1), draw.exponential(5)
        rhos = waited + work * spread / rows.sum(axis=1)
        bids.append(Bid(rows, rhos, waited + work * 100))
    return bids, free


def tried(bids: list[Bid], free: np.ndarray) -> float:
    """The greatest sum of gains, by looking at every choice."""
    found = 0.0
    bundles = [bid.bundles() for bid in bids]
    for choice in itertools.product(*(range(-1, len(bid.rho)) for bid in bids)):
        used = sum((one.use[at] for one, at in zip(bundles, choice, strict=True) if at >= 0), 0)
        if (used <= free).all():
            found = max(found, total_gain(bundles, choice))
    return found


@given(SEEDS)
@settings(max_examples=20)
def test_the_exact_solver_finds_the_optimum(seed: int) -> None:
    bids, free = some_bids(seed, bidders=3)
    bundles = [bid.bundles() for bid in bids]
    best = tried(bids, free)
    won = exactly(bundles, free)
    assert won.total == pytest.approx(best, abs=1e-6)
    assert total_gain(bundles, program(bundles, free, 1e-9)) == pytest.approx(best, abs=1e-6)
    greedy = greedily(bundles, free)
    assert greedy.total <= best + 1e-9
    used = sum((one.use[at] for one, at in zip(bundles, greedy.chosen, strict=True) if at >= 0), 0)
    assert (used <= free).all()


def test_steps_along_hulls_are_near_the_optimum_at_256_workers() -> None:
    machines = np.array([8] * 24 + [4] * 12 + [1] * 16)
    gaps = []
    for seed in range(6):
        bundles = [pieces_bid(np.random.default_rng([seed, k])).bundles() for k in range(10)]
        best = exactly(bundles, capacity(machines)).total
        gaps.append(1 - math.exp(greedily(bundles, capacity(machines)).total - best))
    assert min(gaps) > -1e-6
    assert max(gaps) < 0.05, "of the product of ten values"


def pieces_bid(draw: np.random.Generator) -> Bid:
    """A search with some jobs, of which each can use some workers of a machine."""
    most, jobs = int(draw.choice([1, 2, 4, 8])), int(draw.choice([1, 2, 4, 8, 16]))
    sizes = sorted({round(one) for one in np.geomspace(1, most * jobs, 12).tolist()})
    rows = [[split(n).count(size) for size in SIZES] for n in sizes]
    waited, work = draw.exponential(2e4), draw.lognormal(11, 1.5)
    return Bid(use(np.array(rows)), waited + work / np.array(sizes), waited + work * 100,
               np.array(sizes))  # fmt: skip


@given(SEEDS, st.floats(0.1, 10), st.booleans())
@settings(max_examples=25)
def test_a_false_table_gains_nothing(seed: int, factor: float, shuffled: bool) -> None:
    """Strategy-proofness: what a bidder keeps of its true value is most if it tells the truth."""
    bids, free = some_bids(seed)
    draw = np.random.default_rng(seed + 1)
    honest = bids[0]
    false = honest.rho * factor ** draw.uniform(-1, 1, len(honest.rho))
    if shuffled:
        false = draw.permutation(honest.rho)
    lie = Bid(honest.use, np.minimum(false, honest.without), honest.without)

    def value(told: Bid) -> float:
        award = partial_allocation([told, *bids[1:]], free)[0]
        if award.bundle < 0:
            return 1 / honest.without
        return award.kept / honest.rho[award.bundle]

    # nobody pays for nothing, so the value of nothing is kept whole
    truth = value(honest)
    assert value(lie) <= max(truth, 1 / honest.without) * (1 + 1e-6)


@given(SEEDS, st.floats(0.01, 100))
@settings(max_examples=12)
def test_a_factor_of_a_whole_table_changes_nothing(seed: int, factor: float) -> None:
    bids, free = some_bids(seed)
    scaled = Bid(bids[0].use, bids[0].rho * factor, bids[0].without * factor)
    before, after = partial_allocation(bids, free), partial_allocation([scaled, *bids[1:]], free)
    gains = [total_gain([b.bundles() for b in bids], [one.bundle for one in found])
             for found in (before, after)]  # fmt: skip
    assert gains[0] == pytest.approx(gains[1], abs=1e-6)
    assert before[0].kept / bids[0].rho[before[0].bundle] == pytest.approx(
        after[0].kept / bids[0].rho[after[0].bundle], rel=1e-5
    )


@given(SEEDS)
@settings(max_examples=12)
def test_the_allocation_is_pareto_efficient(seed: int) -> None:
    """No other choice is as good for all bidders and better for one."""
    bids, free = some_bids(seed, bidders=3)
    found = [award.bundle for award in partial_allocation(bids, free)]

    def rhos(choice: tuple[int, ...]) -> list[float]:
        return [bid.rho[at] if at >= 0 else bid.without
                for bid, at in zip(bids, choice, strict=True)]  # fmt: skip

    mine = rhos(tuple(found))
    for choice in itertools.product(*(range(-1, len(bid.rho)) for bid in bids)):
        used = sum((bid.use[at] for bid, at in zip(bids, choice, strict=True) if at >= 0), 0)
        if (used <= free).all():
            others = rhos(choice)
            better = any(b < a * (1 - 1e-6) for a, b in zip(mine, others, strict=True))
            assert not better or any(b > a * (1 + 1e-9) for a, b in zip(mine, others, strict=True))


def homogeneous(seed: int, workers: int) -> list[Bid]:
    """Speed is proportional to the workers, up to a demand: what theorem 3.2 supposes."""
    draw = np.random.default_rng(seed)
    bids = []
    for _ in range(draw.integers(2, 6)):
        rows = np.arange(1, draw.integers(2, workers + 1))[:, None]
        rhos = draw.lognormal(0, 1) / rows[:, 0]
        bids.append(Bid(rows, rhos, float(rhos.max()) * 1000))
    return bids


@given(SEEDS)
@settings(max_examples=12)
def test_nobody_envies_and_everyone_has_an_equal_share_or_more(seed: int) -> None:
    """Before payments, up to one worker, as they cannot be cut: value of the own bundle at least
    that of any other one, and of 1 / n of all. A payment leaves at least 1 / e (Cole et al.)."""
    workers = 24
    bids = homogeneous(seed, workers)
    awards = partial_allocation(bids, np.array([workers]))
    held = [int(bid.use[award.bundle, 0]) for bid, award in zip(bids, awards, strict=True)]
    for bid, award, mine in zip(bids, awards, held, strict=True):
        demand = len(bid.rho)
        assert mine >= min(demand, max(held) - 1)
        assert mine >= min(demand, math.floor(workers / len(bids)))
        assert award.kept >= 1 / math.e - 0.05


def test_a_bid_alone_pays_nothing_and_equal_ones_the_same() -> None:
    rows = np.arange(1, 13)[:, None]
    bid = Bid(rows, 12 / rows[:, 0], 1e4)
    assert partial_allocation([bid], np.array([12]))[0].kept == 1.0
    both = partial_allocation([bid, bid], np.array([12]))
    # each takes 6 of 12, by which the other has half of what it had alone
    assert [award.kept for award in both] == pytest.approx([0.5, 0.5])


def test_the_example_of_successive_halving() -> None:
    """Section 3.4.3.3: 16 GPUs, 4 apps, jobs of 80, 100, 100 and 120 s, budget of 10,000 s."""
    app = halving([80, 100, 100, 120], 8, [8, 16, 36])
    two = app.seconds_left(2)
    assert two == 1600 + 1600 + 1800
    ideal = ideal_seconds(10_000, 16, app.most_ever, 4)
    assert ideal == 2500
    assert rho(0, two, ideal) == 2.0
    # one job of the last phase uses 8 of 16 GPUs: the value does not fall in proportion
    assert app.seconds_left(16) > app.seconds_left(8) / 2


def test_the_slowest_job_decides_and_gets_what_is_left() -> None:
    assert Phase((6.0, 3.0), most=4).seconds(3) == 3.0
    assert Phase((6.0, 3.0), most=1).seconds(8) == 6.0
    assert Phase((6.0, 3.0, 3.0)).seconds(2) == 6.0
    assert Phase((6.0,), most=4).seconds(4, slowdown=1.5) == 2.25
    assert Phase((6.0,)).seconds(0) == math.inf
    assert [Slowdowns().of(*of) for of in [(1, 1), (2, 1), (2, 2)]] == [1.0, 1.1, 1.3]


@given(st.lists(st.integers(0, 11), min_size=1, max_size=6), SEEDS)
@settings(max_examples=25)
def test_pieces_are_packed_whenever_they_fit(room: list[int], seed: int) -> None:
    """Coffman, Garey and Johnson 1987, held against all ways to place them one by one."""
    free = np.array(room)
    assume(free.sum())
    draw = np.random.default_rng(seed)
    pieces = draw.integers(0, [2, 3, 4, 6])
    wanted = [
        [size for size, n in zip(SIZES, pieces.tolist(), strict=True) for _ in range(n)][k::2]
        for k in range(2)
    ]
    if fits(pieces, free):
        where = packed(wanted, free)
        total = np.zeros(len(free), int)
        for one, asked in zip(where, wanted, strict=True):
            assert sum(one.values()) == sum(asked)
            for machine, workers in one.items():
                total[machine] += workers
        assert (total <= free).all()
    else:
        with pytest.raises(ValueError, match="free workers"):
            packed(wanted, free)


def test_the_worst_off_bid() -> None:
    rhos = {"a": 1.0, "b": 4.0, "c": 2.0, "d": 3.0, "e": 4.0}
    assert worst_off(rhos, 0.8) == ["b"]
    assert worst_off(rhos, 0.4) == ["b", "e", "d"]
    assert worst_off(rhos, 0.0) == ["b", "e", "d", "c", "a"]
    assert worst_off({"a": math.inf}, 1.0) == ["a"]
    assert worst_off({}, 0.8) == []


def test_the_kept_fraction_holds_in_expectation() -> None:
    draw = np.random.default_rng(3)
    found = [draw_kept_workers(5, 0.37, draw) for _ in range(4000)]
    assert set(found) == {1, 2}
    assert np.mean(found) == pytest.approx(5 * 0.37, abs=0.03)
    assert draw_kept_workers(8, 1.0, draw) == 8


@pytest.mark.parametrize("wrong", [math.inf, math.nan, 0.0, -1.0])
def test_a_rho_that_is_none_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="rho"):
        partial_allocation([Bid(np.array([[1]]), np.array([wrong]), 5.0)], np.array([2]))
    with pytest.raises(ValueError, match=r"expected \(B, 3\)"):
        partial_allocation([Bid(np.array([[1]]), np.array([1.0]), 5.0)], np.array([2, 2, 2]))


def test_no_bundles_and_no_bidders() -> None:
    assert partial_allocation([], np.array([2])) == []
    empty = Bundles(np.zeros((0, 1), int), np.zeros(0), np.zeros(0, int))
    assert exactly([empty], np.array([3])).chosen == [-1]
    assert greedily([empty], np.array([3])).chosen == [-1]
