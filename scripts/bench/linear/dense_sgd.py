"""Dense logistic regression by SGD: 2M x 28 float32, ten epochs.

Measured: from a DuckDB table to a model through SQL, and the training alone.
Against: scikit-learn SGDClassifier with the data already in NumPy (ten epochs); torch mini-batches
of 65,536 with the gradient written out (no autograd) on two threads, loaded from the same DuckDB
table.
"""

from __future__ import annotations

import time

import data
import goals
import harness
import quality
import tusk
from contender import TUSKML, Benchmark, Contender, Outcome, Run, Settings
from load import dense_matrix, open_plain

L2 = 1e-6
EPOCHS = 10
OPTIONS = {
    "algorithm": "hogbatch",
    "batch_size": 128,
    "schedule": "1/i",
    "max_iter": EPOCHS,
    "epsilon": 0,
    "l2": L2,
}
SKLEARN = "scikit-learn SGDClassifier, from NumPy"
TORCH = "torch mini-batches of 65,536, with load"
SKLEARN_STEPS = {"learning_rate": "invscaling", "eta0": 0.1, "power_t": 0.5}
TORCH_BATCH, TORCH_STEP, TORCH_MOMENTUM = 65_536, 2.0, 0.8


def tuskml(settings: Settings) -> Run:
    """train_model with mini-batches of 128, on all threads without locks."""
    con = tusk.connect(data.dense(settings), settings)
    source, features = tusk.dense_source(settings)

    def check(model: dict) -> dict[str, float | str]:
        X, y = dense_matrix(open_plain(data.dense(settings), settings))
        return {"log-loss": quality.log_loss(X, y, model["coef"], model["intercept"])}

    return tusk.training_run(con, tusk.train_sql(features, OPTIONS, source), check)


def sklearn_sgd(settings: Settings) -> Run:
    """Exactly ten epochs; 1/sqrt(t) steps, which end 40 times nearer the optimum here than the
    default schedule.
    """
    from sklearn.linear_model import SGDClassifier

    X, y = dense_matrix(open_plain(data.dense(settings), settings), settings.layout)

    def run() -> Outcome:
        model = SGDClassifier(
            loss="log_loss", alpha=L2, max_iter=EPOCHS, tol=None, random_state=0, **SKLEARN_STEPS
        )
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        return Outcome(
            seconds,
            seconds,
            lambda: {"log-loss": quality.log_loss(X, y, model.coef_, model.intercept_[0])},
        )

    return run


def torch_mgd(settings: Settings) -> Run:
    """Gradient descent with momentum over contiguous batches, in a new order each epoch."""
    import torch

    torch.set_num_threads(settings.threads)
    con = open_plain(data.dense(settings), settings)

    def run() -> Outcome:
        start = time.perf_counter()
        X, y = dense_matrix(con, settings.layout)
        rows, labels = torch.from_numpy(X), torch.from_numpy(y).float()
        loaded = time.perf_counter()
        w, b = _torch_epochs(rows, labels)
        seconds = time.perf_counter() - start
        return Outcome(
            seconds, seconds - (loaded - start), lambda: {"log-loss": quality.log_loss(X, y, w, b)}
        )

    return run


def _torch_epochs(X, y):  # type: ignore[no-untyped-def]
    import torch

    torch.manual_seed(0)
    w, b = torch.zeros(X.shape[1]), torch.zeros(1)
    dw, db = torch.zeros_like(w), torch.zeros_like(b)
    batches = list(zip(X.split(TORCH_BATCH), y.split(TORCH_BATCH), strict=False))
    for epoch in range(EPOCHS):
        step = TORCH_STEP / (1 + epoch)
        for i in torch.randperm(len(batches)).tolist():
            rows, labels = batches[i]
            error = torch.addmv(b, rows, w).sigmoid_().sub_(labels).div_(len(labels))
            dw.mul_(TORCH_MOMENTUM).add_(torch.mv(rows.T, error)).add_(w, alpha=L2)
            db.mul_(TORCH_MOMENTUM).add_(error.sum())
            w.sub_(dw, alpha=step)
            b.sub_(db, alpha=step)
    return w.numpy(), float(b)


def benchmark(settings: Settings) -> Benchmark:
    """The first row of the table of figures."""
    return Benchmark(
        name="dense_sgd",
        title="Logistic regression by SGD, 2M x 28 float32, 10 epochs",
        contenders=(
            Contender(TUSKML, tuskml, tusk.NEEDS),
            Contender(SKLEARN, sklearn_sgd, ("sklearn",)),
            Contender(TORCH, torch_mgd, ("torch",)),
        ),
        goals=(
            goals.faster_than(SKLEARN, 15),
            goals.faster_than(TORCH, 1.5),
            goals.at_most_seconds(0.15, alone=True),
            goals.quality_no_worse("log-loss", [SKLEARN], 0.0),
            goals.quality_no_worse("log-loss", [TORCH], 0.0),
        ),
        prepare=data.dense,
    )


if __name__ == "__main__":
    harness.main(benchmark)
