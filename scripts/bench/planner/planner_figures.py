"""The figures of `planner.py`'s record."""

from __future__ import annotations

import itertools
import statistics
from typing import Any

Cases = list[dict[str, Any]]
LEAST_OVERHEAD = 0.02


def pairs_right(cases: Cases, apart: float = 1.2) -> list[bool]:
    """Returns whether estimates order two families correctly, for those whose times differ by
    the factor `apart` or more.
    """
    found = []
    for case in cases:
        for one, other in itertools.combinations(case["families"].values(), 2):
            a, b = one["iterations"] + 1, other["iterations"] + 1
            if max(a, b) > apart * min(a, b):
                estimates = one["told"]["iterations"], other["told"]["iterations"]
                found.append(
                    estimates[0] != estimates[1] and (estimates[0] < estimates[1]) == (a < b)
                )
    return found


def iterations_off(cases: Cases, names: tuple[str, ...]) -> list[float]:
    """The error factors of the expected iterations of some families."""
    return off(
        [
            (one["told"]["iterations"] + 1) / (one["iterations"] + 1)
            for case in cases
            for name, one in case["families"].items()
            if name in names or not names
        ]
    )


def each_off(cases: Cases) -> list[float]:
    """The error factors of an iteration's seconds on all rows."""
    return off(
        [
            one["told"]["each"] / one["each"]
            for case in cases
            for one in case["families"].values()
            if one["each"]
        ]
    )


def overheads(cases: Cases) -> list[bool]:
    """Returns whether planning took at most 5 % of a training, or 20 ms."""
    return [
        case["planning"] <= max(LEAST_OVERHEAD, 0.05 * case["auto_seconds"])
        for case in cases
        if case["planning"] is not None
    ]


def ratios(cases: Cases, over: str) -> list[float]:
    """auto's seconds over another's."""
    return [case["auto_seconds"] / case[over] for case in cases if case[over]]


def spread(values: list[float]) -> str:
    """Median and worst of ratios."""
    if not values:
        return "unknown"
    return f"median {statistics.median(values):.2f}, worst {max(values):.2f}"


def off(values: list[float]) -> list[float]:
    """Error factors, at least 1."""
    return [max(value, 1 / value) for value in values if value > 0]


def count(right: list[bool]) -> str:
    """The number of correct ones and of all."""
    return f"{sum(right)} of {len(right)}" + (f" ({sum(right) / len(right):.0%})" if right else "")


def summary(cases: Cases) -> dict[str, str]:
    """The figures for the page, and the targets."""
    best = sum(case["chosen"] == case["best"] for case in cases)
    close = sum((case["chosen_seconds"] or 9e9) <= 1.1 * case["best_seconds"] for case in cases)
    long = [case for case in cases if case["best_seconds"] >= LEAST_OVERHEAD]
    worst = max((case["worst_seconds"] / case["auto_seconds"] for case in cases), default=0.0)
    bgd, steps = iterations_off(cases, ("bgd",)), ("sgd", "mgd", "hogwild", "hogbatch")
    plans = [case["planning"] for case in cases if case["planning"] is not None]
    return {
        "auto / best plan": spread(ratios(cases, "best_seconds")),
        "the same where the best takes 20 ms": spread(ratios(long, "best_seconds")),
        "auto / rule's plan": spread(ratios(cases, "rule_seconds")),
        "rule's plan / best plan": spread(
            [c["rule_seconds"] / c["best_seconds"] for c in cases if c["rule_seconds"]]
        ),
        "worst plan / auto": f"up to {worst:.1f}",
        "chosen is the best plan": f"{best} of {len(cases)}, within 10 % of it {close}",
        "order of iterations right": count(pairs_right(cases)),
        "the same, of those twice apart": count(pairs_right(cases, 2.0)),
        "estimated iterations off by": spread(iterations_off(cases, ())),
        "bgd's within 2x": count([value <= 2 for value in bgd]),
        "stochastic plans' within 10x": count(
            [value <= 10 for value in iterations_off(cases, steps)]
        ),
        "an iteration's seconds off by": spread(each_off(cases)),
        "planning at most 5 % or 20 ms": count(overheads(cases)),
        "planning, ms": f"up to {max(plans, default=0.0) * 1e3:.1f}",
    }


def summary_of_peers(lines: Cases) -> dict[str, str]:
    """The share of cases in which auto was faster than scikit-learn to its loss, and the ratio."""
    known = [line for line in lines if line["peer_seconds"] is not None and line["reached"]]
    if not lines:
        return {}
    faster = [line["peer_seconds"] / line["seconds"] for line in known]
    text = f"median {statistics.median(faster):.1f}, least {min(faster):.2f}" if faster else "-"
    return {
        "faster than scikit-learn": count([ratio > 1 for ratio in faster]),
        "scikit-learn / tuskml": text,
        "its loss not reached": str(sum(not line["reached"] for line in lines)),
        "scikit-learn took too long": str(sum(line["peer_seconds"] is None for line in lines)),
    }


def show(case: dict[str, Any]) -> str:
    """One line of the table."""
    rule = f"{case['rule_seconds'] * 1e3:8.1f}" if case["rule_seconds"] else "       -"
    text = f"{case['estimated']['iterations']}" if case["estimated"] else "-"
    return (
        f"{case['data']:16}{case['task']:9}{case['epsilon']:<7g}{case['chosen']:9}{case['best']:9}"
        f"{case['auto_seconds'] * 1e3:8.1f}{case['best_seconds'] * 1e3:9.1f}{rule}"
        f"{case['worst_seconds'] * 1e3:9.1f}{text:>8}{case['iterations']:6}"
    )
