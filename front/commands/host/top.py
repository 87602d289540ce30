"""`tuskml top`: the trainings that run on this host, and their shares of its cores."""

import argparse
import json
import time
from dataclasses import asdict
from typing import Any

from tuskml.terminal.usage import Commands, add_command, add_json

EXAMPLES = """
what runs now:
  tuskml top
every two seconds, until Ctrl-C:
  tuskml top --every 2
"""
COLUMNS = ("process", "task", "plan", "groups", "models", "threads", "asked", "seconds")


def add_top(commands: "Commands[Any]") -> None:
    """The grammar."""
    made = add_command(
        commands,
        "top",
        show_trainings,
        "list the trainings that run on this host",
        "Lists the trainings of this account's processes on this host, the oldest first: DuckDB, "
        "PostgreSQL and Ray alike. Each has its max-min share of the cores.",
        EXAMPLES,
    )
    every = "list them again after so many seconds, until Ctrl-C"
    made.add_argument("--every", type=float, metavar="SECONDS", help=every)
    add_json(made, "print the list as one JSON value")


def show_trainings(given: argparse.Namespace) -> None:
    """Prints the list."""
    while True:
        print(listed(json_wanted=given.json), flush=True)
        if given.every is None:
            return
        time.sleep(max(given.every, 0.1))


def listed(json_wanted: bool) -> str:
    """The trainings as a table, or as JSON."""
    from tuskml.schedule import shares
    from tuskml.text.table import table

    found = shares.activity()
    if json_wanted:
        return json.dumps([asdict(one) for one in found])
    if not found:
        return "no training runs"
    rows = [
        (f.pid, f.task, f.plan, f.groups, f.done, f.share, f.wanted, round(f.seconds, 1))
        for f in found
    ]
    return table(COLUMNS, rows)
