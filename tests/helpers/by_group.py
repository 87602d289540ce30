"""Models by group, by all algorithms."""

import json

from fitting import model_of

EXACT = ["bgd", "lbfgs", "newton", "newton_cg", "svrg"]
ALGORITHMS = [*EXACT, "mgd", "sgd", "hogwild", "hogbatch"]
UNDETERMINED = ("separable", "too few rows", "collinear features")
"""Statuses for which many weights are equally good, or none is best."""


def by_group(con, task, features="x", table="t", **options):
    """Models by group of column k, None where SQL has NULL."""
    rows = con.execute(
        f"SELECT k, train_model('{task}', y, {features}, $1) FROM {table} GROUP BY k",
        [json.dumps(options)],
    ).fetchall()
    return {k: None if value is None else model_of(value) for k, value in rows}
