"""scikit-learn's default estimators compared with `auto`, to the loss that they reach.

LinearRegression or Ridge, LogisticRegression and LinearSVC (of the hinge, which is the svm's loss)
with the same penalty, on the same rows as float32 in memory. tuskml's time is that of the whole
query, its packing of rows included, at the loosest tolerance whose objective is no higher.
"""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from planner_data import Data

MOST_SECONDS = 20.0
TOLERANCES = (*(m * 10.0**-k for k in range(1, 8) for m in (1, 0.3)), 1e-8)
SAME = 1e-6
"""The tolerated rise of tuskml's objective, relative."""


def estimator(task: str, data: Data, n: int) -> Any:
    """An estimator with the same objective, and scikit-learn's defaults otherwise."""
    from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge
    from sklearn.svm import LinearSVC

    if task == "linear":
        if data.l1:
            return Lasso(alpha=data.l1)
        return Ridge(alpha=data.l2 * n) if data.l2 else LinearRegression()
    if task == "logistic":
        return LogisticRegression(C=1 / (data.l2 * n) if data.l2 else np.inf)
    return LinearSVC(loss="hinge", C=1 / (data.l2 * n))


def possible(task: str, data: Data) -> bool:
    """Returns whether the default estimator has this objective."""
    return not (data.l1 and task != "linear") and not (task == "svm" and not data.l2)


def objective(
    x: Any, y: NDArray[Any], task: str, data: Data, coef: NDArray[Any], b: float
) -> float:
    """Ours, in double."""
    m = np.asarray(x @ coef) + b
    signed = (2 * y - 1) * m
    mean = {
        "linear": lambda: 0.5 * np.mean((m - y) ** 2),
        "logistic": lambda: np.mean(np.logaddexp(0, -signed)),
        "svm": lambda: np.mean(np.maximum(0, 1 - signed)),
    }[task]()
    return float(mean + data.l2 / 2 * coef @ coef + data.l1 * np.abs(coef).sum())


def again(times: list[float]) -> bool:
    """Returns whether to run once more: long runs once, short ones until half a second is over."""
    return (
        not times or (sum(times) < 1 and len(times) < 3) or (sum(times) < 0.5 and len(times) < 25)
    )


def work(pipe: Any, task: str, data: Data, x: Any, y: NDArray[Any]) -> None:
    """Fits a few times, or once if that takes long, and sends the median."""
    times, made = [], None
    while again(times):
        made = estimator(task, data, len(y))
        began = time.perf_counter()
        made.fit(x, y)
        times.append(time.perf_counter() - began)
    assert made is not None
    coef = np.asarray(made.coef_, np.float64).ravel()
    found = objective(x, y, task, data, coef, float(np.ravel(made.intercept_)[0]))
    pipe.send((sorted(times)[len(times) // 2], found, type(made).__name__))


def peer(task: str, data: Data, x: Any, y: NDArray[Any]) -> tuple[float, float, str] | None:
    """Seconds, objective and name; None where it took too long."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=work, args=(there, task, data, x, y)
    )
    process.start()
    answered = here.poll(MOST_SECONDS)
    found = here.recv() if answered else None
    if not answered:
        process.kill()
    process.join()
    return found


def compare(con: Any, data: Data, task: str, call: Any, x: Any, y: NDArray[Any]) -> Any:
    """One line of the record; None if scikit-learn has no such estimator."""
    if not possible(task, data):
        return None
    theirs = peer(task, data, x, y)
    wanted = np.inf if theirs is None else theirs[1] * (1 + SAME)
    for epsilon in TOLERANCES:
        times, model = [], None
        while again(times):
            began = time.perf_counter()
            asked = {"epsilon": epsilon, "time": f"{MOST_SECONDS:g}s"}
            model = call(con, "train_model", data, task, asked)
            times.append(time.perf_counter() - began)
        assert model is not None
        if model["loss"] <= wanted or times[-1] > MOST_SECONDS:
            break
    return {
        "data": data.name,
        "task": task,
        "seconds": sorted(times)[len(times) // 2],
        "training": model["seconds"],
        "epsilon": epsilon,
        "loss": model["loss"],
        "plan": model["plan"].split(",")[0],
        "reached": bool(model["loss"] <= wanted),
        "peer": None if theirs is None else theirs[2],
        "peer_seconds": None if theirs is None else theirs[0],
        "peer_loss": None if theirs is None else theirs[1],
    }
