"""The planner against the truth: every plan run to the tolerance, and auto.

python scripts/bench/run.py planner --json planner.json --plots docs/images

For data sets by generator (`planner_data.py`), tasks and tolerances: how much longer auto took
than the best plan (its planning included) and than the worst, whether estimated iterations put the
families in the right order, how far estimates of iterations and of an iteration's cost were from
what was seen, what planning took, and how scikit-learn's default estimators do to the same loss
(`planner_peers.py`). Times are the model's own `seconds`: training and planning, without the
packing of rows that all plans share; an iteration's seconds are those between the events that the
training tells. The load at the start and the end stands beside the figures.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import time
from pathlib import Path
from typing import Any

import duckdb
import machine
import planner_peers
from planner_data import SETS, Data, fill, matrix
from planner_figures import show, summary, summary_of_peers

import tuskml
from tuskml.learners import events
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.machine import constants

TOLERANCES = (0.1, 0.01, 0.001)
TASKS = ("linear", "logistic", "svm")
LABEL = {"linear": "number", "logistic": "class", "svm": "class"}
LEAST_CAP = 0.2
KEPT = ("seconds", "iterations", "each")
AUTO, NEAR = "auto", 3.0
LEAST_TURNS, MOST_TURNS, SECONDS_OF_TURNS = 3, 15, 1.0


def call(con: duckdb.DuckDBPyConnection, what: str, data: Data, task: str, options: dict) -> Any:
    """The answer of one aggregate over the table."""
    sql = f"SELECT {what}('{task}', {LABEL[task]}, {data.columns}, $1) FROM rows"
    asked = {"l2": data.l2, "l1": data.l1} | options
    return con.execute(sql, [json.dumps(asked)]).fetchall()[0][0]


class Stopwatch:
    """Seconds of the iterations that a training tells of, by stage."""

    def __init__(self) -> None:
        self.stages: list[list[float]] = []
        self.last = -1

    def __call__(self, event: events.Event) -> None:
        if event.groups:
            return
        if event.iteration <= self.last or not self.stages:
            self.stages.append([])
        self.last = event.iteration
        self.stages[-1].append(time.perf_counter())

    def each(self, sampled: bool) -> float | None:
        """Seconds of an iteration on all rows; None where there was none."""
        stages = self.stages[1:] if sampled else self.stages
        count = sum(len(stage) - 1 for stage in stages)
        took = sum(stage[-1] - stage[0] for stage in stages)
        return took / count if count > 0 else None


def one_run(
    con: duckdb.DuckDBPyConnection, data: Data, task: str, options: dict
) -> dict[str, Any]:
    """Runs one training: its model, and the seconds of an iteration on all rows."""
    watch = Stopwatch()
    with events.listening(watch):
        model = dict(call(con, "train_model", data, task, options))
    return model | {"each": watch.each("started on" in model["plan"])}


def truth(
    con: duckdb.DuckDBPyConnection, data: Data, task: str, epsilon: float, possible: list[str]
) -> dict[str, dict[str, Any]]:
    """A run of each family, the likeliest first, ended where it takes many times the best."""
    best, found = 2.0, {}
    for name in possible:
        options = {"algorithm": name, "epsilon": epsilon, "time": f"{max(8 * best, LEAST_CAP):f}s"}
        model = one_run(con, data, task, options)
        if model["converged"]:
            best = min(best, model["seconds"])
            found[name] = model
    return found


def in_turns(
    con: duckdb.DuckDBPyConnection,
    data: Data,
    task: str,
    epsilon: float,
    first: dict[str, dict[str, Any]],
) -> dict[str, dict[str, Any]]:
    """The runs of median seconds of auto and of the families, the close ones in turns with auto.

    Other work on the machine then affects all alike. Families far from the best run once.
    """
    best = min(model["seconds"] for model in first.values())
    near = [name for name in first if first[name]["seconds"] <= NEAR * best]
    took = best + sum(first[name]["seconds"] for name in near)
    runs: dict[str, list[dict[str, Any]]] = {name: [first[name]] for name in first}
    for name in (AUTO, *near):
        runs[name] = []
    for _ in range(min(max(LEAST_TURNS, int(SECONDS_OF_TURNS / took)), MOST_TURNS)):
        for name in (AUTO, *near):
            chosen = {} if name == AUTO else {"algorithm": name}
            runs[name].append(one_run(con, data, task, {"epsilon": epsilon} | chosen))
    return {name: middle(found) for name, found in runs.items()}


def middle(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The run of median seconds."""
    return sorted(runs, key=lambda model: model["seconds"])[len(runs) // 2]


CELL = re.compile(r"  +")
NUMBER = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def estimates(text: str) -> dict[str, dict[str, float] | None]:
    """The table of `explain_training`: None for plans that are not possible."""
    found: dict[str, dict[str, float] | None] = {}
    for line in text.splitlines():
        cells = CELL.split(line.strip())
        if cells[0] not in ALGORITHMS:
            continue
        if "not possible" in line:
            found[cells[0]] = None
            continue
        count = float(cells[1].split(" ")[0].replace(",", ""))
        each, total = (seconds_of(cell) for cell in cells[2:4])
        found[cells[0]] = {"iterations": count, "each": each, "total": total}
    return found


def seconds_of(cell: str) -> float:
    number, unit = cell.split(" ")
    return float(number.replace(",", "")) * NUMBER[unit]


def one_case(
    con: duckdb.DuckDBPyConnection, data: Data, task: str, epsilon: float
) -> dict[str, Any] | None:
    """One line of the record; None if no plan reached the tolerance."""
    estimated = estimates(call(con, "explain_training", data, task, {"epsilon": epsilon}))
    rule = "lbfgs" if data.l1 or data.features > 512 else "newton"
    possible = [name for name, one in estimated.items() if one is not None]  # the cheapest first
    first = truth(con, data, task, epsilon, possible)
    if not first:
        return None
    seen = in_turns(con, data, task, epsilon, first)
    auto = seen.pop(AUTO)
    best = min(seen, key=lambda name: seen[name]["seconds"])
    chosen = auto["plan"].split(",")[0]
    options = json.loads(auto["options"])
    return {
        "data": data.name,
        "task": task,
        "epsilon": epsilon,
        "chosen": chosen,
        "best": best,
        "rule": rule,
        "auto_seconds": auto["seconds"],
        "best_seconds": seen[best]["seconds"],
        "rule_seconds": seen.get(rule, {}).get("seconds"),
        "chosen_seconds": seen.get(chosen, {}).get("seconds"),
        "worst_seconds": max(one["seconds"] for one in seen.values()),
        "iterations": auto["iterations"],
        "estimated": options.get("estimated"),
        "planning": options.get("actual", {}).get("planning"),
        "families": {
            name: {key: seen[name][key] for key in KEPT} | {"told": estimated[name]}
            for name in seen
        },
    }


def peers(con: duckdb.DuckDBPyConnection, data: Data) -> list[dict[str, Any]]:
    """scikit-learn's estimators on one data set."""
    found = []
    for task in TASKS:
        if planner_peers.possible(task, data):
            x, y = matrix(con, data, LABEL[task])
            line = planner_peers.compare(con, data, task, call, x, y)
            found.append(line)
            print("  beside scikit-learn:", json.dumps(line), flush=True)
    return found


def main() -> None:
    """The command line."""
    args = parser().parse_args()
    facts = machine.facts()
    print(machine.sentence(facts))
    print(f"constants: {constants.of_host().source}")
    print(
        f"{'data':16}{'task':9}{'eps':7}{'chosen':9}{'best':9}{'auto ms':>8}{'best ms':>9}"
        f"{'rule ms':>8}{'worst ms':>9}{'est.':>8}{'iter':>6}"
    )
    cases, beside = measured(args)
    figures = summary(cases) | summary_of_peers(beside)
    print()
    for name, value in figures.items():
        print(f"  {name:40}{value}")
    after = machine.facts()["load"]
    print(f"  load {facts['load']} before, {after} after")
    record = {
        "machine": facts | {"load_after": after},
        "constants": constants.of_host().source,
        "scale": args.scale,
        "figures": figures,
        "cases": cases,
        "peers": beside,
    }
    if args.json:
        args.json.write_text(json.dumps(record, indent=1) + "\n")
    if args.plots:
        from planner_plots import draw  # needs matplotlib

        draw(record, args.plots)


def measured(args: argparse.Namespace) -> tuple[list[Any], list[Any]]:
    """The cases of the chosen data sets, and scikit-learn's results."""
    con = tuskml.connect()
    con.execute(f"SET threads = {args.threads}")
    cases, beside = [], []
    real = [Data("a9a", 32_561, 123, entries=14, l2=1e-5, file=args.a9a)] if args.a9a else []
    for data in (*SETS, *real):
        if not any(word in data.name for word in args.only.split(",")):
            continue
        fill(con, data, args.scale)
        for task, epsilon in itertools.product(args.tasks.split(","), TOLERANCES):
            case = one_case(con, data, task, epsilon)
            if case is not None:
                cases.append(case)
                print(show(case), flush=True)
        if not args.no_peers:
            beside += peers(con, data)
    return cases, beside


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    add("--scale", type=float, default=1.0, help="share of the full number of rows (default 1)")
    add("--threads", type=int, default=2, help="of every plan (default 2)")
    add(
        "--only", default="", metavar="TEXT", help="data sets whose name contains one of TEXT,TEXT"
    )
    add("--a9a", type=Path, metavar="FILE", help="LIBSVM's a9a, in svmlight's format, as well")
    add("--tasks", default=",".join(TASKS), metavar="TASK,TASK", help="default %(default)s")
    add("--no-peers", action="store_true", help="without scikit-learn")
    add("--json", type=Path, metavar="FILE", help="write all as JSON")
    add("--plots", type=Path, metavar="FOLDER", help="write the pictures planner_*.png there")
    return made


if __name__ == "__main__":
    main()
