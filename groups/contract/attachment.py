"""The trainer as a database's library calls it: the batch (`udas/rowblock/batch.h`) and callbacks.

What trains is imported for the first batch, so that a connection without a training starts fast.
"""

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any

from tuskml.groups.contract.refusal import refuse
from tuskml.kernels import kernels_path
from tuskml.schedule.pool import hold_in_forks


class _Spec(ctypes.Structure):
    _fields_ = [("task", ctypes.c_char_p), ("options", ctypes.c_char_p)]


class _Batch(ctypes.Structure):
    _fields_ = [
        ("n_groups", ctypes.c_int64),
        ("groups", ctypes.c_void_p),
        ("spec", ctypes.POINTER(ctypes.c_int32)),
        ("specs", ctypes.POINTER(_Spec)),
        ("n_specs", ctypes.c_int32),
        ("request", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("memory", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("error", ctypes.c_char * 1024),
        ("sqlstate", ctypes.c_char * 8),
        ("store_root", ctypes.c_char_p),
        ("statement", ctypes.c_int64),
        ("answered", ctypes.c_int32),
        ("began", ctypes.c_double),
        ("most_threads", ctypes.c_int32),
        ("unshared", ctypes.c_int32),
        ("weight", ctypes.c_double),
        ("program", ctypes.c_char_p),
        ("flaws", ctypes.POINTER(ctypes.c_char_p)),
        ("labels", ctypes.c_int32),
        ("remarks", ctypes.c_void_p),
        ("n_remarks", ctypes.c_int64),
    ]


BATCH = ctypes.POINTER(_Batch)
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, BATCH)


def trainer(library: ctypes.CDLL) -> Callable[..., int]:
    """The callback for a database's library."""
    library.tusk_batch_born.restype = ctypes.c_int64
    library.tusk_batch_account.restype = ctypes.c_int64

    def call(pointer: Any) -> int:
        try:
            from tuskml.groups.contract.trainer import answer  # slow to import
            from tuskml.kernels.library import mark_begin

            account = library.tusk_batch_account(pointer)
            with mark_begin(library.tusk_batch_born(pointer)):
                answer(library, pointer, account)
            pointer.contents.answered = 1
        except BaseException as error:
            refuse(pointer.contents, error)
        return 0

    return CALLBACK(call)


P_VALUES = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int64,
    *[ctypes.POINTER(ctypes.c_double)] * 3,
    ctypes.POINTER(ctypes.c_int32),
)


def p_values(n: int, statistic: Any, freedom: Any, p: Any, answered: Any) -> int:
    """Two-sided p-values of Student's t; infinite freedom is the normal distribution.

    answered: set to 1 at the end, whatever happens on the way.
    """
    try:
        import numpy as np  # slow to import, seldom needed
        from scipy.special import stdtr

        t, df, out = (np.ctypeslib.as_array(pointer, (n,)) for pointer in (statistic, freedom, p))
        with np.errstate(invalid="ignore"):
            out[:] = 2 * stdtr(df, -np.abs(t))
        answered[0] = 1
    except BaseException:
        return 1
    return 0


LOGGED = {"TUSKML_LOG_LEVEL", "TUSKML_TRACES"}
"""Variables of the environment that `records` follows."""
_attached: dict[str, Any] = {}
_lock = hold_in_forks(threading.RLock())


def library() -> ctypes.CDLL:
    """A database's library that this process has loaded."""
    with _lock:
        found: ctypes.CDLL = next(iter(_attached.values()))[0]
        return found


def attach(library: ctypes.CDLL, path: str) -> None:
    """Gives the database's library the trainer, once a process."""
    if not LOGGED.isdisjoint(os.environ):
        from tuskml.groups import records

        records.to_standard_error()
        records.follow_environment()
    with _lock:
        if path not in _attached:
            callback = trainer(library)
            library.tusk_set_trainer(callback)
            distribution = P_VALUES(p_values)
            library.tusk_set_p_values(distribution)
            kernels = ctypes.CDLL(str(kernels_path()))
            library.tusk_set_interrupts(
                kernels.tk_cancel_count, kernels.tk_watch_sigint, kernels.tk_cancel
            )
            _attached[path] = (library, callback, distribution)
