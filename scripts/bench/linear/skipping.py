"""Data skipping: stochastic gradient descent by row group, batch gradient descent on all rows.

python scripts/bench/run.py skipping --gb 2 --data-dir /somewhere/large --json skipping.json

Measured, each training in a process of its own, to tolerance 0.01: seconds, bytes that it read
(rchar of /proc/self/io, after all libraries are loaded), the process's peak memory (VmHWM), and
the log-loss of the model over all rows, in SQL, outside the clock. The data: logistic, 28 FLOAT
columns of independent features with means and scales that differ, Parquet files of a quarter of a
gigabyte with DuckDB's row groups of 122,880 rows. The files are in the page cache for all: what
differs is decoding and arithmetic, not the disk. bgd measures its gradient in the features' own
units too, which is somewhat stricter.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

import tuskml

DIM = 28
ROW_BYTES = 4 * DIM + 1
FILE_BYTES = 1 << 28
FEATURES = [f"x{k}" for k in range(DIM)]
CONTENDERS = {
    "sgd by row group": {"algorithm": "sgd", "epsilon": 0.01},
    "mgd by row group": {"algorithm": "mgd", "epsilon": 0.01},
    "bgd on all rows": {"algorithm": "bgd", "epsilon": 0.01},
    "newton on all rows": {"algorithm": "newton", "epsilon": 0.01},
    "auto": {"epsilon": 0.01},
    "sgd in SQL": {"algorithm": "sgd", "epsilon": 0.01},
    "auto in SQL": {"epsilon": 0.01},
}
"""Options by name; those in SQL are one statement, `SELECT * FROM train(...)`."""


def generate(folder: Path, gb: float) -> int:
    """Makes the files that are missing; returns all files' bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = ", ".join(
        f"((random() - 0.5) * {1 + k % 5} + {k % 3})::FLOAT AS x{k}" for k in range(DIM)
    )
    margin = " + ".join(f"{(-1) ** k / (1 + k % 5):.3f} * (x{k} - {k % 3})" for k in range(DIM))
    rows = FILE_BYTES // ROW_BYTES
    files = max(1, round(gb * 1e9 / FILE_BYTES))
    with duckdb.connect(config={"threads": 1}) as con:  # one thread: the seed decides
        con.execute("SET enable_progress_bar = false")
        for number in range(files):
            path = folder / f"part{number:03}.parquet"
            if path.exists():
                continue
            con.execute(f"SELECT setseed({(number + 1) / (files + 1)})").fetchall()
            made = f"SELECT {columns} FROM range({rows})"
            con.execute(
                f"COPY (SELECT *, random() < 1 / (1 + exp(-2 * ({margin}))) AS y FROM ({made})) "
                f"TO '{path}.new' (FORMAT parquet)"
            )
            os.replace(f"{path}.new", path)
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))


def measure(folder: Path, name: str, threads: int) -> dict[str, Any]:
    """Measures one training in this process."""
    source = str(folder / "*.parquet")
    con = tuskml.connect(threads=threads)
    tuskml.train(  # loads lazily loaded modules
        con, "logistic", source="SELECT 1 AS x UNION ALL SELECT 2", label="x > 1", features="x"
    )
    train = in_sql if name.endswith("in SQL") else in_python
    before, began = characters_read(), time.perf_counter()
    model = train(con, source, CONTENDERS[name])
    seconds, read = time.perf_counter() - began, characters_read() - before
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    return {
        "seconds": seconds,
        "read": read,
        "peak": peak,
        "status": model.status,
        "plan": model.plan,
        "iterations": model.iterations,
        "counters": model.options.get("counters"),
        "loss": loss(con, source, model),
    }


def in_python(con: duckdb.DuckDBPyConnection, source: str, given: dict[str, Any]) -> tuskml.Model:
    """Trains by tuskml.train."""
    return tuskml.train(con, "logistic", source=source, label="y", features=FEATURES, **given)


def in_sql(con: duckdb.DuckDBPyConnection, source: str, given: dict[str, Any]) -> tuskml.Model:
    """Trains by one statement."""
    features = ", ".join(f"'{name}'" for name in FEATURES)
    text = "''" + source + "''"
    found = con.execute(
        f"SELECT * FROM train('{text}', 'logistic', 'y', [{features}], "
        f"options := '{json.dumps(given)}')"
    )
    names = [column[0] for column in found.description or ()]
    return tuskml.Model.of(dict(zip(names, found.fetchall()[0], strict=True)))


def characters_read() -> int:
    """Bytes that this process has read from files, cached or not."""
    return int(Path("/proc/self/io").read_text().split()[1])


def loss(con: duckdb.DuckDBPyConnection, source: str, model: tuskml.Model) -> float:
    """The mean log-loss over all rows."""
    margin = " + ".join(f"{w!r} * {x}" for w, x in zip(model.coef or [], FEATURES, strict=True))
    margin = f"({margin} + {model.intercept!r})"
    signed = f"CASE WHEN y THEN -{margin} ELSE {margin} END"
    row = con.execute(f"SELECT avg(ln(1 + exp({signed}))) FROM '{source}'").fetchone()
    assert row is not None
    return float(row[0])


def run(folder: Path, name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The median of some processes."""
    command = [sys.executable, __file__, "--data-dir", str(folder), "--one", name]
    found = []
    for _ in range(arguments.repeat):
        done = subprocess.run(
            [*command, "--threads", str(arguments.threads)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found.append(json.loads(done.stdout))
    return found[0] | {
        key: statistics.median(one[key] for one in found) for key in ("seconds", "read", "peak")
    }


def main() -> None:
    """The command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    folder = Path(tempfile.gettempdir()) / "tuskml-skipping"
    made.add_argument("--gb", type=float, default=0.25, help="gigabytes of Parquet (default 0.25)")
    made.add_argument("--repeat", type=int, default=3, help="trainings of each (default 3)")
    made.add_argument("--threads", type=int, default=2, help="DuckDB's threads (default 2)")
    made.add_argument(
        "--only", default="", metavar="TEXT", help="contenders with TEXT in the name"
    )
    made.add_argument("--data-dir", type=Path, default=folder, help="%(default)s")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    made.add_argument("--one", choices=CONTENDERS, help=argparse.SUPPRESS)
    arguments = made.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.data_dir, arguments.one, arguments.threads)))
        return
    size = generate(arguments.data_dir, arguments.gb)
    record: dict[str, Any] = {"bytes": size, "load": os.getloadavg()[0]}
    print(f"{size / 1e9:.2f} GB of Parquet, load {record['load']:.1f}")
    for name in CONTENDERS:
        if arguments.only in name:
            found = record[name] = run(arguments.data_dir, name, arguments)
            print(
                f"{name:<18}{found['seconds']:>8.2f} s  read {found['read'] / size:>7.2%}  "
                f"peak {found['peak'] / 1e6:>6.0f} MB  loss {found['loss']:.5f}  "
                f"{found['status']}: {found['plan']}",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
