"""Tasks: the values of `train_model`'s first argument, as all learners have them."""

from dataclasses import dataclass
from typing import Any, TypeVar

from tuskml.udas.tasks import TASK_TABLE

PAIRS = "`[user, item]`"


@dataclass(frozen=True)
class Task:
    """One value of `train_model`'s first argument.

    formula: the loss of a row, of the prediction m and the label y; classifies: whether labels are
    two classes; features: the features of a row, for the manual; test: the statistic of a
    coefficient over its standard error, `t`, `z` or none; weighs_features: whether models have one
    coefficient per feature; classes_by_option: whether an option decides if labels are classes,
    whose margins then are log-odds; metric: by which models are compared, None: log_loss of
    classes and rmse of numbers.
    """

    name: str
    formula: str
    classifies: bool = False
    features: str = "dense or sparse"
    test: str | None = None
    weighs_features: bool = True
    classes_by_option: bool = False
    metric: str | None = None

    @property
    def also(self) -> tuple[str, ...]:
        """Other names of the task."""
        return tuple(other for other, name in ALIASES.items() if name == self.name)

    @property
    def kept(self) -> str:
        """The task of a model without coefficients, where trained ones are of another task."""
        return self.name

    @property
    def labels(self) -> str:
        """Describes the labels, for the manual."""
        row = TASK_TABLE.get(self.name)
        return LABELS[row.labels if row else "two" if self.classifies else "numbers"]

    @property
    def has_labels(self) -> bool:
        """Returns whether rows have labels; without them `train_model` takes NULL as the label."""
        return is_labelled(self.name)

    @property
    def moves_on(self) -> bool:
        """Returns whether a training makes several steps, the fewer the nearer it starts."""
        return False

    @property
    def has_ratios(self) -> bool:
        """Returns whether exp of a coefficient is a ratio: of odds, rates or means."""
        return has_levels(self.name)


LABELS = {
    "numbers": "numbers",
    "ratings": "numbers",
    "two": "two classes",
    "classes": "two classes or more",
    "levels": "two ordered levels or more",
    "either": "numbers, or two classes or more",
    "either_two": "numbers, or two classes",
    "none": "none: NULL",
    "documents": "none: NULL",
}
"""Descriptions of labels for the manual, by the word in the table of tasks."""


def in_table(name: str) -> dict[str, Any]:
    """The members of `Task` that the table of tasks (`udas/rowblock/tasks.h`) says."""
    row = TASK_TABLE[name]
    return {
        "name": name,
        "formula": row.formula,
        "classifies": row.labels in ("two", "classes", "levels"),
        "classes_by_option": row.labels in ("either", "either_two"),
        "test": row.test,
        "metric": row.metric,
        "weighs_features": weighs_features(name),
    }


ALIASES = {"multinomial": "logistic"}
"""Further names of built-in tasks; models do not keep them."""

AnyTask = TypeVar("AnyTask", bound=Task)


def built_in(*tasks: AnyTask) -> dict[str, AnyTask]:
    """The tasks of a learner, by name."""
    return {task.name: task for task in tasks}


def weighs_features(task: str) -> bool:
    """Returns whether models of a task have one coefficient per feature; those of custom tasks
    do.
    """
    row = TASK_TABLE.get(task)
    return row is None or row.kind in ("linear", "logistic", "svm")


def takes_offsets(task: str) -> bool:
    """Returns whether rows of a task may have an offset: its margin is one of a likelihood, or of
    boosted trees.
    """
    row = TASK_TABLE.get(task)
    boosted = row is not None and (row.kind, row.response) == ("boosted", "identity")
    return boosted or (row is not None and row.test is not None)


def is_labelled(task: str) -> bool:
    """Returns whether rows of a task have labels; those of custom tasks do."""
    row = TASK_TABLE.get(task)
    return row is None or row.labels not in ("none", "documents")


def has_levels(task: str) -> bool:
    """Returns whether labels of a task are ordered levels; then `coef` of models begins with the
    thresholds between them.
    """
    row = TASK_TABLE.get(task)
    return row is not None and row.labels == "levels"


def of_pairs(task: str) -> bool:
    """Returns whether rows of a task are pairs `[user, item]`; then `classes` of models are
    counts.
    """
    row = TASK_TABLE.get(task)
    return row is not None and row.labels == "ratings"
