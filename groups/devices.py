"""Where a batch trains: one answer for the training, its explanation and the planner's table."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.planning import Request
from tuskml.optimizer.rule import corners
from tuskml.udas.gpu import placement
from tuskml.udas.gpu.placement import Answer
from tuskml.udas.own_operators import ALGORITHMS, named
from tuskml.udas.plan import Plan
from tuskml.udas.tasks import CPU_ALONE, Task


def answer(groups: NDArray[np.void], request: Request) -> Answer:
    """Whether groups of one kind (kernels.GROUP) train on the GPU, and why not; never an error."""
    what = without_kernels(request)
    if what is not None:
        return placement.without_kernels(what)
    return placement.answer(request.options.device, groups)


def wants_gpu(groups: NDArray[np.void], request: Request) -> bool:
    """The same as yes or no. OptionError where 'gpu' is asked for and cannot be."""
    return answer(groups, request).taken(request.options.device)


def placed(plan: Plan, task: Task) -> Plan:
    """The plan on the GPU, which has no interior-point method: newton follows smoothed corners."""
    if plan.family == "newton" and not task.smooth:
        plan = replace(plan, smoothing=corners(plan.epsilon), max_iter=5 * plan.max_iter)
    return replace(plan, device=placement.gpu_name())


def without_kernels(request: Request) -> str | None:
    """What of a request the GPU has no kernels for, as a sentence's subject."""
    if request.task.own is not None:
        return f"task '{request.task.name}'"
    if request.options.algorithm in ALGORITHMS or named(request.options):
        return "an operator of your own"
    if request.options.algorithm in CPU_ALONE:
        return f"algorithm '{request.options.algorithm}'"
    return None
