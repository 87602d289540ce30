"""Models judged by rows that were held out, with the arithmetic of SQL's metrics in C."""

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.groups.contract.emission import Emission
from tuskml.kernels.library import Floats, cancel_count, cancel_mark, pointer, raise_if_cancelled
from tuskml.learners.models import Models
from tuskml.udas.refusal import Refusal

CANCELLED = ctypes.CFUNCTYPE(ctypes.c_int)


class _Judging(ctypes.Structure):
    """`tusk_judging` (`udas/scalars/judging/judge.h`)."""

    _fields_ = [
        ("metric", ctypes.c_char_p),
        ("parameter", ctypes.c_double),
        ("cancelled", CANCELLED),
    ]


def judged(
    library: ctypes.CDLL, models: Models, held: NDArray[np.void], metric: str, parameter: float
) -> Floats:
    """The metric of each model by the rows of its group, (n,); NaN where they do not determine it.

    library: of the database; held: GROUP of shape (n,), in the order of the models. Raises
    DataError where the metric is not one of such models, and Interrupted.
    """
    out = np.full(len(held), np.nan)
    emission, why = Emission(models), Refusal()
    mark = cancel_mark()
    cancelled = CANCELLED(lambda: cancel_count() != mark)
    how = _Judging(metric.encode(), parameter, cancelled)
    judge: Any = library.tusk_judge
    given = ctypes.byref(emission.struct), ctypes.c_void_p(pointer(held)), ctypes.byref(how)
    done = judge(*given, ctypes.c_void_p(pointer(out)), ctypes.byref(why))
    if done < 0:
        raise_if_cancelled(mark)
    if not done:
        raise DataError(f"option 'metric' is '{metric}': {why.text}")
    return out
