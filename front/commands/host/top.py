"""`tuskml top`: the trainings that run on this host, and their shares of its cores."""

import argparse
import json
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tuskml.commands.terminal.usage import Parser, add_json, describe

if TYPE_CHECKING:
    from tuskml.schedule.shares import Running

EXAMPLES = """
what runs now:
  tuskml top
every two seconds, until Ctrl-C:
  tuskml top --every 2
"""
SHORT = (
    "session",
    "training",
    "program",
    "task",
    "plan",
    "models",
    "share",
    "seconds",
    "rows/s",
    "progress",
    "end",
    "rho",
)


def grammar(made: Parser) -> None:
    """Defines the grammar."""
    describe(
        made,
        show_trainings,
        "Lists the trainings of this account's processes on this host, the oldest first: DuckDB, "
        "PostgreSQL and Ray alike. Each has its max-min share of the cores.",
        EXAMPLES,
    )
    every = "list them again after this number of seconds, until Ctrl-C"
    made.add_argument("--every", type=float, metavar="SECONDS", help=every)
    add_json(made, "print the list as one JSON value")


def show_trainings(args: argparse.Namespace) -> None:
    """Prints the list."""
    while True:
        print(format_trainings(json_wanted=args.json), flush=True)
        if args.every is None:
            return
        time.sleep(max(args.every, 0.1))


def format_trainings(json_wanted: bool) -> str:
    """The trainings as a table, or as JSON."""
    from tuskml.schedule import shares
    from tuskml.text.table import table

    found = [columns_of(one) for one in shares.activity()]
    if json_wanted:
        return json.dumps(found, default=datetime.isoformat)
    if not found:
        return "no training runs"
    return table(SHORT, [cells(one) for one in found])


def columns_of(one: "Running") -> dict[str, Any]:
    """A training by the columns of `tuskml_activity()`."""
    left = None if one.left is None else timedelta(seconds=one.left)
    return {
        "session": one.pid,
        "training": one.number,
        "program": one.program,
        "task": one.task,
        "plan": one.plan,
        "n_groups": one.groups,
        "n_models": one.done,
        "share": one.share,
        "threads": one.wanted,
        "weight": one.weight,
        "seconds": one.seconds,
        "core_seconds": one.core_seconds,
        "rows_per_second": one.rows_per_second,
        "progress": one.progress,
        "estimated_end": None if left is None else datetime.now().astimezone() + left,
        "rho": one.rho,
        "device": device_of(one),
    }


def device_of(one: "Running") -> str:
    """Returns where it trains."""
    if not one.device:
        return "cpu"
    return "gpu" if one.has_device else "waits for gpu"


def cells(one: dict[str, Any]) -> tuple[Any, ...]:
    """A training's cells for people."""
    end, done, speed, rho = (
        one[name] for name in ("estimated_end", "progress", "rows_per_second", "rho")
    )
    return (
        *(one[name] for name in ("session", "training", "program", "task", "plan")),
        f"{one['n_models']}/{one['n_groups']}",
        f"{one['share']:.2g}/{one['threads']}",
        round(one["seconds"], 1),
        None if speed is None else f"{speed:.2g}",
        None if done is None else f"{done:.0%}",
        None if end is None else f"{end:%H:%M:%S}",
        None if rho is None else round(rho, 2),
    )
