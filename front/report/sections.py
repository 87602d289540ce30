"""The report's sections on all models together."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from tuskml.learners.explaining import format_seconds
from tuskml.learners.remarks import gaps_in
from tuskml.model.model import Model
from tuskml.report import charts
from tuskml.report.charts import Line
from tuskml.report.groups import SYMBOLS, WORST_FIRST, Group, some_of
from tuskml.report.pieces import figure, note, section, table

CURVES, CURVE_POINTS, NAMED_CURVES = 200, 48, 6
POINTS, PLANS, STORED = 400, 20, 1000
REASONS = 5
"""Reasons for skipped rows that the summary names; the others it counts."""
GRADES = {
    "good": "trained well",
    "fair": "usable, needs attention",
    "bad": "without a usable result",
}


# --- in all ---


def summary(groups: Sequence[Group]) -> str:
    """Counts that a reader wants first."""
    models = [group.model for group in groups if group.model is not None]
    grades = Counter(group.grade for group in groups)
    rows, skipped = sum(m.n_rows for m in models), sum(m.n_skipped for m in models)
    iterations = [m.iterations for m in models] or [0]
    seconds = sum(m.seconds for m in models)
    tiles = [
        ("models", f"{len(models):,}", f"of {len(groups):,} group{'s'[: len(groups) != 1]}"),
        (
            "trained well",
            f"{grades['good'] / max(len(groups), 1):.0%}",
            f"{grades['good']:,} of them",
        ),
        ("rows", f"{rows:,}", f"{skipped:,} skipped"),
        ("iterations", f"{np.median(iterations):.0f}", f"median; at most {max(iterations):,}"),
        ("training", format_seconds(seconds) if seconds else "0 s", "the models' shares, summed"),
    ]
    shown = "".join(
        f'<div class="tile"><dt>{escape(label)}</dt><dd>{escape(value)}</dd>'
        f'<dd class="small">{escape(more)}</dd></div>'
        for label, value, more in tiles
    )
    tiles_shown = f'<dl class="tiles">{shown}</dl>'
    return section(
        "summary", "In all", tiles_shown, statuses(groups), describe_skipped_rows(models)
    )


def describe_skipped_rows(models: Sequence[Model]) -> str:
    """Says what was NULL in the rows that were left out; '' where no model knows."""
    gaps = Counter[str]()
    for model in models:
        gaps.update(gaps_in(model.note))
    if not gaps:
        return ""
    most = gaps.most_common(REASONS)
    told = [f"{what} in {n:,}" for what, n in most]
    if len(gaps) > len(most):
        told.append(f"{len(gaps) - len(most):,} more columns in fewer")
    return note(f"Rows were skipped where {', '.join(told)}.")


def statuses(groups: Sequence[Group]) -> str:
    """Shows how many groups have each status: a bar, and the numbers."""
    counted = Counter((group.grade, group.status) for group in groups)
    ordered = sorted(counted.items(), key=lambda item: (-WORST_FIRST.index(item[0][0]), -item[1]))
    bar = charts.shares(
        [(grade, n, f"{status}: {n:,}") for (grade, status), n in ordered],
        "; ".join(f"{status}: {n:,}" for (_, status), n in ordered),
    )
    words = "".join(
        f'<li><span class="pill {grade}"><span aria-hidden="true">{SYMBOLS[grade]}</span> '
        f"{escape(status)}</span> {n:,}</li>"
        for (grade, status), n in ordered
    )
    return f'{bar}<ul class="legend">{words}</ul>'


# --- convergence ---


def convergence(groups: Sequence[Group]) -> str:
    """All curves, or some of very many."""
    drawable = [group for group in groups if group.curve(CURVE_POINTS)]
    if not drawable:
        text = "No training took two or more steps to its best objective, so there is no curve."
        return section("convergence", "Convergence", note(text))
    some = [(group, group.curve(CURVE_POINTS)) for group in some_of(drawable, CURVES)]
    named = len(some) <= NAMED_CURVES
    lines = [
        Line(*curve, style_of(group, k, named), tooltip(group))
        for k, (group, curve) in enumerate(some)
        if curve
    ]
    best = "the distance from the best objective, as a share of the first distance, by iteration"
    label = f"{len(lines)} convergence curves: {best}"
    drawing = charts.convergence(lines[::-1], label)
    caption = (
        "Each training's objective minus the best that it found, as a share of that distance at "
        "first: at 10⁻⁶ a millionth is left. The best itself cannot be shown on a log scale."
    )
    if len(drawable) > len(some):
        caption += (
            f" {len(some):,} of {len(drawable):,} are drawn: up to half of them need attention, "
            "the others are the largest."
        )
    if len(drawable) < len(groups):
        caption += f" {len(groups) - len(drawable):,} groups took less than two steps."
    return section("convergence", "Convergence", legend(some, named), figure(drawing, caption))


def style_of(group: Group, place: int, named: bool) -> str:
    """The curve's colour: its own if there are few, else that of its status."""
    return f"series-{place + 1}" if named else f"many {group.grade}"


def tooltip(group: Group) -> str:
    """The text of a curve's tooltip."""
    model = group.model
    assert model is not None  # it has a curve
    return f"{group.name}: {group.status}, {model.iterations:,} iterations, {model.plan}"


def legend(some: Sequence[tuple[Group, Any]], named: bool) -> str:
    """Says which colour is which curve."""
    if named:
        marks = [(f"series-{k + 1}", group.name) for k, (group, _) in enumerate(some)]
    else:
        there = {group.grade for group, _ in some}
        marks = [(grade, text) for grade, text in GRADES.items() if grade in there]
    return charts.legend(marks)


