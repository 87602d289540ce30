"""A recommendation model over hosts that are network namespaces, by a plan and by other orders.

python scripts/bench/run.py exchange_namespaces [--hosts 4] [--rates 200 100] [--rounds 3] \\
    [--torch PYTHON]

As root on Linux. Each host is a namespace with two links to the others, whose rates `tc` limits.
The orders run in turn: FIFO exchanges whole operations on the faster link in the order in which
the program asks for them; striped FIFO divides each over both links; the plan is the central
optimizer's, found while the training runs. With --torch, a Python that has PyTorch, the same
training also runs over gloo, on the faster link and on both. Prints seconds of an iteration and
whether all orders but gloo's end with the same bits. Asked: 1.2 times FIFO.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / ".links"))

from research.syndicate.recommend import Shape, Worker, operations, planted
from tuskml.schedule.exchange.network import Channel
from tuskml.schedule.exchange.ordering import Search, plain, spread
from tuskml.schedule.exchange.plan import Plan, greedy
from tuskml.schedule.exchange.sockets import Links
from tuskml.schedule.exchange.workers import ballot as ballots
from tuskml.schedule.exchange.workers import central, mesh
from tuskml.schedule.exchange.workers.ballot import Ballot
from tuskml.schedule.exchange.workers.session import Session
from tuskml.schedule.exchange.workers.windows import Workers

LINKS, TOKEN, PORT = 2, "bench", 29_600
SHAPE = Shape(256, (2_000,) * 24, 32, 512, 1024, 512)
ORDERS = ("FIFO", "striped FIFO", "plan")
GLOO = {"gloo": "eth0", "gloo on both links": "eth0,eth1"}
"""The interfaces of gloo."""
BURST, QUEUE = "64kb", "200kb"


def ip(*words: str) -> None:
    """Runs the system's tool."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def namespaces(hosts: int, rates: list[float]) -> Iterator[list[str]]:
    """Hosts with a link to each of two switches; rates: Mbit/s that a host sends on each."""
    mark = f"tusk{os.getpid()}"
    names = [f"{mark}h{k}" for k in range(hosts)]
    try:
        ip("netns", "add", f"{mark}s")
        inside = ["netns", "exec", f"{mark}s", "ip"]
        for link in range(LINKS):
            ip(*inside, "link", "add", f"br{link}", "type", "bridge")
            ip(*inside, "link", "set", f"br{link}", "up")
        for host, name in enumerate(names):
            ip("netns", "add", name)
            own = ["netns", "exec", name]
            ip(*own, "ip", "link", "set", "lo", "up")
            for link, rate in enumerate(rates):
                ip(
                    *inside,
                    "link",
                    "add",
                    f"p{host}x{link}",
                    "type",
                    "veth",
                    "peer",
                    "name",
                    f"eth{link}",
                    "netns",
                    name,
                )
                ip(*inside, "link", "set", f"p{host}x{link}", "master", f"br{link}", "up")
                ip(*own, "ip", "addr", "add", f"{address(link, host)}/24", "dev", f"eth{link}")
                ip(*own, "ip", "link", "set", f"eth{link}", "up")
                ip(
                    *own,
                    "tc",
                    "qdisc",
                    "add",
                    "dev",
                    f"eth{link}",
                    "root",
                    "tbf",
                    "rate",
                    f"{rate:g}mbit",
                    "burst",
                    BURST,
                    "limit",
                    QUEUE,
                )
        yield names
    finally:
        for name in (*names, f"{mark}s"):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def address(link: int, host: int) -> str:
    """The address of a host on a switch."""
    return f"10.7{link}.0.{host + 1}"


def worker(rank: int, config: Mapping[str, Any]) -> None:
    """Trains on one host and prints the seconds."""
    hosts, order, iterations = config["hosts"], config["order"], config["iterations"]
    # The connections for words, the last ones, go over the first switch.
    addresses = [
        [(address(link % LINKS, host), PORT + link) for host in range(hosts)]
        for link in range(LINKS + 1)
    ]
    servers = [socket.create_server(some[rank]) for some in addresses]
    peers = mesh.connect(rank, servers, addresses, TOKEN)
    links = Links(rank, peers, [math.inf] * (LINKS + 1))
    everyone = Workers(operations(SHAPE, hosts), hosts, LINKS)
    found = ballots.probe_links(links, everyone)
    session = Session(links, everyone, ballot(order, rank, everyone, found))
    trained(
        session,
        rank,
        iterations,
        lambda: {
            "versions": session.versions,
            "fallbacks": session.fallbacks,
            "links": [[one.inside, one.latency] for one in found],
        },
    )


def gloo_worker(rank: int, config: Mapping[str, Any]) -> None:
    """Trains over gloo."""
    from gloo_session import GlooSession

    owned = [len(SHAPE.owned(one, config["hosts"])) for one in range(config["hosts"])]
    session = GlooSession(rank, f"tcp://{address(0, 0)}:{PORT}", owned)
    none: dict[str, Any] = {"versions": [0], "fallbacks": 0, "links": []}
    trained(session, rank, config["iterations"], lambda: none)


