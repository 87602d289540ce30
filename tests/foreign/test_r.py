"""R as an oracle: its own data sets, by lm, glm, glm.nb, rlm, rq, multinom and glmnet."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from foreign_databases import Database
from tally import Number, Tally

HERE = Path(__file__).parent
FIT = ("log_likelihood", "aic", "bic", "deviance", "null_deviance", "r2", "dispersion")
ROBUST = ("HC0", "HC1", "HC2", "HC3")
PRECISE = {"epsilon": 1e-10, "max_iter": 2000}
MOST_LISTED = 100
ERROR = 0.01
"""Of its standard error a coefficient may be off at default options."""
TASK = {"several classes": "logistic"}
REASONS: dict[str, Mapping[str, str]] = {}
"""By task, why numbers differ whose names begin so."""

Results = dict[str, dict[str, dict[tuple[str, str], float]]]


@cache
def oracle() -> tuple[Path, Results]:
    """The folder of R's rows, and its results by file, family, and quantity and term."""
    if shutil.which("Rscript") is None:
        pytest.skip("no Rscript: scripts/foreign_packages.sh installs it")
    folder = Path(mkdtemp(prefix="tuskml-foreign-"))
    subprocess.run(["Rscript", HERE / "oracle.R", folder], check=True, timeout=900)
    found: Results = defaultdict(lambda: defaultdict(dict))
    for line in (folder / "results.tsv").read_text().splitlines():
        file, family, quantity, term, value = line.split("\t")
        found[file][family][quantity, term] = float(value)
    return folder, found


def columns_in(path: Path) -> dict[str, list[float] | list[str]]:
    """The columns of a file of rows, the response first."""
    head, *lines = path.read_text().splitlines()
    columns = list(zip(*(line.split("\t") for line in lines), strict=True))
    found: dict[str, list[float] | list[str]] = {}
    for field, values in zip(head.split("\t"), columns, strict=True):
        name, _, kind = field.rpartition(":")
        found[name] = list(values) if kind == "text" else [float(value) for value in values]
    return found


def numbers_of(
    database: Database, family: str, theirs: Mapping[tuple[str, str], float]
) -> Iterator[Number]:
    """What R and the model in the table `fitted` have: coefficients, fit and terms."""
    summary = database.summary()
    fit = database.row_of(", ".join(FIT), "model_fit")
    terms = {}
    for row in database.execute("SELECT * FROM model_terms((SELECT model FROM fitted))"):
        term, _, test, statistic, p = row
        terms[term, test] = statistic, p
    errors = {term: value for (quantity, term), value in theirs.items() if quantity == "std_err"}
    for (quantity, term), value in theirs.items():
        name = f"{quantity} {term}".strip()
        if quantity in ("estimate", "std_err", "statistic", "p_value"):
            place = ("estimate", "std_err", "statistic", "p_value").index(quantity)
            ours = summary.get(term, (None,) * 4)[place]
            scale = {"estimate": errors.get(term, 0.0), "statistic": 1.0}.get(quantity, 0.0)
            allowed = 1e-5 if quantity == "p_value" else 1e-6
            yield Number(name, value, ours, allowed, 1e-9 if quantity == "p_value" else scale)
        elif quantity in FIT:
            yield Number(name, value, fit.get(quantity), 1e-6, 1e-6)
        elif quantity.startswith(("statistic of ", "p_value of ")):
            kind, test = quantity.split(" of ")
            pair = terms.get((term, {"LRT": "LR"}.get(test, test)), (None, None))
            p_value = kind == "p_value"
            yield Number(name, value, pair[p_value], 1e-5, 1e-8 if p_value else 1.0)


def differences(
    database: Database, tally: Tally, file: str, family: str, columns: Mapping[str, list]
) -> list[str]:
    """Trains a family on the rows of a file; the sentences of what differs from R."""
    theirs = oracle()[1][file][family]
    task = TASK.get(family, family)
    label, *features = columns
    options: dict[str, object] = dict(PRECISE)
    if task not in ("huber", "quantile"):
        options |= {"fit": True, "likelihood_ratio": family != "negative_binomial"}
    numbers: list[Number] = []
    if family == "quantile":
        numbers += quantiles(database, theirs, label, features)
    elif family == "lasso":
        numbers += lassos(database, theirs, label, features)
    elif family == "huber":
        database.train("suite", task, label, features, PRECISE)
        summary = database.summary()
        spread = max(abs(value) for value in theirs.values())
        numbers += [
            # rlm divides the median by 0.6745, and the normal distribution has 0.67449.
            Number(f"estimate {term}", value, summary[term][0], 1e-4, 1e-3 * spread)
            for (_, term), value in theirs.items()
        ]
    else:
        database.train("suite", task, label, features, options)
        numbers += numbers_of(database, family, theirs)
        if task != "logistic":
            ours = database.predictions("suite", features, 15)
            numbers += [
                Number(f"prediction {k}", theirs["prediction", str(k)], value, 1e-6)
                for k, value in enumerate(ours, 1)
                if ("prediction", str(k)) in theirs
            ]
        for kind in ROBUST:
            some = {term: value for (quantity, term), value in theirs.items() if quantity == kind}
            if some:
                database.train("suite", task, label, features, {**PRECISE, "covariance": kind})
                summary = database.summary()
                numbers += [Number(f"{kind} {t}", v, summary[t][1]) for t, v in some.items()]
        numbers += by_default(database, theirs, task, label, features)
    return tally.compare(f"R: {family}", database.name, numbers, REASONS.get(family, {}))


def by_default(
    database: Database,
    theirs: Mapping[tuple[str, str], float],
    task: str,
    label: str,
    features: list[str],
) -> Iterator[Number]:
    """Coefficients at default options, in units of their standard errors."""
    database.train("suite", task, label, features)
    summary = database.summary()
    for (quantity, term), value in theirs.items():
        if quantity == "std_err" and value > 0:
            ours, exact = summary[term][0], theirs["estimate", term]
            away = None if ours is None else (ours - exact) / value
            yield Number(f"default {term}", 0.0, away, ERROR, 1.0)


def quantiles(
    database: Database,
    theirs: Mapping[tuple[str, str], float],
    label: str,
    features: list[str],
) -> Iterator[Number]:
    """The mean pinball loss of the plane."""
    for (quantity, _), value in theirs.items():
        tau = quantity.removeprefix("loss at ")
        database.train("suite", "quantile", label, features, {"quantile": float(tau)})
        yield Number(quantity, value, database.field("loss"), 1e-6, 1e-12)


def lassos(
    database: Database,
    theirs: Mapping[tuple[str, str], float],
    label: str,
    features: list[str],
) -> Iterator[Number]:
    """The coefficients of standardised features at each of R's penalties."""
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
            yield Number(
                f"lasso at {share}", theirs[f"estimate at {share}", name], ours, 1e-5, size
            )


@pytest.mark.parametrize("part", range(12))
def test_r_has_the_same_numbers(both: Database, tally: Tally, part: int) -> None:
    folder, results = oracle()
    unexplained = []
    for file in sorted(results)[part::12]:
        columns = columns_in(folder / f"{file}.csv")
        both.create("suite", columns)
        for family in results[file]:
            try:
                found = differences(both, tally, file, family, columns)
            except both.error as error:
                found = [f"refused: {str(error).splitlines()[0]}"]
                tally.note(f"R: {family}", both.name, "refused, without a reason")
            unexplained += [f"{file}, {family}: {one}" for one in found]
    listed = "\n".join(unexplained[:MOST_LISTED])
    assert not unexplained, f"{len(unexplained)} numbers differ:\n{listed}"
