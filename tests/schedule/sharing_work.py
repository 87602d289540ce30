"""Trainings that ask for eight threads and do nothing, for tests of shares."""

import ctypes
import threading
import time

from tuskml.schedule import pool, shares

CORES = 8


class Functions(ctypes.Structure):
    """`tusk_pool`."""

    TASK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
    RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int32, TASK, ctypes.c_void_p)
    _fields_ = (("run", RUN), ("on_worker", ctypes.c_void_p))


class Work:
    """A computation of a training: tasks of a millisecond on up to eight threads, until `stop`."""

    def __init__(self, task=b"logistic"):
        self.inside, self.most, self.stopped = 0, 0, False
        self.lock = threading.Lock()
        self.task = task

    def one(self, _, number):
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.001)
        with self.lock:
            self.inside -= 1
        return self.stopped  # a failure ends the tasks

    def run(self):
        functions = Functions.from_address(pool.functions().value)
        with shares.training(self.task, 3):
            shares.note_plan("newton")
            functions.run(10**9, CORES, Functions.TASK(self.one), None)

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped = True
        self.thread.join()


def until(holds, seconds=30):
    """Waits until it holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, shares.activity()
        time.sleep(0.005)


def of_activity(field):
    return [getattr(one, field) for one in shares.activity()]
