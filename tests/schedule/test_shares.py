"""Shares of cores between trainings of several processes."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from sharing_work import CORES, Functions, Work, of_activity, until

from tuskml.errors import TuskError
from tuskml.groups.selection.lanes import side_by_side
from tuskml.schedule import pool, shares

pytestmark = pytest.mark.native


@pytest.fixture(autouse=True)
def of_eight_cores(own_table):
    """All tests have a table of their own."""


def test_threads_leave_and_come_back():
    with Work() as first:
        until(lambda: of_activity("share") == [8])
        until(lambda: first.inside > 4)
        with Work(b"gbdt"):
            until(lambda: of_activity("share") == [4, 4])
            assert of_activity("task") == ["logistic", "gbdt"]
            assert of_activity("plan") == ["newton", "newton"]
            until(lambda: first.inside <= 4)
            first.most = 0
            time.sleep(0.1)
            assert 1 <= first.most <= 4
        until(lambda: of_activity("share") == [8])
        until(lambda: first.inside > 4)
    assert shares.activity() == []


class Lanes(Work):
    """The same in two threads, side by side."""

    def __init__(self, threads):
        super().__init__()
        self.threads = threads

    def lane(self, _):
        functions = Functions.from_address(pool.functions().value)
        functions.run(10**9, self.threads, Functions.TASK(self.one), None)

    def run(self):
        with shares.training(self.task, 3):
            side_by_side(self.lane, [None, None], 2 * self.threads, threading.Event())


def test_threads_of_one_training_have_its_share_in_common():
    with Lanes(4) as first:
        until(lambda: of_activity("wanted") == [8])
        until(lambda: first.inside > 4)
        with Work(b"gbdt"):
            until(lambda: of_activity("share") == [4, 4])
            until(lambda: first.inside <= 4)
            first.most = 0
            time.sleep(0.1)
            assert 2 <= first.most <= 4
        until(lambda: first.inside > 4)
    assert shares.activity() == []


def test_threads_that_compute_alone_have_an_entry():
    with Lanes(1):
        until(lambda: of_activity("wanted") == [2])


def test_a_young_training_has_no_entry():
    functions = Functions.from_address(pool.functions().value)
    with shares.training(b"linear", 1):
        functions.run(10, CORES, Functions.TASK(lambda *_: 0), None)
        assert shares.activity() == []


def test_the_outermost_training_counts():
    functions = Functions.from_address(pool.functions().value)
    with shares.training(b"logistic", 5):
        with shares.training(b"linear", 1):
            time.sleep(0.05)
            functions.run(10, CORES, Functions.TASK(lambda *_: 0), None)
        shares.progress(2)
        shares.progress(1)
        assert of_activity("task") == ["logistic"]
        assert of_activity("groups") == [5]
        assert of_activity("done") == [3]
    assert shares.activity() == []


OTHER = """
import sys
sys.path.insert(0, sys.argv[1])
import sharing_work
from tuskml.schedule import budget, pool
budget.processors = lambda: sharing_work.CORES
with sharing_work.Work(b"poisson"):
    print("begun", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other():
    """Another process that trains; it ends when its input does."""
    folder = os.path.dirname(__file__)
    command = [sys.executable, "-c", OTHER, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"begun\n"
        yield process
        process.stdin.close()
        process.wait()


def test_trainings_of_two_processes(other):
    until(lambda: of_activity("share") == [8])
    assert of_activity("pid") == [other.pid]
    with Work() as own:
        until(lambda: of_activity("share") == [4, 4])
        assert of_activity("task") == ["poisson", "logistic"]
        until(lambda: own.inside <= 4)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_leaves_its_share(other, how):
    until(lambda: of_activity("task") == ["poisson"])
    with Work() as own:
        until(lambda: of_activity("share") == [4, 4])
        other.send_signal(how)
        other.wait()
        until(lambda: own.inside > 4)  # by the training's own look
        assert of_activity("task") == ["logistic"]


def test_an_entry_of_an_earlier_process_of_that_number_is_removed(tmp_path):
    """Numbers of processes are given again."""
    later = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with later, Work():
        until(lambda: of_activity("share") == [8])
        entry = np.fromfile(tmp_path / "table", np.int64)
        place = int(np.flatnonzero(entry == os.getpid())[0])
        table = np.memmap(tmp_path / "table", np.int64, "r+")
        size = (len(entry) - 2) // shares.MOST
        forged = slice(place + size, place + 2 * size)
        table[forged] = table[place : place + size]
        table[forged.start] = later.pid  # which began later than the entry says
        until(lambda: of_activity("pid") == [os.getpid()])
        assert later.poll() is None
        later.stdin.close()


def test_a_child_has_none_of_its_parent_s_entries():
    functions = Functions.from_address(pool.functions().value)
    with shares.training(b"logistic", 1):
        time.sleep(0.05)
        functions.run(10, CORES, Functions.TASK(lambda *_: 0), None)
        child = os.fork()
        if not child:
            shares.progress(1)
            with shares.training(b"gbdt", 1):
                time.sleep(0.05)
                functions.run(10, CORES, Functions.TASK(lambda *_: 0), None)
                good = of_activity("task") == ["logistic", "gbdt"]
            os._exit(0 if good and of_activity("done") == [0] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert of_activity("task") == ["logistic"]


def test_off(monkeypatch):
    monkeypatch.setenv(shares.SETTING, "off")
    with Work() as one:
        until(lambda: one.inside > 4)
        with Work():
            one.most = 0
            until(lambda: one.most > 4)
        with pytest.raises(TuskError, match="TUSKML_SHARES is 'off'"):
            shares.activity()


@pytest.mark.parametrize("content", [b"x" * 200_000, None], ids=["not a table", "a link"])
def test_a_table_that_cannot_be_had_is_no_reason_to_fail(tmp_path, monkeypatch, content):
    bad = tmp_path / "bad"
    if content is None:
        bad.symlink_to(tmp_path / "elsewhere")
    else:
        bad.write_bytes(content)
    monkeypatch.setenv(shares.SETTING, str(bad))
    with Work() as one:
        until(lambda: one.inside > 4, 30) if content else time.sleep(0.05)
    with pytest.raises(TuskError, match="cannot be opened"):
        shares.activity()
    assert not (tmp_path / "elsewhere").exists()


def test_a_table_of_somebody_else_is_not_used(tmp_path, monkeypatch):
    if os.geteuid():
        pytest.skip("only root gives files away")
    theirs = tmp_path / "theirs"
    theirs.touch()
    os.chown(theirs, 12345, 12345)
    monkeypatch.setenv(shares.SETTING, str(theirs))
    with pytest.raises(TuskError, match="Operation not permitted"):
        shares.activity()
