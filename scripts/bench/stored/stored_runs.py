"""Timed trainings of stored models through SQL, shared by the programs on the paper's figures.

Qin, Torres, Rusu, *Scalable Asynchronous Gradient Descent Optimization for Out-of-Core Models*,
VLDB 2017, section 7: KV is a key a feature (option method kv), KV-VP the vertically partitioned
model. Both take the same steps, from the same start, over the same batches of rows.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import machine
import numpy as np
import pyarrow as pa
import ratings
import stored_data
from contender import Settings
from data import append, cached
from harness import DEFAULT_DATA_DIR

METHODS = {"KV": "kv", "KV-VP": "kv-vp"}
"""The option `method` of each."""
NAME = "bench"
NOISE = 0.8
WORK = ("acquire", "train", "release")
ONCE = ("layout", "map", "step", "objective", "seal")
"""Phases of a stored model's training that all epochs share."""
TMPFS = Path("/dev/shm")
SPARSE = {
    what.name: what
    for what in (
        stored_data.SKEWED,
        stored_data.SPLICE,
        stored_data.SPLICE_WIDE,
        stored_data.BILLION,
    )
}
RATED = ("matrix", "movielens")
Options = dict[str, Any]


class Refused(Exception):
    """A training without a figure; the text is the reason."""


@dataclass(frozen=True)
class Data:
    """A data set and the SQL that trains on it; step: a constant one, for all methods alike."""

    name: str
    path: Path
    source: str
    call: str
    step: float
    options: Options = field(default_factory=dict)

    def sql(self, options: Options) -> str:
        """SELECT one model."""
        text = json.dumps(self.options | {"step": self.step, "epsilon": 0} | options)
        return f"SELECT train_model({self.call}, '{text}') AS m FROM {self.source}"


@dataclass(frozen=True)
class Trained:
    """The result of a training; seconds: of the training, without reading the rows."""

    seconds: float
    loss: float
    history: list[float]
    epochs: int
    counters: dict[str, Any]

    @property
    def passes(self) -> int:
        """Passes over the rows: the epochs and the one that evaluates the objective."""
        return self.epochs + 1

    @property
    def partitioning(self) -> float:
        """Seconds of the offline stage."""
        return float(self.counters.get("seconds", {}).get("layout", 0.0))

    def each(self, counter: str) -> float:
        """A counter's mean over the passes."""
        return float(self.counters[counter]) / self.passes

    @property
    def in_epochs(self) -> float:
        """Seconds less the phases that a stored model counted and that are no part of an epoch."""
        phases = self.counters.get("seconds", {})
        return self.seconds - sum(phases.get(name, 0.0) for name in ONCE)

    @property
    def busy(self) -> float:
        """Seconds an epoch that its workers read, train and write, summed over the workers."""
        phases = self.counters.get("seconds", {})
        return sum(phases.get(name, 0.0) for name in WORK) / self.epochs

    @property
    def asked(self) -> float:
        """Keys per pass requested from a store without a cache; pushed ones are not requested."""
        return self.each("requests") + self.each("cache_hits")


@dataclass(frozen=True)
class Timed:
    """Repeated trainings: seconds per epoch and of one-time work (medians), the last model."""

    epoch: float
    before: float
    model: Trained

    def as_dict(self) -> dict[str, Any]:
        """The results for JSON."""
        return asdict(self)


def parser(description: str, data: str, threads: str) -> argparse.ArgumentParser:
    """The options that every program on stored models has; data and threads: the defaults."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    add(
        "--data",
        type=words,
        default=data,
        metavar="NAME,NAME",
        help=f"of {', '.join((*SPARSE, *RATED))} (default {data})",
    )
    add("--scale", type=float, default=1.0, help="share of the full number of rows (default 1)")
    add("--threads", type=numbers, default=threads, metavar="N,N", help=f"default {threads}")
    add("--repeat", type=int, default=3, help="runs behind each median (default 3)")
    add("--task", choices=("svm", "logistic"), default="svm", help="of the sparse data sets")
    add("--rank", type=int, default=20, help="factors for matrix; movielens has 100")
    add(
        "--movielens",
        type=Path,
        metavar="FILE",
        help="ratings as user|item|rating|timestamp with a header (default: a synthetic set of "
        "MovieLens 1M's shape)",
    )
    add("--store", type=Path, default=TMPFS, metavar="DIR", help="where stores lie (%(default)s)")
    add("--data-dir", type=Path, default=DEFAULT_DATA_DIR, help="where data sets are kept")
    add(
        "--out",
        type=Path,
        default=Path("build/figures"),
        metavar="DIR",
        help="where the PNG goes (%(default)s)",
    )
    add("--json", type=Path, metavar="FILE", help="write the results as JSON")
    return made


def words(text: str) -> list[str]:
    """Names separated by commas."""
    return [word for word in text.split(",") if word]


def numbers(text: str) -> list[int]:
    """Whole numbers separated by commas."""
    return [int(word) for word in words(text)]


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings for generators of data."""
    args.data_dir.mkdir(parents=True, exist_ok=True)
    return Settings(args.data_dir.resolve(), args.scale, max(args.threads))


