"""Coverage of conformal intervals on real rows, and the seconds that MAPIE takes for the same.

Rows of each set are split at random several times; a model is trained on four fifths of them with
the option `conformal`, and its intervals are to hold `level` of the labels of the others. MAPIE
computes the cross-conformal intervals around one model (`method="base"`) of LightGBM or
scikit-learn by the same number of folds.

    python scripts/bench/run.py conformal --splits 20
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from sklearn.datasets import load_diabetes

import tuskml

SHARED = Path(os.environ.get("TUSKML_SHARED_DATA", "../shared/data"))
MOST_ROWS = 3000
LEVEL = 0.9
TASKS: dict[str, dict[str, Any]] = {
    "gbdt": {"trees": 50, "num_leaves": 8},
    "random_forest": {"trees": 30},
    "lasso": {"path": {"length": 20, "folds": 3}},
    "mlp": {"max_iter": 20},
}


def sets() -> Iterator[tuple[str, Any, Any]]:
    """The name, features (n, d) and labels (n,) of each set."""
    x, y = load_diabetes(return_X_y=True)
    yield "diabetes", x, y
    for name in ("randhie", "fair", "anes96", "star98", "engel", "grunfeld", "modechoice"):
        data = getattr(sm.datasets, name).load_pandas().data.select_dtypes("number").dropna()
        label = {"anes96": "age", "grunfeld": "invest", "modechoice": "invc", "engel": "foodexp"}
        target = label.get(name, data.columns[0])
        yield name, data.drop(columns=target).to_numpy(float), data[target].to_numpy(float)
    if (SHARED / "adult.csv").exists():
        data = pd.read_csv(SHARED / "adult.csv")
        numbers = data[["age", "education-num", "capital-gain", "capital-loss", "fnlwgt"]]
        yield "adult", numbers.to_numpy(float), data["hours-per-week"].to_numpy(float)
    if (SHARED / "movielens-100k.psv").exists():
        with (SHARED / "movielens-100k.psv").open() as file:
            sample = pd.read_csv(file, sep="|", nrows=30_000)
        numbers = sample.select_dtypes("number")
        yield "movielens", numbers.iloc[:, :2].to_numpy(float), numbers.iloc[:, 2].to_numpy(float)


def splits_of(x: Any, y: Any, splits: int) -> pd.DataFrame:
    """Rows of each split s, of which `out` are not trained on."""
    random, parts = np.random.default_rng(0), []
    for s in range(splits):
        some = random.permutation(len(y))[:MOST_ROWS]
        out = np.arange(len(some)) < len(some) // 5
        parts.append(pd.DataFrame({"s": s, "out": out, "y": y[some], "x": list(x[some])}))
    return pd.concat(parts)


def ours(con: Any, task: str) -> tuple[float, float, float]:
    """The mean share of labels within, the mean width, and seconds."""
    options = json.dumps(TASKS[task] | {"conformal": True})
    began = time.perf_counter()
    con.execute(
        "CREATE OR REPLACE TABLE m AS "
        f"SELECT s, train_model('{task}', y, x, '{options}') AS model "
        "FROM rows WHERE NOT out GROUP BY s"
    )
    seconds = time.perf_counter() - began
    ((share, width),) = con.execute(
        "SELECT avg((y BETWEEN i.prediction_lower AND i.prediction_upper)::INT), "
        "avg(i.prediction_upper - i.prediction_lower) "
        f"FROM (SELECT y, predict_interval(model, x, {LEVEL}) AS i FROM rows JOIN m USING (s) "
        "WHERE out) AS t"
    ).fetchall()
    return share, width, seconds


def theirs(rows: pd.DataFrame) -> tuple[float, float, float]:
    """The same of MAPIE around LightGBM's trees."""
    from lightgbm import LGBMRegressor
    from mapie.regression import CrossConformalRegressor

    shares, widths, seconds = [], [], 0.0
    for _, part in rows.groupby("s"):
        x, y, out = np.stack(part.x), part.y.to_numpy(), part.out.to_numpy()
        trees = LGBMRegressor(n_estimators=50, num_leaves=8, n_jobs=1, verbose=-1)
        began = time.perf_counter()
        found = CrossConformalRegressor(trees, confidence_level=LEVEL, cv=5, method="base")
        found.fit_conformalize(x[~out], y[~out])
        seconds += time.perf_counter() - began
        _, ends = found.predict_interval(x[out])
        low, high = ends[:, 0, 0], ends[:, 1, 0]
        shares.append(((y[out] >= low) & (y[out] <= high)).mean())
        widths.append((high - low).mean())
    return float(np.mean(shares)), float(np.mean(widths)), seconds


def main() -> None:
    """Prints a line for each set and task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    con = tuskml.connect()
    print(f"{'set':<12} {'task':<14} {'coverage':>8} {'width':>10} {'seconds':>8}")
    for name, x, y in sets():
        if given.only and name not in given.only.split(","):
            continue
        rows = splits_of(x, y, given.splits)
        con.register("given", rows)
        con.execute("CREATE OR REPLACE TABLE rows AS FROM given")
        answers = {task: ours(con, task) for task in TASKS}
        with suppress(ImportError):
            answers["MAPIE, trees"] = theirs(rows)
        for task, (share, width, seconds) in answers.items():
            shown = f"{share:>8.3f} {width:>10.4g} {seconds:>8.2f}"
            print(f"{name:<12} {task:<14} {shown}", flush=True)


if __name__ == "__main__":
    main()
