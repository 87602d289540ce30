"""Turns of trainings at the cores, by a clock of the test and by real ones."""

import ctypes
import heapq
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sharing_work import Functions, of_activity, until

import tuskml
from tuskml.schedule import pool, shares
from tuskml.schedule.declared import Interface

pytestmark = pytest.mark.native

TABLE = Interface(Path(pool.__file__).parent).dtype("tusk_table")
POLL = 0.001


@dataclass
class Training:
    """A training in a simulation: units that take so many seconds on so many threads.

    gap: seconds without a computation after each unit of the last thread; units: number that have
    ended; waits: the longest time without a thread.
    """

    weight: float = 1.0
    wanted: int = 1
    unit: float = 0.001
    begins: float = 0.0
    ends: float = np.inf
    gap: float = 0.0
    units: int = 0
    running: int = 0
    waits: float = 0.0
    since: float = 0.0
    idle: bool = False
    ended: list = field(default_factory=list)

    @property
    def seconds(self):
        """Seconds of threads."""
        return self.units * self.unit


class Host:
    """Cores at which trainings take turns by the product's own functions, in simulated time."""

    def __init__(self, cores, *trainings):
        self.cores, self.trainings = cores, trainings
        self.table = np.zeros(1, TABLE)
        self.library = pool.library()
        self.events, self.most = [], 0
        for place, one in enumerate(trainings):
            heapq.heappush(self.events, (one.begins, place, "begin"))

    def slot(self, place):
        return self.table[0]["slots"][place]

    def run(self, until):
        """Lets time pass."""
        while self.events and self.events[0][0] <= until:
            now, place, what = heapq.heappop(self.events)
            one, slot = self.trainings[place], self.slot(place)
            if what == "begin":
                self.begin(place, now)
            elif what == "unit":
                one.running -= 1
                one.units += 1
                one.ended.append(now)
                if now >= one.ends:
                    slot["pid"] = 0
                    continue
                if one.gap and not one.running:
                    self.pause(place, now)
                    continue
            if slot["pid"] and not one.idle:
                self.take(place, now)
        return self

    def begin(self, place, now):
        one, slot = self.trainings[place], self.slot(place)
        slot["pid"], slot["ready"] = os.getpid(), 1
        slot["weight"], slot["wanted"], slot["began"] = one.weight, one.wanted, now
        self.compute(place, now)

    def compute(self, place, now):
        one = self.trainings[place]
        table = ctypes.c_void_p(self.table.ctypes.data)
        self.library.ts_begin_computing(table, place, one.wanted, now)
        self.slot(place)["inside"], one.idle, one.since = 1, False, now

    def pause(self, place, now):
        one, slot = self.trainings[place], self.slot(place)
        slot["active_at"], slot["inside"], one.idle = now, 0, True
        heapq.heappush(self.events, (now + one.gap, place, "go on"))
        one.idle = "pauses"

    def take(self, place, now):
        """A thread between two units, or a training that waits."""
        one = self.trainings[place]
        table = ctypes.c_void_p(self.table.ctypes.data)
        held = self.library.ts_take_turn(table, place, self.cores, now)
        if held and not one.running:
            one.waits = max(one.waits, now - one.since)
        while one.running < min(held, one.wanted):
            one.running += 1
            heapq.heappush(self.events, (now + one.unit, place, "unit"))
        self.most = max(self.most, sum(other.running for other in self.trainings))
        if not one.running:
            heapq.heappush(self.events, (now + POLL, place, "wait"))
        else:
            one.since = now


def test_weights_decide_where_cores_are_few():
    heavy, light = Training(100, 2, 0.005), Training(1, 2, 0.005)
    Host(2, heavy, light).run(60)
    assert heavy.units / light.units == pytest.approx(100, rel=0.1)
    assert heavy.units + light.units == pytest.approx(2 * 60 / 0.005, rel=0.02)
    assert light.waits < 10, "it has a turn of 0.05 s in 5 s"


