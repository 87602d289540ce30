"""The learners, and which of them a task belongs to.

The table of tasks names the folder of each task's learner, which is imported when a task of it is
first used: a training of one learner does not wait for the modules of the others.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from tuskml.errors import OptionError, nearest, one_of
from tuskml.learners.learner import Learner
from tuskml.learners.options.kinds import Option
from tuskml.learners.options.other_names import task_hint
from tuskml.learners.options.table import Options, object_in
from tuskml.learners.tasks import ALIASES, Task
from tuskml.udas.tasks import TASK_TABLE

ADDED: list[Learner] = []
"""Learners that programs add to those of the table of tasks."""


@cache
def learners_in(folder: str) -> tuple[Learner, ...]:
    """The learners of a folder of `tuskml.learners`, which may have several."""
    found: tuple[Learner, ...] = import_module(f"tuskml.learners.{folder}.learner").LEARNERS
    return found


def learners() -> Iterator[Learner]:
    """All learners, in the order of the manual."""
    for folder in dict.fromkeys(row.learner for row in TASK_TABLE.values()):
        yield from learners_in(folder)
    yield from ADDED


class BuiltIn(Mapping[str, Task]):
    """The built-in tasks by name, in the order of the manual."""

    def __getitem__(self, name: str) -> Task:
        if name not in TASK_TABLE:
            raise KeyError(name)
        return _find_built_in(name)[1]

    def __contains__(self, name: object) -> bool:
        return name in TASK_TABLE

    def __iter__(self) -> Iterator[str]:
        return iter(TASK_TABLE)

    def __len__(self) -> int:
        return len(TASK_TABLE)


TASKS = BuiltIn()


def task_named(name: str) -> Task:
    """The task, or an OptionError that names those there are."""
    if name in TASK_TABLE:
        return _find_built_in(name)[1]
    if (learner := _owner_of(name)) is not None:
        return learner.tasks[name]
    if name in ALIASES:
        return TASKS[ALIASES[name]]
    others = (name for learner in learners() for name in learner.tasks)
    names = list(dict.fromkeys([*TASKS, *others]))
    hint = task_hint(name) or nearest(name, [*names, *ALIASES])
    raise OptionError(f"task is '{name}', expected {one_of(names)}{hint}")


def learner_of(task: Task) -> Learner:
    """The learner that has a task."""
    return learner_named(task.name)


def learner_named(task: str) -> Learner:
    """The learner of the task with this name."""
    found = _owner_of(task)
    assert found is not None
    return found


def _owner_of(name: str) -> Learner | None:
    """The learner of a task, including registered ones; None if there is no such task."""
    if name in TASK_TABLE:
        return _find_built_in(name)[0]
    return next((learner for learner in learners() if name in learner.tasks), None)


@cache
def _find_built_in(name: str) -> tuple[Learner, Task]:
    """A task of the table of tasks, and its learner."""
    owner = next(one for one in learners_in(TASK_TABLE[name].learner) if name in one.tasks)
    return owner, owner.tasks[name]


def _classifying(name: str) -> Mapping[str, Any]:
    """The options with which a task has classes, if it has them by option."""
    owner = _owner_of(name)
    return {} if owner is None else owner.facts.classifying


def how_to_classify(task: Task) -> str:
    """The end of an error about labels that are not numbers, if an option makes them classes."""
    if not task.classes_by_option:
        return ""
    (name, value), *_ = learner_of(task).facts.classifying.items()
    return f"; give option '{name}' \"{value}\" for classes"


def of_classes(task: str, text: str, booleans: bool) -> str:
    """The options of a training whose labels are booleans or texts: tasks that are classifiers by
    option get it, unless the call has it. A text that is no JSON object is returned unchanged.

    booleans: whether labels are; options may call them false and true, and not only 0 and 1.
    """
    try:
        given = object_in(text)
    except OptionError:
        return text
    if booleans:
        given, before = booleans_as_numbers(given), given
        text = text if given == before else json.dumps(given, ensure_ascii=False)
    if task != "auto":
        lacking = {k: v for k, v in _classifying(task).items() if k not in given}
        return json.dumps(given | lacking, ensure_ascii=False) if lacking else text
    listed = given.get("tasks")
    if not isinstance(listed, list):
        return text
    found = []
    for one in listed:
        spec = {"task": one} if isinstance(one, str) else one
        name = spec.get("task") if isinstance(spec, dict) else None
        more = _classifying(name) if isinstance(name, str) else {}
        lacking = {k: v for k, v in more.items() if k not in given and k not in spec}
        found.append(spec | lacking if lacking else one)
    return json.dumps(given | {"tasks": found}, ensure_ascii=False) if found != listed else text


def booleans_as_numbers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of boolean labels, where `classes` and `class_weight` call these 0 and 1."""
    found, numbers = dict(given), {"false": 0, "true": 1}
    classes, weights = given.get("classes"), given.get("class_weight")
    if isinstance(classes, list):
        found["classes"] = [
            numbers.get(str(one).lower(), one) if isinstance(one, str | bool) else one
            for one in classes
        ]
    if isinstance(weights, dict):
        found["class_weight"] = {str(numbers.get(one, one)): w for one, w in weights.items()}
    return found


def options_of(task: Task, text: str) -> Options:
    """The options in a JSON text, as the learner of a task has them. Raises OptionError."""
    found: Options = learner_of(task).options.parse(text, task.name, all_options)
    return found


def all_options() -> dict[str, Option]:
    """The options of all learners by name; where several have one, as the first has it."""
    found: dict[str, Option] = {}
    for learner in learners():
        for name, option in learner.options.by_name.items():
            found.setdefault(name, option)
    return found