def data_of(name: str, args: argparse.Namespace) -> Data:
    """A data set by name, made when it is missing."""
    settings = settings_of(args)
    if name in SPARSE:
        return sparse(name, args.task, settings)
    if name == "matrix":
        path = stored_data.ratings(stored_data.MATRIX, settings)
        return rated(name, path, "data.ratings", ("user_id", "item_id"), args.rank)
    if name == "movielens" and args.movielens:
        path = movielens(args.movielens, settings)
        return rated(name, path, "data.ratings", ("user_id", "item_id"), 100)
    if name == "movielens":
        return rated(name, ratings.synthetic(settings), "data.train", ("u", "i"), 100)
    raise SystemExit(f"no data set {name!r}, expected one of {', '.join((*SPARSE, *RATED))}")


def sparse(name: str, task: str, settings: Settings) -> Data:
    """A sparse data set; its step is that of rows of length 1."""
    what = SPARSE[name]
    path = stored_data.sparse(what, settings)
    return Data(
        name,
        path,
        "data.examples",
        f"'{task}', y, sparse(ids, vals)",
        1 / what.entries,
        {"algorithm": "hogbatch", "schedule": "constant"},
    )


def rated(name: str, path: Path, source: str, pair: tuple[str, str], rank: int) -> Data:
    """Ratings with options that a store supports: memory alone would use others."""
    call = f"'matrix_factorization', rating, [{', '.join(pair)}]"
    return Data(name, path, source, call, 0.05, {"rank": rank, "l2": 0.02, "algorithm": "sgd"})


def movielens(file: Path, settings: Settings) -> Path:
    """MovieLens 100K from its text, as table ratings; scale: a share of its rows."""
    table = np.loadtxt(file, delimiter="|", skiprows=1, usecols=(0, 1, 2))
    table = table[: settings.rows(len(table))]
    columns = {
        "user_id": pa.array(table[:, 0].astype(np.int32)),
        "item_id": pa.array(table[:, 1].astype(np.int32)),
        "rating": pa.array(table[:, 2].astype(np.float32)),
    }

    def fill(con: duckdb.DuckDBPyConnection, _: Settings) -> None:
        con.execute("CREATE TABLE ratings (user_id INTEGER, item_id INTEGER, rating FLOAT)")
        append(con, "ratings", pa.table(columns))

    return cached(f"movielens-{len(table)}", settings, fill)


@contextmanager
def stores(folder: Path) -> Iterator[Path]:
    """A root of stores in `folder`, removed at the end."""
    root = Path(tempfile.mkdtemp(prefix="tuskml-stores-", dir=folder))
    try:
        yield root
    finally:
        shutil.rmtree(root)


