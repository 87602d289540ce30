"""Turns at a GPU: one training of the host at a time has it.

Trainings that wait get it in the order in which they asked. One that others wait for gives it back
after a second, between two iterations, and asks again. A training whose turn does not come within
a minute goes on beside the one that has the GPU, so that no training stops because of another. One
that can train elsewhere says how long it waits, and is told that the GPU is busy.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tuskml.kernels.library import raise_if_cancelled
from tuskml.schedule import pool

TURN, PATIENCE, LOOK_EVERY = 1.0, 60.0, 0.005
"""Seconds: of a turn that others wait for, until a training goes on beside, between two looks."""
Check = Callable[[], None]
"""Raises an error where the training was cancelled."""


class TurnError(Exception):
    """A training is to go on elsewhere.

    weights: those that it has reached until then, if any; iterations: that it has made.
    """

    weights: Any = None
    iterations: int = 0


class BusyError(TurnError):
    """Others have the device for longer than a training waits."""


class FreeError(TurnError):
    """Nobody has the device that a training hopes for."""


class Turn(threading.local):
    """A turn at the device for the calling thread's training; device 0: none."""

    device: int = 0
    began: float = 0.0
    check: Check | None = None
    patience: float | None = None
    hope: tuple[int, float] | None = None


_turn = Turn()


@contextmanager
def turn(check: Check, device: int = 1, patience: float | None = None) -> Iterator[None]:
    """The calling thread's training has the device, from 1 on, in turn with those of others.

    patience: seconds of all its waits, after which BusyError is raised; None: it goes on beside
    the one that has the device.
    """
    if _turn.device:
        yield
        return
    _turn.patience = wait(check, device, patience)
    _turn.device, _turn.began, _turn.check = device, time.monotonic(), check
    try:
        yield
    finally:
        _turn.device = 0
        pool.library().ts_device_leave()


@contextmanager
def gpu_in_turn(mark: int, patience: float | None = None) -> Iterator[None]:
    """The calling thread's training has the GPU until the context ends.

    mark: of `cancel_mark()`, by which it is seen that the training is cancelled while it waits,
    which raises Interrupted; patience: as of `turn`.
    """
    with turn(lambda: raise_if_cancelled(mark), patience=patience):
        yield


def pass_on() -> None:
    """Between two iterations: lets others have the device, where they wait and a turn is over.

    BusyError where they have it for longer than the training waits.
    """
    if not _turn.device or time.monotonic() - _turn.began < TURN:
        return
    library = pool.library()
    if library.ts_device_wanted() and _turn.check is not None:
        library.ts_device_leave()
        _turn.patience = wait(_turn.check, _turn.device, _turn.patience)
    _turn.began = time.monotonic()


def wait(check: Check, device: int, patience: float | None) -> float | None:
    """Until it is the training's turn, or its patience ends; returns what is left of that."""
    library = pool.library()
    if not library.ts_device_ask(device):
        return patience
    end = time.monotonic() + (PATIENCE if patience is None else min(patience, PATIENCE))
    try:
        while not library.ts_device_take():
            if time.monotonic() >= end:
                if patience is None:
                    return None
                raise BusyError
            check()
            time.sleep(LOOK_EVERY)
    except BaseException:
        library.ts_device_leave()
        raise
    return None if patience is None else max(end - time.monotonic(), 0.0)


@contextmanager
def hoping(least: float, device: int = 1) -> Iterator[None]:
    """The calling thread's training, which is elsewhere, would go on at a free device, as long as
    it has at least a given number of seconds left.
    """
    before, _turn.hope = _turn.hope, (device, least)
    try:
        yield
    finally:
        _turn.hope = before


def hopes() -> bool:
    """Returns whether the calling thread's training would go on at a device that it does not
    have.
    """
    return _turn.hope is not None and not _turn.device


def look(left: float) -> None:
    """Between two iterations of a training that hopes, with a given number of seconds left:
    FreeError where it is better off at the device.
    """
    if _turn.hope is not None and left >= _turn.hope[1] and is_free(_turn.hope[0]):
        raise FreeError


def is_free(device: int) -> bool:
    """Returns whether nobody has the device or waits for it."""
    library = pool.library()
    if not library.ts_device_ask(device):
        return False
    try:
        return bool(library.ts_device_take())
    finally:
        library.ts_device_leave()
