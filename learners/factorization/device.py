"""The choice of the device that trains a matrix factorization, by the option `device`."""

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.factorization import Shape
from tuskml.kernels.gpu import cuda, placement
from tuskml.kernels.gpu.factorization.training import DeviceFactorization, piece_rows, too_large
from tuskml.kernels.gpu.placement import Answer
from tuskml.kernels.passes import Pass
from tuskml.kernels.structures import WEIGHTS
from tuskml.learners.factorization.epochs import Factors
from tuskml.learners.factorization.settings import Settings


def answer(group: NDArray[np.void], settings: Settings, shape: Shape) -> Answer:
    """Decides whether one group's ratings train on the GPU, with the reason; raises nothing."""
    found = placement.answer(settings.device, group)
    if not found.use:
        return found
    if (group["extras"] & WEIGHTS).any():
        return Answer(False, "ratings with weights train on the CPU")
    if settings.asked and not settings.method.on_gpu:
        return Answer(False, f"'{settings.algorithm}' runs on the CPU alone")
    reason = too_large(cuda.device(), int(group["n_rows"][0]), shape, settings.validation > 0)
    return found if reason is None else Answer(False, reason)


def placed(group: NDArray[np.void], settings: Settings, shape: Shape) -> Settings:
    """The settings for the chosen device. Raises OptionError if 'gpu' is required and
    impossible.
    """
    found = answer(group, settings, shape)
    return settings.on_gpu(found.reason) if found.taken(settings.device) else settings


def told(group: NDArray[np.void], settings: Settings, shape: Shape) -> tuple[Settings, str | None]:
    """Returns the settings of the device that would train, for an explanation, and the device in
    words.

    The words are None unless the option `device` or the GPU made a difference.
    """
    if settings.stored:
        return settings, None
    found = answer(group, settings, shape)
    words = found.told(settings.device) if found.use or settings.device == "gpu" else None
    return settings.on_gpu(found.reason) if found.use else settings, words


def on_gpu(rows: Pass, memory: int, shape: Shape, settings: Settings) -> Factors:
    """Loads one group's ratings and vectors onto the GPU; a context manager that frees them.

    memory: the account that is charged for ratings which do not fit on the GPU.
    """
    device, n = cuda.device(), int(rows.groups["n_rows"][0])
    return DeviceFactorization.of_rows(
        rows,
        device,
        shape,
        settings.seed,
        lock_free=settings.lock_free,
        memory=memory,
        at_once=piece_rows(device, n, shape, settings.validation > 0) or None,
    )
