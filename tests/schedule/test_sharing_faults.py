"""What goes wrong around shares of cores, with real processes: no training stops because of it."""

import ctypes
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from sharing_work import CORES, Functions, Work, of_activity, until

from tuskml.schedule import pool, shares

pytestmark = pytest.mark.native


@pytest.fixture(autouse=True)
def of_eight_cores(own_table):
    """All tests have a table of their own."""


PAGE = 16
"""Bytes before the first slot: the magic number and the generation."""
DEVICES = 16 * 8
"""Bytes after the last slot: who has which device."""


def table_at(path):
    """The table's bytes, and the size of a slot."""
    size = os.stat(path).st_size
    return np.memmap(path, np.uint8, "r+"), (size - PAGE - DEVICES) // shares.MOST


def fill(path, pid):
    """All slots are of a process."""
    table, size = table_at(path)
    slots = table[PAGE:-DEVICES].reshape(shares.MOST, size)
    slots[:, :8] = np.frombuffer(np.int64(pid).tobytes(), np.uint8)


def test_a_full_table_leaves_one_thread_and_a_place_comes_later(tmp_path):
    with Work():
        until(lambda: of_activity("share") == [CORES])
    fill(tmp_path / "table", os.getppid())  # which lives
    with Work() as one:
        until(lambda: one.inside >= 1)
        time.sleep(0.1)
        one.most = 0
        time.sleep(0.1)
        assert one.most == 1
        assert shares.activity() == []  # no slot says that it is ready
        fill(tmp_path / "table", 0)
        until(lambda: of_activity("share") == [CORES])
        until(lambda: one.inside > 4)


def test_slots_of_processes_that_ended_are_places(tmp_path):
    with Work():
        until(lambda: of_activity("share") == [CORES])
    ended = subprocess.Popen(["true"])
    ended.wait()
    fill(tmp_path / "table", ended.pid)
    with Work() as one:
        until(lambda: of_activity("pid") == [os.getpid()])
        until(lambda: one.inside > 4)


def test_a_training_whose_slot_was_taken_away_finds_another(tmp_path):
    with Work() as one:
        until(lambda: of_activity("share") == [CORES])
        table, size = table_at(tmp_path / "table")
        table[PAGE : PAGE + size] = 0
        until(lambda: of_activity("share") == [CORES])
        with Work(b"gbdt"):
            until(lambda: of_activity("share") == [4, 4])
            until(lambda: one.inside <= 4)
    assert shares.activity() == []


def test_a_slot_that_is_another_training_s_by_now_stays(tmp_path):
    with Work() as one:
        until(lambda: of_activity("share") == [CORES])
        table, size = table_at(tmp_path / "table")
        slot = table[PAGE : PAGE + size]
        slot[:8] = np.frombuffer(np.int64(os.getppid()).tobytes(), np.uint8)
        slot[8:16] = 0  # began: unknown
        one.stopped = True
        one.thread.join()
        assert of_activity("pid") == [os.getppid()]


@pytest.mark.parametrize("seed", range(3))
def test_garbage_in_the_table_stops_nothing(tmp_path, seed):
    draws = np.random.default_rng(seed)
    with Work() as one:
        until(lambda: of_activity("share") == [CORES])
        table, _ = table_at(tmp_path / "table")
        table[8:] = draws.integers(0, 256, len(table) - 8, np.uint8)
        one.most = 0
        until(lambda: one.most >= 1)
        for found in shares.activity():
            assert found.share >= 0
            assert found.progress is None or 0 <= found.progress <= 1
        table[8:] = 0
        until(lambda: of_activity("share") == [CORES])


@pytest.mark.parametrize("by", [3e9, -3e9], ids=["ahead", "behind"])
def test_a_clock_that_is_set_changes_nothing(tmp_path, monkeypatch, by):
    """Times in the table are of the monotonic clock; here of one that is wrong by a century."""
    with Work() as one:
        until(lambda: of_activity("share") == [CORES])
        table, _ = table_at(tmp_path / "table")
        began = table[PAGE + 40 : PAGE + 48].view(np.float64)
        assert abs(began[0] - time.monotonic()) < 60
        began[0] += by
        with Work(b"gbdt"):
            until(lambda: set(of_activity("share")) <= {4, CORES} and len(shares.activity()))
            one.most = 0
            until(lambda: one.most >= 1)
        assert all(found.seconds >= 0 for found in shares.activity())


SEVERAL = """
import sys
sys.path.insert(0, sys.argv[1])
import sharing_work
from tuskml.schedule import budget, pool
budget.processors = lambda: sharing_work.CORES
with sharing_work.Work(b"poisson"):
    sharing_work.until(lambda: sharing_work.shares.activity())
    print("begun", flush=True)
    sys.stdin.read()
"""


