"""Where a batch trains: one answer for the training, its explanation and the planner's table."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.gpu import placement
from tuskml.kernels.gpu.placement import Answer
from tuskml.learners.linear.algorithms import ALGORITHMS as BUILT_IN
from tuskml.learners.linear.algorithms.parts.drawn import DRAWN
from tuskml.learners.linear.own.operators import ALGORITHMS, named
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.planner.rule import corners
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.tasks import LinearTask


def answer(groups: NDArray[np.void], request: Request) -> Answer:
    """Whether groups of one kind (kernels.GROUP) train on the GPU, and why not; never an error."""
    extras = groups["extras"].any()
    what = "a training with weight or cluster" if extras else without_kernels(request)
    if what is not None:
        return placement.without_kernels(what)
    return placement.answer(request.options.device, groups)


def wants_gpu(groups: NDArray[np.void], request: Request) -> bool:
    """The same as yes or no. OptionError where 'gpu' is asked for and cannot be."""
    return answer(groups, request).taken(request.options.device)


def patience(groups: NDArray[np.void], request: Request) -> float | None:
    """Seconds to wait for a turn at the GPU until the CPU trains: as many as the GPU spares.

    So waiting and training take at most twice what the better choice would have taken (Karlin et
    al., Competitive snoopy caching, 1988). None where `device` asks for the GPU, or where bits
    must not depend on what others do.
    """
    options = request.options
    return None if options.device == "gpu" or options.deterministic else placement.spared(groups)


def placed(plan: Plan, task: LinearTask) -> Plan:
    """The plan on the GPU, where an algorithm may have to follow smoothed corners."""
    if BUILT_IN[plan.family].smoothed_on_gpu(task):
        plan = replace(plan, smoothing=corners(plan.epsilon, task), max_iter=5 * plan.max_iter)
    return replace(plan, device=placement.gpu_name())


def without_kernels(request: Request) -> str | None:
    """What of a request the GPU has no kernels for, as a sentence's subject."""
    if request.task.general:
        return f"task '{request.task.name}'"
    if request.options.sampler in DRAWN:
        return f"sampler '{request.options.sampler}'"
    if request.options.algorithm in ALGORITHMS or named(request.options):
        return "an operator of your own"
    known = BUILT_IN.get(request.options.algorithm)
    if known is not None and not known.on_gpu:
        return f"algorithm '{request.options.algorithm}'"
    return None
