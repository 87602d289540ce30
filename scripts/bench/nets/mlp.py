"""Neural nets compared with a loop of PyTorch, in one run.

python scripts/bench/run.py mlp --groups 1000 --rows 2000000 --repeat 3 [--part many | one]

Many nets: groups of 2,000 rows and 28 features, one hidden layer of 32 relus, 20 epochs of batches
of 32 by Adam. PyTorch trains the first of the groups by a loop over slices of tensors, with one
thread, and its time per group is multiplied; `torch.func.vmap` trains the first of the groups at
once. One net: 28-64-32-1, one epoch of batches of 256.
All have the same rows, which PyTorch gets as arrays that are already centred and scaled. tuskml
trains from a table in DuckDB, so its time includes the packing and the scaling. Where PyTorch is
not installed (--torch names the Python that has it) only tuskml's times are printed.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import tuskml

GROUP_ROWS, INPUTS = 2000, 28
MORE = 11
"""Epochs of the longer of two trainings of the one net, whose difference is timed."""
PEER = """
import sys, time, numpy, torch
folder, *numbers = sys.argv[1:]
n, epochs, batch, threads, groups, *hidden = map(int, numbers)
torch.set_num_threads(threads)
torch.manual_seed(1)
torch.set_num_interop_threads(1)
all_x, all_y = (torch.from_numpy(numpy.load(f"{folder}/{name}.npy")) for name in "xy")
def train(x, y, n, epochs):
    sizes, parts = [28, *hidden, 1], []
    for d, k in zip(sizes, sizes[1:]):
        parts += [torch.nn.Linear(d, k), torch.nn.ReLU()]
    net = torch.nn.Sequential(*parts[:-1])
    made = torch.optim.Adam(net.parameters(), foreach=False, fused=True)
    loss_of = torch.nn.BCEWithLogitsLoss()
    for epoch in range(epochs):
        order, total = torch.randperm(n), 0.0
        for at in range(0, n, batch):
            some = order[at : at + batch]
            made.zero_grad(set_to_none=True)
            loss = loss_of(net(x[some])[:, 0], y[some])
            loss.backward()
            made.step()
            total += loss.item() * len(some)
    return total / n
