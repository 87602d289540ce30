"""The results of `planner_truth.py`, as figures: the paper's, and the targets."""

from __future__ import annotations

import itertools
import statistics
from typing import Any

Case = dict[str, Any]
LONG = 0.02
"""Seconds of the best plan from which on the worst choice counts."""
APART = 1.5
STOCHASTIC = ("svrg", "mgd", "sgd")


def took(case: Case) -> float:
    """Processor seconds of auto, with planning and whatever plans it went through."""
    return case["auto"]["seconds"]


def met(case: Case) -> dict[str, Case]:
    """The plans that reached the tolerance."""
    return {name: one for name, one in case["truth"].items() if one["converged"]}


def best_of(case: Case) -> tuple[str, float]:
    """The plan that took least."""
    found = met(case)
    name = min(found, key=lambda one: found[one]["seconds"])
    return name, found[name]["seconds"]


def over_best(case: Case) -> float:
    """The ratio of auto's seconds to the best plan's."""
    return took(case) / case["best"]["seconds"]


def off(case: Case, name: str) -> float:
    """The error factor of the expected iterations of a plan."""
    ratio = (case["told"][name]["iterations"] + 1) / (case["truth"][name]["iterations"] + 1)
    return max(ratio, 1 / ratio)


def iterations_off(cases: list[Case], names: tuple[str, ...]) -> list[float]:
    """The error factors of some plans that reached the tolerance, all of whose estimates are
    known.
    """
    return [
        off(case, name)
        for case in cases
        for name in names
        if name in met(case) and name in case["told"] and case["told"][name]["seconds"] > 0
    ]


def pairs(cases: list[Case]) -> list[bool]:
    """Tests for pairs of plans whose times differ by 1.5x whether estimates order them
    correctly.
    """
    right = []
    for case in cases:
        found = case["truth"]
        possible = [n for n in found if n in case["told"] and not case["told"][n]["refused"]]
        for a, b in itertools.combinations(possible, 2):
            one, other = sorted((a, b), key=lambda name: found[name]["seconds"])
            least, most = found[one], found[other]
            if not least["converged"] or most["seconds"] < APART * least["seconds"]:
                continue
            right.append(case["told"][one]["seconds"] < case["told"][other]["seconds"])
    return right


def share(values: list[float], most: float) -> str:
    """The number of values that are at most `most`."""
    if not values:
        return "none"
    within = sum(value <= most for value in values)
    return f"{within} of {len(values)} ({within / len(values):.0%})"


def spread(values: list[float]) -> str:
    """Median, the nine of ten, and the worst."""
    if not values:
        return "none"
    ninth = sorted(values)[min(len(values) - 1, int(0.9 * len(values)))]
    return f"median {statistics.median(values):.2f}, 90 % {ninth:.2f}, worst {max(values):.2f}"


def summary(cases: list[Case]) -> dict[str, str]:
    """The figures."""
    every = [over_best(case) for case in cases]
    long = [over_best(case) for case in cases if best_of(case)[1] >= LONG]
    right = pairs(cases)
    ended = [case for case in cases if not case["auto"]["converged"]]
    moved = [case for case in cases if case["auto"]["ended_by"] != case["chosen"]]
    planning = [case["planning"] <= max(0.002, 0.05 * took(case)) for case in cases]
    refused = [case["told"].get(best_of(case)[0], {}).get("refused") is not None for case in cases]
    return {
        "cases": f"{len(cases)}, of {len({case['data'] for case in cases})} sets",
        "auto / best plan": spread(every),
        f"the same, best plan above {LONG * 1e3:g} ms ({len(long)})": spread(long),
        "within 1.5 of the best, above 20 ms": share(long, 1.5),
        "order right, of pairs 1.5x apart": f"{sum(right)} of {len(right)} "
        f"({sum(right) / max(len(right), 1):.0%})",
        "bgd's and lbfgs's iterations off by": spread(iterations_off(cases, ("bgd", "lbfgs"))),
        "within 2x": share(iterations_off(cases, ("bgd", "lbfgs")), 2.0),
        "newton's, newton_cg's and dcd's off by": spread(
            iterations_off(cases, ("newton", "newton_cg", "dcd"))
        ),
        "stochastic plans' off by": spread(iterations_off(cases, STOCHASTIC)),
        "within 4x": share(iterations_off(cases, STOCHASTIC), 4.0),
        "a trial was made": f"{sum(bool(case['trials']) for case in cases)} of {len(cases)}",
        "planning at most 5 % or 2 ms": f"{sum(planning)} of {len(planning)}",
        "auto went on by another plan": f"{len(moved)} of {len(cases)}",
        "auto did not reach the tolerance": f"{len(ended)}",
        "the best plan was refused": f"{sum(refused)} of {len(refused)}",
    }


def pictured(cases: list[Case]) -> dict[str, Any]:
    """The record that `planner_plots.py` draws; choices are of those whose best plan is LONG.

    Seconds of an iteration are those of the whole plan by its iterations, estimated and taken.
    """
    found = []
    for case in cases:
        long = best_of(case)[1] >= LONG
        found.append(
            {
                "data": case["data"],
                "task": case["task"],
                "epsilon": case["epsilon"],
                "families": {name: family(case, name) for name in met(case) if known(case, name)},
                "best_seconds": case["best"]["seconds"],
                "auto_seconds": took(case),
                "worst_seconds": max(one["seconds"] for one in met(case).values()),
                "long": long,
            }
        )
    return {"cases": found, "peers": []}


def known(case: Case, name: str) -> bool:
    """Returns whether a plan has an estimate."""
    return case["told"].get(name, {}).get("seconds", 0) > 0


def family(case: Case, name: str) -> Case:
    """The actual results of a plan, and its estimates."""
    one, told = case["truth"][name], case["told"][name]
    return {
        "iterations": one["iterations"],
        "each": one["seconds"] / max(one["iterations"], 1),
        "told": {
            "iterations": told["iterations"],
            "each": told["seconds"] / max(told["iterations"], 1),
        },
    }


def show(case: Case) -> str:
    """One line of the record."""
    best, seconds = best_of(case)
    told = " ".join(
        f"{name}:{case['told'].get(name, {}).get('iterations', 0):.0f}/{one['iterations']}"
        f"{'' if one['converged'] else '+'}"
        for name, one in case["truth"].items()
    )
    auto = case["auto"]
    name = case["chosen"]
    name += "" if auto["ended_by"] == name else f">{auto['ended_by']}"
    name += "" if auto["converged"] else "+"
    return (
        f"{case['data']:26}{case['task']:9}{case['epsilon']:<7g}{name:17}{best:10}"
        f"{seconds * 1e3:9.1f}{took(case) * 1e3:9.1f}{over_best(case):7.2f} "
        f"{case['planning'] * 1e3:7.2f} {','.join(case['trials'])}  {told}"
    )
