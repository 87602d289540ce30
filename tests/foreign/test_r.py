"""R as an oracle: its own data sets, by lm, glm, glm.nb, rlm, rq, multinom and glmnet."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import chain
from pathlib import Path

import pytest
from foreign_databases import Database
from tally import Number, Tally

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "foreign" / "r"
FIT = ("log_likelihood", "aic", "bic", "deviance", "null_deviance", "r2", "dispersion")
COLUMNS = ("estimate", "std_err", "statistic", "p_value")
ROBUST = ("HC0", "HC1", "HC2", "HC3")
TESTS = {"F": "F", "LRT": "LR"}
PRECISE = {"epsilon": 1e-10, "max_iter": 2000}
PARTS = 12
MOST_LISTED = 100
ERROR = 0.01
"""Of its standard error a coefficient may be off at default options."""
REASONS: dict[str, Mapping[str, str]] = {
    "huber": {
        "estimate": "the loss is flat: R's threshold is 1e-5 off, and at it losses are equal"
    }
}
"""By family, why numbers differ whose names begin so."""

Theirs = Mapping[tuple[str, str], float]
Results = dict[str, dict[str, dict[tuple[str, str], float]]]


@cache
def oracle() -> tuple[Results, dict[str, Counter[str]]]:
    """Returns R's results by file, family, and quantity and term, and reasons of fits left out."""
    if shutil.which("Rscript") is None:
        pytest.skip("no Rscript: scripts/foreign_packages.sh installs it")
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    subprocess.run(["Rscript", HERE / "oracle.R", BUILD], check=True, timeout=900)
    found: Results = defaultdict(lambda: defaultdict(dict))
    for line in (BUILD / "results.tsv").read_text().splitlines():
        file, family, quantity, term, value = line.split("\t")
        found[file][family][quantity, term] = float(value)
    left_out: dict[str, Counter[str]] = defaultdict(Counter)
    for line in (BUILD / "left_out.tsv").read_text().splitlines():
        _, family, reason = line.split("\t")
        left_out[family][reason] += 1
    return found, left_out


def columns_in(path: Path) -> dict[str, list[float] | list[str]]:
    """The columns of a file of rows, the response first."""
    head, *lines = path.read_text().splitlines()
    columns = list(zip(*(line.split("\t") for line in lines), strict=True))
    found: dict[str, list[float] | list[str]] = {}
    for field, values in zip(head.split("\t"), columns, strict=True):
        name, _, kind = field.rpartition(":")
        found[name] = list(values) if kind == "text" else [float(value) for value in values]
    return found


def coefficients(database: Database, theirs: Theirs) -> Iterator[Number]:
    """Compares estimates, their errors, statistics and p-values."""
    summary = database.summary()
    for (quantity, term), value in theirs.items():
        if quantity not in COLUMNS:
            continue
        ours = summary.get(term, (None,) * 4)[COLUMNS.index(quantity)]
        scale = {
            "estimate": theirs.get(("std_err", term), 0.0),
            "statistic": 1.0,
            "p_value": 1e-9,
        }.get(quantity, 0.0)
        allowed = 1e-5 if quantity == "p_value" else 1e-6
        yield Number(f"{quantity} {term}", value, ours, allowed, scale)


def goodness(database: Database, theirs: Theirs) -> Iterator[Number]:
    """Compares likelihoods, criteria and deviances."""
    fit = database.row_of(", ".join(FIT), "model_fit")
    for (quantity, _), value in theirs.items():
        if quantity in FIT:
            yield Number(quantity, value, fit[quantity], 1e-6, 1e-6)


def drops_of_terms(database: Database, theirs: Theirs) -> Iterator[Number]:
    """Compares the tests of the whole model against the one without a term."""
    found = {}
    for row in database.execute("SELECT * FROM model_terms((SELECT model FROM fitted))"):
        term, _, test, statistic, p_value = row
        found[test, term] = {"statistic": statistic, "p_value": p_value}
    for (quantity, term), value in theirs.items():
        column, _, test = quantity.partition(" of ")
        if test in TESTS:
            ours = found.get((TESTS[test], term), {}).get(column)
            scale = {"statistic": 1.0, "p_value": 1e-8}[column]
            yield Number(f"{quantity} {term}", value, ours, 1e-5, scale)


def predictions(
    database: Database, theirs: Theirs, features: list[str], function: str
) -> Iterator[Number]:
    """Compares those of the first rows."""
    wanted = [value for (quantity, _), value in theirs.items() if quantity == "prediction"]
    ours = database.predictions("suite", features, len(wanted), function) if wanted else []
    for k, value in enumerate(wanted):
        yield Number(f"prediction {k}", value, ours[k], 1e-6, 1e-9)


def robust_errors(
    database: Database, theirs: Theirs, task: str, label: str, features: list[str]
) -> Iterator[Number]:
    """Compares the errors of each kind."""
    for kind in ROBUST:
        wanted = {term: value for (quantity, term), value in theirs.items() if quantity == kind}
        if wanted:
            database.train("suite", task, label, features, {**PRECISE, "covariance": kind})
            summary = database.summary()
        for term, value in wanted.items():
            # A model that fits its rows exactly has errors of rounding alone.
            rounding = 1e-4 * theirs["std_err", term]
            yield Number(f"{kind} {term}", value, summary[term][1], 1e-6, rounding)