@contextmanager
def connected(data: Data, root: Path, threads: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with tuskml, the data attached and stores under `root`."""
    import tuskml

    con: duckdb.DuckDBPyConnection = tuskml.connect(threads=threads, store_root=root)
    try:
        con.execute(f"ATTACH '{data.path}' AS data (READ_ONLY)")
        yield con
    finally:
        con.close()


def train(con: duckdb.DuckDBPyConnection, data: Data, options: Options) -> Trained:
    """Runs one training; coefficients of models in memory stay there."""
    fields = "m.seconds, m.loss, m.history, m.iterations, m.options, m.status"
    try:
        found = con.execute(f"SELECT {fields} FROM ({data.sql(options)})").fetchone()
    except duckdb.Error as error:
        raise Refused(str(error).splitlines()[0]) from error
    assert found is not None
    seconds, loss, history, epochs, text, status = found
    if epochs != options["max_iter"]:
        raise Refused(f"{epochs} epochs of {options['max_iter']}, status '{status}'")
    return Trained(seconds, loss, history, epochs, json.loads(text).get("counters") or {})


@dataclass
class Pairs:
    """Trainings of one and of `epochs` epochs by one contender."""

    con: duckdb.DuckDBPyConnection
    data: Data
    options: Options
    epochs: int
    each: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)
    last: Trained | None = None
    refused: Refused | None = None

    def train(self, epochs: int) -> Trained | None:
        """Runs one training, unless one was rejected before."""
        if self.refused is None:
            try:
                return train(self.con, self.data, self.options | {"max_iter": epochs})
            except Refused as problem:
                self.refused = problem
        return None

    def add(self) -> None:
        """Adds one more pair."""
        one, self.last = self.train(1), self.train(self.epochs)
        if one is None or self.last is None:
            return
        more = self.epochs - 1
        busy = self.last.busy * self.epochs - one.busy
        self.each.append((self.last.in_epochs - one.in_epochs) / more)
        self.before.append(one.seconds - self.each[-1])
        self.work.append(busy / more / self.options["threads"])

    def median(self) -> Timed | Refused:
        """The median of all pairs. Raises Refused if the noise is as long as the epochs:
        workers cannot have worked longer than the wall time.
        """
        if self.refused is not None:
            return self.refused
        epoch = statistics.median(self.each)
        if epoch <= 0 or epoch < NOISE * statistics.median(self.work):
            return Refused(
                f"{self.epochs} epochs took hardly longer than one, which is noise: "
                "give a larger --epochs, --scale or --repeat"
            )
        assert self.last is not None
        return Timed(epoch, statistics.median(self.before), self.last)


def timed_in_turns(
    contenders: dict[str, Options], data: Data, epochs: int, args: argparse.Namespace
) -> dict[str, Timed | Refused]:
    """Seconds per epoch from the difference of trainings with `epochs` and with one, without
    phases known to occur once, such as partitioning, whose noise could hide short epochs.
    Medians of --repeat pairs after a warm-up, in which the store's cost is measured.
    Contenders, each with a root of its own, take turns, so that other work on the machine
    affects all alike.
    """
    if epochs < 2:
        raise SystemExit(f"--epochs is {epochs}, expected 2 or more")
    with ExitStack() as stack:
        pairs = {}
        for name, options in contenders.items():
            root = stack.enter_context(stores(args.store))
            con = stack.enter_context(connected(data, root, options["threads"]))
            pairs[name] = Pairs(con, data, options, epochs)
            pairs[name].train(1)
        for _ in range(args.repeat):
            for one in pairs.values():
                machine.wait_until_quiet()
                one.add()
        return {name: one.median() for name, one in pairs.items()}


def timed(
    con: duckdb.DuckDBPyConnection, data: Data, options: Options, epochs: int, repeat: int
) -> Timed:
    """Times one contender, in an existing root."""
    if epochs < 2:
        raise SystemExit(f"--epochs is {epochs}, expected 2 or more")
    pairs = Pairs(con, data, options, epochs)
    pairs.train(1)
    for _ in range(repeat):
        machine.wait_until_quiet()
        pairs.add()
    found = pairs.median()
    if isinstance(found, Refused):
        raise found
    return found


def stored(method: str, threads: int, memory: str) -> Options:
    """The options of a stored model by method."""
    return {"store": NAME, "method": METHODS[method], "threads": threads, "cache": memory}


def say(text: str) -> None:
    """Prints at once, so that a long run can be watched."""
    print(text, flush=True)


def begin(args: argparse.Namespace) -> dict[str, object]:
    """Prints the machine's facts, and gives them."""
    facts = machine.facts()
    say(f"{machine.sentence(facts)}. scale {args.scale:g}, stores in {args.store}\n")
    return facts


def goal(text: str, reached: float, asked: float, *, at_least: bool) -> None:
    """Prints whether a target was reached."""
    met = reached >= asked if at_least else reached <= asked
    sign = ">=" if at_least else "<="
    say(f"  goal: {text}: {reached:.3g}, asked {sign} {asked:g}: {'met' if met else 'NOT met'}")


def write(args: argparse.Namespace, facts: dict[str, object], rows: list[dict[str, Any]]) -> None:
    """Writes the results as JSON, if --json is given."""
    if args.json:
        record = {"machine": facts, "scale": args.scale, "store": str(args.store), "rows": rows}
        args.json.write_text(json.dumps(record, indent=2) + "\n")
        say(f"wrote {args.json}")
