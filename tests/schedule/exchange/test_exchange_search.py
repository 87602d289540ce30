"""Plans of exchanges: orders without deadlock, costs by hand, the search beside all plans."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from research.syndicate import baselines, dlrm
from tuskml.schedule.exchange.events import Rules, Streams
from tuskml.schedule.exchange.network import Channel, Network
from tuskml.schedule.exchange.ordering import (
    Search,
    cyclic,
    legal,
    opt_sched,
    optimize,
    plain,
    rehearse,
    sequence,
)
from tuskml.schedule.exchange.plan import Dag, Operation, Option, Plan, options, read, strands

NET = Network(2, 2, (Channel(100.0, 10.0, 0.0), Channel(100.0, 10.0, 0.0)))


@st.composite
def dags(draw: DrawFn) -> Dag:
    """Any operations that wait for some before them, and for some of the iteration before."""
    made: list[Operation] = []
    for place in range(draw(st.integers(1, 7))):
        names = [each.name for each in made]
        some = st.lists(st.sampled_from(names), max_size=2, unique=True) if names else st.just([])
        after, previous = draw(some), draw(some)
        kind = draw(st.sampled_from(["", "all_reduce", "all_to_all", "broadcast", "all_gather"]))
        seconds = draw(st.floats(0.0, 5.0))
        size = draw(st.floats(0.0, 100.0))
        made.append(
            Operation(f"o{place}", 0.0 if kind else seconds, kind, size if kind else 0.0,
                      tuple(after), tuple(previous))
        )  # fmt: skip
    return Dag(made)


@given(dags(), st.data())
@settings(deadline=None, max_examples=50)
def test_every_repeated_order_runs_to_its_end(dag: Dag, data: st.DataObject) -> None:
    exchanges = [dag.operations[place] for place in dag.exchanges]
    chosen = {one.name: data.draw(st.sampled_from(options(NET, one.kind))) for one in exchanges}
    order = cyclic(dag, NET, chosen, opt_sched(dag, NET, chosen).ran)
    assert legal(dag, order)
    count = sum(len(strands(NET, one.kind, one.size, chosen[one.name])) for one in exchanges)
    assert len(set(order)) == len(order) == count, "each motif is there once"
    assert legal(dag, plain(dag, NET, chosen))
    ran = Streams(
        dag, NET, chosen, 5, Rules(sequence=sequence(dag, order, 5), prefetched=True)
    ).run()
    assert len(ran.ends) == 5 * len(dag.operations)
    for (iteration, place), end in ran.ends.items():
        one = dag.operations[place]
        took = 0.0 if one.kind else one.seconds
        for name in one.after:
            assert ran.ends[iteration, dag.at[name]] <= end - took + 1e-9
        for name in one.after_previous:
            if iteration:
                assert ran.ends[iteration - 1, dag.at[name]] <= end - took + 1e-9


def test_an_order_that_waits_for_itself_is_refused_and_would_stand_still() -> None:
    first = Operation("first", kind="all_to_all", size=8.0)
    dag = Dag([first, Operation("second", kind="all_to_all", size=8.0, after=("first",))])
    chosen = {"first": Option("splined1"), "second": Option("splined1")}
    order = (("second", 0, 0), ("first", 0, 0))
    assert not legal(dag, order)
    with pytest.raises(RuntimeError, match="contradicts"):
        Streams(dag, NET, chosen, 2, Rules(sequence=sequence(dag, order, 2))).run()


def two(size: float = 40.0) -> Dag:
    """A computation behind each of two exchanges; 2 workers of a host send half outside."""
    kind = "all_to_all"
    return Dag(
        [
            Operation("a", kind=kind, size=size, after_previous=("short",)),
            Operation("b", kind=kind, size=size, after_previous=("long",)),
            Operation("short", 1.0, after=("a",)),
            Operation("long", 7.0, after=("b",)),
        ]
    )


def test_the_longest_path_goes_first_by_hand() -> None:
    # An all-to-all of 40 bytes sends 20 to the other host, at 10 a second.
    chosen = {"a": Option("splined1"), "b": Option("splined1")}
    ran = opt_sched(two(), NET, chosen).ran
    assert ran.starts[1, 0, 0] == 0.0, "b first: 7 seconds wait for it, and 1 for a"
    assert ran.starts[0, 0, 0] == 2.0
    assert ran.ends[0, 3] == 9.0


def test_two_channels_halve_an_exchange_by_hand() -> None:
    parts = strands(NET, "all_to_all", 40.0, Option("splined1", 2, (0, 1)))
    assert [(each.channel, each.seconds) for each in parts] == [(0, 1.0), (1, 1.0)]


def test_the_search_finds_the_best_of_all_options() -> None:
    dag = two()
    few = [each for each in options(NET, "all_to_all") if each.segments in (1, 4)]
    every = [few] * 2
    costs = [
        rehearse(dag, NET, dict(zip(("a", "b"), some, strict=True)))[0] for some in product(*every)
    ]
    found = optimize(dag, NET, Search(budget=60.0, proposals=150, seed=3))
    assert found.cost <= min(costs) * 1.001
    one = dict.fromkeys(("a", "b"), Option("splined1"))
    assert found.cost < rehearse(dag, NET, one)[0], "one channel alone is slower here"


def test_a_search_with_a_seed_can_be_repeated() -> None:
    dag = dlrm.operations(dlrm.MODELS[1])
    search = Search(budget=60.0, proposals=30, seed=1)
    one, again = (optimize(dag, dlrm.cluster(), search).plan for _ in range(2))
    assert one == again
    assert read(one.text()) == one
    assert legal(dag, one.order)


@pytest.mark.parametrize("text", ["", "[]", "[1, {}]", '[1, {"a": 3}, []]'])
def test_texts_that_are_no_plans_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a plan|Expecting|unpack"):
        read(text)


def test_a_plan_is_faster_than_the_same_exchanges_in_plain_order() -> None:
    judge = baselines.Judge(dlrm.operations(dlrm.MODELS[0]), dlrm.cluster(4, 8), iterations=6)
    found = optimize(judge.dag, judge.net, Search(budget=60.0, proposals=40))
    first_come = baselines.fifo(judge)
    # Without the search and without the order the figure is that of first come, first served.
    assert judge.planned(found.plan) < 0.9 * first_come.seconds
    unplanned = Plan(first_come.options, plain(judge.dag, judge.net, first_come.options))
    assert judge.planned(unplanned) > judge.planned(found.plan)


def test_the_oracle_never_makes_an_order_slower() -> None:
    judge = baselines.Judge(dlrm.operations(dlrm.MODELS[0]), dlrm.cluster(2, 8), iterations=5)
    rules = Rules(single=True)
    begun = baselines.fastest(judge)
    found = baselines.oracle(begun, lambda some: judge.seconds(some, rules))
    assert found.seconds <= judge.seconds(begun, rules)


def test_operations_that_wait_for_unknown_ones_are_an_error() -> None:
    with pytest.raises(ValueError, match="waits for z, which is none of a"):
        Dag([Operation("a", after=("z",))])
