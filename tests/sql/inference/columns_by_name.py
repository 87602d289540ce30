"""Columns by name and the terms of models of them, in both databases."""

import json
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from databases import Client

RANDOM = np.random.default_rng(23)
N = 240
A = RANDOM.normal(size=N)
K, H = RANDOM.integers(0, 4, N), RANDOM.integers(0, 2, N)
MARGIN = 0.4 + 0.5 * A + np.array([0, 0.4, -0.3, 0.1])[K] + 0.1 * H
WEIGHT = RANDOM.integers(1, 4, N)
LABELS = {
    "linear": MARGIN + RANDOM.normal(size=N),
    "poisson": RANDOM.poisson(np.exp(MARGIN)).astype(float),
    "negative_binomial": RANDOM.negative_binomial(2, 2 / (2 + np.exp(MARGIN))).astype(float),
    "logistic": (MARGIN + RANDOM.logistic(size=N) > 0).astype(float),
    "gamma": np.exp(MARGIN) * RANDOM.gamma(2.0, 0.5, N),
}
FAMILIES = {
    "linear": sm.families.Gaussian(),
    "poisson": sm.families.Poisson(),
    "negative_binomial": sm.families.NegativeBinomial(alpha=0.5),
    "logistic": sm.families.Binomial(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
}
COLUMNS = {
    "a": "c0",
    "k": "(ARRAY['p', 'q', 'r', 's'])[1 + CAST(c1 AS integer)]",
    "h": "c2 > 0",
}
PRECISE = {"fit": True, "epsilon": 1e-10}


def terms(
    client: Client,
    task: str,
    y: Any,
    weight: Any = None,
    x: Any = None,
    columns: dict[str, str] = COLUMNS,
    **options: Any,
) -> Any:
    """The rows of model_terms of columns by name."""
    numbers = np.column_stack([A, K, H]) if x is None else x
    more = {} if weight is None else {"w": weight}
    source, parameters = client.rows(numbers, y, **more)
    given = ", ".join([f"'{json.dumps(PRECISE | options)}'", *more])
    named = ", ".join(f"{value} AS {name}" for name, value in columns.items())
    features = "x"
    if client.mark == "?":
        features = "{" + ", ".join(f"'{name}': {value}" for name, value in columns.items()) + "}"
    else:
        source = f"{source}, LATERAL (SELECT {named}) AS x"
    call = f"SELECT train_model('{task}', y, {features}, {given}) FROM {source}"
    return client.connection.execute(f"SELECT * FROM model_terms(({call}))", parameters).fetchall()


def frame(y: Any) -> pd.DataFrame:
    return pd.DataFrame({"y": y, "a": A, "k": K, "h": H})
