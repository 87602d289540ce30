"""`tuskml explain`: what a training would run, what else it might, and why, from the shell."""

import argparse
import json
from typing import Any

from tuskml.databases.opening import opened
from tuskml.terminal.rows_arguments import (
    add_training,
    by_name,
    in_order,
    key_names,
    keys,
    options,
)
from tuskml.terminal.usage import Commands, add_command, add_json
from tuskml.text.table import shown
from tuskml.training.asked import asked_for
from tuskml.training.training import options_text, resolve

EXAMPLES = """
what would train on all flights, and what it is estimated to take:
  tuskml explain flights.duckdb --task logistic --source flights \\
      --label 'arr_delay > 15' --features dep_delay,distance
what an option changes, carrier by carrier:
  tuskml explain flights.duckdb --task svm --source flights --label 'arr_delay > 15' \\
      --features dep_delay,distance --group-by carrier --option time=1s
"""


def add_explain(commands: "Commands[Any]") -> None:
    """The grammar of `tuskml explain`."""
    command = add_command(
        commands,
        "explain",
        show_explanation,
        "what a training would run and why, without training",
        "Packs the rows as tuskml train would, and prints the plan that would run, the other "
        "candidates with their estimated iterations and seconds, and the reason for the choice. "
        "Nothing is trained, except for short trials on a sample if the choice needs them.",
        EXAMPLES,
    )
    add_training(command)
    add_json(command, "print one JSON object per group, one per line")


def show_explanation(given: argparse.Namespace) -> None:
    """Asks the database, and prints what it says."""
    expressions = keys(given.group_by)
    names = key_names(expressions)
    asked = asked_for(given.task, options_text(options(given.option)))
    with opened(given.database) as database:
        extras = given.weight, given.offset
        found = resolve(
            database, asked, given.source, given.label, given.features, expressions, extras
        )
        rows = database.fetch(found.query(database, "explain_training"))
    pairs = in_order((tuple(row[:-1]), row[-1]) for row in rows)
    for place, (values, explanation) in enumerate(pairs):
        if given.json:
            key = {"key": by_name(names, values)} if names else {}
            print(json.dumps(key | {"explanation": explanation}, ensure_ascii=False))
            continue
        if names:
            group = ", ".join(f"{n} = {shown(v)}" for n, v in zip(names, values, strict=True))
            print(("\n" if place else "") + group)
        print(explanation if explanation is not None else "no usable row")
