"""Factorization machines: seconds to a log-loss on rows held out, compared with libFM and xLearn.

python scripts/bench/run.py factorization_machines --rows 500000 --libfm PATH/bin/libFM \\
    --xlearn PATH/xlearn_train

Rows are like clicks (clicks.py): 20 categories with 10^6 ids and interactions planted between
them. Contenders take turns in one run, each with vectors of 8 numbers and the log-loss of rows
that none was trained on. libFM (Rendle, 2012) runs its stochastic gradient descent, on one thread,
since it has no more; its seconds are the processor's for its iterations, as its log has them.
xLearn runs its AdaGrad by two threads, with the seconds that it prints for its epochs. Both leave
reading files out. tuskml's seconds are those of the whole statement, with the copy of the rows
and the writing of the model. A line of JSON has a training of a given number of epochs.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from clicks import FIELDS, Ids, Labels, clicks, write_libsvm

import tuskml

RANK, HELD_OUT = 8, 200_000
RATES = {"tuskml": (0.02, 0.05), "libfm": (0.005, 0.01, 0.02), "xlearn": (0.1, 0.2, 0.5)}


@dataclass(frozen=True)
class Rows:
    """Ids (n, FIELDS) and labels of the training rows, and of those held out."""

    ids: Ids
    labels: Labels
    held_ids: Ids
    held: Labels


@dataclass(frozen=True)
class Found:
    """One training: its seconds, and the log-loss of the rows held out."""

    contender: str
    rate: float
    epochs: int
    seconds: float
    log_loss: float


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--libfm", type=Path, help="libFM's program, built from its source")
    parser.add_argument("--xlearn", type=Path, help="xLearn's xlearn_train, likewise")
    parser.add_argument("--epochs", type=int, default=3, help="at most")
    parser.add_argument("--contenders", default="tuskml,libfm,xlearn")
    parser.add_argument("--rates", help="JSON, in the place of RATES")
    shares = "of tuskml: parts of the rows to train on, for the seconds to a given log-loss"
    parser.add_argument("--shares", type=float, nargs="+", default=[1.0], help=shares)
    return parser.parse_args()


def main() -> None:
    """Prints a line of JSON per training."""
    args = arguments()
    ids, labels, _ = clicks(args.rows, 0)
    held_ids, held, least = clicks(HELD_OUT, 1)
    rows = Rows(ids, labels, held_ids, held)
    print(json.dumps({"rows": args.rows, "share": labels.mean(), "least": least}), flush=True)
    rates = json.loads(args.rates) if args.rates else RATES
    for contender in args.contenders.split(","):
        for rate in rates[contender]:
            for found in CONTENDERS[contender](rows, rate, args):
                print(json.dumps(asdict(found)), flush=True)


def by_tuskml(rows: Rows, rate: float, args: argparse.Namespace) -> Iterator[Found]:
    """Yields trainings by SQL in DuckDB, from a table of lists."""
    connection = tuskml.connect()
    keep(connection, "rows", rows.ids, rows.labels)
    keep(connection, "held", rows.held_ids, rows.held)
    for threads, share in product((1, 2), args.shares):
        for epochs in range(1, args.epochs + 1):
            options = {
                "objective": "logistic",
                "rank": RANK,
                "max_iter": epochs,
                "learning_rate": rate,
                "threads": threads,
            }
            some = f"(FROM rows LIMIT {round(share * args.rows)})"
            train = f"SELECT train_model('fm', y, x, '{json.dumps(options)}') AS m FROM {some}"
            began = time.perf_counter()
            connection.execute(f"CREATE OR REPLACE TABLE model AS {train}")
            seconds = time.perf_counter() - began
            ((loss,),) = connection.execute(
                "SELECT log_loss(y, predict_proba((SELECT m FROM model), x)) FROM held"
            ).fetchall()
            of = "" if share == 1 else f", {share:.0%} of the rows"
            yield Found(f"tuskml, threads {threads}{of}", rate, epochs, seconds, loss)


def keep(connection: Any, name: str, ids: Ids, labels: Labels) -> None:
    """A table of labels and sparse rows."""
    lists = pa.FixedSizeListArray.from_arrays(pa.array(ids.ravel()), FIELDS)
    given = pa.table({"ids": lists, "y": pa.array(labels)})
    connection.register("given", given)
    ones = f"list_resize([]::FLOAT[], {FIELDS}, 1::FLOAT)"
    connection.execute(
        f"CREATE TABLE {name} AS SELECT y, sparse(ids::INTEGER[], {ones}) AS x FROM given"
    )
    connection.unregister("given")


def by_libfm(rows: Rows, rate: float, args: argparse.Namespace) -> Iterator[Found]:
    """Yields trainings by libFM's program, whose log has the seconds of each iteration; one
    for each number of epochs, since it writes the probabilities of the last one.
    """
    with tempfile.TemporaryDirectory() as folder:
        train, test, log, out = (Path(folder) / name for name in ("train", "test", "log", "out"))
        write_libsvm(train, rows.ids, rows.labels)
        write_libsvm(test, rows.held_ids, rows.held)
        for epochs in range(1, args.epochs + 1):
            command = [
                args.libfm,
                "-task",
                "c",
                "-method",
                "sgd",
                "-train",
                train,
                "-test",
                test,
                "-dim",
                f"1,1,{RANK}",
                "-iter",
                str(epochs),
                "-learn_rate",
                str(rate),
                "-init_stdev",
                "0.01",
                "-rlog",
                log,
                "-out",
                out,
            ]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            names, *lines = [line.split("\t") for line in log.read_text().splitlines()]
            seconds = sum(float(line[names.index("time_learn")]) for line in lines[-epochs:])
            loss = log_loss(rows.held, np.loadtxt(out))
            yield Found("libfm", rate, epochs, seconds, loss)
            log.unlink()


def log_loss(labels: Labels, p: Any) -> float:
    """The log-loss of probabilities (n,)."""
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return float(-np.where(labels, np.log(p), np.log1p(-p)).mean())


def by_xlearn(rows: Rows, rate: float, args: argparse.Namespace) -> Iterator[Found]:
    """Yields trainings by xLearn's program, whose table has the loss and the seconds of each
    epoch.
    """
    with tempfile.TemporaryDirectory() as folder:
        train, test, model = (Path(folder) / name for name in ("train", "test", "model"))
        write_libsvm(train, rows.ids, rows.labels)
        write_libsvm(test, rows.held_ids, rows.held)
        command = [
            args.xlearn,
            train,
            "-s",
            "1",
            "-v",
            test,
            "-k",
            str(RANK),
            "-r",
            str(rate),
            "-b",
            "0.00002",
            "-e",
            str(args.epochs),
            "-nthread",
            "2",
            "--dis-es",
            "-m",
            model,
        ]
        env = os.environ | {"USER": "user"}  # without which it ends
        run = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
        told = re.sub(r"\x1b\[[0-9;]*m", "", run.stdout + run.stderr)  # without colours
        seconds = 0.0
        for line in re.findall(r"%.*\] +(\d+) +[\d.]+ +([\d.]+) +([\d.]+)", told):
            seconds += float(line[2])
            yield Found("xlearn", rate, int(line[0]), seconds, float(line[1]))


CONTENDERS = {"tuskml": by_tuskml, "libfm": by_libfm, "xlearn": by_xlearn}


if __name__ == "__main__":
    main()
