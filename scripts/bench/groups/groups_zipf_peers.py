"""The peers of groups_zipf.py: one logistic model a group without tuskml."""

from __future__ import annotations

import time
from typing import Any

import data
import numpy as np
import quality
from contender import Outcome, Run, Settings
from data import Floats
from load import open_plain, zipf_arrays
from numpy.typing import NDArray
from quality import Labels

L2 = 1e-3
DEFAULTS = "LogisticRegression()"
"""A solver that stands for no arguments at all."""
Indices = dict[int, NDArray[np.intp]]


def pandas_groups(solver: str, settings: Settings) -> Run:
    """DuckDB to arrays, pandas for the rows of each group, one LogisticRegression a group."""
    import pandas as pd

    con = open_plain(data.zipf(settings), settings)

    def run() -> Outcome:
        W = _no_models()
        start = time.perf_counter()
        g, X, y = zipf_arrays(con)
        for group, rows in pd.Series(g).groupby(g, sort=False).indices.items():
            W[group] = sklearn_model(X[rows], y[rows], solver)
        return Outcome(time.perf_counter() - start, None, lambda: quality_of(W, settings))

    return run


def joblib_groups(settings: Settings) -> Run:
    """Arrays in mapped files, the groups' rows by one sort, two processes of one thread each."""
    from joblib import Parallel, delayed, parallel_config

    g = _mapped(settings)[0]

    def run() -> Outcome:
        W = _no_models()
        start = time.perf_counter()
        order = np.argsort(g, kind="stable").astype(np.int32)
        ends = np.cumsum(np.bincount(g, minlength=data.GROUPS_ZIPF))
        parts = {
            k: order[a:b]
            for k, (a, b) in enumerate(zip(np.append(0, ends[:-1]), ends, strict=False))
            if b > a
        }
        with parallel_config(backend="loky", inner_max_num_threads=1, n_jobs=2):
            done = Parallel(pre_dispatch="all", batch_size=1, max_nbytes=None)(
                delayed(joblib_task)(share, settings) for share in _shares(parts)
            )
        for models in done:
            for group, model in models.items():
                W[group] = model
        return Outcome(time.perf_counter() - start, None, lambda: quality_of(W, settings))

    return run


def joblib_task(parts: Indices, settings: Settings) -> dict[int, Floats]:
    """The models of a share of the groups, in a process of joblib's."""
    _, X, y = _mapped(settings)
    return {
        group: sklearn_model(X[rows], y[rows], "newton-cholesky") for group, rows in parts.items()
    }


def list_irls(settings: Settings) -> Run:
    """DuckDB gathers each group with list(), NumPy iterates on views of the Arrow memory."""
    con = open_plain(data.zipf(settings), settings)

    def run() -> Outcome:
        W = _no_models()
        start = time.perf_counter()
        table = con.sql(
            "SELECT g, list(y::FLOAT) AS y, list(x) AS x FROM zipf GROUP BY g"
        ).to_arrow_table()
        for batch in table.to_batches():
            labels, rows = batch.column(1), batch.column(2)
            for i, group in enumerate(batch.column(0).to_numpy()):
                X = rows[i].values.flatten().to_numpy().reshape(-1, data.DIM)
                W[group] = irls(X, labels[i].values.to_numpy())
        return Outcome(time.perf_counter() - start, None, lambda: quality_of(W, settings))

    return run


def sklearn_model(X: Floats, y: Labels, solver: str) -> Any:
    """The weights of one group, the intercept last; a group of one class gets a constant model."""
    from sklearn.linear_model import LogisticRegression

    if y.min() == y.max():
        return np.append(np.zeros(X.shape[1]), 30.0 if y[0] else -30.0)
    if solver == DEFAULTS:
        model = LogisticRegression().fit(X, y)
    else:
        model = LogisticRegression(C=1 / (len(y) * L2), solver=solver).fit(X, y)
    return np.append(model.coef_[0], model.intercept_[0])


def irls(X: Floats, y: Floats, rounds: int = 25) -> Floats:
    """Newton's method with a float32 Gram matrix and a float64 solve."""
    A = np.concatenate([X, np.ones((len(X), 1), np.float32)], axis=1)
    ridge = np.append(np.full(X.shape[1], L2), 1e-12)
    theta = np.zeros(A.shape[1])
    for _ in range(rounds):
        p = 1 / (1 + np.exp(-(A @ theta.astype(np.float32))))
        gradient = A.T @ (p - y) / len(y) + ridge * theta
        if np.abs(gradient).max() < 1e-4:
            break
        hessian = (A.T @ (A * (p * (1 - p))[:, None])) / len(y) + np.diag(ridge)
        theta -= np.linalg.solve(hessian.astype(np.float64), gradient.astype(np.float64))
    return theta.astype(np.float32)


def quality_of(W: Floats, settings: Settings) -> dict[str, float | str]:
    """The log-loss over all rows and the objective, its penalty weighted by the groups' rows."""
    g, X, y = zipf_arrays(open_plain(data.zipf(settings), settings))
    loss = quality.grouped_log_loss(X, y, g, W)
    share = np.bincount(g, minlength=len(W)) / len(g)
    return {
        "log-loss": loss,
        "objective": loss + float(L2 / 2 * (share @ (W[:, :-1] ** 2).sum(axis=1))),
    }


def _no_models() -> Floats:
    return np.zeros((data.GROUPS_ZIPF, data.DIM + 1), np.float32)


def _shares(parts: Indices, count: int = 24) -> list[Indices]:
    """The groups in shares of like size, the largest groups first."""
    total = sum(map(len, parts.values()))
    shares: list[Indices] = [{}]
    filled = 0
    for group, rows in sorted(parts.items(), key=lambda item: -len(item[1])):
        if filled and filled + len(rows) > total / count:
            shares.append({})
            filled = 0
        shares[-1][group] = rows
        filled += len(rows)
    return shares


def _mapped(settings: Settings) -> tuple[NDArray[np.int32], Floats, Labels]:
    """The arrays as mapped files next to the data set, so that no process copies them."""
    folder = settings.data_dir / f"zipf-{settings.scale:g}.arrays"
    names = ("g", "X", "y")
    if not (folder / "y.npy").exists():
        folder.mkdir(exist_ok=True)
        for name, array in zip(
            names, zipf_arrays(open_plain(data.zipf(settings), settings)), strict=False
        ):
            np.save(folder / f"{name}.npy", array)
    g, X, y = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in names)
    return g, X, y
