"""The learners, and which of them a task belongs to."""

from tuskml.errors import OptionError, nearest, one_of
from tuskml.learners.factorization.learner import Factorization
from tuskml.learners.fm.learner import Machines
from tuskml.learners.learner import Learner
from tuskml.learners.linear.learner import Linear
from tuskml.learners.nets.learner import Nets
from tuskml.learners.options.kinds import Option
from tuskml.learners.options.other_names import task_hint
from tuskml.learners.options.table import Options
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


def task_named(name: str) -> Task:
    """The task, or an OptionError that names those there are."""
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
    return next(learner for learner in LEARNERS if task.name in learner.tasks)


def how_to_classify(task: Task) -> str:
    """What an error about labels that are no numbers adds where an option makes them classes."""
    if not task.classes_by_option:
        return ""
    (name, value), *_ = learner_of(task).classifying.items()
    return f"; give option '{name}' \"{value}\" for classes"


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
