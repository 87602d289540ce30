"""What the engines ask of a program, in which order, and how they fail."""

import sys
import threading
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tuskml
from tuskml.schedule import Dynamic, Program, Static, ranges
from tuskml.schedule.programs.program import dealt

sys.path.append(str(Path(__file__).parent))
from recorded import Counting, Ring

SECONDS = 60


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_each_worker_updates_each_block_once_and_hands_it_to_its_neighbour(workers):
    weights = [5, 1, 4, 2, 3]
    data = [[] for _ in range(workers)]
    found = tuskml.run_program(Ring(weights), [], data, Static(2))
    assert found.iterations == 2
    assert len(found.model) == 2
    for rotation in found.model:
        for had in rotation:
            assert had == [(had[0] + step) % workers for step in range(workers)]
    for blocks in found.local:
        assert sorted(blocks[: len(weights)]) == list(range(len(weights)))
    first = [blocks[: len(dealt(weights, workers)[p])] for p, blocks in enumerate(found.local)]
    assert first == dealt(weights, workers)


def test_a_block_is_handed_on_while_another_worker_is_busy():
    """Worker 2 ends its first block when worker 1 has the second one."""
    on = threading.Event()

    def before(p, block):
        if (p, block) == (1, 0):
            on.set()
        if (p, block) == (2, 2):
            assert on.wait(SECONDS)

    found = tuskml.run_program(Ring([1, 1, 1], before), [], [[], [], []], Static(1))
    assert found.model == [[[0, 1, 2], [1, 2, 0], [2, 0, 1]]]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=30), st.integers(1, 6))
def test_blocks_are_dealt_once_the_heaviest_first(weights, workers):
    held = dealt(weights, workers)
    assert sorted(chain(*held)) == list(range(len(weights)))
    loads = [sum(weights[b] for b in blocks) for blocks in held]
    for blocks in held:
        assert [weights[b] for b in blocks] == sorted((weights[b] for b in blocks), reverse=True)
    # Graham's bound: the least possible is at least each of these two
    least = max(*weights, sum(weights) / workers)
    assert max(loads) <= (4 / 3) * max(least, second_of_pairs(weights, workers)) + 1e-9


def second_of_pairs(weights, workers):
    """With more blocks than workers two of the largest w + 1 share a worker."""
    order = sorted(weights, reverse=True)
    return order[workers - 1] + order[workers] if len(order) > workers else 0


@given(st.integers(0, 50), st.integers(1, 12))
def test_ranges_cover_all_once(n, blocks):
    found = [i for block in ranges(n, blocks) for i in range(n)[block]]
    assert found == list(range(n))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_iterations_lack_the_results_of_those_on_their_way(depth):
    program = Counting()
    found = tuskml.run_program(program, 0, [None, None], Dynamic(10, depth))
    assert found.model == found.iterations == 10
    assert program.seen == [max(0, t - depth + 1) for t in range(10)]


def test_no_jobs_wait_for_results_and_end_the_run_where_none_are_on_their_way():
    program = Counting(most_ahead=2)
    found = tuskml.run_program(program, 0, [None], Dynamic(10, 5))
    assert program.seen == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8][: len(program.seen)]
    assert found.model == len(program.seen)
    assert tuskml.run_program(Counting(0), 0, [None], Dynamic(10)).iterations == 0


@pytest.mark.parametrize("engine", [Static, Dynamic])
def test_after_ends_the_run(engine):
    heard = []

    def after(n, model):
        heard.append(n)
        return n == 3

    program, start = (Ring([1, 1]), []) if engine is Static else (Counting(), 0)
    found = tuskml.run_program(program, start, [[], []], engine(100, after=after))
    assert heard == [1, 2, 3]
    assert found.iterations == 3


class Wrong(Program):
    """Returns what it is given as its jobs; its updates fail."""

    def __init__(self, jobs):
        self.jobs = jobs

    def schedule(self, A, D):
        return self.jobs

    def update(self, p, S_p, D_p, A):
        raise KeyError(f"worker {p}")

    def aggregate(self, R, A):
        return A


@pytest.mark.parametrize(("jobs", "engine", "message"), [
    (7, Static(1), "schedule returned an object of type int, expected a list of jobs"),
    ([], Static(1), "schedule returned 0 jobs, expected at least one"),
    ([1], Dynamic(1), "schedule returned 1 jobs, expected 2, one per worker, or none"),
])  # fmt: skip
def test_jobs_that_no_engine_can_run_are_refused(jobs, engine, message):
    with pytest.raises(tuskml.OperatorError) as error:
        tuskml.run_program(Wrong(jobs), 0, [1, 2], engine)
    assert str(error.value) == message


@pytest.mark.parametrize("engine", [Static(3), Dynamic(3, 2)])
def test_what_a_function_of_the_program_raises_reaches_the_caller(engine):
    with pytest.raises(KeyError, match="worker"):
        tuskml.run_program(Wrong([1, 2]), 0, [1, 2], engine)
    with pytest.raises(ZeroDivisionError):
        tuskml.run_program(Wrong([1, 2]), 0, lambda p: 1 / p, engine, workers=2)


@pytest.mark.parametrize(("given", "message"), [
    ({"engine": 3}, r"engine is 3, expected Static\(rotations\) or Dynamic\(iterations\)"),
    ({"engine": Static(0)}, "rotations is 0, expected an integer of at least 1"),
    ({"engine": Dynamic(5, depth=1.5)}, "depth is 1.5, expected an integer of at least 1"),
    ({"D": 3}, "D is of type int, expected a list with the data of each worker"),
    ({"D": []}, "there are 0 workers, expected 1 to 1,024"),
    ({"D": [1], "workers": 2}, "workers is 2, but D has 1 parts"),
    ({"D": lambda p: p}, "D is a function, but workers is not given"),
    ({"executor": "thread"}, "executor is 'thread', .*did you mean 'threads'"),
])  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(given, message):
    call = {"program": Counting(), "A": 0, "D": [1], "engine": Dynamic(1)} | given
    with pytest.raises(tuskml.OptionError, match=message):
        tuskml.run_program(**call)


def test_a_run_is_cancelled():
    def after(n, model):
        tuskml.cancel()

    with pytest.raises(tuskml.Interrupted):
        tuskml.run_program(Counting(), 0, [1], Dynamic(10**9, after=after))
