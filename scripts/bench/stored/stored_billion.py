"""A model of 1,000,000,000 dimensions, trained and predicted from SQL in one process.

Measured: from a DuckDB table to the sealed model, one epoch after another, and predict over all
rows; the highest memory of a fresh process that does it all, DuckDB and the interpreter included;
how often the predictions are right. Rows are of Zipf's law over the 10^9 ids, 300 entries each;
the store lies on the disk of the data sets.
"""

from __future__ import annotations

import json
import tempfile
import time
from functools import partial
from pathlib import Path

import harness
import stored_data
import tusk
from contender import Benchmark, Contender, Goal, Outcome, Results, Run, Settings
from worker import resident

GB = 10**9
OPTIONS = {"algorithm": "hogbatch", "max_iter": 5, "epsilon": 0, "step": 0.01, "store": "billion"}
CACHES = ("64MB", "256MB")


def name_of(cache: str) -> str:
    """A contender's name."""
    return f"tuskml, cache {cache}"


def training(cache: str, settings: Settings) -> Run:
    """Trains and predicts once; the process is to be a fresh one, whose peak tells."""
    path = stored_data.sparse(stored_data.BILLION, settings)

    def run() -> Outcome:
        with tempfile.TemporaryDirectory(prefix="billion-", dir=settings.data_dir) as folder:
            return once(path, Path(folder), cache, settings)

    return run


def once(path: Path, folder: Path, cache: str, settings: Settings) -> Outcome:
    """The model as a table, then its predictions."""
    con = tusk.connect(
        path,
        settings,
        memory_limit="384MB",
        temp_directory=str(folder / "spill"),
        store_root=folder / "stores",
    )
    options = json.dumps(OPTIONS | {"cache": cache, "threads": settings.threads})
    call = f"train_model('logistic', y, sparse(ids, vals), '{options}')"
    start = time.perf_counter()
    con.execute(f"CREATE TABLE models AS SELECT {call} AS m FROM data.examples")
    trained = time.perf_counter()
    right = con.execute(
        "SELECT accuracy(y, predict(m, sparse(ids, vals))) FROM data.examples, models"
    ).fetchall()[0][0]
    end = time.perf_counter()
    peak = resident("VmHWM")
    columns = "m.n_features, m.loss, m.seconds, m.status"
    dims, loss, seconds, status = con.execute(f"SELECT {columns} FROM models").fetchall()[0]
    sealed = sum(file.stat().st_size for file in (folder / "stores").rglob("*") if file.is_file())
    con.close()
    figures: dict[str, float | str] = {
        "dimensions": float(dims),
        "train whole s": trained - start,
        "predict s": end - trained,
        "accuracy": right,
        "loss": loss,
        "files MB": sealed / 1e6,
        "status": status,
    }
    return Outcome(end - start, seconds, lambda: figures, peak_bytes=peak)


def peak_goal(of: str) -> Goal:
    """The goal of at most 1 GB in all."""

    def peak(results: Results) -> float | None:
        found = results[of].peak_bytes if of in results else None
        return found / GB if found else None

    return Goal(f"peak memory of {of}, GB", 1.0, peak, at_least=False)


def benchmark(settings: Settings) -> Benchmark:
    """The row on a model of a billion dimensions."""
    names = {name_of(cache): cache for cache in CACHES}
    return Benchmark(
        name="stored_billion",
        title="A model of 1,000,000,000 dimensions, 20k rows, 300 entries a row, 5 epochs",
        contenders=tuple(
            Contender(name, partial(training, cache), tusk.NEEDS) for name, cache in names.items()
        ),
        goals=tuple(peak_goal(name) for name in names),
        prepare=lambda chosen: stored_data.sparse(stored_data.BILLION, chosen),
        fresh=True,
        notes=("peak MB is of the whole process: interpreter, DuckDB, rows and model",),
    )


if __name__ == "__main__":
    harness.main(benchmark)
