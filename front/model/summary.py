"""The summary of a model: text for terminals, HTML for notebooks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape

from tuskml.learners.registry import TASKS
from tuskml.model.fields import Fields
from tuskml.text.table import format_value, table

MOST_TERMS = 100
CELL = "text-align: {}; padding: 1px 10px; font-variant-numeric: tabular-nums"


@dataclass(frozen=True)
class Term:
    """One coefficient; None where a number has no meaning.

    p: two-sided; lower, upper: the 95% confidence interval; ratio: exp(estimate) if that is a
    ratio of odds, rates or means.
    """

    name: str
    estimate: float | None
    std_err: float | None = None
    statistic: float | None = None
    p: float | None = None
    lower: float | None = None
    upper: float | None = None
    ratio: float | None = None


@dataclass(frozen=True)
class Summary:
    """Facts of a training and a table of its terms, the intercept first; `str()` is the text.

    test: `z`, `t`, or None where there are no standard errors, and note says why; hidden: terms
    left out; ratios: whether terms have a ratio.
    """

    facts: tuple[tuple[str, str], ...]
    terms: tuple[Term, ...]
    test: str | None
    hidden: int
    note: str | None = None
    ratios: bool = False

    def head(self) -> list[str]:
        """The columns."""
        errors = ["std_err", self.test, "p", "lower", "upper"] if self.test else []
        ratio = ["ratio"] if self.test and self.ratios else []
        return ["term", "estimate", *errors, *ratio]

    def cells(self, term: Term) -> list[str]:
        """A term's row."""
        row = [term.name, number(term.estimate)]
        if self.test:
            row += [number(term.std_err), format_fixed(term.statistic, 2), small(term.p)]
            row += [number(term.lower), number(term.upper)]
        if self.test and self.ratios:
            row.append(number(term.ratio))
        return row

    def __str__(self) -> str:
        wide = max(len(name) for name, _ in self.facts)
        facts = [f"  {name:<{wide}}  {value}" for name, value in self.facts]
        if not self.terms:
            return "\n".join(facts)
        rows = [self.cells(term) for term in self.terms]
        widths = [max(len(row[k]) for row in rows) for k in range(len(self.head()))]
        padded = [
            [row[0], *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
            for row in rows
        ]
        text = "\n".join([*facts, "", table(self.head(), padded, width=200)])
        for line in self.below():
            text += f"\n  {line}"
        return text

    def below(self) -> list[str]:
        """The lines below the table."""
        left_out = [f"and {self.hidden:,} more in coef"] if self.hidden else []
        return left_out + ([self.note] if self.note else [])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        facts = " · ".join(f"<b>{escape(name)}</b> {escape(value)}" for name, value in self.facts)
        return f"<div>{facts}</div>" + (self.html_table() if self.terms else "")

    def html_table(self) -> str:
        """The terms."""
        head = self.head()
        rows = [html_row("th", head), *(html_row("td", self.cells(term)) for term in self.terms)]
        for line in self.below():
            rows.append(f'<tr><td colspan="{len(head)}">{escape(line)}</td></tr>')
        return f'<table style="margin-top: 4px">{"".join(rows)}</table>'


def html_row(tag: str, cells: list[str], texts: int = 1) -> str:
    """A row of texts and of numbers, which are aligned right."""
    sides = ["left"] * texts + ["right"] * (len(cells) - texts)
    parts = [
        f'<{tag} style="{CELL.format(side)}">{escape(cell)}</{tag}>'
        for side, cell in zip(sides, cells, strict=True)
    ]
    return f"<tr>{''.join(parts)}</tr>"


def number(value: float | None) -> str:
    """Six digits, the last ones too where they are 0."""
    return "" if value is None else f"{value:#.6g}".rstrip(".")


def format_fixed(value: float | None, digits: int) -> str:
    """Formats a number with `digits` decimals."""
    return "" if value is None else f"{value:.{digits}f}"


def small(p: float | None) -> str:
    """A p-value, as far as anyone reads it."""
    if p is None:
        return ""
    return "<0.0001" if p < 0.00005 else f"{p:.4f}"


def summarise(model: Fields) -> Summary:
    """The summary of a model; the terms are those of SQL's `model_summary`."""
    found = terms(model) if model.coef is not None and model.has_terms else []
    tested = any(term.std_err is not None for term in found)
    return Summary(
        tuple(facts(model)),
        tuple(found[:MOST_TERMS]),
        test_of(model) if tested else None,
        max(len(found) - MOST_TERMS, 0),
        None if tested or not found else why_none(model),
        has_ratios(model),
    )


WELL_ENDED = ("ok", "constant feature", "collinear features")
"""Statuses of models with standard errors."""


def why_none(model: Fields) -> str:
    """Says why a model has no standard errors; the notes of SQL's `model_summary`."""
    options = model.options
    known = TASKS.get(model.task)
    if known is not None and known.test is None:
        reason = f"'{model.task}' models have none"
    elif model.store is not None:
        reason = "models in a store have none"
    elif options.get("l1") or options.get("l2"):
        reason = "the model has a penalty, train it without l1 and l2"
    elif options.get("class_weight") is not None:
        reason = "the model has class weights, train it without"
    elif model.status not in WELL_ENDED:
        reason = f"the status is '{model.status}'"
    else:
        reason = "they need a likelihood, more rows than weights and at most 512 features"
    return f"no standard errors: {reason}"


def has_ratios(model: Fields) -> bool:
    """Returns whether exp of its coefficients are ratios."""
    task = TASKS.get(model.task)
    return task is not None and task.has_ratios and "link" not in model.options


def facts(model: Fields) -> list[tuple[str, str]]:
    """Facts on the training: task, rows and result."""
    skipped = f", {model.n_skipped:,} skipped" if model.n_skipped else ""
    found = [("task", model.task), ("status", model.status)]
    if model.label is not None:
        found.append(("label", model.label))
    if model.classes and model.has_terms:
        found.append(("classes", classes_shown(model)))
    if "absorbed" in model.options:
        found.append(("absorbed", describe_absorbed(model)))
    found += [
        ("rows", f"{model.n_rows:,}{skipped}"),
        *([("note", model.note)] if model.note else []),
        ("loss", format_value(float(model.loss))),
        ("plan", model.plan),
        ("iterations", f"{model.iterations:,} in {model.seconds:.3g} s"),
    ]
    if model.store is not None:
        found.append(("store", model.store))
    return found


def describe_absorbed(model: Fields) -> str:
    """Describes the categories whose effects a model absorbed, and what the others explain."""
    levels = ", ".join(f"{one} ({n:,} levels)" for one, n in model.options["absorbed"].items())
    share = float(model.options.get("within_r2", math.nan))
    return f"{levels}; within R2 {format_value(share)}"


def classes_shown(model: Fields) -> str:
    """The names of the classes, and of two which one the coefficients speak for."""
    names = model.names_of_classes
    of_two = f"; coefficients above 0 speak for {names[1]}" if len(names) == 2 else ""
    return ", ".join(names) + of_two


def test_of(model: Fields) -> str | None:
    """The statistic of its coefficients: `t` or `z`; as in SQL's `model_summary`.

    A custom task has standard errors if its loss is a likelihood, which gives a z.
    """
    task = TASKS.get(model.task)
    return "z" if task is None else task.test


def terms(model: Fields, places: Sequence[int] | None = None) -> list[Term]:
    """Intercept and coefficients with standard errors, statistics and p-values; places: of those
    to return, 0 being the intercept, where there is one, by default all but absorbed levels.
    """
    alone = not model.several and not model.cuts
    estimates = [*([model.intercept] if alone else []), *model.weights()]
    names = [*(["intercept"] if alone else []), *model.term_names]
    errors = model.std_err or []
    hidden = model.absorbed
    every = [k for k in range(len(estimates)) if k - 1 not in hidden]
    chosen = every if places is None else places
    if len(errors) != len(estimates):
        return [Term(names[k], estimates[k]) for k in chosen]
    freedom, ratios = freedom_of(model), has_ratios(model)
    return [
        test_term(names[k], estimates[k], errors[k], freedom, ratios and k >= model.cuts)
        for k in chosen
    ]


def freedom_of(model: Fields) -> float:
    """The degrees of freedom of the tests of its terms, infinite for the normal distribution."""
    if test_of(model) != "t":
        return math.inf
    known = sum(error is not None for error in model.std_err or ())
    return float(model.options.get("freedom", model.n_rows - known))


def test_term(
    name: str, estimate: float | None, error: float | None, freedom: float, ratios: bool
) -> Term:
    """One term; freedom: of Student's t, infinite for the normal distribution."""
    if not error or estimate is None:
        return Term(name, estimate, error)
    from scipy.special import stdtr  # slow to import, seldom needed

    statistic = estimate / error
    tail = 2 * float(stdtr(freedom, -abs(statistic)))
    reach = reach_of_interval(freedom) * error
    p, lower, upper = map(none_if_nan, (tail, estimate - reach, estimate + reach))
    ratio = exponential(estimate) if ratios else None
    return Term(name, estimate, error, statistic, p, lower, upper, ratio)


@cache
def reach_of_interval(freedom: float) -> float:
    """The standard errors from an estimate to an end of its 95% interval."""
    from scipy.special import stdtrit  # slow to import, seldom needed

    return float(stdtrit(freedom, 0.975))


def none_if_nan(x: float) -> float | None:
    """The number, None for NaN."""
    return None if math.isnan(x) else x


def exponential(x: float) -> float:
    """exp(x), infinite on overflow."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf
