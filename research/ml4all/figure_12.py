"""Figure 12: testing errors of mgd and sgd by sampler, beside the optimum's."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import tuskml
from research import report
from research.ml4all.plans import connected, table
from research.report import Found

PLANS = {
    "mgd eager bernoulli": {"algorithm": "mgd", "transform": "eager", "sampler": "bernoulli"},
    "mgd lazy shuffled": {"algorithm": "mgd", "transform": "lazy"},
    "sgd lazy shuffled": {"algorithm": "sgd", "transform": "lazy"},
    "sgd lazy random": {
        "algorithm": "sgd",
        "transform": "lazy",
        "sampler": "random-partition",
    },
}


def find(scale: float) -> Iterator[Found]:
    """Mean squared errors of predicted classes, on a fifth of the rows, less the optimum's."""
    with connected() as con:
        table(con, max(20_000, round(300_000 * scale)))
        names = [f"x{k}" for k in range(20)]
        held = con.execute("SELECT * FROM rows WHERE i % 5 = 0").fetchnumpy()
        x, y = np.stack([held[name] for name in names], axis=1), held["y"]

        def error(options: dict[str, Any]) -> float:
            model = tuskml.train(
                con,
                "svm",
                source="FROM rows WHERE i % 5 > 0",
                label="y",
                features=names,
                **options,
            )
            return float((model.predict(x) != y).mean())

        best = error({})
        yield Found("error of the optimum", "", best)
        for name, options in PLANS.items():
            more = error(options | {"epsilon": 0.01}) - best
            yield Found(f"{name}: more than that", "0 to 0.1", more, "{:+.4f}", most=0.02)


if __name__ == "__main__":
    report.main(find)
