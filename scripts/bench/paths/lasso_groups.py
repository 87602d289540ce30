"""Groups whose lasso has a cross-validated penalty, compared with a loop over scikit-learn's
LassoCV.

python scripts/bench/run.py lasso_groups --groups 1000

Ours is the whole SQL statement, packing included. The loop has each group's rows as arrays at
hand; it runs on a part of the groups and is scaled to all of them. Both have 100 penalties down
to 0.001 of the largest one and five folds, whose rows differ. Prints seconds, and the correlation
of the chosen penalties' logarithms.
"""

import argparse
import json
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.linear_model import LassoCV

import tuskml


def main() -> None:
    """Trains both ways, in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--loop", type=int, default=50, help="groups of the loop")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    random = np.random.default_rng(0)
    n, d = args.rows, args.features
    x = random.normal(size=(args.groups, n, d))
    x[:, :, 1:] += 0.5 * x[:, :, :-1]
    w = random.normal(size=(args.groups, d)) * (random.random((args.groups, d)) < 0.3)
    y = np.einsum("gnd,gd->gn", x, w) + 2 * random.normal(size=(args.groups, n))
    con = tuskml.connect()
    frame = pd.DataFrame({"g": np.repeat(np.arange(args.groups), n), "y": y.ravel()})
    con.register("frame", frame.assign(x=list(x.reshape(-1, d))))
    con.execute("CREATE TABLE t AS SELECT g, y, x::DOUBLE[] AS x FROM frame")
    warnings.simplefilter("ignore")
    for _ in range(args.repeat):
        began, used = time.perf_counter(), time.process_time()
        models = con.execute(
            "SELECT g, (m).options, (m).status FROM (SELECT g, train_model('lasso', y, x) AS m "
            "FROM t GROUP BY g) AS f ORDER BY g"
        ).fetchall()
        ours, processors = time.perf_counter() - began, time.process_time() - used
        began = time.perf_counter()
        chosen = [LassoCV(cv=5, alphas=100).fit(x[g], y[g]).alpha_ for g in range(args.loop)]
        loop = (time.perf_counter() - began) * args.groups / args.loop
        own = [json.loads(options)["lambda"] for _, options, _ in models[: args.loop]]
        told = {
            "seconds": round(ours, 3),
            "processor_seconds": round(processors, 3),
            "loop": round(loop, 1),
            "ratio": round(loop / ours, 1),
            "ok": sum(status == "ok" for _, _, status in models),
            "correlation": round(float(np.corrcoef(np.log(own), np.log(chosen))[0, 1]), 3),
        }
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
