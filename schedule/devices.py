"""Turns at a GPU: one training of the host at a time has it.

Trainings wait in the order of their requests. A training gives the GPU back after a second if
others wait, between two iterations, and requests it again. A training whose turn does not come
within a minute shares the GPU with its holder, so that no training stops because of another. A
training that can run elsewhere limits its wait and gets BusyError.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tuskml.kernels.library import raise_if_cancelled
from tuskml.schedule import pool

TURN, PATIENCE, LOOK_EVERY = 1.0, 60.0, 0.005
"""Seconds: length of a turn while others wait; longest wait before the GPU is shared; polling
interval.
"""
Check = Callable[[], None]
"""Raises an error where the training was cancelled."""


class TurnError(Exception):
    """The training should go on elsewhere.

    weights: those reached so far, if any; iterations: number made so far.
    """

    weights: Any = None
    iterations: int = 0


class BusyError(TurnError):
    """The device stays busy for longer than the training is ready to wait."""


class FreeError(TurnError):
    """The device that a training would move to has become free."""


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
    """Gives the calling thread's training the device, from 1 on, in turn with others.

    patience: seconds of waiting in total, after which BusyError is raised; None: share the device
    with its holder instead.
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
    """Gives the calling thread's training the GPU until the context ends.

    mark: the result of `cancel_mark()`; a cancellation after it raises Interrupted during the
    wait. patience: as for `turn`.
    """
    with turn(lambda: raise_if_cancelled(mark), patience=patience):
        yield


def pass_on() -> None:
    """Lets others have the device between two iterations if they wait and the turn is over.

    Raises BusyError if they keep it for longer than the training is ready to wait.
    """
    if not _turn.device or time.monotonic() - _turn.began < TURN:
        return
    library = pool.library()
    if library.ts_device_wanted() and _turn.check is not None:
        library.ts_device_leave()
        _turn.patience = wait(_turn.check, _turn.device, _turn.patience)
    _turn.began = time.monotonic()


def wait(check: Check, device: int, patience: float | None) -> float | None:
    """Waits for the turn or the end of the patience; returns the seconds of patience left."""
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
    """Marks a training outside the device as ready to move there if it becomes free.

    least: seconds that the training must have left for a move to pay.
    """
    before, _turn.hope = _turn.hope, (device, least)
    try:
        yield
    finally:
        _turn.hope = before


def hopes() -> bool:
    """Returns whether the calling thread's training would move to a device that it does not
    have.
    """
    return _turn.hope is not None and not _turn.device


def look(left: float) -> None:
    """Raises FreeError between two iterations if moving to the device pays.

    left: estimated seconds of the training that remain.
    """
    if _turn.hope is not None and left >= _turn.hope[1] and is_free(_turn.hope[0]):
        raise FreeError


def is_free(device: int) -> bool:
    """Returns whether no training has the device or waits for it."""
    library = pool.library()
    if not library.ts_device_ask(device):
        return False
    try:
        return bool(library.ts_device_take())
    finally:
        library.ts_device_leave()