def by_default(
    database: Database, theirs: Theirs, task: str, label: str, features: list[str]
) -> Iterator[Number]:
    """Compares coefficients at default options, in units of their standard errors."""
    database.train("suite", task, label, features)
    summary = database.summary()
    for (quantity, term), value in theirs.items():
        if quantity == "std_err" and value > 0:
            ours, exact = summary[term][0], theirs["estimate", term]
            away = None if ours is None else (ours - exact) / value
            yield Number(f"default {term}", 0.0, away, ERROR, 1.0)


def likelihoods(
    task: str,
    options: Mapping[str, object],
    function: str,
    database: Database,
    theirs: Theirs,
    label: str,
    features: list[str],
) -> Iterator[Number]:
    """Compares all that a model with a likelihood has."""
    database.train("suite", task, label, features, {**PRECISE, **options})
    yield from coefficients(database, theirs)
    yield from goodness(database, theirs)
    yield from drops_of_terms(database, theirs)
    yield from predictions(database, theirs, features, function)
    yield from robust_errors(database, theirs, task, label, features)
    yield from by_default(database, theirs, task, label, features)


def hubers(
    database: Database, theirs: Theirs, label: str, features: list[str]
) -> Iterator[Number]:
    """Compares the loss at R's threshold, and the coefficients in units of R's errors.

    R divides the median by 0.6745, where the normal distribution has 0.67449.
    """
    delta = 1.345 * theirs["scale", ""]
    database.train("suite", "huber", label, features, {**PRECISE, "delta": delta})
    yield Number("loss", theirs["loss", ""], database.field("loss"), 1e-8)
    database.train("suite", "huber", label, features, PRECISE)
    summary = database.summary()
    for (quantity, term), value in theirs.items():
        if quantity == "estimate":
            error = theirs["std_err", term]
            yield Number(f"estimate {term}", 0.0, (summary[term][0] - value) / error, 1e-3, 1.0)


def quantiles(
    database: Database, theirs: Theirs, label: str, features: list[str]
) -> Iterator[Number]:
    """Compares the mean pinball loss: several planes may have the least."""
    for (quantity, _), value in theirs.items():
        level = float(quantity.removeprefix("loss at "))
        database.train("suite", "quantile", label, features, {"quantile": level})
        (size,) = database.execute(f'SELECT stddev_pop("{label}") FROM suite')[0]
        yield Number(quantity, value, database.field("loss"), 1e-6, 1e-6 * size)


def lassos(
    database: Database, theirs: Theirs, label: str, features: list[str]
) -> Iterator[Number]:
    """Compares the coefficients of standardised features at each of R's penalties."""
    for (quantity, share), penalty in theirs.items():
        if quantity != "penalty":
            continue
        options = {"lambda": penalty, "standardize": True, "tol": 1e-12}
        database.train("suite", "lasso", label, features, options)
        found = database.summary()
        size = max(abs(theirs[f"estimate at {share}", name]) for name in features)
        for name in features:
            deviation = database.execute(f'SELECT stddev_pop("{name}") FROM suite')[0][0]
            ours = found[name][0] * deviation
            wanted = theirs[f"estimate at {share}", name]
            yield Number(f"lasso at {share}", wanted, ours, 1e-5, size)


TESTED = {"fit": True, "likelihood_ratio": True}
Compare = Callable[[Database, Theirs, str, list[str]], Iterator[Number]]
FAMILIES: dict[str, Compare] = {
    "linear": partial(likelihoods, "linear", TESTED, "predict"),
    "logistic": partial(likelihoods, "logistic", TESTED, "predict_proba"),
    "several classes": partial(likelihoods, "logistic", TESTED, "predict_proba"),
    "poisson": partial(likelihoods, "poisson", TESTED, "predict"),
    "gamma": partial(likelihoods, "gamma", TESTED, "predict"),
    "negative_binomial": partial(likelihoods, "negative_binomial", {"fit": True}, "predict"),
    "huber": hubers,
    "quantile": quantiles,
    "lasso": lassos,
}


@pytest.mark.parametrize("part", range(PARTS))
def test_r_has_the_same_numbers(both: Database, tally: Tally, part: int) -> None:
    results, _ = oracle()
    unexplained = []
    for file in sorted(results)[part::PARTS]:
        columns = columns_in(BUILD / f"{file}.csv")
        label, *features = columns
        both.create("suite", columns)
        for family, theirs in results[file].items():
            try:
                numbers = list(FAMILIES[family](both, theirs, label, features))
            except both.error as error:
                unexplained.append(f"{file}, {family}: refused: {str(error).splitlines()[0]}")
                tally.line("R", family, both.name).left_out["refused, without a reason"] += 1
                continue
            found = tally.compare("R", family, both.name, numbers, REASONS.get(family))
            unexplained += [f"{file}, {family}: {one}" for one in found]
    listed = "\n".join(unexplained[:MOST_LISTED])
    assert not unexplained, f"{len(unexplained)} numbers differ:\n{listed}"


def test_fits_that_r_left_out_are_few(both: Database, tally: Tally) -> None:
    """A fit without an optimum has nothing to compare."""
    results, left_out = oracle()
    for family, reasons in left_out.items():
        tally.line("R", family, both.name).left_out += reasons
    fits = Counter(chain.from_iterable(results.values()))
    assert sum(reasons.total() for reasons in left_out.values()) < 0.1 * fits.total()
