"""Stored models through SQL: rows, trainings that stop where a test wants them to, weights."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from fitting import fit

from tuskml.kvstore import StoreRoot
from tuskml.learners import events

SPARSE = "sparse(ids, vals)"
STEADY = {"epsilon": 0, "step": 0.5, "threads": 1}
"""A training whose course depends on nothing but its rows."""


def rows_of(task, n=1200, d=150, seed=0):
    """A sparse matrix as a dense one, and labels with noise; feature 0 is everywhere."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.05)
    x[:, 0] = 1 + rng.random(n)
    margins = x @ rng.standard_normal(d) + rng.logistic(size=n)
    return x, margins if task == "linear" else (margins > 0) * 1.0


def put(con, x, y, table="t"):
    """A table of labels and sparse features; i: the rows' numbers."""
    seen = [np.flatnonzero(row) for row in x]
    frame = pd.DataFrame({
        "i": range(len(y)), "y": y, "ids": seen,
        "vals": [row[ids] for row, ids in zip(x, seen, strict=True)],
    })  # fmt: skip
    con.register("frame", frame)
    types = "i, y, ids::INTEGER[] AS ids, vals::DOUBLE[] AS vals"
    con.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT {types} FROM frame")
    con.unregister("frame")


def train(con, task="logistic", table="t", store="ads", **options):
    """A stored model of a whole table."""
    return fit(con, task, table, SPARSE, store=store, **options)


def with_weights(root, model, d):
    """The model, its coefficients those of the sealed file."""
    with StoreRoot(root).open(model.store) as sealed:
        model.coef = sealed.weights(np.arange(d)).astype(float)
    return model


def working(root, name="ads"):
    """Directories of working stores."""
    return StoreRoot(root).working(name)


@contextmanager
def at_epoch(number: int, action: Callable[[], object]) -> Iterator[None]:
    """Calls `action` once a training has finished epoch `number`."""

    def listener(event: events.Event) -> None:
        if event.iteration == number:
            action()

    with events.listening(listener):
        yield


CHILD = """
import os, signal, sys, numpy as np
sys.path[:0] = {path}
import tuskml
from stored_fits import *
from tuskml.learners.linear.stored import run as stored_run
root = sys.argv[1]
con = tuskml.connect(store_root=root, threads=2)
con.execute("SET enable_progress_bar = false")
x, y = rows_of("logistic")
put(con, x, y)
"""


def in_a_process(program: str, root: Path) -> "subprocess.CompletedProcess[str]":
    """Runs a program that has `con` with the table t and the names here; argv[1]: root."""
    here = Path(__file__).parent
    path = [str(here)]
    text = CHILD.format(path=path) + program
    return subprocess.run(
        [sys.executable, "-c", text, str(root)],
        capture_output=True, text=True, check=False, timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
