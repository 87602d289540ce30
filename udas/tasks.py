"""The tasks, as data: what is predicted, with which loss, and what statistics the result allows.

Losses are functions of the margin m = w.x + b; their formulas, derivatives and curvatures are in
`udas/native/losses.hpp`, or the user's own (`own_tasks.py`).
"""

import math
from dataclasses import dataclass

from tuskml.errors import OptionError, nearest, one_of
from tuskml.udas.open_rows import OwnLoss
from tuskml.udas.other_names import task_hint

RESPONSES = ("identity", "exp", "logistic")
"""What a number is predicted as, of its margin; `udas/scalars/model.c` knows them."""

KERNELS_ALONE = ("sgd", "hogwild", "hogbatch", "svrg", "newton_cg")
"""Algorithms whose kernels know the losses of `TASKS` alone."""
CPU_ALONE = ("newton_cg", "dcd")
"""Algorithms that a GPU has no kernels for: products with a curvature that is never made, and one
coordinate after another."""


@dataclass(frozen=True)
class Task:
    """One value of `train_model`'s first argument.

    loss: the kernels' number; classifies: labels are two classes; test: the statistic of a
    coefficient over its standard error, `t`, `z` or none; factorizes: features are [user, item]
    (`factorization.py`); own: the user's loss, which loss only says the labels of (0: numbers, 1:
    classes), response: how it predicts, low and high: where its labels lie.
    """

    name: str
    loss: int
    formula: str
    classifies: bool
    quadratic: bool
    smooth: bool
    test: str | None
    factorizes: bool = False
    own: OwnLoss | None = None
    response: str | None = None
    low: float = -math.inf
    high: float = math.inf

    @property
    def steepest(self) -> float:
        """The largest curvature of the loss, of one of the user's own about."""
        return 0.25 if "logistic" in (self.name, self.response) else 1.0

    @property
    def curved(self) -> bool:
        """Whether the loss has a curvature."""
        return self.own is None or self.own.curved


TASKS = {
    task.name: task
    for task in (
        Task("linear", 0, "1/2 (m - y)^2", False, True, True, "t"),
        Task("logistic", 1, "log(1 + exp(-y m))", True, False, True, "z"),
        Task("svm", 2, "max(0, 1 - y m)", True, False, False, None),
        Task("matrix_factorization", 0, "1/2 (m - y)^2", False, True, True, None, True),
    )
}
OWN: dict[str, Task] = {}
"""The user's."""


def task_named(name: str) -> Task:
    """The task, or an OptionError that names those there are."""
    task = TASKS.get(name) or OWN.get(name)
    if task is None:
        names = [*TASKS, *OWN]
        hint = task_hint(name) or nearest(name, names)
        raise OptionError(f"task is '{name}', expected {one_of(names)}{hint}")
    return task


def refusal(task: Task, algorithm: str) -> str | None:
    """Why an algorithm cannot train a task; None where it can."""
    if algorithm == "dcd" and task.name != "svm":
        return "its dual is that of the hinge"
    if algorithm == "newton_cg" and not task.smooth:
        return "the hinge has no curvature"
    if task.own is None:
        return None
    if algorithm in KERNELS_ALONE:
        return "its steps are compiled for tuskml's own tasks"
    if algorithm == "newton" and not task.curved:
        return f"task '{task.name}' has no curvature"
    return None
