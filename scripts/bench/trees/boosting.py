"""Boosted trees compared with LightGBM, in one run.

python scripts/bench/run.py boosting --rows 1000000 --repeat 3

One model: 28 float32 features, as in HIGGS, two classes, 100 trees of 31 leaves; a fifth of the
rows is held out. tuskml trains from a table in DuckDB, so its time includes the packing. LightGBM
builds its Dataset from the same table's Arrow data, in the same time, with both histogram layouts;
the faster counts. One AUC says little: the data has a product of two features, and chance decides
which tree finds it first. So the AUCs are means over --seeds sets of rows. Many models: groups of
270 rows and 10 features, 50 trees of 15 leaves, with one thread for LightGBM's loop, whose Dataset
is built per group. --peers needs the packages xgboost and catboost; scikit-learn uses as many
threads as OMP_NUM_THREADS says.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import duckdb
import lightgbm
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

import tuskml

Times = list[tuple[float, float]]
GROUP_ROWS = 270


def rows_of(n: int, d: int, seed: int = 1) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Features, and classes that depend on products and waves of some of them."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, d)).astype(np.float32)
    m = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3] + (x[:, 4] > 0) * x[:, 5]
    return x, (m + random.logistic(size=n) > 0) * 1.0


def table(con: duckdb.DuckDBPyConnection, name: str, x: Any, **columns: Any) -> None:
    """A table with the rows as lists, and each feature as a column."""
    made = {f"c{j}": x[:, j] for j in range(x.shape[1])}
    con.register("made", made | columns)
    listed = ", ".join(made)
    con.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT *, [{listed}] AS x FROM made")


def timed(call: Callable[[], Any], times: Times) -> Any:
    """The result of the call; notes its seconds of the wall clock and of processors."""
    began, used = time.perf_counter(), time.process_time()
    found = call()
    times.append((time.perf_counter() - began, time.process_time() - used))
    return found


def lightgbm_of(data: Any, label: Any, trees: int, leaves: int, threads: int, by_row: bool) -> Any:
    """A booster by LightGBM."""
    given = {"objective": "binary", "num_leaves": leaves, "num_threads": threads, "verbose": -1}
    layout = "force_row_wise" if by_row else "force_col_wise"
    made = lightgbm.Dataset(data, label, params={"verbose": -1, "num_threads": threads})
    return lightgbm.train(given | {layout: True}, made, trees)


def one_model(args: argparse.Namespace, con: duckdb.DuckDBPyConnection) -> None:
    """A large table; AUCs are means over the seeds, times medians over all trainings."""
    cut = args.rows * 4 // 5
    names = ", ".join(f"c{j}" for j in range(28))
    options = f'{{"objective": "logistic", "threads": {args.threads}}}'
    ours = f"SELECT train_model('gbdt', y, x, '{options}') FROM t"

    def peer(by_row: bool) -> Any:
        read = con.sql(f"SELECT y, {names} FROM t").to_arrow_table()
        label = read.column("y")
        return lightgbm_of(read.drop_columns(["y"]), label, 100, 31, args.threads, by_row)

    calls: dict[str, Callable[[], Any]] = {
        "tuskml": lambda: con.execute(ours).fetchall()[0][0],
        "lightgbm by row": lambda: peer(True),
        "lightgbm by column": lambda: peer(False),
    }
    if args.peers:
        calls |= others(con, args.threads)
    times: dict[str, Times] = {name: [] for name in calls}
    aucs: dict[str, list[float]] = {name: [] for name in calls}
    for seed in range(1, args.seeds + 1):
        x, y = rows_of(args.rows, 28, seed)
        table(con, "t", x[:cut], y=y[:cut])
        for _ in range(args.repeat):
            found = {name: timed(call, times[name]) for name, call in calls.items()}
        for name, model in found.items():
            auc = roc_auc_score(y[cut:], margins_of(model, x[cut:]))
            aucs[name].append(float(auc))
    print(f"one model, {cut:,} x 28, 100 trees of 31 leaves, {args.threads} threads")
    show(times, {name: told(of) for name, of in aucs.items()})


def others(con: duckdb.DuckDBPyConnection, threads: int) -> dict[str, Callable[[], Any]]:
    """XGBoost, CatBoost and scikit-learn, from the table's columns as one array."""
    import catboost
    import xgboost
    from sklearn.ensemble import HistGradientBoostingClassifier

    names = ", ".join(f"c{j}" for j in range(28))

    def read() -> tuple[Any, Any]:
        found = con.execute(f"SELECT y, {names} FROM t").fetchnumpy()
        return np.column_stack([found[f"c{j}"] for j in range(28)]), found["y"]

    def by_xgboost() -> Any:
        x, y = read()
        given = {"objective": "binary:logistic", "tree_method": "hist", "eta": 0.1}
        given |= {"max_leaves": 31, "grow_policy": "lossguide", "max_depth": 0, "nthread": threads}
        return xgboost.train(given, xgboost.QuantileDMatrix(x, y, nthread=threads), 100)

    def by_catboost() -> Any:
        made = catboost.CatBoostClassifier(
            iterations=100,
            grow_policy="Lossguide",
            max_leaves=31,
            learning_rate=0.1,
            thread_count=threads,
            verbose=0,
            allow_writing_files=False,
        )
        return made.fit(*read())

    def by_scikit() -> Any:
        made = HistGradientBoostingClassifier(max_leaf_nodes=31, early_stopping=False)
        return made.fit(*read())

    return {"xgboost hist": by_xgboost, "catboost": by_catboost, "scikit-learn": by_scikit}


