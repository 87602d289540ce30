"""The planner against the truth, on data that its tables were not fitted to.

python scripts/bench/run.py planner_truth --half held --truth truth.json --json judged.json

Figures 6 to 10 of Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD
2017: for data sets (`truth_data.py`) and tasks, every plan is run to the tolerance, those that the
planner refuses too, one that takes many times the best one's time being ended. What plans take is
processor seconds of one thread, which other work on the machine changes little; iterations are
counted. The truth is written to a file and used again where that is there: it does not depend on
the planner. The machine's constants are measured first, in processor seconds too.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: idle threads would count

import machine
from truth_blind import blind
from truth_data import Rows, Set, fresh, halves
from truth_figures import best_of, pictured, show, spread, summary
from truth_last import last
from truth_once import again, once, third
from truth_sealed import sealed
from truth_unseen import unseen

TOLERANCES = {"linear": (1e-3, 1e-6), "logistic": (1e-3, 1e-6), "svm": (1e-2, 1e-3)}
ORDER = (
    *("newton", "lbfgs", "newton_cg", "dcd", "bgd"),
    *("svrg", "mgd", "sgd"),
)
"""The order in which plans run: the likeliest first. Those without locks need several threads."""
HALVES = ("fitted", "held", "fresh", "blind", "unseen", "sealed", "last", "once", "again", "third")
FIRST_LIMIT, LEAST_LIMIT, TIMES = 8.0, 0.4, 5.0
"""Seconds of the first plan, of any, and how many times the best one's."""


def alone() -> None:
    """Restricts this process to one processor, whose constants are measured in processor
    seconds.
    """
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ.setdefault("XDG_CACHE_HOME", str(Path(tempfile.gettempdir()) / "planner_truth"))


def calibrate() -> None:
    """The constants of this machine, unless they were measured before.

    A pass that a training takes over is timed by the processor too.
    """
    from tuskml.learners.linear.algorithms.parts import batch
    from tuskml.learners.linear.planner import calibration
    from tuskml.learners.machine import constants

    batch.time = _ProcessorTime  # type: ignore[attr-defined]
    if constants.host_file().exists():
        return
    calibration.time = _ProcessorTime  # type: ignore[attr-defined]
    constants.save(calibration.measure(), constants.host_file())


class _ProcessorTime:
    """A replacement of `time` that does not count other work on the machine."""

    perf_counter = staticmethod(time.process_time)
    process_time = staticmethod(time.process_time)


def cases_of(one: Set, tasks: list[str]) -> Iterator[Any]:
    """All of a set's cases."""
    from truth_runs import case_of

    rows: Rows = one.make()
    for task in tasks:
        if task != "linear" and len(set(rows.classes.tolist())) < 2:
            continue
        for epsilon in TOLERANCES[task]:
            yield case_of(one.name, rows, task, epsilon, one.l2)


def truth_of(case: Any) -> dict[str, dict[str, Any]]:
    """Every plan's run, or how long it was let run.

    Limits are by the clock: other work on the machine stretches them as it did the run before.
    """
    from truth_runs import run

    best, slowed, found = FIRST_LIMIT / TIMES, 1.0, {}
    for name in ORDER:
        limit = slowed * max(LEAST_LIMIT, TIMES * best)
        one = run(case, name, limit)
        if one is None:
            continue
        found[name] = one
        slowed = max(1.0, one.pop("clock") / one["seconds"])
        if one["converged"]:
            best = min(best, one["seconds"])
    return found


def warm() -> None:
    """Imports and allocates in advance, so that the first case does not include it."""
    from truth_data import made_dense

    made = Set("warm", lambda: made_dense(1, 2000, 5, 1.0, "factors"), 1e-3)
    for case in cases_of(made, list(TOLERANCES)):
        truth_of(case)


def key_of(case: Any) -> str:
    return f"{case.name} {case.task} {case.epsilon:g}"


def measured(args: argparse.Namespace, sets: list[Set]) -> list[dict[str, Any]]:
    """The judged cases of some sets; the truth's file is filled as it goes."""
    from truth_runs import planned

    known = json.loads(args.truth.read_text()) if args.truth.exists() else {}
    judged = []
    warm()
    ends = time.monotonic() + args.seconds
    for one in sets:
        if time.monotonic() > ends:
            print(f"  {one.name} and the sets after it are left out")
            break
        if not any(word in one.name for word in args.only.split(",")):
            continue
        for case in cases_of(one, args.tasks.split(",")):
            key = key_of(case)
            if args.planning:
                judged.append({"data": one.name, "key": key} | planned(case, ""))
                continue
            if key not in known:
                known[key] = truth_of(case)
                args.truth.write_text(json.dumps(known, indent=1) + "\n")
            if args.no_judge:
                continue
            if any(plan["converged"] for plan in known[key].values()):
                about = {"data": one.name, "task": case.task, "epsilon": case.epsilon}
                about["truth"] = known[key]
                judged.append(about | planned(case, best_of(about)[0]))
                print(show(judged[-1]), flush=True)
    return judged


def planning_alone(cases: list[dict[str, Any]]) -> dict[str, str]:
    """The share of planning in the time of a training."""
    took = [(case["planning"], case["auto"]["seconds"], case["key"]) for case in cases]
    over = [one for one in took if one[0] > max(0.002, 0.05 * one[1])]
    shares = [mine / whole for mine, whole, _ in took if whole >= 0.04]
    return {
        "cases": f"{len(cases)}, of {len({case['data'] for case in cases})} sets",
        "planning at most 5 % or 2 ms": f"{len(took) - len(over)} of {len(took)}",
        "planning, ms": spread([1e3 * mine for mine, *_ in took]),
        "its share of trainings of 40 ms and more": spread(shares),
        "above": "; ".join(
            f"{key}: {1e3 * mine:.2f} of {1e3 * whole:.1f} ms" for mine, whole, key in over
        ),
    }


def main() -> None:
    """The command line."""
    args = parser().parse_args()
    alone()
    calibrate()
    facts = machine.facts()
    print(machine.sentence(facts))
    fitted, held = halves()
    every = (fitted, held, fresh(), blind(), unseen(), sealed(), last(), once(), again(), third())
    sets = dict(zip(HALVES, every, strict=True))[args.half]
    judged = measured(args, sets)
    figures = (planning_alone if args.planning else summary)(judged) if judged else {}
    print()
    for name, value in figures.items():
        print(f"  {name:48}{value}")
    if args.plots and judged:
        from planner_plots import draw

        draw(pictured(judged), args.plots, f"planner_{args.half}")
    after = machine.facts()["load"]
    print(f"  load {facts['load']} before, {after} after")
    if args.planning:
        return
    if args.json:
        record = {"machine": facts | {"load_after": after}, "half": args.half}
        args.json.write_text(json.dumps(record | {"figures": figures, "cases": judged}) + "\n")


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    add(
        "--half",
        choices=HALVES,
        default="held",
        help="default %(default)s",
    )
    add("--only", default="", metavar="TEXT,TEXT", help="sets whose name contains one of these")
    add("--tasks", default=",".join(TOLERANCES), help="default %(default)s")
    add("--seconds", type=float, default=float("inf"), help="after these no set is begun")
    add("--truth", type=Path, default=Path("truth.json"), help="what every plan took")
    add("--planning", action="store_true", help="time planning and auto alone")
    add("--no-judge", action="store_true", help="run the plans only")
    add("--json", type=Path, metavar="FILE", help="write all as JSON")
    add("--plots", type=Path, metavar="FOLDER", help="draw figures 6 to 9 of the paper")
    return made


if __name__ == "__main__":
    main()
