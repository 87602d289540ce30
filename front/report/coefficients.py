"""The report's section on coefficients: of one model its terms, of many models their spread.

Models of trees have a section on the gain of the splits by each feature.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tuskml.learners.trees.forest import gains_of
from tuskml.model.scoring import Floats
from tuskml.model.summary import Term, freedom_of, reach_of_interval, small, terms
from tuskml.report import charts
from tuskml.report.charts import Span
from tuskml.report.groups import Group, some_of
from tuskml.report.pieces import FEATURES, figure, largest, note, number, section, table

WIDEST = 10_000
"""Features of which the spread over many models is looked at: the first ones."""
UNIT = "A coefficient is the change of the margin by one unit of its feature"


def coefficients(groups: Sequence[Group], names: Sequence[str]) -> str:
    """The largest of one model with their intervals, of many with their spread; '' of trees
    alone.

    names: the features', for models that do not know them.
    """
    some = [group for group in groups if group.linear and np.any(group.weights)]
    if not some and any(group.has_trees for group in groups):
        return ""
    if not some:
        text = (
            "No model has non-zero coefficients to show: they are in a store, or the models are "
            "factors, trees or nets."
        )
        return section("coefficients", "Coefficients", note(text))
    if len(some) == 1:
        spans, text = of_one(some[0], names), f"{UNIT}."
        if spans[0].low < spans[0].high:
            text = f"{UNIT}; whiskers are 95% intervals."
        rows = [term_row(term) for term in with_intercept(some[0], names)]
        below = table(TERM_HEAD, rows, "The intercept and the largest coefficients")
    else:
        spans = of_many(some, names)
        text = (
            f"Medians over {len(some):,} models, or those that have the feature, by size; "
            f"whiskers reach from the 10th to the 90th percentile. {UNIT}."
        )
        below = spread_table(some, names, spans)
    label = "; ".join(one.title for one in spans)
    drawing = figure(charts.spans(spans, label), text)
    return section("coefficients", "Coefficients", drawing, below)


def largest_terms(group: Group, names: Sequence[str], most: int = FEATURES) -> list[Term]:
    """A model's largest coefficients with their tests, by the features' names."""
    assert group.model is not None  # it has weights
    chosen, own = largest(group.weights, most), group.terms(names)
    found = terms(group.model, [k + 1 for k in chosen])
    return [replace(term, name=own[k]) for k, term in zip(chosen, found, strict=True)]


def with_intercept(group: Group, names: Sequence[str]) -> list[Term]:
    """A model's intercept, if it has one, and its largest coefficients."""
    assert group.model is not None
    first = terms(group.model, [0]) if group.model.options.get("fit_intercept", True) else []
    return [*first, *largest_terms(group, names)]


def of_one(group: Group, names: Sequence[str]) -> list[Span]:
    """A model's largest coefficients with 95% intervals, those without a width where it has no
    errors.
    """
    spans = []
    for term in largest_terms(group, names):
        assert term.estimate is not None
        low, high, title = term.estimate, term.estimate, f"{term.name} {term.estimate:.4g}"
        if term.std_err is not None and term.lower is not None and term.upper is not None:
            low, high = term.lower, term.upper
            title += f", standard error {term.std_err:.3g}, from {low:.4g} to {high:.4g}"
        spans.append(Span(term.name, term.estimate, low, high, title))
    return spans


TERM_HEAD = ("term", "estimate", "95% interval", "p")


def term_row(term: Term) -> list[str]:
    """A coefficient as a line of a table."""
    return [
        term.name,
        number(term.estimate),
        interval(term.lower, term.upper),
        small(term.p) or "–",
    ]


def interval(low: float | None, high: float | None) -> str:
    """Both ends, or a dash."""
    return "–" if low is None or high is None else f"{low:.4g} to {high:.4g}"