# --- plans ---


def plans(groups: Sequence[Group]) -> str:
    """The plans, with their actual and estimated costs."""
    by_algorithm: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        if group.model is not None:
            by_algorithm[group.algorithm].append(group)
    head = ("algorithm", "models", "iterations", "estimated", "seconds", "estimated")
    rows = [plan_row(name, some) for name, some in sorted(by_algorithm.items())]
    parts = [table(head, rows, "Iterations are medians, seconds are sums")]
    estimated = [group for group in groups if group.estimate and group.model]
    if estimated:
        parts.append(scatters(estimated))
    else:
        parts.append(
            note(
                "No plan here was chosen by its estimated cost: small trainings follow a rule, "
                "and others an option. tuskml explain shows estimates without training."
            )
        )
    texts = Counter(
        group.model.plan.partition(", estimated")[0] for group in groups if group.model
    )
    items = "".join(
        f"<li><code>{escape(text)}</code> {n:,}</li>" for text, n in texts.most_common(PLANS)
    )
    more = f"<li>and {len(texts) - PLANS:,} more</li>" if len(texts) > PLANS else ""
    return section("plans", "Plans", *parts, f'<ul class="plans">{items}{more}</ul>')


def plan_row(name: str, some: Sequence[Group]) -> list[str]:
    """An algorithm's models together; estimates of those that have one, with their actual
    costs.
    """
    models = [group.model for group in some if group.model]
    pairs = [(group.estimate, group.model) for group in some if group.estimate and group.model]
    told_iterations, told_seconds = "–", "–"
    if pairs:
        of = "" if len(pairs) == len(models) else f" for {len(pairs):,}"
        told_iterations = f"{np.median([e[0] for e, _ in pairs]):.0f}{of}"
        took = format_seconds(sum(model.seconds for _, model in pairs))
        told_seconds = format_seconds(sum(e[1] for e, _ in pairs))
        told_seconds += f" for what took {took}" if of else ""
    iterations = f"{np.median([model.iterations for model in models]):.0f}"
    seconds = format_seconds(sum(model.seconds for model in models))
    return [name, f"{len(models):,}", iterations, told_iterations, seconds, told_seconds]


def scatters(estimated: Sequence[Group]) -> str:
    """Two drawings: iterations and seconds, as estimated and as they were."""
    some = some_of(estimated, POINTS)
    drawn = []
    for unit, place in (("iterations", 0), ("seconds", 1)):
        pairs = []
        for group in some:
            assert group.model is not None
            assert group.estimate is not None
            actual = (float(group.model.iterations), group.model.seconds)[place]
            guess = group.estimate[place]
            title = f"{group.name}: {guess:.3g} {unit} estimated, {actual:.3g} taken"
            pairs.append((guess, actual, title))
        label = f"{unit} of {len(pairs)} models, estimated and actual"
        drawn.append(charts.against(pairs, label, unit))
    return f'<div class="pair">{"".join(drawn)}</div>' + note(
        f"{len(some):,} models whose plan was chosen by cost. On the line the estimate was right; "
        "above it the training took more."
    )


# --- counters ---


def stores(groups: Sequence[Group]) -> str:
    """Counters of stored models: how the requests for features were answered."""
    some = [group for group in groups if "saved_by_partitioning" in group.counters]
    if not some:
        return ""
    kinds = {
        "saved_by_partitioning": "saved by partitioning",
        "read_together": "read together",
        "saved_by_pushing": "saved by pushing",
        "cache_hits": "cache hits",
        "requests": "requests",
    }
    total = Counter[str]()
    for group in some:
        total.update({name: int(group.counters.get(name, 0)) for name in [*kinds, "features"]})
    bar = charts.shares(
        [
            (f"fill-{k + 1}", total[name], f"{text}: {total[name]:,}")
            for k, (name, text) in enumerate(kinds.items())
        ],
        "; ".join(f"{text}: {total[name]:,}" for name, text in kinds.items()),
    )
    words = "".join(
        f'<li><svg class="mark fill-{k + 1}" viewBox="0 0 10 10" aria-hidden="true">'
        f'<rect width="10" height="10" rx="2"/></svg>{text} {total[name]:,}</li>'
        for k, (name, text) in enumerate(kinds.items())
    )
    head = ("model", "store", "features", *kinds.values(), "keys written", "read", "written")
    rows = [store_row(group, list(kinds)) for group in some[:STORED]]
    text = (
        "Every distinct feature of a chunk of rows, in every epoch, is answered in one of five "
        f"ways; together they are the {total['features']:,} features asked for."
    )
    return section(
        "stores",
        "Store",
        note(text),
        bar,
        f'<ul class="legend">{words}</ul>',
        table(head, rows, "What each training asked of its store"),
    )


def store_row(group: Group, kinds: Sequence[str]) -> list[str]:
    """One model's counters."""
    model, counters = group.model, group.counters
    assert model is not None
    counts = [f"{int(counters.get(name, 0)):,}" for name in ["features", *kinds, "writes"]]
    moved = [size(int(counters[name])) for name in ("bytes_read", "bytes_written")]
    return [group.name, model.store or "–", *counts, *moved]


def size(number: float) -> str:
    """Bytes for a person."""
    if number < 1024:
        return f"{number:,.0f} bytes"
    power = min(int(math.log(number, 1024)), 3)
    return f"{number / 1024**power:,.1f} {('KiB', 'MiB', 'GiB')[power - 1]}"
