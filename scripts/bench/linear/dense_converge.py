"""Dense logistic regression to convergence: 2M x 28 float32, objective within 1e-6 of the optimum.

Measured: from a DuckDB table to a model, for every system. The objective is mean(loss) + l2/2
||w||^2 with l2 = 1e-6, the gap is taken to the optimum of a Newton iteration in double precision.
Against: scikit-learn newton-cholesky and lbfgs (C = 1/(n l2)), snapml (regularizer = n l2), and
torch LBFGS with the gradient written out. Each peer stops at the loosest tolerance that still
reaches the gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import data
import goals
import harness
import quality
import tusk
from contender import TUSKML, Benchmark, Contender, Outcome, Run, Settings
from data import Floats
from load import dense_matrix, open_plain
from quality import Labels

L2 = 1e-6
GAP = 1e-6
EPSILON = 1e-4  # on the gradient: its square over twice the curvature bounds the gap
OPTIONS = {"l2": L2, "epsilon": EPSILON, "converge": "gradient"}
NEWTON = "scikit-learn newton-cholesky"
LBFGS = "scikit-learn lbfgs"
SNAP = "snapml"
TORCH = "torch LBFGS"
Model = tuple[Any, float]
Fit = Callable[[Floats, Labels], Model]


def tuskml(settings: Settings) -> Run:
    """train_model with the algorithm left to it."""
    con = tusk.connect(data.dense(settings), settings)
    source, features = tusk.dense_source(settings)

    def check(model: dict) -> dict[str, float | str]:
        X, y = dense_matrix(open_plain(data.dense(settings), settings))
        return _gap(X, y, (model["coef"], model["intercept"]), settings)

    return tusk.training_run(con, tusk.train_sql(features, OPTIONS, source), check)


def peer(make: Callable[[Settings], Fit], settings: Settings) -> Run:
    """Any other system: DuckDB to NumPy, then its fit."""
    fit = make(settings)
    con = open_plain(data.dense(settings), settings)

    def run() -> Outcome:
        start = time.perf_counter()
        X, y = dense_matrix(con, settings.layout)
        loaded = time.perf_counter()
        model = fit(X, y)
        end = time.perf_counter()
        return Outcome(end - start, end - loaded, lambda: _gap(X, y, model, settings))

    return run


def sklearn_fit(solver: str, tol: float, settings: Settings) -> Fit:
    """LogisticRegression with one solver."""
    from sklearn.linear_model import LogisticRegression

    def fit(X: Floats, y: Labels) -> Model:
        model = LogisticRegression(C=1 / (len(y) * L2), solver=solver, tol=tol, max_iter=200).fit(
            X, y
        )
        return model.coef_[0], float(model.intercept_[0])

    return fit


def snapml_fit(settings: Settings) -> Fit:
    """snapml's coordinate descent; its intercept is a feature like any other, so it is penalised a
    little.
    """
    from snapml import LogisticRegression

    def fit(X: Floats, y: Labels) -> Model:
        options = {
            "n_jobs": settings.threads,
            "fit_intercept": True,
            "tol": 1e-6,
            "max_iter": 100,
            "dual": True,
        }
        model = LogisticRegression(regularizer=len(y) * L2, **options).fit(X, y)
        return model.coef_.ravel(), float(model.intercept_.ravel()[0])

    return fit


def torch_fit(settings: Settings) -> Fit:
    """torch.optim.LBFGS on the mean loss; six whole steps, the fewest that reach the gap here."""
    import torch

    torch.set_num_threads(settings.threads)

    def fit(X: Floats, y: Labels) -> Model:
        rows, labels = torch.from_numpy(X), torch.from_numpy(y).float()
        w, b = torch.zeros(X.shape[1]), torch.zeros(1)
        optimizer = torch.optim.LBFGS([w, b], lr=1.0, max_iter=6)

        @torch.no_grad()
        def closure() -> torch.Tensor:
            margin = torch.addmv(b, rows, w)
            loss = torch.nn.functional.softplus(margin).mean() - margin.dot(labels) / len(labels)
            error = margin.sigmoid_().sub_(labels).div_(len(labels))
            w.grad, b.grad = (error[None] @ rows)[0] + L2 * w, error.sum()[None]
            return loss + L2 / 2 * w.dot(w)

        optimizer.step(closure)
        return w.numpy(), float(b)

    return fit


def prepare(settings: Settings) -> float:
    """Makes the data and finds the optimum, once for a data set."""
    kept = data.dense(settings).with_suffix(f".optimum-{L2:g}")
    if not kept.exists():
        X, y = dense_matrix(open_plain(data.dense(settings), settings))
        kept.write_text(repr(quality.optimum(X, y, L2)))
    return float(kept.read_text())


def _gap(X: Floats, y: Labels, model: Model, settings: Settings) -> dict[str, float | str]:
    loss = quality.log_loss(X, y, *model)
    return {"log-loss": loss, "gap": loss + quality.penalty(model[0], L2) - prepare(settings)}


def benchmark(settings: Settings) -> Benchmark:
    """The second row of the table of figures."""
    fits = {
        NEWTON: (partial(sklearn_fit, "newton-cholesky", 1e-4), "sklearn"),
        LBFGS: (partial(sklearn_fit, "lbfgs", 1e-4), "sklearn"),
        SNAP: (snapml_fit, "snapml"),
        TORCH: (torch_fit, "torch"),
    }
    peers = tuple(
        Contender(name, partial(peer, make), (needs,)) for name, (make, needs) in fits.items()
    )
    return Benchmark(
        name="dense_converge",
        title="Logistic regression to convergence, 2M x 28 float32, from the DuckDB table",
        contenders=(Contender(TUSKML, tuskml, tusk.NEEDS), *peers),
        goals=(
            goals.faster_than([NEWTON, LBFGS, SNAP], 3, quality="gap", worst=GAP),
            goals.faster_than(TORCH, 1.5, quality="gap", worst=GAP),
            goals.quality_at_most("gap", GAP),
        ),
        prepare=prepare,
    )


if __name__ == "__main__":
    harness.main(benchmark)