def test_long_units_count_by_their_length():
    """A unit of 0.3 s is longer than a turn, and nothing interrupts it."""
    one, other = Training(3, 1, 0.3), Training(1, 1, 0.02)
    Host(1, one, other).run(100)
    assert one.seconds / other.seconds == pytest.approx(3, rel=0.1)


def test_a_lone_training_has_all_cores_and_never_waits():
    alone = Training(0.01, 4)
    Host(4, alone).run(1)
    assert alone.waits == 0
    assert alone.units == pytest.approx(4 * 1 / 0.001, rel=0.01)


def test_a_training_that_ends_leaves_its_share_at_once():
    one, other = Training(10, 2, ends=1.0), Training(1, 2)
    Host(2, one, other).run(2)
    last = np.diff([at for at in other.ended if at > 1.01])
    assert len(last) == pytest.approx(2 * 0.99 / 0.001, rel=0.01)


def test_one_that_does_not_compute_leaves_its_share_meanwhile():
    """An idle core gives all to the training that can use it."""
    pauses, other = Training(100, 1, 0.001, gap=0.1), Training(1, 1)
    Host(1, pauses, other).run(20)
    assert other.seconds > 0.8 * 20


def test_one_that_comes_later_has_its_share_from_then_on():
    """What others had before does not count against them."""
    first, later = Training(1, 1), Training(1, 1, begins=10.0)
    Host(1, first, later).run(20)
    assert later.seconds == pytest.approx(5, rel=0.05)


trainings = st.builds(
    Training,
    weight=st.floats(0.05, 20),
    wanted=st.integers(1, 4),
    unit=st.floats(0.004, 0.04),
)


@settings(max_examples=20, deadline=None)
@given(st.lists(trainings, min_size=1, max_size=6), st.integers(1, 4))
@example([Training(1, 2, 0.003) for _ in range(3)], 2)
@example([Training(weight, 2, 0.01) for weight in (1, 2, 3, 4)], 2)
def test_each_has_its_max_min_share_of_the_time(given, cores):
    for one in given:
        one.units, one.running, one.ended = 0, 0, []
    seconds = 40.0
    host = Host(cores, *given).run(seconds)
    share = shares.max_min([one.wanted for one in given], [one.weight for one in given], cores)
    total = min(cores, sum(one.wanted for one in given)) * seconds
    assert sum(one.seconds for one in given) > 0.95 * total, "no core is idle"
    assert host.most <= cores + len(given), "units do not overlap, but for those that end late"
    for one, of_it in zip(given, share, strict=True):
        lag = of_it * seconds - one.seconds
        assert abs(lag) < 0.05 * total / len(given) + 0.3, (lag, of_it)


@given(
    asked=st.lists(st.tuples(st.integers(1, 12), st.floats(0.1, 10)), min_size=1, max_size=8),
    cores=st.integers(1, 40),
)
def test_no_share_can_grow_without_a_smaller_one_that_shrinks(asked, cores):
    wanted, weight = (np.array(one) for one in zip(*asked, strict=True))
    share = shares.max_min(wanted, weight, cores)
    assert (share > 0).all()
    assert (share <= wanted + 1e-9).all()
    assert share.sum() == pytest.approx(min(cores, wanted.sum()))
    level = (share / weight)[share < wanted - 1e-9]
    if len(level):  # who wants more has as much per weight as anybody
        assert level == pytest.approx(np.full(len(level), (share / weight).max()))


class Units:
    """A training of tasks of a millisecond on the threads of this process, which it counts."""

    def __init__(self, weight, threads=1):
        self.host = shares.Host(weight=weight)
        self.threads, self.units, self.stopped = threads, 0, False
        self.thread = threading.Thread(target=self.run)

    def task(self, *_):
        end = time.thread_time() + 0.001
        while time.thread_time() < end:
            pass
        self.units += 1
        return self.stopped

    def run(self):
        functions = Functions.from_address(pool.functions().value)
        with shares.training(b"logistic", 1, self.host):
            functions.run(10**9, self.threads, Functions.TASK(self.task), None)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped = True
        self.thread.join()


@pytest.fixture
def one_core(own_table, monkeypatch):
    monkeypatch.setattr(shares.budget, "processors", lambda: 1)


