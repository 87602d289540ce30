"""Models and metrics with the numbers that MADlib's own tests assert.

madlib.json has the rows and the cases: the file of MADlib's, the model, and values of columns of
model_summary (of the intercept, then of the features) and of model_fit. Where MADlib stops early
or says few digits, `allowed` is its own tolerance, relative to the largest value. Files that only
assert bounds on models of random rows (svm, kmeans, lmf, trees) are not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from foreign_databases import Database
from tally import Number, Tally, printed

MADLIB = json.loads(Path(__file__).with_name("madlib.json").read_text(encoding="utf-8"))
PRECISE = {"epsilon": 1e-10, "max_iter": 2000}
COLUMNS = ("estimate", "std_err", "statistic", "p_value")
ALLOWED = 1e-5
METRICS = {"mae": 13.825, "mape": 0.2945, "rmse": 220.3525**0.5, "r2": 0.2799}
"""Those that stats/test/pred_metrics asserts of SCORED."""
SCORED = {"y": [53.1, 34.2, 65.4, 82.1], "p": [37.5, 12.3, 74.2, 91.1]}
CLUSTERED = "MADlib tests them with n - k degrees of freedom, tuskml and Stata with clusters - 1"
LEFT_OUT = {
    "a link that tuskml does not have": 12,
    "inverse Gaussian, ordinal and Cox models": 18,
    "marginal effects, which tuskml does not have": 1,
}


def numbers_of(database: Database, case: Mapping[str, Any]) -> Iterator[Number]:
    """Trains the case and compares."""
    database.execute("DROP TABLE IF EXISTS suite")
    database.execute(
        f"CREATE TABLE suite AS SELECT {case['label']} AS label_of_case, * "
        f"FROM madlib_{case['table']} WHERE {case.get('where', 'true')}"
    )
    options, fit = case.get("options", {}), case.get("fit", {})
    features = [*case["features"], *([options["cluster"]] if "cluster" in options else [])]
    database.train(
        "suite", case["task"], "label_of_case", features, {**PRECISE, "fit": bool(fit), **options}
    )
    prefix = case.get("prefix", "")
    summary = {term: row for term, row in database.summary().items() if term.startswith(prefix)}
    terms = sorted(summary, key=lambda term: not term.endswith("intercept"))
    for place, column in enumerate(COLUMNS):
        values = case.get(column, ())
        for term, value in zip(terms if values else (), values, strict=True):
            name, ours = f"{column} {term}", summary[term][place]
            if allowed := case.get("allowed"):
                yield Number(name, value, ours, allowed, max(map(abs, values)))
            else:
                yield printed(name, value, ours, ALLOWED, cut=True)
    found = database.row_of(", ".join(fit), "model_fit") if fit else {}
    for name, value in fit.items():
        yield printed(name, value, found[name], ALLOWED, cut=True)


def test_madlib_asserts_the_same_models(both: Database, tally: Tally) -> None:
    unexplained = []
    for table, columns in MADLIB["rows"].items():
        both.create(f"madlib_{table}", columns)
    for case in MADLIB["cases"]:
        linear = case["task"] == "linear" and "cluster" in case.get("options", {})
        reasons = {"p_value": CLUSTERED} if linear else {}
        numbers = list(numbers_of(both, case))
        found = tally.compare("MADlib", "models", both.name, numbers, reasons)
        unexplained += [f"{case['file']}, {case['table']}: {one}" for one in found]
    tally.line("MADlib", "models", both.name).left_out.update(LEFT_OUT)
    assert not unexplained, "\n".join(unexplained)


def test_madlib_asserts_the_same_metrics(both: Database, tally: Tally) -> None:
    both.create("scored", SCORED)
    calls = ", ".join(f"{name}(y, p)" for name in METRICS)
    (found,) = both.execute(f"SELECT {calls} FROM scored")
    numbers = [
        printed(name, value, ours, ALLOWED, cut=True)
        for (name, value), ours in zip(METRICS.items(), found, strict=True)
    ]
    assert tally.compare("MADlib", "metrics", both.name, numbers) == []
