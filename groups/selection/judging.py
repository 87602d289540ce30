"""Models judged by rows that were held out, with the arithmetic of SQL's metrics in C."""

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.groups.contract.emission import Emission
from tuskml.kernels.library import Floats, cancel_mark, library, pointer, raise_if_cancelled
from tuskml.learners.models import Models
from tuskml.schedule import pool
from tuskml.udas.refusal import Refusal


class _Judging(ctypes.Structure):
    """`tusk_judging` (`udas/scalars/judging/judge.h`)."""

    _fields_ = [
        ("metric", ctypes.c_char_p),
        ("parameter", ctypes.c_double),
        ("cancels", ctypes.c_void_p),
        ("mark", ctypes.c_int64),
        ("threads", ctypes.c_int32),
        ("run", ctypes.c_void_p),
    ]


def judged(
    database: ctypes.CDLL,
    models: Models,
    held: NDArray[np.void],
    metric: tuple[str, float],
    threads: int,
) -> Floats:
    """The metric of each model by the rows of its group, (n,); NaN where they do not determine it.

    database: its library; held: GROUP of shape (n,), in the order of the models; metric: its name
    and parameter. Raises DataError where it is not one of such models, and Interrupted.
    """
    out = np.full(len(held), np.nan)
    emission, why = Emission(models), Refusal()
    mark, (name, parameter) = cancel_mark(), metric
    cancels = ctypes.cast(library().tk_cancel_count, ctypes.c_void_p)
    run = ctypes.c_void_p.from_address(pool.functions().value or 0)  # its first member
    how = _Judging(name.encode(), parameter, cancels, mark, threads, run)
    judge: Any = database.tusk_judge
    given = ctypes.byref(emission.struct), ctypes.c_void_p(pointer(held)), ctypes.byref(how)
    done = judge(*given, ctypes.c_void_p(pointer(out)), ctypes.byref(why))
    if done < 0:
        raise_if_cancelled(mark)
    if not done:
        raise DataError(f"option 'metric' is '{name}': {why.text}")
    return out
