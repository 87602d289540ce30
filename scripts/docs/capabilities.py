"""Writes the generated parts of hand-written pages: which task or database has which feature.

    python scripts/docs/capabilities.py            writes the parts
    python scripts/docs/capabilities.py --check    names the pages that are stale

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`. In the comparison with other
systems it is the row of tuskml.
"""

import re
import sys
from collections.abc import Callable, Iterable

from catalogue import ROOT, duckdb_functions, postgres_functions
from reference import KINDS, kind_of, table
from rivals import FEATURES, own_cell

from tuskml.learners.learner import Pooled, Request, Streamed
from tuskml.learners.options.kinds import ROW
from tuskml.learners.options.table import acts_on
from tuskml.learners.registry import TASKS, learner_of, options_of
from tuskml.learners.tasks import Task, takes_offsets

PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
OWN_ROW = re.compile(r"^\| tuskml \|.*$", re.MULTILINE)


def features() -> str:
    """A row per group of tasks: labels, kinds of features, and further columns of rows."""
    head = [
        "task",
        "labels",
        "dense",
        "sparse",
        "by name",
        "weights",
        "offset",
        "`class_weight`",
        "`cluster`",
        "tests of coefficients",
    ]
    rows = [
        [
            task_names(task),
            task.labels if task.has_labels else "none",
            *marks(
                task.features in ("dense or sparse", "a list"),
                "sparse" in task.features,
                by_name(task),
                learner_of(task).facts.weighs,
                takes_offsets(task.name),
                has(task, "class_weight") and (task.classifies or task.classes_by_option),
                has(task, "cluster") and task.test is not None,
                task.test is not None,
            ),
        ]
        for task in TASKS.values()
    ]
    return table(head, merged(rows))


def merged(rows: list[list[str]]) -> list[list[str]]:
    """One row for all tasks whose cells are the same, where the first of them stands."""
    tasks: dict[tuple[str, ...], list[str]] = {}
    for name, *cells in rows:
        tasks.setdefault(tuple(cells), []).append(name)
    return [[", ".join(names), *cells] for cells, names in tasks.items()]


def places() -> str:
    """A row per group of tasks: where it trains, and what limits or starts a training."""
    head = [
        "task",
        "`store`",
        "GPU",
        "a group on several workers",
        "steps together",
        "part of the rows",
        "`pooled`",
        "`warm_start`",
        "`validation`",
        "`time`",
    ]
    rows = []
    for task in TASKS.values():
        learner = learner_of(task)
        request = Request(task, options_of(task, ""))
        rows.append(
            [
                task_names(task),
                *marks(
                    has(task, "store"),
                    has(task, "device"),
                    several_workers(task),
                    learner.crew.alone(request) is None,
                    type(learner.streamed) is not Streamed,
                    type(learner.pooled) is not Pooled,
                    *(has(task, name) for name in ("warm_start", "validation", "time")),
                ),
            ]
        )
    return table(head, merged(rows))


def several_workers(task: Task) -> bool:
    """Returns whether parts of a group may lie on several workers, with some options."""
    learner = learner_of(task)
    texts = ["", '{"delta": 1}'] if has(task, "delta") else [""]
    for text in texts:
        try:
            options = options_of(task, text)
        except ValueError:
            continue
        if learner.by_parts.whole(Request(task, options)) is None:
            return True
    return False


def task_names(task: Task) -> str:
    """The names of a task as code."""
    return ", ".join(f"`{name}`" for name in (task.name, *task.also))


def by_name(task: Task) -> bool:
    """Returns whether rows with names are features."""
    options = learner_of(task).options.by_name.values()
    return any(acts_on(one, frozenset((ROW,))) and one.name == "interactions" for one in options)


def has(task: Task, option: str) -> bool:
    """Returns whether an option acts on a task."""
    found = learner_of(task).options.by_name.get(option)
    if found is None:
        return False
    return any(
        task.name not in one.but and task.name in (one.tasks or TASKS) for one in found.acts
    )


def marks(*given: bool) -> list[str]:
    """Cells of a table."""
    return ["yes" if one else "" for one in given]


def databases() -> str:
    """The functions that one database has alone, by kind."""
    here, there = duckdb_functions(), postgres_functions()
    rows = []
    for kind, title in KINDS.items():
        of_kind = {
            name
            for name in here.keys() ^ there.keys()
            if kind_of(here.get(name), there.get(name)) == kind
        }
        if of_kind:
            alone = of_kind & here.keys(), of_kind & there.keys()
            rows.append([title, *(quoted(sorted(names)) for names in alone)])
    return table(["", "DuckDB alone", "PostgreSQL alone"], rows)


def quoted(names: Iterable[str]) -> str:
    """Names as code, or a dash."""
    return ", ".join(f"`{name}`" for name in names) or "–"


def own_row() -> str:
    """tuskml's row in the comparison with other systems."""
    here, there = duckdb_functions(), postgres_functions()
    assert "aggregate" in here["train_model"].kind
    assert "train_model" in there
    return (
        "| tuskml | DuckDB, PostgreSQL | an aggregate, `train_model(...)`, for "
        f"[{len(TASKS)} tasks](reference/tasks.md); the model is a value |"
    )


def rivals() -> str:
    """A row per feature: what tuskml has of it, and the other systems that have it."""
    both = duckdb_functions().keys() & postgres_functions().keys()
    rows = [[one.name, own_cell(one, both), one.others.replace("*", "\\*")] for one in FEATURES]
    return table(["", "tuskml", "others"], rows)


PARTS: dict[str, Callable[[], str]] = {
    "features": features,
    "places": places,
    "databases": databases,
    "rivals": rivals,
}
PAGES = ("limits.md", "comparison.md")


def anew(text: str) -> str:
    """A page with its parts anew."""
    found = PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n{part[3]}", text)
    return OWN_ROW.sub(lambda _: own_row(), found)


def stale() -> dict[str, str]:
    """The pages that are not as they should be, and how they should."""
    files = {name: (ROOT / "docs" / name).read_text() for name in PAGES}
    wanted = {name: anew(text) for name, text in files.items()}
    return {name: text for name, text in wanted.items() if text != files[name]}


def main(arguments: list[str]) -> int:
    """Writes or checks."""
    found = stale()
    if arguments == ["--check"]:
        for name in found:
            print(f"docs/{name} is stale: make docs")
        return int(bool(found))
    for name, text in found.items():
        (ROOT / "docs" / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
