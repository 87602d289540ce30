"""The device of a batch: one decision for the training, its explanation and the planner's
table.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.gpu import placement
from tuskml.kernels.gpu.cuda import unless_it_fails
from tuskml.kernels.gpu.placement import Answer
from tuskml.kernels.passes import Floats, Pass
from tuskml.learners.linear.algorithms import ALGORITHMS as BUILT_IN
from tuskml.learners.linear.algorithms import FIRST_CHOICE, LAST_CHOICE
from tuskml.learners.linear.algorithms.parts.epochs import DRAWN
from tuskml.learners.linear.planner.candidates import choose, corners
from tuskml.learners.linear.planner.planning import statistics
from tuskml.learners.linear.request import Plan, Request
from tuskml.learners.models import Models
from tuskml.learners.near import Near
from tuskml.schedule.devices import BusyError, TurnError, gpu_in_turn, hoping


def answer(groups: NDArray[np.void], request: Request) -> Answer:
    """Decides whether groups of one kind (kernels.GROUP) train on the GPU, with the reason; raises
    nothing.
    """
    extras = groups["extras"].any()
    what = "a training with weight or cluster" if extras else without_kernels(request)
    if what is not None:
        return placement.without_kernels(what)
    return placement.answer(request.options.device, groups)


def wants_gpu(groups: NDArray[np.void], request: Request) -> bool:
    """The same decision as a bool. Raises OptionError if 'gpu' is required and impossible."""
    return answer(groups, request).is_gpu(request.options.device)


def patience(groups: NDArray[np.void], request: Request) -> float | None:
    """Seconds to wait for a turn at the GPU before the CPU trains: as many as the GPU saves.

    So waiting and training take at most twice the time of the better choice (Karlin et al.,
    Competitive snoopy caching, 1988). None if `device` requires the GPU, or if bits must not
    depend on other trainings.
    """
    options = request.options
    return (
        None
        if options.device == "gpu" or options.deterministic
        else placement.saved_seconds(groups)
    )


def place_plan(plan: Plan, groups: NDArray[np.void], request: Request) -> Plan:
    """The plan on the GPU, where an algorithm may have to follow smoothed corners."""
    task, options = request.task, request.options
    if options.l1 and not task.smooth and plan.family == FIRST_CHOICE.name:
        seen = statistics(groups)
        other = choose(task, options, seen, only=LAST_CHOICE.name, threads=plan.threads)
        plan = replace(other, after=plan.after)
    if BUILT_IN[plan.family].smooths_on_gpu(task):
        most = options.max_iter or 5 * plan.max_iter
        plan = replace(plan, smoothing=corners(plan.epsilon, task), max_iter=most)
    return replace(plan, device=placement.gpu_name())


def without_kernels(request: Request) -> str | None:
    """The part of a request without GPU kernels, as a sentence's subject."""
    if request.task.general:
        return f"task '{request.task.name}'"
    if request.options.sampler in DRAWN:
        return f"sampler '{request.options.sampler}'"
    if request.options.custom:
        return "an operator of your own"
    known = BUILT_IN.get(request.options.algorithm)
    if known is not None and not known.on_gpu:
        return f"algorithm '{request.options.algorithm}'"
    if request.options.l1 and known is FIRST_CHOICE:
        return f"option 'l1' with algorithm '{known.name}'"
    return None


# A linear training that moves between the GPU and the CPU, as it loses and gets its turn.
#
# Shares of a host are those of its GPU too (Mahajan 2021, chapter 2): if others have the GPU for
# longer than it would save, the training continues on the CPU, and returns once the GPU is free,
# if enough is left to gain. Its weights move with it, in the caller's units, and the plan is
# chosen anew.

MOST_MOVES = 4
LOST = "gpu -> cpu at iteration {made}: others have the gpu"
GOT = "cpu -> gpu at iteration {made}: it is free"
Fit = Callable[[Pass, Plan, Request], Models]


def train_in_turns(rows: Pass, plan: Plan, request: Request, fit: Fit) -> Models:
    """Trains the rows by `fit`, on the GPU as long as it is the training's turn."""
    moving = Moving(rows, plan, request, fit)
    while True:
        try:
            return moving.train()
        except TurnError as turn:
            moving.follow(turn)


class Moving:
    """The device of a training, its plan, and its request with the weights reached so far."""

    def __init__(self, rows: Pass, plan: Plan, request: Request, fit: Fit) -> None:
        self.rows, self.plan, self.request, self.fit = rows, plan, request, fit
        self.patience = patience(rows.groups, request)
        self.travels = self.patience is not None and request.near is None
        self.on_gpu, self.made = True, 0
        self.moves: list[str] = []

    def train(self) -> Models:
        """The models. Raises TurnError if the training is to continue on the other device."""
        if self.on_gpu:
            return unless_it_fails(self.request.options.device, self.there, self.here)
        if not self.travels or len(self.moves) >= MOST_MOVES:
            return self.here()
        with hoping(placement.least_left(self.rows.groups)):
            return self.here()

    def here(self) -> Models:
        """Trains on the CPU."""
        return self.fit(self.rows, self.plan, self.request)

    def there(self) -> Models:
        """Trains on the GPU."""
        with gpu_in_turn(self.rows.cancel_mark, self.patience):
            return placement.train_on_gpu(
                self.rows, lambda placed: self.fit(placed, self.plan, self.request)
            )

    def follow(self, turn: TurnError) -> None:
        """Goes elsewhere, with the weights if there are any."""
        self.on_gpu = not isinstance(turn, BusyError)
        if turn.weights is None or not self.travels:
            return
        self.made += turn.iterations
        what = GOT if self.on_gpu else LOST
        self.moves.append(what.format(made=f"{self.made:,}"))
        self.plan = replace(self.plan, after="; ".join(self.moves))
        self.request = replace(self.request, near=near_to(self.rows.groups["place"], turn.weights))


def near_to(places: NDArray[np.int32], weights: Floats) -> Near:
    """A `Near` whose groups at these indices start at weights (G, d + 1) in the caller's units."""
    known = np.full((int(places.max()) + 1, weights.shape[1]), np.nan)
    known[places] = weights
    return Near(len(known), known.shape[1] - 1, known)
