"""Training in a client of DuckDB: Python inside its process compared with a helper process.

python scripts/bench/run.py helper_process --rows 2000000 --repeat 5

The client is a Python that loads the extension's file alone. In each of two clients, in turn: its
first training, small ones, ones of all rows of 28 FLOATs, and the time from a cancel, by another
connection, until the statement has ended.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from tuskml.udas.duckdb import extension_path

MODES = {"inside": "off", "helper": "on"}
CLIENT = """
import duckdb, json, random, sys, threading, time
extension, rows = sys.argv[1], int(sys.argv[2])
con = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "2"})
con.execute("SET enable_progress_bar = false").execute(f"LOAD '{extension}'")
columns = ", ".join(f"sin(i * {k + 1})::FLOAT AS x{k}" for k in range(28))
con.execute(f"CREATE TABLE r AS SELECT cos(i) AS y, {columns} FROM range({rows}) t(i)")
features = "[" + ", ".join(f"x{k}" for k in range(28)) + "]"
train = f"SELECT (train_model('linear', y, {features})).coef FROM r"
options = '{"algorithm": "bgd", "epsilon": 0, "max_iter": 1000000000}'
endless = f"SELECT train_model('logistic', x > 4, [x], '{options}') FROM range(9) t(x)"

def seconds(statement):
    begun = time.perf_counter()
    con.execute(statement).fetchall()
    return time.perf_counter() - begun

def cancelled():
    def run():
        try:
            con.execute(endless).fetchall()
        except duckdb.Error:
            pass
    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(random.uniform(0.1, 0.3))
    other = con.cursor()
    begun = time.perf_counter()
    while thread.is_alive():
        other.execute("SELECT tuskml_cancel()").fetchall()
        thread.join(0.5)
    return time.perf_counter() - begun

ASKED = {
    "first": lambda: seconds("SELECT train_model('linear', x, [x]) FROM range(9) t(x)"),
    "small": lambda: seconds("SELECT train_model('linear', x, [x]) FROM range(9) t(x)"),
    "train": lambda: seconds(train),
    "cancel": cancelled,
}
for line in sys.stdin:
    print(json.dumps(ASKED[line.strip()]()), flush=True)
"""


def main() -> None:
    """Prints a table of medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--cancels", type=int, default=20)
    args = parser.parse_args()
    clients = {name: client(mode, args.rows) for name, mode in MODES.items()}
    counts = {"first": 1, "small": 20, "train": args.repeat, "cancel": args.cancels}
    print("| | inside | helper |\n|---|---|---|")
    for what, count in counts.items():
        found: dict[str, list[float]] = {name: [] for name in clients}
        for _ in range(count):
            for name, process in clients.items():
                found[name].append(asked(process, what))
        medians = " | ".join(f"{statistics.median(found[name]) * 1e3:.1f} ms" for name in clients)
        most = " | ".join(f"{max(found[name]) * 1e3:.1f} ms" for name in clients)
        print(f"| {what}, median | {medians} |\n| {what}, largest | {most} |")
    for process in clients.values():
        process.communicate()


def client(mode: str, rows: int) -> "subprocess.Popen[str]":
    """A client that reads requests on standard input and writes answers on standard output."""
    command = [sys.executable, "-c", CLIENT, str(extension_path()), str(rows)]
    given = os.environ | {"TUSKML_HELPER": mode, "TUSKML_PYTHON": sys.executable}
    return subprocess.Popen(
        command, env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def asked(process: "subprocess.Popen[str]", what: str) -> float:
    """Seconds that a client takes."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(what + "\n")
    process.stdin.flush()
    return float(json.loads(process.stdout.readline()))


if __name__ == "__main__":
    main()
