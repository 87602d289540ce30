"""The planner against the truth: every plan run to the tolerance, and auto.

For data sets by generator (dense and sparse, small and large, well and badly conditioned), tasks
and tolerances: how much longer auto took than the best plan (its planning included) and than the
rule alone, whether estimated iterations put the families in the right order, and how far estimates
of iterations and of an iteration's cost were from what was seen. Times are the model's own
`seconds`: training and planning, without the packing of rows that all plans share. The load at the
start and the end stands beside the figures.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import machine
import numpy as np
import pyarrow as pa

import tuskml

FAMILIES = ("newton", "lbfgs", "bgd", "svrg", "mgd", "sgd", "hogbatch", "hogwild")
TOLERANCES = (0.1, 0.01, 0.001)
TASKS = ("linear", "logistic", "svm")
LABEL = {"linear": "number", "logistic": "class", "svm": "class"}
REPEAT = 3
LEAST_CAP = 0.3


@dataclass(frozen=True)
class Data:
    """A data set: entries is 0 for dense rows; shared: what few factors make of the variance."""

    name: str
    rows: int
    features: int
    entries: int = 0
    shared: float = 0.0
    l2: float = 0.0
    l1: float = 0.0

    @property
    def columns(self) -> str:
        return "sparse(ids, vals)" if self.entries else "x"


SETS = (
    Data("small", 20_000, 20),
    Data("tall", 1_000_000, 28),
    Data("shared", 200_000, 100, shared=0.95),
    Data("wide", 60_000, 300),
    Data("wide-shared", 60_000, 300, shared=0.99),
    Data("thousand", 20_000, 1000, shared=0.5),
    Data("thousand-shared", 20_000, 1000, shared=0.99),
    Data("lasso", 200_000, 100, shared=0.5, l1=0.005),
    Data("sparse-120", 60_000, 120, entries=14, l2=1e-5),
    Data("sparse-20k", 60_000, 20_000, entries=60, l2=1e-5),
    Data("sparse-1M", 60_000, 1_000_000, entries=100, l2=1e-5),
)


def fill(con: duckdb.DuckDBPyConnection, data: Data, scale: float) -> None:
    """Makes the table `rows`."""
    n, rng = max(2000, round(data.rows * scale)), np.random.default_rng(7)
    made, margin = (sparse if data.entries else dense)(data, n, rng)
    noise = rng.standard_normal(n)
    made["number"] = pa.array(margin + noise)
    made["class"] = pa.array(rng.random(n) < 1 / (1 + np.exp(-2 * margin)))
    con.register("made", pa.table(made))
    con.execute("CREATE OR REPLACE TABLE rows AS FROM made")
    con.unregister("made")


def dense(data: Data, n: int, rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
    """Standard normal features, some of their variance from a tenth as many factors."""
    d = data.features
    x = rng.standard_normal((n, d), dtype=np.float32)
    if data.shared:
        few = max(2, d // 10)
        factors = rng.standard_normal((n, few), dtype=np.float32)
        loads = rng.standard_normal((few, d), dtype=np.float32) / np.float32(np.sqrt(few))
        own, common = (np.float32(np.sqrt(part)) for part in (1 - data.shared, data.shared))
        x = own * x + common * (factors @ loads)
    offsets = pa.array(np.arange(n + 1, dtype=np.int32) * d)
    margin = x @ (rng.standard_normal(d) / np.sqrt(d))
    return {"x": pa.ListArray.from_arrays(offsets, pa.array(x.ravel()))}, margin


def sparse(data: Data, n: int, rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
    """Ids by Zipf's law, rows of length about 1."""
    d = data.features
    drawn = rng.poisson(data.entries, n) + 1
    rank = np.minimum(d ** rng.random(drawn.sum()), d).astype(np.int64) - 1
    row, ids = np.divmod(np.unique(np.repeat(np.arange(n), drawn) * d + rank), d)
    offsets = pa.array(np.searchsorted(row, np.arange(n + 1)).astype(np.int32))
    sizes = np.bincount(row, minlength=n)
    vals = (rng.uniform(0.5, 1.5, len(ids)) / np.sqrt(sizes)[row]).astype(np.float32)
    margin = np.bincount(row, weights=vals * (3 * rng.standard_normal(d))[ids], minlength=n)
    lists = {"ids": pa.array(ids.astype(np.int32)), "vals": pa.array(vals)}
    return {k: pa.ListArray.from_arrays(offsets, v) for k, v in lists.items()}, margin


