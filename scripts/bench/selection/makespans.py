"""Makespans of searches on the threads of this machine, compared with the least possible one, C*.

The distributions are those of `placement`. Each search says in `schedule` its seconds, the
processor seconds meanwhile, and C* of these: the seconds of the fullest thread where one thread at
a time trains a group. So the quotient holds all that ran on one thread alone. Seconds of other
programs on the same processors count too: run it alone.

    python scripts/bench/run.py makespans --rows 1000000
"""

import argparse
import json
import statistics
from typing import Any

import numpy as np
import pandas as pd
from placement import distributions

import tuskml

D = 20
SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "logistic, newton": ("logistic", {"l2": [1, 0.1, 0.01, 1e-3, 1e-4, 1e-5]}),
    "logistic, lbfgs": ("logistic", {"l2": [1, 0.1, 0.01, 1e-3], "algorithm": ["lbfgs"]}),
    "gbdt": ("gbdt", {"objective": "logistic", "num_leaves": [7, 15, 31], "trees": 20}),
    "mlp": ("mlp", {"classes": [0, 1], "layers": [[8], [16]], "max_iter": 3}),
}


def table(con: Any, sizes: Any) -> None:
    """Rows of groups of these sizes, shuffled."""
    random = np.random.default_rng(3)
    g = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = random.normal(size=(len(g), D)).astype(np.float32)
    y = x[:, :3].sum(axis=1) + random.logistic(size=len(g)) > 0
    con.register("given", pd.DataFrame({"g": g, "y": y} | {f"x{k}": x[:, k] for k in range(D)}))
    features = ", ".join(f"x{k}" for k in range(D))
    columns = f"g, y::INT AS y, [{features}]::FLOAT[] AS x"
    con.execute(f"CREATE OR REPLACE TABLE t AS SELECT {columns} FROM given")
    con.unregister("given")


def schedule(con: Any, task: str, options: dict[str, Any]) -> dict[str, float]:
    """The search's report on its threads."""
    call = f"train_model('{task}', y, x, '{json.dumps(options | {'folds': 3})}')"
    sql = f"SELECT m.trials FROM (SELECT {call} AS m FROM t GROUP BY g) LIMIT 1"
    ((text,),) = con.execute(sql).fetchall()
    found: dict[str, float] = json.loads(text)["schedule"]
    return found


def main() -> None:
    """Prints, for each distribution and search, seconds, C* and their quotient."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default=",".join(name.split(",")[0] for name in SEARCHES))
    args = parser.parse_args()
    print("| groups | search | seconds | C* | quotient: median, least |")
    print("|---|---|---|---|---|")
    for name, sizes in distributions():
        con = tuskml.connect(threads=2)
        table(con, np.maximum(sizes * args.rows // sizes.sum(), 30))
        for label, (task, options) in SEARCHES.items():
            if task not in args.only.split(","):
                continue
            found = [schedule(con, task, options) for _ in range(args.repeat)]
            quotients = [one["seconds"] / one["least_seconds"] for one in found]
            middle = found[int(np.argsort(quotients)[len(found) // 2])]
            print(
                f"| {name} | {label} | {middle['seconds']:.2f} | {middle['least_seconds']:.2f} | "
                f"{statistics.median(quotients):.3f}, {min(quotients):.3f} |",
                flush=True,
            )
        con.close()


if __name__ == "__main__":
    main()
