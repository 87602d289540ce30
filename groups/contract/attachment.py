"""The trainer as a database's library calls it: the batch (`udas/rowblock/batch.h`) and callbacks.

What trains is imported for the first batch, so that a connection without a training starts fast.

An exception becomes a sentence and an SQLSTATE for the database. A callback from C has no caller
that an exception could reach: an uncaught one is lost, and the answer is an arbitrary register. So
the functions here must not fail, whatever the error is.
"""

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any

from tuskml.errors import OF_SYSTEM, TuskError, memory_for, system_errno
from tuskml.kernels import kernels_path
from tuskml.schedule.pool import hold_in_forks

ROOM = 1000
"""Bytes of a sentence."""
FAILED, NO_MEMORY, INTERRUPTED = "38000", "53200", "57014"
LAST_RESORT = b"the training failed, and so did saying why"


def sentence(error: BaseException) -> str:
    """The message for a person: our own errors unchanged, others with their type."""
    if isinstance(error, KeyboardInterrupt):
        return "the training was interrupted"
    if _is_of_memory(error):
        return _of_memory(_text(error))
    if isinstance(error, TuskError):
        return _text(error)
    if number := _error_code(error):
        return f"{_text(error)}: {OF_SYSTEM[number][1]}"
    return f"internal error, {type(error).__name__}: {_text(error)}"


def _is_of_memory(error: BaseException) -> bool:
    """Returns whether there was no memory: for Python, or for DuckDB, which this side does not
    import.
    """
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException"


def _error_code(error: BaseException) -> int:
    try:
        return system_errno(error)
    except Exception:  # of an error that cannot be shown
        return 0


def _of_memory(text: str) -> str:
    """Adds advice to errors of NumPy and Python on memory."""
    if "memory_limit" in text:
        return text
    return f"no memory for {memory_for(text)}: raise memory_limit"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "it cannot be shown"


def state(error: BaseException) -> str:
    """The SQLSTATE of an error: five characters."""
    if _is_of_memory(error):
        return NO_MEMORY
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if number := _error_code(error):
        return OF_SYSTEM[number][0]
    found = getattr(error, "sqlstate", FAILED) if isinstance(error, TuskError) else FAILED
    fits = isinstance(found, str) and len(found) == 5 and found.isascii() and found.isalnum()
    return found if fits else FAILED


def one_line(text: str) -> str:
    """The text in one line of characters that every terminal and encoding has."""
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def cut(text: str) -> bytes:
    """The text cut to the buffer's size, in whole characters."""
    line = one_line(text[: 4 * ROOM]).encode(errors="backslashreplace")
    return line[:ROOM].decode(errors="ignore").encode()


def refuse(batch: Any, error: BaseException) -> None:
    """Stores the error and its SQLSTATE in the batch. Raises nothing."""
    try:
        batch.error, batch.sqlstate = LAST_RESORT, FAILED.encode()
        batch.sqlstate = state(error).encode()
        batch.error = cut(sentence(error)) or LAST_RESORT
    except BaseException:  # of an error that cannot be formatted: the first values stay
        return


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