def call(con: duckdb.DuckDBPyConnection, what: str, data: Data, task: str, options: dict) -> Any:
    """The answer of one aggregate over the table."""
    sql = f"SELECT {what}('{task}', {LABEL[task]}, {data.columns}, $1) FROM rows"
    asked = {"l2": data.l2, "l1": data.l1} | options
    return con.execute(sql, [json.dumps(asked)]).fetchall()[0][0]


def median_run(
    con: duckdb.DuckDBPyConnection, data: Data, task: str, options: dict
) -> dict[str, Any]:
    """The run of median seconds; long ones run once."""
    runs = []
    for _ in range(REPEAT):
        runs.append(call(con, "train_model", data, task, options))
        if runs[-1]["seconds"] > 1:
            break
    return dict(sorted(runs, key=lambda model: model["seconds"])[len(runs) // 2])


def truth(
    con: duckdb.DuckDBPyConnection, data: Data, task: str, epsilon: float, possible: list[str]
) -> dict[str, dict[str, Any]]:
    """Each family's run, ended where it takes many times the best one's."""
    best, found = 2.0, {}
    for name in (one for one in FAMILIES if one in possible):
        options = {"algorithm": name, "epsilon": epsilon, "time": f"{max(8 * best, LEAST_CAP):f}s"}
        model = median_run(con, data, task, options)
        if model["converged"]:
            best = min(best, model["seconds"])
            found[name] = {"seconds": model["seconds"], "iterations": model["iterations"]}
    return found


CELL = re.compile(r"  +")
NUMBER = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def estimates(text: str) -> dict[str, dict[str, float] | None]:
    """The table of `explain_training`: None for plans that are not possible."""
    found: dict[str, dict[str, float] | None] = {}
    for line in text.splitlines():
        cells = CELL.split(line.strip())
        if cells[0] not in FAMILIES:
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
    """One line of the record; None where no plan reached the tolerance."""
    told = estimates(call(con, "explain_training", data, task, {"epsilon": epsilon}))
    rule = "lbfgs" if data.l1 or data.features > 512 else "newton"
    possible = [name for name, one in told.items() if one is not None]
    if "converge" not in told and task == "svm":
        possible = [name for name in possible if name in ("newton", "lbfgs", "bgd")]
    seen = truth(con, data, task, epsilon, possible)
    if not seen:
        return None
    auto = median_run(con, data, task, {"epsilon": epsilon})
    best = min(seen, key=lambda name: seen[name]["seconds"])
    chosen = auto["plan"].split(",")[0]
    planned = json.loads(auto["options"]).get("estimated")
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
        "estimated": planned,
        "families": {name: seen[name] | {"told": told[name]} for name in seen},
    }


def pairs_right(cases: list[dict[str, Any]]) -> list[bool]:
    """Whether estimates say which of two families, a fifth or more apart, takes less."""
    found = []
    for case in cases:
        for one, other in itertools.combinations(case["families"].values(), 2):
            a, b = one["iterations"] + 1, other["iterations"] + 1
            if max(a, b) > 1.2 * min(a, b):
                less = one["told"]["iterations"] <= other["told"]["iterations"]
                found.append(less == (a < b))
    return found


def ratios(cases: list[dict[str, Any]], over: str) -> list[float]:
    """auto's seconds over another's."""
    return [case["auto_seconds"] / case[over] for case in cases if case[over]]


def spread(values: list[float]) -> str:
    """Median and worst of ratios."""
    if not values:
        return "unknown"
    return f"median {statistics.median(values):.2f}, worst {max(values):.2f}"


def off(values: list[float]) -> list[float]:
    """How many times too much or too little."""
    return [max(value, 1 / value) for value in values if value > 0]


def told_for(one: dict[str, Any]) -> float:
    """The estimate of a run's seconds, had its iterations been known."""
    told, taken = one["told"], one["iterations"]
    return max(told["total"] + told["each"] * (taken - told["iterations"]), told["each"])


def summary(cases: list[dict[str, Any]]) -> dict[str, str]:
    """The figures that issue and page ask for."""
    order = pairs_right(cases)
    each, counts = [], []
    for case in cases:
        for one in case["families"].values():
            counts.append((one["told"]["iterations"] + 1) / (one["iterations"] + 1))
            each.append(told_for(one) / one["seconds"])
    worst = max(case["worst_seconds"] / case["auto_seconds"] for case in cases)
    best = sum(case["chosen"] == case["best"] for case in cases)
    close = sum((case["chosen_seconds"] or 9e9) <= 1.1 * case["best_seconds"] for case in cases)
    return {
        "auto / best plan": spread(ratios(cases, "best_seconds")),
        "auto / rule's plan": spread(ratios(cases, "rule_seconds")),
        "rule's plan / best plan": spread(
            [c["rule_seconds"] / c["best_seconds"] for c in cases if c["rule_seconds"]]
        ),
        "worst plan / auto": f"up to {worst:.1f}",
        "chosen is the best plan": f"{best} of {len(cases)}, within 10 % of it {close}",
        "order of iterations right": f"{sum(order)} of {len(order)} pairs",
        "estimated iterations off by": spread(off(counts)),
        "cost of the iterations taken off by": spread(off(each)),
    }


def show(case: dict[str, Any]) -> str:
    """One line of the table."""
    rule = f"{case['rule_seconds'] * 1e3:8.1f}" if case["rule_seconds"] else "       -"
    told = f"{case['estimated']['iterations']}" if case["estimated"] else "-"
    return (
        f"{case['data']:16}{case['task']:9}{case['epsilon']:<7g}{case['chosen']:9}{case['best']:9}"
        f"{case['auto_seconds'] * 1e3:8.1f}{case['best_seconds'] * 1e3:9.1f}{rule}"
        f"{told:>8}{case['iterations']:6}"
    )


def main() -> None:
    """The command line."""
    given = parser().parse_args()
    facts = machine.facts()
    con = tuskml.connect()
    con.execute(f"SET threads = {given.threads}")
    print(machine.sentence(facts))
    print(
        f"{'data':16}{'task':9}{'eps':7}{'chosen':9}{'best':9}{'auto ms':>8}{'best ms':>9}"
        f"{'rule ms':>8}{'est.':>8}{'iter':>6}"
    )
    cases = []
    for data in SETS:
        if not any(word in data.name for word in given.only.split(",")):
            continue
        fill(con, data, given.scale)
        for task, epsilon in itertools.product(given.tasks.split(","), TOLERANCES):
            case = one_case(con, data, task, epsilon)
            if case is not None:
                cases.append(case)
                print(show(case), flush=True)
    figures = summary(cases)
    print()
    for name, value in figures.items():
        print(f"  {name:36}{value}")
    after = machine.facts()["load"]
    print(f"  load {facts['load']} before, {after} after")
    if given.json:
        record = {"machine": facts, "scale": given.scale, "figures": figures, "cases": cases}
        given.json.write_text(json.dumps(record, indent=1) + "\n")


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
    add("--tasks", default=",".join(TASKS), metavar="TASK,TASK", help="default %(default)s")
    add("--json", type=Path, metavar="FILE", help="write all as JSON")
    return made


if __name__ == "__main__":
    main()
