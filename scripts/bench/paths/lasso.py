"""The lasso of many correlated features, one penalty or a path, compared with celer, skglm and
adelie.

python scripts/bench/run.py lasso --contender tuskml --what path
PEERS/bin/python scripts/bench/paths/lasso.py --contender celer --what path

PEERS is an environment with celer, skglm and adelie. Contenders run one at a time, each in a
process of its own, on the same files. The time is that of the fit alone: ours begins with packed
rows, the peers' with columns in memory. A line of JSON per repeat has seconds, the objective and
the processor's seconds. Peers that compile are run once on few features first.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lasso_data
import numpy as np

FEW = 200
"""Features of the run that compiles."""
Fit = Callable[[Any, Any, Any], Any]


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    contenders = ["tuskml", "celer", "skglm", "adelie"]
    parser.add_argument("--contender", choices=contenders, default="tuskml")
    parser.add_argument("--what", choices=["single", "path"], default="single")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--features", type=int, default=200_000)
    parser.add_argument("--share", type=float, default=0.05, help="of the largest penalty")
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--ratio", type=float, default=0.01)
    parser.add_argument("--tol", type=float, default=1e-8, help="of half the squares of labels")
    parser.add_argument("--folder", type=Path, default=Path("build/lasso-data"))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    """Fits, and prints the seconds."""
    args = arguments()
    lasso_data.written(args.folder, args.rows, args.features)
    mapped = args.contender == "tuskml"  # whose packed rows are in memory
    x, y = lasso_data.read(args.folder, args.rows, args.features, mapped)
    largest = np.abs(x.T @ y).max() / len(y)
    if args.what == "single":
        penalties = np.array([args.share * largest])
    else:
        penalties = largest * np.geomspace(1, args.ratio, args.length)
    contenders = {"tuskml": ours, "celer": celer, "skglm": skglm, "adelie": adelie}
    fit: Fit = contenders[args.contender]
    if args.contender != "tuskml":
        fit(x[:, :FEW], y, args)(penalties[:3])
    run = fit(x, y, args)
    for _ in range(args.repeat):
        began, used = time.perf_counter(), time.process_time()
        coefs = run(penalties)
        seconds, processors = time.perf_counter() - began, time.process_time() - used
        objectives = [objective(x, y, *pair) for pair in zip(coefs, penalties, strict=True)]
        told = {
            "contender": args.contender,
            "what": args.what,
            "seconds": round(seconds, 3),
            "processor_seconds": round(processors, 3),
            "weights": [int((w != 0).sum()) for w in (coefs[0], coefs[-1])],
            "objectives": [objectives[0], objectives[len(objectives) // 2], objectives[-1]],
        }
        print(json.dumps(told), flush=True)


def objective(x: Any, y: Any, w: Any, penalty: float) -> float:
    """1/2n ||y - x w||^2 + penalty ||w||_1."""
    where = np.flatnonzero(w)
    residual = y - x[:, where] @ w[where]
    return float(residual @ residual / (2 * len(y)) + penalty * np.abs(w).sum())


def ours(x: Any, y: Any, args: argparse.Namespace) -> Callable[[Any], list[Any]]:
    """The kernels on rows in the packer's layout."""
    from tuskml.kernels.passes import GROUP, Pass
    from tuskml.kernels.paths import SQUARED, Rules, fit

    n, p = x.shape
    memory = np.empty(4 + n + n * p)  # a segment's header, labels, rows
    memory[:4].view(np.uint32)[4:] = [n, n, 0, 0]
    memory[:2].view(np.uint64)[:] = 0
    memory[4 : 4 + n] = y
    rows = memory[4 + n :].reshape(n, p)
    for at in range(0, p, 1000):
        rows[:, at : at + 1000] = x[:, at : at + 1000]
    group = np.array([(memory.ctypes.data, n, 0, p, 1, 0, 0, 0, 0)], GROUP)

    def run(penalties: Any) -> list[Any]:
        rules = Rules(
            SQUARED, len(penalties), 1.0, args.tol, 10**6, penalties=tuple(penalties.tolist())
        )
        packed = Pass(group, SQUARED, None, None, False, args.threads)
        _, weights = fit(packed, rules, None, 0)
        assert len(memory)
        return [weights[0].dense(k, p) for k in range(len(penalties))]

    return run


def celer(x: Any, y: Any, args: argparse.Namespace) -> Callable[[Any], list[Any]]:
    """celer's path, which also fits one penalty."""
    import celer as package

    def run(penalties: Any) -> list[Any]:
        # its tolerance is of the squares of labels
        found = package.celer_path(
            x, y, "lasso", alphas=penalties, tol=args.tol / 2, max_iter=100, max_epochs=10**5
        )
        return list(found[1].T)

    return run


def skglm(x: Any, y: Any, args: argparse.Namespace) -> Callable[[Any], list[Any]]:
    """skglm's coordinate descent, each fit from the one before."""
    from skglm.datafits import Quadratic
    from skglm.penalties import L1
    from skglm.solvers import AndersonCD

    def run(penalties: Any) -> list[Any]:
        solver = AndersonCD(
            tol=args.tol, max_iter=100, max_epochs=10**5, fit_intercept=False, warm_start=True
        )
        w, product, found = np.zeros(x.shape[1]), np.zeros(len(y)), []
        for penalty in penalties:
            w = solver.solve(x, y, Quadratic(), L1(penalty), w, product)[0]
            product = x @ w
            found.append(w.copy())
        return found

    return run


def adelie(x: Any, y: Any, args: argparse.Namespace) -> Callable[[Any], list[Any]]:
    """adelie's path, by glmnet's method; its tolerance is of coordinate descent, not of a gap."""
    import adelie as package

    def run(penalties: Any) -> list[Any]:
        state = package.grpnet(
            package.matrix.dense(x, method="naive", n_threads=args.threads),
            package.glm.gaussian(y),
            lmda_path=penalties,
            intercept=False,
            early_exit=False,
            n_threads=args.threads,
            tol=args.tol,
            progress_bar=False,
        )
        return list(state.betas.toarray())

    return run


if __name__ == "__main__":
    main()
