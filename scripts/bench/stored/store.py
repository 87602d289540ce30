"""Weights a second in and out of the working store, by weights a key, compared with plain plyvel
loops.

    store.py [--weights N] [--disk DIR] [--memory BYTES] [--json FILE]

For each width a store of N weights (at most 500,000 keys) in memory (tmpfs) and on disk; batches
of 10,000 keys. Each number is the median of three passes over all keys. `scattered`: random keys,
which share no block of a table; `near`: random keys of a range five times the batch, as of the hot
features of a chunk; `add` is get-merge-put of scattered keys, all weights of each. Tables lie in
the page cache on disk too: what a cold disk costs depends on the disk.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import machine
import numpy as np
import plyvel

from tuskml.kvstore import ModelStore
from tuskml.kvstore.database import options
from tuskml.partitioner import IndexMap

WIDTHS = (1, 16, 256, 1024)
BATCH, PASSES = 10_000, 3
Work = Callable[[np.ndarray], Any]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--weights", type=int, default=16_000_000, help="in each store")
    add("--disk", type=Path, default=Path(tempfile.gettempdir()), help="a folder on a disk")
    add("--memory", type=int, default=1 << 28, help="budget of a store, bytes")
    add("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    facts = machine.facts()
    print(machine.sentence(facts))
    print(f"\n{'':6} {'width':>6} {'':28} {'M keys/s':>9} {'M weights/s':>12}")
    rows = []
    for place, folder in (("tmpfs", Path("/dev/shm")), ("disk", args.disk)):
        for width in WIDTHS:
            n_keys = min(args.weights // width, 500_000)
            for name, rate in measure(folder, n_keys, width, args.memory):
                rows.append({"place": place, "width": width, "what": name, "keys_per_s": rate})
                print(
                    f"{place:6} {width:6} {name:28} {rate / 1e6:9.3f} {rate * width / 1e6:12.2f}",
                    flush=True,
                )
    if args.json:
        args.json.write_text(json.dumps({"machine": facts, "rows": rows}, indent=2) + "\n")


def measure(folder: Path, n_keys: int, width: int, memory: int) -> Iterator[tuple[str, float]]:
    """Yields (what, keys a second) of both contenders."""
    values = np.random.default_rng(0).random((BATCH, width), np.float32)
    rounds = {
        "put, rising": [np.arange(n_keys)],
        "get, scattered": [np.random.default_rng(seed).permutation(n_keys) for seed in range(2)],
        "get, near": [near_keys(n_keys)],
        "get, rising": [np.arange(n_keys)],
        "add, scattered": [np.random.default_rng(9).permutation(n_keys)],
    }
    path = Path(tempfile.mkdtemp(prefix="tuskml-store-", dir=folder))
    try:
        for make in (plyvel_works, store_works):
            works, close = make(path / make.__name__, values, memory)
            for what, work in works.items():
                keys = rounds[what.removesuffix(", 2 threads").split(": ")[1]]
                yield what, rate(work, keys, 2 if what.endswith("2 threads") else 1)
            close()
    finally:
        shutil.rmtree(path)


def near_keys(n_keys: int) -> np.ndarray:
    """Batches, each of random keys of a range of its own."""
    random, reach = np.random.default_rng(1), min(5 * BATCH, n_keys)
    starts = random.integers(0, n_keys - reach + 1, -(-n_keys // BATCH))
    return np.concatenate([s + random.permutation(reach)[:BATCH] for s in starts])[:n_keys]


def rate(work: Work, rounds: list[np.ndarray], threads: int) -> float:
    """Keys a second, the median of some passes."""
    taken = []
    for number in range(PASSES):
        keys = rounds[number % len(rounds)]
        batches = [keys[a : a + BATCH] for a in range(0, len(keys), BATCH)]
        shares = [batches[t::threads] for t in range(threads)]
        start = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(partial(run, work), shares))
        taken.append(len(keys) / (time.perf_counter() - start))
    return statistics.median(taken)


def run(work: Work, batches: list[np.ndarray]) -> None:
    """Runs one thread's share."""
    for keys in batches:
        work(keys)


def plyvel_works(path: Path, values: np.ndarray, memory: int) -> tuple[dict[str, Work], Any]:
    """A plain loop over plyvel, joined into an array, with the store's settings and checks."""
    width = values.shape[1]
    same = options(memory, 4, create=True)
    db = plyvel.DB(
        str(path),
        create_if_missing=True,
        paranoid_checks=True,
        compression=None,
        bloom_filter_bits=same.bloom_bits,
        write_buffer_size=same.write_buffer,
        lru_cache_size=same.block_cache,
        block_size=same.block_size,
        max_file_size=same.max_file_size,
        max_open_files=same.max_open_files,
    )
    payloads = [row.tobytes() for row in values]

    def put(keys: np.ndarray) -> None:
        with db.write_batch() as batch:
            names = keys.astype(">i8").tobytes()
            for place, payload in zip(range(0, len(names), 8), payloads, strict=False):
                batch.put(names[place : place + 8], payload)

    def get(keys: np.ndarray) -> np.ndarray:
        names = keys.astype(">i8").tobytes()
        found = [db.get(names[i : i + 8], verify_checksums=True) for i in range(0, len(names), 8)]
        return np.frombuffer(b"".join(found), np.float32).reshape(-1, width)

    works = {
        "plyvel: put, rising": put,
        "plyvel: get, scattered": get,
        "plyvel: get, scattered, 2 threads": get,
    }
    return works, db.close


def store_works(path: Path, values: np.ndarray, memory: int) -> tuple[dict[str, Work], Any]:
    """The working store."""
    width = values.shape[1]
    store = ModelStore.create(path, IndexMap.by_rule(width), memory=memory)
    slots = np.tile(np.arange(width, dtype=np.uint32), BATCH)
    deltas = values.ravel()

    def put(keys: np.ndarray) -> None:
        store.put(keys, values[: len(keys)])

    def add(keys: np.ndarray) -> None:
        entries, n = np.arange(len(keys) + 1) * width, len(keys) * width
        store.add(keys, entries, slots[:n], deltas[:n])

    works: dict[str, Work] = {
        "store: put, rising": put,
        "store: get, scattered": store.get,
        "store: get, scattered, 2 threads": store.get,
        "store: get, near": store.get,
        "store: get, near, 2 threads": store.get,
        "store: get, rising": store.get,
        "store: add, scattered": add,
        "store: add, scattered, 2 threads": add,
    }
    return works, store.close


if __name__ == "__main__":
    main()
