"""Contributions of 10 features to 500 rows by 100 trees of 31 leaves, compared with LightGBM's.

Both have the same trees, of LightGBM's text, and one thread; runs are interleaved.

    python scripts/bench/run.py explanations
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np

import tuskml

ROWS, RUNS = 500, 9


def seconds(call: Callable[[], Any]) -> float:
    """The seconds of a call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    """Prints the medians, and how far the contributions lie apart."""
    random = np.random.default_rng(0)
    x = random.normal(size=(20000, 10))
    y = x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + random.normal(size=len(x))
    given = {"objective": "regression", "verbose": -1, "num_leaves": 31, "num_threads": 1}
    booster = lightgbm.train(given, lightgbm.Dataset(x, y), 100)
    model, rows = tuskml.Model.from_lightgbm(booster.model_to_string()), x[:ROWS]

    def peer() -> Any:
        return booster.predict(rows, pred_contrib=True, num_threads=1)

    apart = float(np.abs(model.explain(rows).contributions - peer()[:, :-1]).max())
    pairs = [(seconds(lambda: model.explain(rows)), seconds(peer)) for _ in range(RUNS)]
    for name, times in zip(("tuskml", "LightGBM"), zip(*pairs, strict=True), strict=True):
        print(f"{name}: {statistics.median(times) / ROWS * 1e6:.0f} us per row")
    print(f"largest difference of a contribution: {apart:.1e}")


if __name__ == "__main__":
    main()
