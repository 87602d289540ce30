"""`tuskml explain`: the plan of a training, its alternatives and the reasons, from the shell."""

import argparse
import json
from dataclasses import asdict, replace
from typing import Any

from tuskml.api.call import Training, parse_task
from tuskml.api.training import options_text, resolve
from tuskml.cluster.estimating import execution
from tuskml.cluster.parts.placement import PLACEMENTS, choose_parted
from tuskml.cluster.postgres.rows import local_rows
from tuskml.cluster.shards.readable import in_files
from tuskml.cluster.training import refuse_stored
from tuskml.cluster.units import Units
from tuskml.commands.terminal.rows_arguments import (
    add_training,
    by_name,
    in_order,
    key_names,
    keys,
    options,
)
from tuskml.commands.terminal.usage import Parser, add_json, describe
from tuskml.databases.database import Database
from tuskml.databases.opening import open_database
from tuskml.errors import DataError, OptionError
from tuskml.groups.execution.choosing import place_given
from tuskml.model.execution import Execution
from tuskml.text.table import format_value

EXAMPLES = """
what would train on all flights, and what it is estimated to take:
  tuskml explain flights.duckdb --task logistic --source flights \\
      --label 'arr_delay > 15' --features dep_delay,distance
what it would take on ten workers of a cluster, by approach:
  tuskml explain :memory: --task logistic --source 'shards/*.parquet' --label late \\
      --features dep_delay,distance --group-by carrier --executor ray --workers 10
what an option changes, carrier by carrier:
  tuskml explain flights.duckdb --task svm --source flights --label 'arr_delay > 15' \\
      --features dep_delay,distance --group-by carrier --option time=1s
"""


def grammar(command: Parser) -> None:
    """Defines the grammar of `tuskml explain`."""
    describe(
        command,
        show_explanation,
        "Packs the rows as tuskml train would, and prints the plan that would run, the other "
        "candidates with their estimated iterations and seconds, and the reason for the choice. "
        "Nothing is trained, except for short trials on a sample if the choice needs them.",
        EXAMPLES,
    )
    add_training(command)
    executor = "estimate a training on ray, host:port of a Ray cluster, or threads"
    command.add_argument("--executor", metavar="WHERE", help=executor)
    workers = "how many workers, for --executor; by default those that it has"
    command.add_argument("--workers", type=int, metavar="N", help=workers)
    add_json(command, "print one JSON object per group, one per line; with --executor one in all")


def show_explanation(args: argparse.Namespace) -> None:
    """Requests the explanation from the database, and prints it."""
    expressions = keys(args.group_by)
    names = key_names(expressions)
    found_options = options(args.option)
    executor = place_given(args.executor, found_options)
    call = parse_task(args.task, options_text(found_options))
    with open_database(args.database) as database:
        extras = args.weight, args.offset
        found = resolve(
            database, call, args.source, args.label, args.features, expressions, extras
        )
        if executor is not None or args.workers is not None:
            estimated = on_workers(database, found, executor, args.workers)
            print(json.dumps(members(estimated)) if args.json else estimated)
            return
        rows = database.fetch(found.query(database, "explain_training"))
    pairs = in_order((tuple(row[:-1]), row[-1]) for row in rows)
    for place, (values, explanation) in enumerate(pairs):
        if args.json:
            key = {"key": by_name(names, values)} if names else {}
            print(json.dumps(key | {"explanation": explanation}, ensure_ascii=False))
            continue
        if names:
            group = ", ".join(
                f"{n} = {format_value(v)}" for n, v in zip(names, values, strict=True)
            )
            print(("\n" if place else "") + group)
        print(explanation if explanation is not None else "no usable row")


def on_workers(
    database: Database, training: Training, executor: str | None, workers: int | None
) -> Execution:
    """The estimates of a training on workers."""
    from tuskml.groups.execution.choosing import check_place, workers_of

    place = check_place(executor or "ray")
    if workers is not None and workers < 1:
        raise OptionError(f"--workers is {workers}, expected 1 or more")
    refuse_stored(training)
    with local_rows(database, training) as (here, copy), in_files(here, copy) as readable:
        if readable is None:
            raise DataError(f"{training.source.name} has no rows, expected some to train on")
        found, training = readable.catalogue, readable.training
        units = Units(readable.database, training, found)
        estimated = execution(units, workers or workers_of(place), place != "threads")
        usual = choose_parted(training, found, PLACEMENTS[0], usual=True)
        return replace(estimated, ran=usual.placement.approach)


def members(estimated: Execution) -> dict[str, Any]:
    """Returns the numbers and their text, for JSON."""
    given = asdict(estimated)
    for estimate, one in zip(given["estimates"], estimated.estimates, strict=True):
        estimate["seconds"] = one.seconds
    return given | {"explanation": str(estimated)}
