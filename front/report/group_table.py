"""The report's table of groups, and the details of each for its script."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tuskml.learners.explaining import format_seconds
from tuskml.report import charts
from tuskml.report.coefficients import largest_terms, term_row
from tuskml.report.groups import Group, some_of
from tuskml.report.pieces import largest, note, number, pill, section

ROWS, SPARK_POINTS, CURVE_POINTS = 3000, 14, 48


def section_of(groups: Sequence[Group], keys: Sequence[str], names: Sequence[str]) -> str:
    """The table of groups, those that need attention first; it can be searched and sorted."""
    rows = some_of(groups, ROWS)
    head = [
        *((key, "text") for key in keys or ["model"]),
        ("status", "text"),
        *((name, "number") for name in ("rows", "skipped", "loss", "iterations", "seconds")),
        ("plan", "text"),
        ("largest coefficients", "text"),
        ("curve", ""),
    ]
    heads = "".join(heading(name, kind) for name, kind in head)
    body = "".join(table_row(group, k, names) for k, group in enumerate(rows))
    left_out = len(groups) - len(rows)
    text = (
        f"{len(rows):,} of {len(groups):,} groups: up to half of them need attention, "
        "the others are the largest."
    )
    return section(
        "groups",
        "Groups",
        note(text) if left_out else "",
        '<p class="search"><label for="q">Search</label> <input id="q" type="search" '
        'autocomplete="off" placeholder="key, status or plan"> '
        '<span id="found" role="status"></span></p>',
        '<div class="wide" tabindex="0" role="group" aria-label="Table of groups">'
        f'<table id="all"><caption>One row per group; click a heading to sort</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>",
        '<div id="one" hidden tabindex="-1" aria-live="polite"></div>',
    )


def heading(name: str, kind: str) -> str:
    """A column's name, a button where it sorts."""
    if not kind:
        return f'<th scope="col">{escape(name)}</th>'
    return f'<th scope="col" data-kind="{kind}"><button type="button">{escape(name)}</button></th>'


def table_row(group: Group, place: int, names: Sequence[str]) -> str:
    """A group's line; its first cell opens the details."""
    model, keys = group.model, group.key or ("the model",)
    cells = [
        f'<th scope="row"><button type="button" data-one="{place}">{escape(keys[0])}</button>'
    ]
    cells += [f"<td>{escape(key)}" for key in keys[1:]]
    cells.append(f"<td>{pill(group)}")
    if model is None:
        return "<tr>" + "".join([*cells, '<td class="n">–' * 5, "<td>–" * 3]) + "</tr>"
    numbers = (model.n_rows, model.n_skipped, model.loss, model.iterations, model.seconds)
    for value in numbers:
        shown = f"{value:,}" if isinstance(value, int) else number(value)
        shown = format_seconds(value) if value is model.seconds else shown
        cells.append(f'<td class="n" data-v="{value}">{shown}')
    cells.append(f"<td>{escape(model.plan)}")
    cells.append(f"<td>{escape(weights(group, names))}")
    curve = group.curve(SPARK_POINTS)
    cells.append(f"<td>{charts.spark(*curve) if curve else ''}")
    return "<tr>" + "".join(cells) + "</tr>"


def weights(group: Group, names: Sequence[str], most: int = 3) -> str:
    """The largest coefficients in words."""
    if not group.linear:
        return "in a store" if group.model and group.model.store else "–"
    terms, found = group.terms(names), largest(group.weights, most)
    return ", ".join(f"{terms[k]} {group.weights[k]:+.3g}" for k in found)


def details(groups: Sequence[Group], names: Sequence[str]) -> list[Mapping[str, Any]]:
    """The details of groups for the page's script, in the table's order."""
    rows = some_of(groups, ROWS)
    most, coefs = (CURVE_POINTS, 10) if len(rows) <= 500 else (16, 5)
    return [detail(group, names, most, coefs) for group in rows]


def detail(group: Group, names: Sequence[str], most: int, coefs: int) -> Mapping[str, Any]:
    """The details of one group: facts in words, its curve, its largest coefficients, its
    options.
    """
    found: dict[str, Any] = {"name": group.name, "status": group.status, "grade": group.grade}
    model = group.model
    if model is None:
        return found
    guess = group.estimate
    found["facts"] = [
        ["task", model.task],
        ["plan", model.plan],
        ["rows", f"{model.n_rows:,}, and {model.n_skipped:,} skipped"],
        *([["note", model.note]] if model.note else []),
        ["features", f"{model.n_features:,}"],
        ["iterations", f"{model.iterations:,}" + (f", estimated {guess[0]:.0f}" if guess else "")],
        [
            "seconds",
            format_seconds(model.seconds)
            + (f", estimated {format_seconds(guess[1])}" if guess else ""),
        ],
        ["objective", number(model.loss)],
        ["intercept", number(model.intercept)],
    ]
    if model.store:
        found["facts"].append(["store", model.store])
    curve = group.curve(most)
    if curve:
        found["x"] = [round(float(x), 1) for x in curve[0]]
        found["y"] = [float(f"{y:.3g}") for y in curve[1]]
    if group.linear:
        terms = largest_terms(group, names, coefs)
        found["coef"] = [[*term_row(term)[:3]] for term in terms]
    kept = {name: value for name, value in model.options.items() if name != "counters"}
    found["options"] = ", ".join(f"{name}: {value}" for name, value in kept.items())
    return found
