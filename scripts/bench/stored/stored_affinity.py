"""Rare features in blocks: by affinity, by frequency, by id, and the paper's keys.

    stored_affinity.py [--cliques 800000] [--times 3] [--cache 16MB] [--layouts id,frequency,...]

Planted cliques of eight features under shuffled ids: a row has ten of them, and each is in `times`
random rows; a clique of which more or fewer rows are, by half, so that frequency means something.
For comparison `none`: the same ids, shuffled over the rows. Counted are keys and bytes that
LevelDB was asked for, in the epochs and the evaluation of the objective, by option `layout`;
"paper" is Algorithm 3 on sampled rows for the frequent features and a key for each other one (Qin,
Torres, Rusu, VLDB 2017, section 5). Recovered: cliques whose members all lie in one block.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import machine
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SIZE, PER_ROW = 8, 10
LAYOUTS = "id,frequency,affinity"
Ids = NDArray[np.int64]


def main() -> None:
    """The command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    add("--cliques", type=int, default=800_000)
    add("--times", type=int, default=3, help="rows that a clique is in, on average")
    add("--cache", default="16MB")
    add("--layouts", default=LAYOUTS)
    add("--data", default="cliques,none")
    add("--epochs", type=int, default=1)
    add("--recover", type=int, default=2_000_000, help="cliques to recover, without a training")
    add("--store", type=Path, default=Path("build"), help="where stores lie (%(default)s)")
    args = made.parse_args()
    print(machine.sentence(machine.facts()))
    if args.recover:
        recover(args.recover, args.times)
    for name in args.data.split(","):
        rows = drawn(args.cliques, args.times, mixed=name == "none")
        print(f"{name}: {len(rows[0]) - 1:,} rows, {args.cliques * SIZE:,} features")
        for layout in args.layouts.split(","):
            print(line(layout, train(rows, layout, args)), flush=True)


def drawn(cliques: int, times: int, mixed: bool, seed: int = 0) -> tuple[Ids, Ids, Ids]:
    """Row starts, ids, and the members of each clique."""
    rng = np.random.default_rng(seed)
    members = rng.permutation(cliques * SIZE).reshape(cliques, SIZE)
    often = rng.integers(max(1, times // 2), times + times // 2 + 2, cliques)
    occurrences = rng.permutation(np.repeat(np.arange(cliques), often))
    rows = len(occurrences) // PER_ROW
    ids = members[occurrences[: rows * PER_ROW]].ravel()
    if mixed:
        rng.shuffle(ids)
    return np.arange(0, len(ids) + 1, SIZE * PER_ROW), ids, members


def recover(cliques: int, times: int) -> None:
    """Seconds to find some cliques, and the share of them that one block of 64 holds whole."""
    from tuskml.partitioner import WARM_LEVELDB, SparseRows
    from tuskml.partitioner.affinity import FeatureSketches

    starts, ids, members = drawn(cliques, times, mixed=False)
    begin = time.perf_counter()
    related = FeatureSketches(members.size, 10_000)
    related.update(SparseRows(starts, ids))
    sketched = time.perf_counter()
    with related.cluster(WARM_LEVELDB) as clusters:
        blocks = clusters.places(64)[members] // 64
    end = time.perf_counter()
    whole = float((blocks == blocks[:, :1]).all(axis=1).mean())
    print(
        f"{cliques:,} cliques, {len(ids):,} entries: {whole:.2%} in one block of 64; sketches "
        f"{sketched - begin:.2f} s, clusters and places {end - sketched:.2f} s"
    )


def train(
    rows: tuple[Ids, Ids, Ids], layout: str, args: argparse.Namespace, **more: Any
) -> dict[str, Any]:
    """The model of one training, in a fresh root; more: options."""
    import tuskml

    starts, ids, _ = rows
    options = {
        "store": "bench",
        "cache": args.cache,
        "method": "kv-vp",
        "layout": layout,
        "threads": 1,
        "max_iter": args.epochs,
        "epsilon": 0,
        "step": 0.01,
    }
    options |= more
    with (
        tempfile.TemporaryDirectory(dir=args.store) as root,
        tuskml.connect(store_root=root, threads=2) as con,
    ):
        con.execute("SET enable_progress_bar = false")
        for first, table in enumerate(tables(starts, ids)):
            con.register("made", table)
            verb = "INSERT INTO rows" if first else "CREATE TABLE rows AS"
            con.execute(f"{verb} FROM made")
            con.unregister("made")
        begin = time.perf_counter()
        model = trained(con, options)
        model["wall"] = time.perf_counter() - begin
    return model


def trained(con: duckdb.DuckDBPyConnection, options: dict[str, Any]) -> dict[str, Any]:
    """The model value."""
    text = json.dumps(options)
    sql = f"SELECT train_model('logistic', y, sparse(ids, vals), '{text}') FROM rows"
    found: dict[str, Any] = con.execute(sql).fetchall()[0][0]
    return found


def tables(starts: Ids, ids: Ids, rows: int = 50_000) -> Iterator[pa.Table]:
    """Parts of the rows."""
    for first in range(0, len(starts) - 1, rows):
        part = starts[first : first + rows + 1]
        at = (part - part[0]).astype(np.int32)
        some = ids[part[0] : part[-1]].astype(np.int32)
        lists = [some, np.ones(len(some), np.float32)]
        columns = [pa.ListArray.from_arrays(at, one) for one in lists]
        labels = pa.array(np.arange(first, first + len(at) - 1) % 2.0)
        yield pa.table([*columns, labels], ["ids", "vals", "y"])


def line(layout: str, model: dict[str, Any]) -> str:
    """A training for people."""
    counters = json.loads(model["options"])["counters"]
    seconds = counters["seconds"]
    epochs = model["iterations"]
    return (
        f"{layout:>9}: {counters['requests']:>12,} requests, "
        f"{counters['bytes_read'] / 1e6:>8,.1f} MB read, "
        f"{counters['bytes_written'] / 1e6:>8,.1f} MB written, layout {seconds['layout']:.2f} s, "
        f"epoch {sum(seconds[n] for n in ('acquire', 'train', 'release')) / epochs:.1f} s, "
        f"loss {model['loss']:.5f}, {model['plan'].split('KV', 1)[1]}"
    )


if __name__ == "__main__":
    main()
