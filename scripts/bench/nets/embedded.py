"""Nets with large tables of embedded categories compared with PyTorch, in one run.

python scripts/bench/run.py embedded --rows 500000 --torch PYTHON

Rows are those of the benchmark of factorization machines (fm/clicks.py): 20 categories with 10^6
ids in all and interactions planted between them. The net is that of a DLRM without dense features:
a vector of 16 numbers for each id, and hidden layers of 64 and 32 relus over the 20 vectors of a
row, trained by Adam in batches of 1,024 rows. PyTorch (--torch names the Python that has it) reads
ids from a tensor and has the same vectors in one table, with SparseAdam for it and fused Adam for
the layers, which is its best known setting, and once with fused Adam for all. tuskml trains from
a table in DuckDB; the seconds of an epoch are the difference of two trainings, so that names,
packing and the writing of the model, which PyTorch does not do, are in neither. Log-losses are of
rows that nobody was trained on. Prints a line of JSON per training.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from clicks import FIELDS, IDS, Ids, Labels, clicks

import tuskml

LENGTH, BATCH, LAYERS, RATE, HELD_OUT = 16, 1024, (64, 32), 0.001, 200_000
MOST_LEVELS = 100_000
"""Levels of a category in tuskml; rarer ids of the two largest ones share a vector."""
PEER = """
import sys, time, json, numpy, torch
folder, epochs, batch, length, ids, rate, sparse = sys.argv[1:8]
epochs, batch, length, ids, sparse = int(epochs), int(batch), int(length), int(ids), int(sparse)
torch.manual_seed(1)
x, held_x = (torch.from_numpy(numpy.load(f"{folder}/{name}.npy")) for name in ("x", "held_x"))
y, held_y = (torch.from_numpy(numpy.load(f"{folder}/{name}.npy")) for name in ("y", "held_y"))
sizes, parts = [x.shape[1] * length, *json.loads(sys.argv[8]), 1], []
for d, k in zip(sizes, sizes[1:]):
    parts += [torch.nn.Linear(d, k), torch.nn.ReLU()]
net = torch.nn.Sequential(*parts[:-1])
table = torch.nn.Embedding(ids, length, sparse=bool(sparse))
torch.nn.init.uniform_(table.weight, -1, 1)
of_net = torch.optim.Adam(net.parameters(), lr=float(rate), foreach=False, fused=True)
if sparse:
    of_table = torch.optim.SparseAdam(table.parameters(), lr=float(rate))
else:
    of_table = torch.optim.Adam(table.parameters(), lr=float(rate), foreach=False, fused=True)
loss_of = torch.nn.BCEWithLogitsLoss()
def margins(some):
    return net(table(some).flatten(1))[:, 0]
for epoch in range(epochs):
    began = time.perf_counter()
    order = torch.randperm(len(x))
    for at in range(0, len(x), batch):
        some = order[at : at + batch]
        of_net.zero_grad(set_to_none=True)
        of_table.zero_grad(set_to_none=True)
        loss_of(margins(x[some]), y[some]).backward()
        of_net.step()
        of_table.step()
    seconds = time.perf_counter() - began
    with torch.no_grad():
        loss = loss_of(margins(held_x), held_y).item()
    print(json.dumps({"epoch": epoch + 1, "seconds": seconds, "log_loss": loss}), flush=True)
"""


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--torch", type=Path, help="a Python that has PyTorch")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--dense-epochs", type=int, default=1, help="of the dense steps")
    return parser.parse_args()


def main() -> None:
    """Prints a line of JSON per training."""
    args = arguments()
    rows, held = clicks(args.rows, 0), clicks(HELD_OUT, 1)
    print(json.dumps({"rows": args.rows, "least": held[2]}), flush=True)
    for found in by_tuskml(rows[:2], held[:2], args):
        print(json.dumps(found), flush=True)
    if args.torch:
        for found in by_torch(rows[:2], held[:2], args):
            print(json.dumps(found), flush=True)


def by_tuskml(
    rows: tuple[Ids, Labels], held: tuple[Ids, Labels], args: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Whole statements of ever more epochs."""
    con = tuskml.connect()
    keep(con, "rows", *rows)
    keep(con, "held", *held)
    before = train(con, 1)  # the first statement loads code
    for epochs in range(1, args.epochs + 1):
        seconds = train(con, epochs)
        ((loss,),) = con.execute(
            "SELECT log_loss(y, predict_proba((SELECT m FROM model), x)) FROM held"
        ).fetchall()
        more = {"epoch_seconds": seconds - before} if epochs > 1 else {}
        yield {"tuskml": "sparse", "epochs": epochs, "seconds": seconds, "log_loss": loss} | more
        before = seconds
    times = [train(con, epochs, sparse_embeddings=False) for epochs in (1, 2)]
    yield {"tuskml": "dense", "epoch_seconds": times[1] - times[0]}


def train(con: Any, epochs: int, **more: Any) -> float:
    """Seconds of the statement that makes the table `model`."""
    options = {"objective": "logistic", "embedding": LENGTH, "layers": LAYERS, "batch_size": BATCH}
    options |= {"max_iter": epochs, "learning_rate": RATE, "max_categories": MOST_LEVELS} | more
    began = time.perf_counter()
    con.execute(
        "CREATE OR REPLACE TABLE model AS "
        f"SELECT train_model('mlp', y, x, '{json.dumps(options)}') AS m FROM rows"
    )
    return time.perf_counter() - began


def keep(con: Any, name: str, ids: Ids, labels: Labels) -> None:
    """A table of labels and rows with a category per field."""
    columns = {f"c{field}": pa.array(ids[:, field]) for field in range(FIELDS)}
    con.register("given", pa.table(columns | {"y": pa.array(labels)}))
    row = ", ".join(f"'c{field}': CAST(c{field} AS VARCHAR)" for field in range(FIELDS))
    con.execute(f"CREATE TABLE {name} AS SELECT y, {{{row}}} AS x FROM given")
    con.unregister("given")


def by_torch(
    rows: tuple[Ids, Labels], held: tuple[Ids, Labels], args: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Seconds and log-loss of each epoch, with sparse and with dense steps."""
    with tempfile.TemporaryDirectory() as folder:
        for name, array in (("x", rows[0]), ("held_x", held[0])):
            np.save(Path(folder) / f"{name}.npy", array.astype(np.int64))
        for name, labels in (("y", rows[1]), ("held_y", held[1])):
            np.save(Path(folder) / f"{name}.npy", labels.astype(np.float32))
        for sparse, epochs in ((1, args.epochs), (0, args.dense_epochs)):
            numbers = [folder, epochs, BATCH, LENGTH, IDS, RATE, sparse, json.dumps(LAYERS)]
            command = [str(args.torch), "-c", PEER, *map(str, numbers)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            for line in done.stdout.splitlines():
                yield {"torch": "sparse" if sparse else "dense"} | json.loads(line)


if __name__ == "__main__":
    main()