train(all_x[0], all_y[0], min(n, 2000), 2)
began, used = time.perf_counter(), time.process_time()
loss = sum(train(all_x[g], all_y[g], n, epochs) for g in range(groups)) / groups
print((time.perf_counter() - began) / groups, (time.process_time() - used) / groups, loss)
"""

AT_ONCE = """
import sys, time, numpy, torch
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
folder, *numbers = sys.argv[1:]
groups, n, epochs, batch, threads = map(int, numbers)
torch.set_num_threads(threads)
torch.manual_seed(1)
x, y = (torch.from_numpy(numpy.load(f"{folder}/{name}.npy"))[:groups] for name in "xy")
def made():
    return torch.nn.Sequential(torch.nn.Linear(28, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
plain = made().to("meta")
loss_of = torch.nn.functional.binary_cross_entropy_with_logits
def loss(weights, x, y):
    return loss_of(functional_call(plain, weights, (x,))[:, 0], y)
step_of = vmap(grad_and_value(loss))
each = torch.arange(groups)[:, None]
def train(epochs):
    weights, _ = stack_module_state([made() for _ in range(groups)])
    weights = {name: one.detach().requires_grad_() for name, one in weights.items()}
    adam = torch.optim.Adam(weights.values(), foreach=False, fused=True)
    for epoch in range(epochs):
        order, total = torch.rand(groups, n).argsort(dim=1), 0.0
        for at in range(0, n, batch):
            some = order[:, at : at + batch]
            with torch.no_grad():
                slopes, losses = step_of(weights, x[each, some], y[each, some])
            for name, one in weights.items():
                one.grad = slopes[name]
            adam.step()
            total += losses.mean().item() * some.shape[1]
    return total / n
train(1)
began, used = time.perf_counter(), time.process_time()
found = train(epochs)
print((time.perf_counter() - began) / groups, (time.process_time() - used) / groups, found)
"""
"""A program that trains all groups at once, which must have equally many rows."""


@contextmanager
def rows_of(con: duckdb.DuckDBPyConnection, rows: int, groups: int, shown: int) -> Iterator[str]:
    """A table of rows in groups, two classes that depend on products and waves of features,
    and a folder with the rows of the first `shown` groups for PyTorch.
    """
    random = np.random.default_rng(1)
    x = random.normal(size=(rows, INPUTS)).astype(np.float32)
    y = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3] > 0
    made = {f"c{j}": x[:, j] for j in range(INPUTS)} | {"y": y, "g": np.arange(rows) % groups}
    con.register("made", made)
    listed = ", ".join(f"c{j}" for j in range(INPUTS))
    con.execute(f"CREATE OR REPLACE TABLE t AS SELECT g, y, [{listed}] AS x FROM made")
    con.unregister("made")
    with tempfile.TemporaryDirectory() as folder:
        part = x.reshape(-1, groups, INPUTS)[:, :shown].swapaxes(0, 1)
        scaled = (part - part.mean(axis=1, keepdims=True)) / part.std(axis=1, keepdims=True)
        np.save(Path(folder) / "x.npy", np.ascontiguousarray(scaled))
        np.save(Path(folder) / "y.npy", y.reshape(-1, groups)[:, :shown].T.astype(np.float32))
        del made, x, y, part, scaled
        yield folder


def timed(call: Callable[[], Any], repeat: int) -> tuple[float, float, Any]:
    """The median seconds of a call, and of the processors, and the result of the last call."""
    found, walls, used = None, [], []
    for _ in range(repeat):
        wall, own = time.perf_counter(), time.process_time()
        found = call()
        walls.append(time.perf_counter() - wall)
        used.append(time.process_time() - own)
    return statistics.median(walls), statistics.median(used), found


def peer(
    args: argparse.Namespace, folder: str, *numbers: int, script: str = PEER
) -> tuple[float, float, float] | None:
    """Seconds of the wall clock and of processors, and the last epoch's loss, of a training by
    PyTorch; None where it is missing."""
    command = [args.torch, "-c", script, folder, *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"  no PyTorch: {done.stderr.strip().splitlines()[-1]}")
        return None
    wall, used, loss = map(float, done.stdout.split())
    return wall, used, loss


def options_of(args: argparse.Namespace, **more: object) -> str:
    """Options as JSON."""
    return json.dumps({"objective": "logistic", "threads": args.threads} | more)


def many_nets(args: argparse.Namespace, con: duckdb.DuckDBPyConnection) -> None:
    """A net per group."""
    shown = max(args.peer_groups, args.vmap_groups)
    with rows_of(con, args.groups * GROUP_ROWS, args.groups, shown) as folder:
        options = options_of(args, layers=[32], max_iter=20)
        models = f"SELECT g, train_model('mlp', y, x, '{options}') AS m FROM t GROUP BY g"
        sql = f"SELECT g, m.history[-1] FROM ({models}) ORDER BY g"
        wall, used, found = timed(lambda: con.execute(sql).fetchall(), args.repeat)
        print(f"{args.groups} nets 28-32-1 of {GROUP_ROWS} rows, 20 epochs of batches of 32")
        print(f"  tuskml   {wall:.2f} s with {args.threads} threads, processors {used:.2f} s")
        peers = (
            (PEER, args.peer_groups, 1, (GROUP_ROWS, 20, 32, 1, args.peer_groups, 32)),
            (
                AT_ONCE,
                args.vmap_groups,
                args.threads,
                (args.vmap_groups, GROUP_ROWS, 20, 32, args.threads),
            ),
        )
        for script, groups, threads, numbers in peers:
            told = peer(args, folder, *numbers, script=script)
            if told is None:
                continue
            theirs, busy = told[0] * args.groups, told[1] * args.groups
            ours = statistics.fmean(loss for _, loss in found[:groups])
            print(
                f"  {'PyTorch' if script is PEER else 'vmap':8} {theirs:.1f} s with {threads} "
                f"threads, processors {busy:.1f} s, from {groups} groups; loss of their last "
                f"epoch {told[2]:.4f}, ours {ours:.4f}: {theirs / wall:.1f}x, processors "
                f"{busy / used:.1f}x"
            )


def one_net(args: argparse.Namespace, con: duckdb.DuckDBPyConnection) -> None:
    """A large table."""
    with rows_of(con, args.rows, 1, 1) as folder:
        times = {}
        for epochs in (1, MORE):
            options = options_of(args, max_iter=epochs, batch_size=256)
            models = f"SELECT train_model('mlp', y, x, '{options}') AS m FROM t"
            sql = f"SELECT m.loss, m.history FROM ({models})"
            times[epochs] = timed(lambda sql=sql: con.execute(sql).fetchall(), args.repeat)
        losses = [round(loss, 4) for loss in times[MORE][2][0][1]]
        wall, used = ((times[MORE][place] - times[1][place]) / (MORE - 1) for place in (0, 1))
        print(f"one net 28-64-32-1 of {args.rows:,} rows, batches of 256")
        print(
            f"  tuskml   {wall:.2f} s an epoch with {args.threads} threads, processors "
            f"{used:.2f} s; {times[1][0]:.2f} s for one with packing, copying and the final loss; "
            f"losses {losses}"
        )
        for threads in sorted({1, args.threads}):
            found = peer(args, folder, args.rows, 1, 256, threads, 1, 64, 32)
            if found:
                print(
                    f"  PyTorch  {found[0]:.2f} s an epoch with {threads} threads, processors "
                    f"{found[1]:.2f} s, loss {found[2]:.4f}: {found[0] / wall:.1f}x, processors "
                    f"{found[1] / used:.1f}x"
                )


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--part", choices=["many", "one"], help="only this part")
    parser.add_argument("--peer-groups", type=int, default=2)
    parser.add_argument("--vmap-groups", type=int, default=100)
    parser.add_argument("--torch", default=sys.executable, help="a Python with PyTorch")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    with tuskml.connect(threads=args.threads) as con:
        if args.part != "one":
            many_nets(args, con)
        if args.part != "many":
            one_net(args, con)


if __name__ == "__main__":
    main()