def trained(session: Any, rank: int, iterations: int, more: Callable[[], dict[str, Any]]) -> None:
    """Trains and prints a line of JSON."""
    made = Worker(session, SHAPE, 0.1)
    rows, ends = planted(SHAPE, 1, rank), []

    def batches(iteration: int) -> Any:
        ends.append(time.monotonic())
        return rows(iteration % 8)

    made.train(batches, iterations)
    parts = [made.bottom.flat, made.top.flat, *made.tables.values()]
    text = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
    took = [after - before for before, after in pairwise(ends)]
    print(json.dumps({"digest": text, "loss": made.losses[-1], "took": took} | more()))


def ballot(order: str, rank: int, everyone: Workers, found: list[Channel]) -> Ballot | None:
    """The ballot that a worker follows."""
    if order == "plan":
        until = time.monotonic() + 30
        where = address(0, 0), PORT + LINKS + 1
        made = Ballot(everyone, mesh.connect_to_worker(rank, central.CONTROL, where, TOKEN, until))
        made.report(links=[[one.inside, one.latency] for one in found])
        return made
    if order == "FIFO":
        return None
    net, dag = ballots.network(found, everyone.count), everyone.dag
    some = [dag.operations[place] for place in dag.exchanges]
    chosen = {one.name: greedy(net, one.kind, one.size, True) for one in some}
    made = Ballot(everyone)
    made.held = {1: Plan(chosen, plain(dag, net, chosen), 1, spread(dag, net, chosen))}
    made.committed = 1
    return made


def optimizer(config: Mapping[str, Any]) -> None:
    """The central optimizer on the first host."""
    dag = operations(SHAPE, config["hosts"])
    with socket.create_server((address(0, 0), PORT + LINKS + 1)) as server:
        print(central.serve(server, dag, config["hosts"], TOKEN, 1, Search(config["budget"])))


def ran(names: list[str], config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The output of all workers."""
    gloo = GLOO.get(config["order"])
    own = [config["torch"] if gloo else sys.executable, str(Path(__file__).resolve())]
    env = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": gloo or ""}
    roles = [(name, str(rank)) for rank, name in enumerate(names)]
    if config["order"] == "plan":
        roles.append((names[0], "central"))
    processes = [
        subprocess.Popen(
            ["ip", "netns", "exec", name, *own, "--role", role, "--config", json.dumps(config)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | env,
        )
        for name, role in roles
    ]
    try:
        said = [one.communicate(timeout=300)[0] for one in processes]
    finally:
        for one in processes:
            one.kill()
    return [json.loads(text.splitlines()[-1]) for text in said[: len(names)]]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rates", type=float, nargs=LINKS, default=[200.0, 100.0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--budget", type=float, default=1.0)
    parser.add_argument("--torch", help="a Python that has PyTorch and NumPy")
    parser.add_argument("--role")
    parser.add_argument("--config", type=json.loads)
    asked = parser.parse_args()
    if asked.role is None:
        compared(asked)
    elif asked.role == "central":
        optimizer(asked.config)
    elif asked.config["order"] in GLOO:
        gloo_worker(int(asked.role), asked.config)
    else:
        worker(int(asked.role), asked.config)


def compared(asked: argparse.Namespace) -> None:
    """Runs all orders in turn, several times."""
    orders = ORDERS + (tuple(GLOO) if asked.torch else ())
    took: dict[str, list[float]] = {order: [] for order in orders}
    digests = set()
    with namespaces(asked.hosts, asked.rates) as names:
        for _ in range(asked.rounds):
            for order in orders:
                config = {
                    "hosts": asked.hosts,
                    "order": order,
                    "iterations": asked.iterations,
                    "budget": asked.budget,
                    "torch": asked.torch,
                }
                found = ran(names, config)
                if order not in GLOO:  # whose sums have another order of additions
                    digests.add(tuple(one["digest"] for one in found))
                # The last half, in which the optimizer's plan holds.
                half = [max(some) for some in zip(*(one["took"] for one in found), strict=True)]
                took[order].append(median(half[len(half) // 2 :]))
                print(
                    f"{order}: {1e3 * took[order][-1]:.0f} ms, loss {found[0]['loss']:.6f}, "
                    f"plans {found[0]['versions'][-1]}, fallbacks {found[0]['fallbacks']}, "
                    f"links {found[0]['links']}",
                    flush=True,
                )
    print("| order | ms of an iteration, each run | FIFO takes x of it |\n|---|---|---|")
    for order, some in took.items():
        each = ", ".join(f"{1e3 * one:.0f}" for one in some)
        print(f"| {order} | {each} | {median(took['FIFO']) / median(some):.2f} |")
    print(f"bits: {'the same' if len(digests) == 1 else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
