"""Seconds of stochastic descent by the number of rows and of features, after figure 10 of ML4all.

Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD 2017, 8.4.2: the
hinge by SGD, by the plans eager-random and lazy-shuffle, compared with MLlib. Here compared with
scikit-learn's SGDClassifier, which reads the rows of the same Parquet file first, and with `auto`.
All stop by the same tolerance of their own criteria, and the losses that they reach are printed
too. Each training opens the file anew.

    python scripts/bench/run.py scaling --most-rows 4000000 --plots docs/images
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from sklearn.linear_model import SGDClassifier

import tuskml

L2, EPSILON = 1e-3, 0.01
NARROW, FEW = 20, 40_000
"""Features where rows grow, and rows where features do."""
PLANS: dict[str, dict[str, Any]] = {
    "eager-random": {"algorithm": "sgd", "transform": "eager", "sampler": "random-partition"},
    "lazy-shuffle": {"algorithm": "sgd", "transform": "lazy", "sampler": "shuffled-partition"},
    "auto": {},
}
THEIRS = "SGDClassifier"


def write(path: Path, rows: int, features: int) -> None:
    """A file of uniform numbers, whose classes follow from a few of them and noise."""
    made = ", ".join(
        f"(hash(i * {features + 1} + {k}) % 10007 / 5003 - 1)" for k in range(features)
    )
    margin = " + ".join(f"{(-1) ** k / (1 + k):.3f} * x[{k + 1}]" for k in range(8))
    noise = f"hash(i * {features + 1} + {features}) % 10007 / 10007"
    with duckdb.connect() as con:
        con.execute(
            f"COPY (SELECT x::FLOAT[] AS x, {noise} < 1 / (1 + exp(-3 * ({margin}))) AS y "
            f"FROM (SELECT i, [{made}] AS x FROM range({rows}) t(i))) TO '{path}' (FORMAT parquet)"
        )


def loss(path: Path, coef: Any, intercept: float) -> float:
    """The objective, of a hundred thousand rows."""
    x, y = read(path, " LIMIT 100000")
    margin = np.where(y, 1, -1) * (x @ np.asarray(coef) + intercept)
    return float(np.maximum(0, 1 - margin).mean() + L2 / 2 * np.square(coef).sum())


def read(path: Path, more: str = "") -> tuple[Any, Any]:
    """Features (n, d) as float32, and classes (n,)."""
    with duckdb.connect() as con:
        table = con.sql(f"SELECT x, y FROM '{path}'{more}").to_arrow_table()
    x = table["x"].combine_chunks().flatten().to_numpy().reshape(table.num_rows, -1)
    return x, table["y"].to_numpy()


def ours(con: Any, path: Path, plan: dict[str, Any]) -> tuple[Any, float]:
    """Coefficients of a plan."""
    options = {"epsilon": EPSILON, "l2": L2} | plan
    model = tuskml.train(con, "svm", source=path, label="y", features="x", **options)
    return model.coef, model.intercept


def theirs(path: Path) -> tuple[Any, float]:
    """Coefficients by scikit-learn."""
    x, y = read(path)
    model = SGDClassifier(alpha=L2, tol=EPSILON, max_iter=1000).fit(x, y)
    return model.coef_[0], float(model.intercept_[0])


def measured(con: Any, path: Path, repeat: int) -> dict[str, tuple[float, float]]:
    """By name, the median of the seconds, and the loss; all take turns."""
    calls: dict[str, Callable[[], tuple[Any, float]]] = {
        name: lambda plan=plan: ours(con, path, plan) for name, plan in PLANS.items()
    }
    calls[THEIRS] = lambda: theirs(path)
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    found = {}
    for _ in range(repeat):
        for name, call in calls.items():
            began = time.perf_counter()
            found[name] = call()
            seconds[name].append(time.perf_counter() - began)
    return {name: (sorted(seconds[name])[repeat // 2], loss(path, *found[name])) for name in calls}


def sweep(
    con: Any, what: str, sizes: list[int], repeat: int
) -> dict[str, list[tuple[float, float]]]:
    """Prints seconds and losses by name, for files of each size in rows or features."""
    every: dict[str, list[tuple[float, float]]] = {name: [] for name in (*PLANS, THEIRS)}
    print(f"| {what} | {' | '.join(every)} |\n|{'---|' * (1 + len(every))}")
    for size in sizes:
        shape = (size, NARROW) if what == "rows" else (FEW, size)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            write(path, *shape)
            found = measured(con, path, repeat)
        for name, one in found.items():
            every[name].append(one)
        cells = [f"{found[name][0]:.3g} s, {found[name][1]:.3f}" for name in every]
        print(f"| {size:,} | {' | '.join(cells)} |", flush=True)
    return every


def draw(
    panels: list[tuple[str, list[int], dict[str, list[tuple[float, float]]]]], path: Path
) -> None:
    """Seconds by size, both on logarithmic axes, side by side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(9, 4), sharey=True)
    for axis, (what, sizes, every) in zip(axes, panels, strict=True):
        for name, line in every.items():
            axis.plot(sizes, [seconds for seconds, _ in line], marker="o", label=name)
        axis.set(xscale="log", yscale="log", xlabel=what)
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds, reading included")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Prints both tables, and draws them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most-rows", type=int, default=160_000)
    parser.add_argument("--most-features", type=int, default=80)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--plots", type=Path)
    args = parser.parse_args()
    con = tuskml.connect(threads=2)
    with tempfile.TemporaryDirectory() as folder:
        write(path := Path(folder) / "rows.parquet", 4096, NARROW)
        measured(con, path, 1)  # imports are no part of a training
    rows = [args.most_rows // 4**k for k in range(4, -1, -1)]
    features = [args.most_features // 2**k for k in range(4, -1, -1)]
    panels = [
        ("rows", rows, sweep(con, "rows", rows, args.repeat)),
        ("features", features, sweep(con, "features", features, args.repeat)),
    ]
    if args.plots:
        draw(panels, args.plots / "planner_scaling.png")


if __name__ == "__main__":
    main()
