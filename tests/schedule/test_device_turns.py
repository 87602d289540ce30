"""Turns at a GPU: one training at a time, in the order in which they asked, and nobody stops."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from sharing_work import of_activity, until

from tuskml.errors import Interrupted
from tuskml.schedule import devices, shares

pytestmark = pytest.mark.native


@pytest.fixture(autouse=True)
def of_eight_cores(own_table):
    """All tests have a table of their own."""


def never():
    """Nobody cancels."""


class Holder:
    """A training that has the device until it is let go, or waits for it."""

    def __init__(self, check=never, device=1):
        self.check, self.device = check, device
        self.has, self.go, self.failed = threading.Event(), threading.Event(), None

    def run(self):
        with shares.training(b"mlp", 1):
            try:
                with devices.turn(self.check, self.device):
                    self.has.set()
                    while not self.go.wait(0.001):
                        devices.pass_on()
            except Interrupted as error:
                self.failed = error

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.go.set()
        self.thread.join()


def waits():
    """Whether each training waits for a device, the oldest first."""
    return [bool(one.device) and not one.has_device for one in shares.activity()]


def test_one_after_another_in_the_order_of_their_asking(monkeypatch):
    monkeypatch.setattr(devices, "TURN", 60.0)
    with Holder() as first:
        assert first.has.wait(30)
        with Holder() as second:
            until(lambda: waits() == [False, True])
            with Holder() as third:
                until(lambda: waits() == [False, True, True])
                assert of_activity("number") == sorted(of_activity("number"))
                assert not second.has.is_set()
                assert not third.has.is_set()
                first.go.set()
                assert second.has.wait(30)
                assert not third.has.wait(0.1)
                second.go.set()
                assert third.has.wait(30)
    assert shares.activity() == []


def test_devices_are_apart():
    with Holder(device=1) as first, Holder(device=2) as second:
        assert first.has.wait(30)
        assert second.has.wait(30)


def test_a_turn_that_others_wait_for_ends_and_comes_again(monkeypatch):
    monkeypatch.setattr(devices, "TURN", 0.02)
    with Holder() as first:
        assert first.has.wait(30)
        with Holder() as second:
            assert second.has.wait(30), "though the first one goes on"
            seen = set()
            until(lambda: seen.add(tuple(waits())) or {(True, False), (False, True)} <= seen)


def test_who_is_cancelled_waits_no_longer():
    cancelled = threading.Event()

    def check():
        if cancelled.is_set():
            raise Interrupted("the training was interrupted")

    with Holder() as first:
        assert first.has.wait(30)
        with Holder(check) as second:
            until(lambda: waits() == [False, True])
            cancelled.set()
            second.thread.join(30)
            assert second.failed is not None
            assert of_activity("has_device") == [True]


def test_who_can_train_elsewhere_is_told_that_it_is_busy():
    with Holder() as first:
        assert first.has.wait(30)
        with (
            shares.training(b"logistic", 1),
            pytest.raises(devices.BusyError),
            devices.turn(never, patience=0.01),
        ):
            pytest.fail("it is the first one's")
        assert waits() == [False], "it waits no longer"
    with shares.training(b"logistic", 1), devices.turn(never, patience=0.0):
        assert of_activity("has_device") == [True], "nobody else wants it"


def test_patience_ends(monkeypatch):
    monkeypatch.setattr(devices, "PATIENCE", 0.05)
    with Holder() as first:
        assert first.has.wait(30)
        with Holder() as second:
            assert second.has.wait(30), "beside the first one, which still has it"
            assert waits() == [False, True]


def test_without_a_table_nobody_waits(monkeypatch):
    monkeypatch.setenv(shares.SETTING, "off")
    with Holder() as first, Holder() as second:
        assert first.has.wait(30)
        assert second.has.wait(30)


def test_a_second_turn_within_the_first_is_the_same():
    with shares.training(b"mlp", 1), devices.turn(never):
        with devices.turn(never):
            assert of_activity("has_device") == [True]
        assert of_activity("has_device") == [True]
    assert shares.activity() == []


OTHER = """
import sys
from tuskml.schedule import devices, shares
with shares.training(b"mlp", 1), devices.turn(lambda: None):
    print("begun", flush=True)
    sys.stdin.read()
"""


def test_a_killed_process_leaves_the_device():
    with subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"begun\n"
        with Holder() as own:
            until(lambda: waits() == [False, True])
            other.send_signal(signal.SIGKILL)
            other.wait()
            assert own.has.wait(30)
            assert of_activity("pid") == [os.getpid()]


@pytest.mark.parametrize("seed", range(3))
def test_garbage_in_the_table_stops_nothing(tmp_path, seed):
    draws = np.random.default_rng(seed)
    with Holder() as first:
        assert first.has.wait(30)
        table = np.memmap(tmp_path / "table", np.uint8, "r+")
        table[16:-128] = 0
        table[-128:] = draws.integers(0, 256, 128, np.uint8)  # who has which device
        with Holder() as second:
            assert second.has.wait(30)
    assert all(one.share >= 1 for one in shares.activity())