def of_many(some: Sequence[Group], names: Sequence[str]) -> list[Span]:
    """The spread of the features that weigh most in the middle of the models that have them."""
    own_terms = [tuple(group.terms(names)) for group in some]
    frequent = Counter(name for one in own_terms for name in one).most_common(WIDEST)
    place = {name: k for k, (name, _) in enumerate(frequent)}
    weights = np.full((len(some), len(place)), np.nan)
    for row, group, own in zip(weights, some, own_terms, strict=True):
        there = [k for k, name in enumerate(own) if name in place]
        row[[place[own[k]] for k in there]] = group.weights[there]
    low, middle, high = np.nanpercentile(weights, [10, 50, 90], axis=0)
    spans = []
    for k in largest(middle):
        (name, n), ends = frequent[k], (float(low[k]), float(high[k]))
        title = f"{name} {middle[k]:.4g}, from {ends[0]:.4g} to {ends[1]:.4g}"
        title += "" if n == len(some) else f", in {n:,} of {len(some):,} models"
        spans.append(Span(name, float(middle[k]), *ends, title))
    return spans


def spread_table(some: Sequence[Group], names: Sequence[str], spans: Sequence[Span]) -> str:
    """The drawn terms, and in how many models the interval of each is on one side of 0."""
    there, tested, apart = Counter[str](), Counter[str](), Counter[str]()
    drawn = {one.name for one in spans}
    for group in some:
        assert group.model is not None
        weights, errors = group.weights, (group.model.std_err or [])[1:]
        known = len(errors) == len(weights)
        reach = reach_of_interval(freedom_of(group.model)) if known else math.nan
        for k, name in enumerate(group.terms(names)):
            if name not in drawn:
                continue
            there[name] += 1
            half = reach * ((errors[k] if known else None) or math.nan)
            tested[name] += not math.isnan(half)
            apart[name] += bool(abs(weights[k]) > half)
    rows = [
        [
            one.name,
            f"{there[one.name]:,}",
            number(one.middle),
            interval(one.low, one.high),
            f"{apart[one.name]:,} of {tested[one.name]:,}" if tested[one.name] else "–",
        ]
        for one in spans
    ]
    head = ("term", "models", "median", "10th to 90th percentile", "95% interval without 0")
    return table(head, rows, "The largest coefficients over models")


MODELS = 500
"""The most models whose trees are read."""


def importance(groups: Sequence[Group], names: Sequence[str]) -> str:
    """The features that gained most, of many models with their spread; '' without trees.

    names: of the features, for models that do not know them.
    """
    there = [group for group in groups if group.has_trees]
    some = [
        (group.terms(names), shares)
        for group in some_of(there, MODELS)
        if (shares := shares_of(group)).any()
    ]
    if not some:
        return ""
    rows = spans_of(some)
    text = "The share of each feature in what all splits of a model gained in training."
    if len(some) > 1:
        text += (
            f" Medians over {len(some):,} models; whiskers reach from the 10th to the 90th "
            "percentile."
        )
    if len(there) > MODELS:
        text += f" The trees of {MODELS:,} of {len(there):,} models were read."
    label = "; ".join(row.title for row in rows)
    return section("importance", "Importance", figure(charts.spans(rows, label), text))


def shares_of(group: Group) -> Floats:
    """The share of each feature in the total gain, (n_features,)."""
    assert group.model is not None
    gains = gains_of(group.model.coef or [], group.model.n_features)
    return gains / gains.sum() if gains.sum() > 0 else np.zeros(len(gains))


def spans_of(some: Sequence[tuple[Sequence[str], Floats]]) -> list[Span]:
    """The largest shares by name; 0 in models that have no such feature."""
    columns: dict[str, Floats] = {}
    for place, (names, shares) in enumerate(some):
        for name, share in zip(names, shares, strict=True):
            columns.setdefault(name, np.zeros(len(some)))[place] += share
    rows = []
    for name, found in columns.items():
        low, middle, high = np.percentile(found, [10, 50, 90]).tolist()
        title = f"{name} {middle:.1%}" + (
            f", from {low:.1%} to {high:.1%}" if len(found) > 1 else ""
        )
        rows.append(Span(name, middle, low, high, title))
    return sorted(rows, key=lambda row: -row.middle)[:FEATURES]