def margins_of(model: Any, x: NDArray[np.float32]) -> Any:
    """The margins of rows by either's model."""
    if isinstance(model, dict):
        return tuskml.Model.of(model).decision(x)
    if hasattr(model, "predict_proba"):
        return model.predict_proba(x)[:, 1]
    if hasattr(model, "inplace_predict"):
        return model.inplace_predict(x)
    return model.predict(x, raw_score=True)


def told(aucs: list[float]) -> str:
    """The mean and each value, as text."""
    return f"AUC {statistics.mean(aucs):.5f} ({', '.join(f'{auc:.5f}' for auc in aucs)})"


def many_models(args: argparse.Namespace, con: duckdb.DuckDBPyConnection) -> None:
    """Small groups; seconds per group."""
    x, y = rows_of(args.groups * GROUP_ROWS, 10, 2)
    g = np.repeat(np.arange(args.groups), GROUP_ROWS)
    table(con, "t", x, y=y, g=g)
    options = '{"objective": "logistic", "trees": 50, "num_leaves": 15, "threads": 1}'
    trained = f"SELECT g, train_model('gbdt', y, x, '{options}') AS m FROM t GROUP BY g"
    ours = f"CREATE OR REPLACE TABLE models AS {trained}"

    def loop() -> list[Any]:
        parts = [slice(at, at + GROUP_ROWS) for at in range(0, len(y), GROUP_ROWS)]
        return [lightgbm_of(x[part], y[part], 50, 15, 1, False) for part in parts]

    times: dict[str, Times] = {"tuskml": [], "lightgbm in a loop": []}
    for _ in range(args.repeat):
        timed(lambda: con.execute(ours).fetchall(), times["tuskml"])
        timed(loop, times["lightgbm in a loop"])
    print(f"{args.groups:,} groups of {GROUP_ROWS} x 10, 50 trees of 15 leaves, one thread")
    each = {name: statistics.median(t[1] for t in of) / args.groups for name, of in times.items()}
    show(times, {name: f"{used * 1e3:.2f} ms of a processor each" for name, used in each.items()})


def show(times: dict[str, Times], notes: dict[str, str]) -> None:
    """Medians of the wall clock and of processors, and ratios to tuskml's."""
    middle = {n: [statistics.median(t[i] for t in of) for i in (0, 1)] for n, of in times.items()}
    for name, (wall, used) in middle.items():
        ratio = wall / middle["tuskml"][0], used / middle["tuskml"][1]
        print(
            f"{name:<20} {wall:8.2f} s ({used:.2f} s)  x tuskml {ratio[0]:.2f} ({ratio[1]:.2f})  "
            f"{notes[name]}"
        )


def main() -> None:
    """Prints medians, ratios and the quality of models on held-out rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--peers", action="store_true", help="XGBoost, CatBoost, scikit-learn too")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    with tuskml.connect(threads=args.threads) as con:
        one_model(args, con)
        many_models(args, con)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