def begin():
    command = [sys.executable, "-c", SEVERAL, os.path.dirname(__file__)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.nightly
def test_all_of_several_killed_at_once(tmp_path):
    others = [begin() for _ in range(4)]
    try:
        for other in others:
            assert other.stdout.readline() == b"begun\n"
        with Work() as own:
            until(lambda: of_activity("share") == pytest.approx([8 / 5] * 5))
            for other in others:
                other.send_signal(signal.SIGKILL)
            until(lambda: own.inside > 4)  # though nobody has waited for them
            until(lambda: of_activity("task") == ["logistic"])
    finally:
        for other in others:
            other.kill()
            other.communicate()


def test_a_stopped_process_keeps_its_share(tmp_path):
    """It may go on at any time."""
    other = begin()
    try:
        assert other.stdout.readline() == b"begun\n"
        other.send_signal(signal.SIGSTOP)
        with Work() as own:
            until(lambda: of_activity("share") == [4, 4])
            until(lambda: own.inside >= 1)
        other.send_signal(signal.SIGCONT)
        until(lambda: of_activity("share") == [CORES])
    finally:
        other.kill()
        other.communicate()


@pytest.fixture
def of_group(tmp_path):
    """A table of a group, in a folder that everybody may enter."""
    if os.geteuid():
        pytest.skip("only root takes other accounts")
    path = f"/dev/shm/tuskml-test-{os.getpid()}"
    with open(path, "w"):
        os.chown(path, 0, 4321)
        os.chmod(path, 0o660)
    yield path
    os.unlink(path)


def trains_as(user, group):
    """A child of another account that trains until it is killed; None in the child, never."""
    told, tells = os.pipe()
    child = os.fork()
    if child:
        os.close(tells)
        with open(told, "rb") as pipe:
            assert pipe.read(1) == b"."
        return child
    try:
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
        with Work(b"poisson"):
            until(lambda: "poisson" in of_activity("task"))
            os.write(tells, b".")
            signal.pause()
    finally:
        os._exit(1)


def test_two_users_of_a_group_share(of_group, monkeypatch):
    monkeypatch.setenv(shares.SETTING, of_group)
    child = trains_as(12345, 4321)
    try:
        with Work() as own:
            until(lambda: of_activity("share") == [4, 4])
            until(lambda: own.inside <= 4)
            os.kill(child, signal.SIGKILL)
            until(lambda: own.inside > 4)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_table_that_everybody_may_write_is_not_used(of_group, monkeypatch):
    os.chmod(of_group, 0o666)
    os.chown(of_group, 999, 4321)
    monkeypatch.setenv(shares.SETTING, of_group)
    with pytest.raises(Exception, match="Operation not permitted"):
        shares.activity()
    with Work() as one:
        until(lambda: one.inside > 4)


def test_a_table_that_nobody_named_is_of_the_account(monkeypatch):
    """Whoever shares a group with an account cannot make the table that this one takes by itself:
    its owner could make the file shorter, which ends all who have it mapped."""
    if os.geteuid():
        pytest.skip("only root takes other accounts")
    user, group = 12346, 4321
    path = f"/dev/shm/tuskml-shares-4-{user}"
    with open(path, "wb") as made:
        os.chown(path, 999, group)
        os.chmod(path, 0o660)
        made.truncate(1 << 20)
    monkeypatch.delenv(shares.SETTING)
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)
            shares.activity()
        except Exception as error:  # pytest's own must not run here
            os._exit(7 if "Operation not permitted" in str(error) else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    os.unlink(path)
    assert os.waitstatus_to_exitcode(status) == 7


def test_the_account_s_own_table_is_nobody_else_s(monkeypatch, tmp_path):
    with Work():
        until(lambda: of_activity("share") == [CORES])
    assert stat.S_IMODE(os.stat(tmp_path / "table").st_mode) == 0o600


def test_threads_that_begin_and_end_all_the_time(tmp_path):
    """A hundred trainings in eight threads, while the table is listed."""
    functions = Functions.from_address(pool.functions().value)
    task = Functions.TASK(lambda *_: time.sleep(0.001) or 0)
    left = [100]

    def train():
        while left[0] > 0:
            left[0] -= 1
            with shares.training(b"linear", 1):
                time.sleep(0.021)
                functions.run(20, CORES, task, None)

    threads = [threading.Thread(target=train) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for one in shares.activity():
            assert 0 < one.share <= CORES
    assert shares.activity() == []
    assert ctypes.sizeof(shares.Slot) % 8 == 0


FULL = """
import resource, signal, sys
sys.path.insert(0, sys.argv[1])
import sharing_work
from tuskml.errors import TuskError
from tuskml.schedule import budget, pool, shares
budget.processors = lambda: sharing_work.CORES
if sys.argv[2] == "limit":
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))
with sharing_work.Work() as one:
    sharing_work.until(lambda: one.inside > 4)
    try:
        print(shares.activity(), flush=True)
    except TuskError as error:
        print(error, flush=True)
sys.stdin.readline()
if sys.argv[2] == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
with sharing_work.Work() as one:
    sharing_work.until(lambda: sharing_work.of_activity("share") == [sharing_work.CORES])
print("shares", flush=True)
"""


def check_full(how, room):
    """A training goes on without a table, and the next one has one when there is room."""
    command = [sys.executable, "-c", FULL, os.path.dirname(__file__), how]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "[]\n", "nobody is listed, and nothing fails"
        room()
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "shares\n"


def test_a_file_that_cannot_grow_is_no_reason_to_fail():
    check_full("limit", lambda: None)


def test_a_full_memory_disk_is_no_reason_to_fail(tmp_path, monkeypatch):
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root mounts a disk, where it may")
    try:
        (folder / "large").write_bytes(bytes((1 << 20) - 4096))
        monkeypatch.setenv(shares.SETTING, str(folder / "table"))
        check_full("disk", (folder / "large").unlink)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
