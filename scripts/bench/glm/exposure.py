"""Counts with an exposure, compared with statsmodels, scikit-learn and glum, in one run.

python scripts/bench/run.py exposure --rows 2000000 --repeat 3

Poisson regression of 20 double features with the logarithm of an exposure as the offset. tuskml
trains from a table in DuckDB, so its time includes the packing, and computes standard errors; the
peers have NumPy arrays already. statsmodels' GLM and glum take the offset; scikit-learn's
PoissonRegressor has no offset and takes the same model as rates weighted by the exposure. A peer
that is not installed is left out. Seconds are of the wall clock and, in brackets, of processors.
The largest difference of a coefficient from tuskml's is shown.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from settling import settle

import tuskml

Floats = NDArray[np.float64]
Call = Callable[[], Floats]


def rows_of(n: int, d: int) -> tuple[Floats, Floats, Floats]:
    """Features (n, d), counts and exposures (n,)."""
    random = np.random.default_rng(1)
    x, exposure = random.normal(size=(n, d)), random.uniform(0.1, 2.0, n)
    rate = np.exp(-1 + x @ np.linspace(-0.2, 0.2, d))
    return x, random.poisson(exposure * rate).astype(float), exposure


def in_tuskml(con: duckdb.DuckDBPyConnection, threads: int) -> Floats:
    """Intercept and coefficients by train_model."""
    options = f'{{"threads": {threads}}}'
    sql = f"SELECT train_model('poisson', y, x, '{options}', 1, ln(e)) FROM t"
    model = con.execute(sql).fetchall()[0][0]
    return np.r_[model["intercept"], model["coef"]]


def in_statsmodels(x: Floats, y: Floats, exposure: Floats) -> Floats:
    """Coefficients by GLM."""
    import statsmodels.api as sm

    whole = sm.add_constant(x)
    model = sm.GLM(y, whole, sm.families.Poisson(), offset=np.log(exposure))
    return np.asarray(model.fit().params)


def in_sklearn(x: Floats, y: Floats, exposure: Floats) -> Floats:
    """Coefficients by PoissonRegressor, of rates."""
    from sklearn.linear_model import PoissonRegressor

    model = PoissonRegressor(alpha=0, tol=1e-6, max_iter=1000)
    model.fit(x, y / exposure, sample_weight=exposure)
    return np.r_[model.intercept_, model.coef_]


def in_glum(x: Floats, y: Floats, exposure: Floats) -> Floats:
    """Coefficients by glum."""
    from glum import GeneralizedLinearRegressor

    model = GeneralizedLinearRegressor(family="poisson", alpha=0)
    model.fit(x, y, offset=np.log(exposure))
    return np.r_[model.intercept_, model.coef_]


def timed(call: Call) -> tuple[Floats, tuple[float, float]]:
    """The result of a call, and its seconds of the wall clock and of processors."""
    settle()
    began, used = time.perf_counter(), time.process_time()
    found = call()
    return found, (time.perf_counter() - began, time.process_time() - used)


def main() -> None:
    """Prints a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--without", default="", help="peers that are left out")
    args = parser.parse_args()
    x, y, exposure = rows_of(args.rows, args.features)
    con: Any = tuskml.connect(threads=args.threads)
    con.register(
        "made", {f"c{j}": x[:, j] for j in range(args.features)} | {"y": y, "e": exposure}
    )
    listed = ", ".join(f"c{j}" for j in range(args.features))
    con.execute(f"CREATE TABLE t AS SELECT [{listed}] AS x, y, e FROM made")
    calls: dict[str, Call] = {"tuskml": lambda: in_tuskml(con, args.threads)}
    peers = {"statsmodels": in_statsmodels, "sklearn": in_sklearn, "glum": in_glum}
    for name, peer in peers.items():
        if importlib.util.find_spec(name) and name not in args.without:
            calls[name] = lambda peer=peer: peer(x, y, exposure)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    found: dict[str, Floats] = {}
    for _ in range(args.repeat):
        for name, call in calls.items():
            found[name], seconds = timed(call)
            times[name].append(seconds)
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{args.rows} x {args.features}, {args.threads} threads, load {load}")
    middle = {
        name: [statistics.median(one[i] for one in all_) for i in (0, 1)]
        for name, all_ in times.items()
    }
    for name, (wall, used) in middle.items():
        over = [a / b for a, b in zip((wall, used), middle["tuskml"], strict=True)]
        apart = float(np.abs(found[name] - found["tuskml"]).max())
        print(
            f"{name:12} {wall:8.3f} s ({used:.3f} s)  {over[0]:.1f}x ({over[1]:.1f}x)  "
            f"differs by {apart:.1e}"
        )


if __name__ == "__main__":
    main()
