"""Strategies of searches: does halving find the winner of all, and at what share of the work; does
`tpe` find better candidates than as many draws.

Five data sets, each with several seeds, which deal the rows to other folds and draw other
candidates: breast cancer (569 x 30), digits, even or odd (1,797 x 64), and wine, one class or the
others (178 x 13), of scikit-learn, Friedman's first function (4,000 x 10) and rings, by the
distance from the origin (1,500 x 8). Halving has 32 candidates of a grid. Work is the trainings,
as a share of those of the whole grid; seconds are those of the statement.

    python scripts/bench/run.py strategies --seeds 10
"""

import argparse
import json
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_friedman1,
    make_gaussian_quantiles,
)

import tuskml

LOGS = [float(f"{x:.3g}") for x in np.geomspace(1e-5, 1, 16)]


@dataclass(frozen=True)
class Data:
    """Rows, their task, a grid of 32 candidates, and a space to draw from."""

    name: str
    task: str
    x: Any
    y: Any
    fixed: dict[str, Any]
    grid: dict[str, Any]
    space: dict[str, Any]


def all_data() -> list[Data]:
    """The three data sets."""
    cancer, digits = load_breast_cancer(), load_digits()
    wave = make_friedman1(4000, noise=1.0, random_state=1)
    scaled = (cancer.data - cancer.data.mean(axis=0)) / cancer.data.std(axis=0)
    trees = {
        "trees": [10, 40],
        "num_leaves": [3, 7, 15, 31],
        "learning_rate": [0.02, 0.06, 0.2, 0.6],
    }
    ranges = {
        "num_leaves": {"log_int": [2, 63]},
        "learning_rate": {"log_uniform": [0.01, 1]},
        "min_child_rows": {"log_int": [2, 200]},
        "l2": {"log_uniform": [1e-3, 100]},
    }
    penalties = {"l2": {"log_uniform": [1e-6, 10]}, "l1": {"log_uniform": [1e-6, 1]}}
    linear = {"l2": LOGS, "class_weight": ["balanced", [1, 1]]}
    even = (digits.target % 2).astype(float)
    wine = load_wine()
    rings = make_gaussian_quantiles(n_samples=1500, n_features=8, n_classes=2, random_state=3)
    classes = {"objective": "logistic"}
    vines = (wine.data - wine.data.mean(axis=0)) / wine.data.std(axis=0)
    second = (wine.target == 1).astype(float)
    return [
        Data("cancer", "logistic", scaled, cancer.target.astype(float), {}, linear, penalties),
        Data(
            "digits",
            "gbdt",
            digits.data,
            even,
            classes,
            trees,
            {"trees": 20, **ranges},
        ),
        Data("friedman", "gbdt", *wave, {}, trees, {"trees": 20, **ranges}),
        Data("wine", "logistic", vines, second, {}, linear, penalties),
        Data("rings", "gbdt", rings[0], rings[1].astype(float), classes, trees, ranges),
    ]


def searched(con: Any, data: Data, options: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """The trials, and seconds."""
    text = json.dumps({"folds": 3} | data.fixed | options)
    began = time.perf_counter()
    sql = f"SELECT (train_model('{data.task}', y, x, '{text}')).trials FROM {data.name}"
    ((found,),) = con.execute(sql).fetchall()
    return json.loads(found), time.perf_counter() - began


def halving(con: Any, data: Data, seeds: int, folds: int) -> None:
    """Compares halving with all candidates."""
    data = replace(data, fixed=data.fixed | {"folds": folds})
    same = near = 0
    work, seconds, lost = [], [], []
    for seed in range(seeds):
        whole, slow = searched(con, data, data.grid | {"seed": seed})
        how = {"search": {"strategy": "halving"}, "seed": seed}
        some, fast = searched(con, data, data.grid | how)
        best, mine = whole["trials"][whole["chosen"]], some["trials"][some["chosen"]]
        own = next(one for one in whole["trials"] if one["configuration"] == mine["configuration"])
        same += own is best
        near += own["metric"] <= best["metric"] + best["std_err"]
        tried = [
            fold["status"] != "stopped early" for one in some["trials"] for fold in one["folds"]
        ]
        work.append(np.mean(tried))
        seconds.append(fast / slow)
        lost.append(own["metric"] / best["metric"] - 1)
    print(
        f"halving  {data.name:9} same winner {same}/{seeds}, within one standard error "
        f"{near}/{seeds}, metric lost {np.mean(lost):.2%}, at most {max(lost):.2%}, "
        f"work {np.mean(work):.0%}, seconds {np.median(seconds):.0%}",
        flush=True,
    )


def estimated(con: Any, data: Data, seeds: int, trials: int) -> None:
    """Compares `tpe` with as many draws, by the best mean metric of the trials."""
    ours, drawn = [], []
    for seed in range(seeds):
        for name, out in (("tpe", ours), ("random", drawn)):
            how = {"search": {"strategy": name, "trials": trials}, "seed": seed}
            found, _ = searched(con, data, data.space | how)
            out.append(min(one["metric"] for one in found["trials"]))
    better = sum(a < b for a, b in zip(ours, drawn, strict=True))
    worse = sum(a > b for a, b in zip(ours, drawn, strict=True))
    print(
        f"tpe      {data.name:9} {trials} trials, mean of the best {np.mean(ours):.5f}, of draws "
        f"{np.mean(drawn):.5f}; better {better}, worse {worse} of {seeds}"
    )


def main() -> None:
    """Prints a line per strategy and data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--folds", type=int, default=3, help="of halving")
    parser.add_argument("--only", default="")
    parser.add_argument("--data", default="", help="the name of one data set")
    args = parser.parse_args()
    con = tuskml.connect(threads=2)
    for data in all_data():
        if args.data not in ("", data.name):
            continue
        con.register("given", pd.DataFrame({"y": data.y, "x": list(data.x)}))
        con.execute(f"CREATE TABLE {data.name} AS SELECT * FROM given")
        if args.only in ("", "halving"):
            halving(con, data, args.seeds, args.folds)
        if args.only in ("", "tpe"):
            estimated(con, data, args.seeds, args.trials)


if __name__ == "__main__":
    main()
