"""`placement="exchange"` over hosts that are network namespaces, by the plan and in other orders.

python scripts/bench/run.py exchange_nets [--hosts 4] [--rates 200 100] [--rounds 2]

As root on Linux. Each host is a namespace with two links to the others, whose rates `tc` limits,
and has one process that reads shards and trains; this process leads. The net has 24 embedded
categories. The orders run in turn: FIFO exchanges whole operations on the faster link in the order
in which the program asks for them; striped FIFO divides each over both links; the plan is what
users get. Prints seconds of an iteration, and whether all models have the same bits, those of one
thread too. Asked: 1.2 times FIFO.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partialmethod
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, BinaryIO
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / ".links"))

import numpy as np
from exchange_namespaces import address, namespaces

import tuskml
from tuskml.cluster import units
from tuskml.cluster.parts import placement
from tuskml.groups.execution.executor import Outcome, Unit, attempt, decode_outcome, encode_outcome
from tuskml.groups.execution.leading import Leaders
from tuskml.groups.execution.worker import Share, limit
from tuskml.learners.nets.exchange import worker
from tuskml.schedule.exchange.ordering import plain, spread
from tuskml.schedule.exchange.plan import Plan, greedy
from tuskml.schedule.exchange.workers import ballot as ballots
from tuskml.schedule.exchange.workers import crew
from tuskml.schedule.exchange.workers.ballot import Ballot
from tuskml.schedule.exchange.workers.windows import Workers

ORDERS = ("FIFO", "striped FIFO", "plan")
LINKS, CATEGORIES, LEVELS = 2, 24, 2_000
NET = {
    "objective": "logistic",
    "max_iter": 1,
    "learning_rate": 0.001,
    "sparse_embeddings": True,
    "label": "y",
}
LENGTH = 8


class Hosts:
    """An executor with a process in each namespace."""

    remote = True

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self.processes, self.workers = processes, len(processes)
        self.notes: list[str] = []

    def run(
        self, work: str, units: Sequence[Unit], leaders: Leaders | None = None
    ) -> Iterator[Outcome]:
        """Answers all requests of leaders; units with the same pin go to the same process."""
        assert leaders is not None
        pools = [ThreadPoolExecutor(1) for _ in self.processes]
        pins: dict[str | None, int] = {}
        leaders.begin()
        try:
            while leaders.working:
                for unit in leaders.take_requested():
                    crew_of = str(unit.work).startswith("tuskml.cluster.parts.crews")
                    last = int(str(unit.pin).rsplit(" ", 1)[-1]) if crew_of else len(pins)
                    host = pins.setdefault(unit.pin, last % self.workers)
                    pools[host].submit(self.answer, host, work, unit, leaders)
                yield from leaders.outcomes()
                leaders.wait(0.05)
        finally:
            leaders.close()

    def answer(self, host: int, work: str, unit: Unit, leaders: Leaders) -> None:
        """Passes the answer of a process to the leader that requested it."""
        one = self.processes[host]
        assert one.stdin is not None
        assert one.stdout is not None
        send(one.stdin, (unit.work or work).encode())
        send(one.stdin, unit.payload)
        leaders.settle(decode_outcome(unit.key, taken(one.stdout)))


def send(pipe: BinaryIO | Any, data: bytes) -> None:
    """Sends the length of the data and the data."""
    pipe.write(len(data).to_bytes(LENGTH, "little") + data)
    pipe.flush()


def taken(pipe: BinaryIO | Any) -> bytes:
    """Receives data. Raises EOFError at the end."""
    head = pipe.read(LENGTH)
    if len(head) < LENGTH:
        raise EOFError
    data: bytes = pipe.read(int.from_bytes(head, "little"))
    return data


def host(rank: int, order: str, folder: Path) -> None:
    """A process in a namespace, which answers units until its input ends."""
    limit(Share(1, None, tuple(address(link, rank) for link in range(LINKS))))
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    watch(rank, folder)
    if order != "plan":
        crew.Member._ballot = partialmethod(ballot, order)  # type: ignore[assignment]
    try:
        while True:
            work = taken(sys.stdin.buffer).decode()
            send(out, encode_outcome(attempt(work, Unit("", 0, taken(sys.stdin.buffer)))))
    except EOFError:
        return


def watch(rank: int, folder: Path) -> None:
    """Writes how long the iterations with steps took, and by which plans."""
    ends: list[float] = []
    links: list[list[float]] = []
    iterate, run = worker.Training.iterate, worker.Training.run
    probed = ballots.probe_links

    def timed(training: Any, session: Any, k: int, now: Any, after: Any) -> None:
        if now.epoch is not None:
            ends.append(time.monotonic())
        iterate(training, session, k, now, after)

    def seen(*given: Any) -> Any:
        found = probed(*given)
        links[:] = [[one.inside, one.latency] for one in found]
        return found

    def ran(training: Any, session: Any) -> None:
        run(training, session)
        took = [after - before for before, after in pairwise(ends)]
        about = {
            "took": took,
            "versions": session.versions,
            "fallbacks": session.fallbacks,
            "links": links,
        }
        (folder / f"{rank}.json").write_text(json.dumps(about))

    worker.Training.iterate, worker.Training.run = timed, ran  # type: ignore[method-assign]
    ballots.probe_links = seen


def ballot(member: Any, order: str, links: Any, dag: Any) -> Ballot | None:
    """The ballot that a worker follows if no plan is searched for."""
    everyone = Workers(dag, member.count, member.links)
    found = ballots.probe_links(links, everyone)
    if order == "FIFO":
        return None
    net = ballots.network(found, everyone.count)
    some = [dag.operations[place] for place in dag.exchanges]
    chosen = {one.name: greedy(net, one.kind, 1e6, True) for one in some}
    made = Ballot(everyone)
    made.held = {1: Plan(chosen, plain(dag, net, chosen), 1, spread(dag, net, chosen))}
    made.committed = 1
    return made


@contextmanager
def hosts(names: Sequence[str], order: str, folder: Path) -> Iterator[Hosts]:
    """A process in each namespace."""
    own = [
        sys.executable,
        str(Path(__file__).resolve()),
        "--folder",
        str(folder),
        "--order",
        order,
    ]
    env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    made = [
        subprocess.Popen(
            ["ip", "netns", "exec", name, *own, "--role", str(rank)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
        )
        for rank, name in enumerate(names)
    ]
    try:
        yield Hosts(made)
    finally:
        for one in made:
            one.kill()
            one.wait()


def shards(con: Any, folder: Path, n: int) -> str:
    """Rows whose labels follow their categories."""
    names = [f"c{k}" for k in range(CATEGORIES)]
    columns = ", ".join(
        f"'v' || hash(i, {k}) % {LEVELS} AS {name}" for k, name in enumerate(names)
    )
    signal = " + ".join(f"hash(hash(i, {k}) % {LEVELS}, {k}) % 1000 / 1000" for k in range(4))
    con.execute(f"""CREATE TABLE rows AS SELECT {columns}, hash(i, 99) % 1000 / 1000 AS x,
        {signal} + hash(i, 100) % 1000 / 1000 > 2.5 AS y FROM range({n}) t(i)""")
    found = tuskml.split(con, source="rows", into=folder / "s", shard_bytes=1_000_000)
    return found.source


def trained(con: Any, source: str, net: dict[str, Any], executor: Any) -> tuple[str, float]:
    """The digest of the model, and its loss."""
    features = ["x", *(f"c{k}" for k in range(CATEGORIES))]
    given = NET | net | {"source": source, "features": features}
    with mock.patch.object(placement, "executor_of", return_value=executor):
        model = tuskml.train(con, "mlp", **given, executor="threads", placement="exchange")
    return hashlib.sha256(np.array(model.coef).tobytes()).hexdigest()[:16], model.loss


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rates", type=float, nargs=LINKS, default=[200.0, 100.0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--layers", type=int, nargs="+", default=[256, 128])
    parser.add_argument("--embedding", type=int, default=64)
    parser.add_argument("--orders", nargs="+", default=ORDERS, choices=ORDERS)
    parser.add_argument("--role")
    parser.add_argument("--order")
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    if asked.role is not None:
        host(int(asked.role), asked.order, asked.folder)
    else:
        compared(asked)


def compared(asked: argparse.Namespace) -> None:
    """Runs all orders in turn, several times."""
    took: dict[str, list[float]] = {order: [] for order in asked.orders}
    found: set[tuple[str, float]] = set()
    net = {"batch_size": asked.batch, "layers": asked.layers, "embedding": asked.embedding}
    units.BATCH_ROWS = 1_000
    with (
        tempfile.TemporaryDirectory() as text,
        namespaces(asked.hosts, asked.rates) as names,
        tuskml.connect() as con,
    ):
        folder = Path(text)
        source = shards(con, folder, asked.iterations * asked.batch)
        for _ in range(asked.rounds):
            for order in asked.orders:
                with hosts(names, order, folder) as executor:
                    found.add(trained(con, source, net, executor))
                told = [json.loads((folder / f"{k}.json").read_text()) for k in range(asked.hosts)]
                # The last half, in which the optimizer's plan holds.
                half = [max(some) for some in zip(*(one["took"] for one in told), strict=True)]
                took[order].append(median(half[len(half) // 2 :]))
                print(
                    f"{order}: {1e3 * took[order][-1]:.0f} ms, plans "
                    f"{sorted(set(told[0]['versions']))}, fallbacks {told[0]['fallbacks']}, "
                    f"links {told[0]['links']}, models {sorted(found)}",
                    flush=True,
                )
    print("| order | ms of an iteration, each run | FIFO takes x of it |\n|---|---|---|")
    for order, some in took.items():
        each = ", ".join(f"{1e3 * one:.0f}" for one in some)
        print(f"| {order} | {each} | {median(took['FIFO']) / median(some):.2f} |")
    print(f"bits: {'the same' if len(found) == 1 else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
