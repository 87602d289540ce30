"""The learners, and which of them a task belongs to."""

import json
from collections.abc import Mapping
from typing import Any

from tuskml.errors import OptionError, nearest, one_of
from tuskml.learners.factorization.learner import Factorization
from tuskml.learners.fm.learner import Machines
from tuskml.learners.learner import Learner
from tuskml.learners.linear.learner import Linear
from tuskml.learners.nets.learner import Nets
from tuskml.learners.options.kinds import Option
from tuskml.learners.options.other_names import task_hint
from tuskml.learners.options.table import Options, object_in
from tuskml.learners.paths.learner import LEARNERS as PATHS
from tuskml.learners.tasks import TASKS, Task, other_names
from tuskml.learners.topics.learner import Topics
from tuskml.learners.trees.learner import Forests, Trees

__all__ = [
    "LEARNERS",
    "TASKS",
    "all_options",
    "how_to_classify",
    "learner_of",
    "of_classes",
    "options_of",
    "task_named",
]

LEARNERS: list[Learner] = [
    Linear(),
    Factorization(),
    Trees(),
    Forests(),
    Nets(),
    *PATHS,
    Topics(),
    Machines(),
]

for _name in [name for learner in LEARNERS for name in learner.tasks if name in TASKS]:
    TASKS[_name] = TASKS.pop(_name)  # in this order, whichever learner was imported first


OWNERS: dict[str, Learner] = {name: learner for learner in LEARNERS for name in learner.tasks}
"""The learner of each task that learners come with."""


def task_named(name: str) -> Task:
    """The task, or an OptionError that names those there are."""
    if name in TASKS:
        return TASKS[name]
    found: dict[str, Task] = {}
    for learner in LEARNERS:
        found |= learner.tasks
    if name in found:
        return found[name]
    names = list(TASKS | found)
    also = other_names()
    if name in also:
        return also[name]
    hint = task_hint(name) or nearest(name, [*names, *also])
    raise OptionError(f"task is '{name}', expected {one_of(names)}{hint}")


def learner_of(task: Task) -> Learner:
    """The learner that has a task."""
    found = _owner_of(task.name)
    assert found is not None
    return found


def _owner_of(name: str) -> Learner | None:
    """The learner of a task, which may be registered since; None where there is no such task."""
    if name in OWNERS:
        return OWNERS[name]
    return next((learner for learner in LEARNERS if name in learner.tasks), None)


def _classifying(name: str) -> Mapping[str, Any]:
    """The options with which a task has classes, if it has them by option."""
    owner = _owner_of(name)
    return {} if owner is None else owner.classifying


def how_to_classify(task: Task) -> str:
    """What an error about labels that are no numbers adds where an option makes them classes."""
    if not task.classes_by_option:
        return ""
    (name, value), *_ = learner_of(task).classifying.items()
    return f"; give option '{name}' \"{value}\" for classes"


def of_classes(task: str, text: str, booleans: bool) -> str:
    """The options of a training whose labels are booleans or texts: tasks that have classes by
    option get it, unless it is given. A text that is no JSON object stays as it is.

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
    for learner in LEARNERS:
        for name, option in learner.options.by_name.items():
            found.setdefault(name, option)
    return found