def test_units_of_two_trainings_of_a_process(one_core):
    with Units(10.0) as heavy, Units(1.0) as light:
        until(lambda: of_activity("wanted") == [1, 1])
        before = heavy.units, light.units
        until(lambda: heavy.units + light.units > sum(before) + 2000, 120)
        had = heavy.units - before[0], light.units - before[1]
        assert of_activity("share") == pytest.approx([10 / 11, 1 / 11])
        ran = of_activity("core_seconds")
    assert had[0] > 5 * had[1] > 0
    assert ran[0] > 3 * ran[1] > 0


OTHER = """
import sys
sys.path.insert(0, sys.argv[1])
import test_turns
from tuskml.schedule import budget
budget.processors = lambda: 1
with test_turns.Units(float(sys.argv[2])) as one:
    print("begun", flush=True)
    while sys.stdin.readline():
        print(one.units, flush=True)
"""


class Other:
    """Such a training in another process."""

    def __init__(self, weight):
        command = [sys.executable, "-c", OTHER, os.path.dirname(__file__), str(weight)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __enter__(self):
        assert self.process.stdout.readline() == "begun\n"
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    @property
    def units(self):
        self.process.stdin.write("\n")
        return int(self.process.stdout.readline())


def test_units_of_two_processes(one_core):
    with Other(10.0) as heavy, Other(1.0) as light:
        until(lambda: of_activity("wanted") == [1, 1])
        before = heavy.units, light.units
        until(lambda: heavy.units > before[0] + 1500, 120)
        had = heavy.units - before[0], light.units - before[1]
        assert had[0] > 4 * had[1] > 0
        heavy.process.send_signal(signal.SIGKILL)
        heavy.process.wait()
        alone = light.units
        until(lambda: light.units > alone + 300, 60)


LONG = """SELECT train_model('logistic', y, x,
    '{"algorithm": "bgd", "epsilon": 0, "max_iter": 100000000, "step": 0.001 MORE}') FROM t"""


def train(con, more, found):
    try:
        found.append(con.execute(LONG.replace("MORE", more)).fetchone()[0])
    except Exception as error:
        found.append(error)
    found.append(time.monotonic())


@pytest.fixture
def two(one_core):
    """Two connections, the second of which has a ten-thousandth of the weight, with a table."""
    with tuskml.connect() as heavy, tuskml.connect() as light:
        for con, weight in ((heavy, 100), (light, 0.01)):
            con.execute(f"SELECT tuskml_set_weight({weight})")
            con.execute("CREATE TABLE t AS SELECT i % 2 AS y, [i % 7, 1 / i] AS x FROM "
                        "range(1, 200001) r(i)")  # fmt: skip
        heavy.execute(LONG.replace("100000000", "1").replace("MORE", ""))  # which imports
        yield heavy, light


def side_by_side(two, more, act):
    """Trains in both connections, the heavy one first; act() once both train."""
    found, threads = ([], []), []
    for con, each in zip(two, found, strict=True):
        threads.append(threading.Thread(target=train, args=(con, more, each)))
        threads[-1].start()
        until(lambda: len(shares.activity()) == len(threads))
    time.sleep(0.3)
    act()
    for thread in threads:
        thread.join()
    return found


def test_a_training_that_waits_is_cancelled(two):
    began = []

    def cancel():
        assert min(of_activity("share")) < 0.001
        began.append(time.monotonic())
        tuskml.cancel()

    for error, ended in side_by_side(two, "", cancel):
        assert "interrupted" in str(error).lower()
        assert ended - began[0] < 0.2 + 0.3, "0.2 s, and what a busy machine takes"


def test_a_training_that_waits_ends_by_its_time(two):
    """In the same seconds the heavy one makes more iterations."""
    began = time.monotonic()
    (heavy, _), (light, ended) = side_by_side(two, ', "time": "3s"', lambda: None)
    assert (heavy["status"], light["status"]) == ("time limit", "time limit")
    assert heavy["iterations"] > 3 * light["iterations"]
    assert ended - began < 3 + 5, "and what a busy machine takes"
