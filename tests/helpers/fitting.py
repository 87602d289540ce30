"""Training through SQL from NumPy arrays, and the objective of design.md, section 3, in NumPy."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd


def put(con, x, y, table="t", storage="DOUBLE", **columns):
    """Makes a table of labels y, features x, an array a row, and further columns."""
    frame = pd.DataFrame({"y": y, "x": list(x)} | columns)  # noqa: F841, DuckDB sees it
    con.execute(
        f"CREATE OR REPLACE TABLE {table} AS SELECT * REPLACE (x::{storage}[] AS x) FROM frame"
    )


def fit(con, task, table="t", features="x", **options):
    """The model of a whole table; coef as an array, options parsed."""
    query = f"SELECT train_model('{task}', y, {features}, '{json.dumps(options)}') FROM {table}"
    return model_of(con.execute(query).fetchone()[0])


def model_of(value):
    """A model value as an object."""
    model = SimpleNamespace(**value)
    model.coef = np.array(model.coef)
    model.options = json.loads(model.options)
    return model


def losses(task, margins, y):
    """Loss and derivative of each row, y numbers or 0 and 1."""
    if task == "linear":
        return (margins - y) ** 2 / 2, margins - y
    sign = np.where(y == 1, 1, -1)
    z = sign * margins
    if task == "logistic":
        return np.logaddexp(0, -z), -sign / (1 + np.exp(z))
    return np.maximum(1 - z, 0), np.where(z < 1, -sign, 0)


def row_weights(y, class_weight):
    """The weight of each row's loss, normally 1."""
    if class_weight is None:
        return np.ones(len(y))
    high = y == 1
    if class_weight == "balanced":
        share = high.mean()
        return np.where(high, 0.5 / share, 0.5 / (1 - share))
    return np.where(high, class_weight[1], class_weight[0])


def objective(task, x, y, model, l1=0.0, l2=0.0, class_weight=None):
    """mean(loss) + l2/2 ||w||^2 + l1 ||w||_1, in long doubles."""
    x, w = np.asarray(x, np.longdouble), model.coef.astype(np.longdouble)
    loss, _ = losses(task, x @ w + model.intercept, y)
    mean = (row_weights(y, class_weight) * loss).mean()
    return float(mean + l2 / 2 * (w @ w) + l1 * np.abs(w).sum())


def violation(task, x, y, model, l1=0.0, l2=0.0, class_weight=None, fit_intercept=True):
    """The distance of the smallest subgradient from zero, by weight and then by intercept."""
    x, w = np.asarray(x, np.longdouble), model.coef.astype(np.longdouble)
    _, slope = losses(task, x @ w + model.intercept, y)
    slope = row_weights(y, class_weight) * slope
    gradient = x.T @ slope / len(y) + l2 * w
    pushed = np.abs(gradient + l1 * np.sign(w))
    resting = np.maximum(np.abs(gradient) - l1, 0)
    constant = abs(slope.mean()) if fit_intercept else 0
    return np.append(np.where(w != 0, pushed, resting), constant).astype(float)


def conditioned(task, x, y, model, l1=0.0, l2=0.0, class_weight=None, fit_intercept=True):
    """`violation` by features with mean 0 and deviation 1, in the units of `epsilon`.

    Those are the label's deviation, or 4 a b / (a + b) for classes with weighted shares a and b.
    """
    x, w = np.asarray(x, np.longdouble), model.coef.astype(np.longdouble)
    weight = row_weights(y, class_weight)
    _, slope = losses(task, x @ w + model.intercept, y)
    slope = weight * slope
    z = x - x.mean(axis=0) if fit_intercept else x
    gradient = z.T @ slope / len(y) + l2 * w
    pushed = np.abs(gradient + l1 * np.sign(w))
    resting = np.maximum(np.abs(gradient) - l1, 0)
    off = np.where(w != 0, pushed, resting) / np.sqrt((z * z).mean(axis=0))
    constant = abs(slope.mean()) if fit_intercept else 0
    unit = y.std() if fit_intercept else np.sqrt((y * y).mean())
    if task == "logistic":
        low, high = ((weight * (y == label)).mean() for label in (0, 1))
        unit = 4 * low * high / (low + high)
    return (np.append(off, constant) / unit).astype(float)
