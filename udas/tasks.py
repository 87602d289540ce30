"""The tasks, as data: what is predicted, with which loss, and what statistics the result allows.

Losses are functions of the margin m = w.x + b; their formulas, derivatives and curvatures are in
`udas/native/losses.hpp`.
"""

from dataclasses import dataclass

from tuskml.errors import OptionError, nearest, one_of


@dataclass(frozen=True)
class Task:
    """One value of `train_model`'s first argument.

    loss: the kernels' number; classifies: labels are two classes; test: the statistic of a
    coefficient over its standard error, `t`, `z` or none; factorizes: features are [user, item]
    (`factorization.py`).
    """

    name: str
    loss: int
    formula: str
    classifies: bool
    quadratic: bool
    smooth: bool
    test: str | None
    factorizes: bool = False


TASKS = {
    task.name: task
    for task in (
        Task("linear", 0, "1/2 (m - y)^2", False, True, True, "t"),
        Task("logistic", 1, "log(1 + exp(-y m))", True, False, True, "z"),
        Task("svm", 2, "max(0, 1 - y m)", True, False, False, None),
        Task("matrix_factorization", 0, "1/2 (m - y)^2", False, True, True, None, True),
    )
}


def task_named(name: str) -> Task:
    """The task, or an OptionError that names those there are."""
    if name not in TASKS:
        raise OptionError(f"task is '{name}', expected {one_of(TASKS)}{nearest(name, TASKS)}")
    return TASKS[name]
