"""Searches: the winning candidates, and for each group its trials and their metrics."""

import json
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from tuskml.report import charts
from tuskml.report.charts import Line, Span
from tuskml.report.groups import Group, some_of
from tuskml.report.pieces import figure, note, number, section, table

NOBODY = "none was chosen"
GROUPS, CANDIDATES, WINNERS = 100, 30, 20
"""The most groups shown, candidates of each, and winning candidates."""


def searches(groups: Sequence[Group]) -> str:
    """The section; nothing where no model is of a search."""
    found = [group for group in groups if trials_of(group)]
    if not found:
        return ""
    some = some_of(found, GROUPS)
    left_out = len(found) - len(some)
    text = (
        f"{len(some):,} of {len(found):,} groups are shown: up to half of them need attention, "
        "the others are the largest."
    )
    pages = "".join(of_group(group) for group in some)
    return section("searches", "Searches", winners(found), note(text) if left_out else "", pages)


def trials_of(group: Group) -> list[dict[str, Any]]:
    """The trials of a group."""
    trials = group.model.trials if group.model is not None else None
    return list(trials["trials"]) if trials and "trials" in trials else []


def describe_candidate(configuration: dict[str, Any]) -> str:
    """A candidate in words."""
    shown = (
        f"{key} {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in configuration.items()
    )
    return ", ".join(shown) or "as given"


def winners(groups: Sequence[Group]) -> str:
    """Counts the groups for which each candidate is the best."""
    won: Counter[str] = Counter()
    for group in groups:
        assert group.model is not None
        assert group.model.trials is not None
        chosen = group.model.trials["chosen"]
        none = chosen is None
        won[NOBODY if none else describe_candidate(trials_of(group)[chosen]["configuration"])] += 1
    rows = [[name, f"{n:,}", f"{n / len(groups):.0%}"] for name, n in won.most_common(WINNERS)]
    more = len(won) - len(rows)
    return table(
        ("candidate", "groups", "share"), rows, "The best candidate of how many groups"
    ) + (note(f"And {more:,} more candidates.") if more else "")


def of_group(group: Group) -> str:
    """A group's candidates, the best first: a drawing and a table, which open by a click."""
    assert group.model is not None
    assert group.model.trials is not None
    about, trials = group.model.trials, trials_of(group)
    chosen, metric = about["chosen"], about["metric"]
    best = None if chosen is None else trials[chosen]
    order = sorted(trials, key=lambda one: place(one, best))[:CANDIDATES]
    head = (
        "candidate",
        metric,
        "standard error",
        "of the rows",
        "folds",
        "epochs",
        "status",
        "",
    )
    rows = [row_of(one, one is best) for one in order]
    words = f"{group.name}: {NOBODY}"
    if best is not None:
        candidate = describe_candidate(best["configuration"])
        words = f"{group.name}: {candidate}, {metric} {number(best['metric'])}"
    caption = f"Candidates of {group.name}, as {metric} on rows held out"
    if len(trials) > len(order):
        caption += f": the first {len(order)} of {len(trials)}"
    return (
        f"<details><summary>{escape(words)}</summary>"
        + drawing(order, f"{metric} of {len(order)} candidates of {group.name}")
        + curves(order, best)
        + table(head, rows, caption)
        + "</details>"
    )


def place(one: dict[str, Any], best: dict[str, Any] | None) -> tuple[bool, bool, float, float]:
    """Returns where a candidate stands: the winner, then those with most rows and the nearest
    metric.
    """
    value = one["metric"]
    of_best = best["metric"] or 0.0 if best is not None else 0.0
    apart = 0.0 if value is None else abs(value - of_best)
    return one is not best, value is None, -one["rows"], apart


def row_of(one: dict[str, Any], chosen: bool) -> list[str]:
    """A candidate's line of the table."""
    known = [fold for fold in one["folds"] if fold["metric"] is not None]
    statuses = list(dict.fromkeys(fold["status"] for fold in one["folds"]))
    return [
        describe_candidate(one["configuration"]),
        number(one["metric"]),
        number(one["std_err"]),
        f"{one['rows']:.3g}",
        f"{len(known)} of {len(one['folds'])}",
        epochs(known),
        ", ".join(statuses),
        "chosen" if chosen else "",
    ]


def epochs(folds: Sequence[dict[str, Any]]) -> str:
    """Iterations, epochs or trees of the trials that were judged: the least and the most."""
    counts = [fold["iterations"] for fold in folds]
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def curves(trials: Sequence[dict[str, Any]], best: dict[str, Any] | None) -> str:
    """The objective over the epochs of candidates that train by many, the winner's in front."""
    lines = []
    for one in sorted(trials, key=lambda one: one is best):
        if one.get("curve"):
            at, value = np.array(one["curve"], float).T
            style = "series-1" if one is best else "many series-2"
            title = (
                f"{describe_candidate(one['configuration'])}: {value[-1]:.5g} after {at[-1]:,.0f}"
            )
            lines.append(Line(at, value, style, title))
    if not lines:
        return ""
    text = (
        "The objective on the rows trained on, by epoch: means over folds; the winner's is bold."
    )
    return figure(charts.falling(lines, f"objective of {len(lines)} candidates by epoch"), text)


def drawing(trials: Sequence[dict[str, Any]], label: str) -> str:
    """Each candidate's metric with one standard error."""
    rows = []
    for one in trials:
        value, reach = one["metric"], one["std_err"] or 0.0
        if value is not None:
            name = describe_candidate(one["configuration"])
            title = f"{name}: {value:.5g}, standard error {reach:.3g}"
            rows.append(Span(name, value, value - reach, value + reach, title))
    if not rows:
        return note("No candidate could be judged.")
    text = "Means over the folds; whiskers reach one standard error."
    return figure(charts.spans(rows, label, zero=False), text)
