"""Workers that train a small recommendation model, as threads of one process or as processes.

As a program it is one process: `exchange_training.py ROLE CONFIG`, where the role is "central" or
a worker's rank, and the configuration has addresses and what else the parent chose. A worker
prints its parameters' digest.
"""

import hashlib
import json
import math
import random
import socket
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[3]))  # of a program

from research.syndicate.recommend import Shape, Worker, operations, planted
from tuskml.schedule.exchange.network import Channel, Network
from tuskml.schedule.exchange.ordering import Search, rehearse, spread
from tuskml.schedule.exchange.plan import Plan, options
from tuskml.schedule.exchange.sockets import Links
from tuskml.schedule.exchange.workers import central, mesh
from tuskml.schedule.exchange.workers.ballot import Ballot, probe_links
from tuskml.schedule.exchange.workers.session import Session
from tuskml.schedule.exchange.workers.windows import Workers

COUNT, LINKS, TOKEN = 4, 2, "a secret"
SHAPE = Shape(dense=5, levels=(30, 20, 10, 7, 5), dim=4, bottom=8, top=8, batch=16)
DAG = operations(SHAPE, COUNT)
EVERYONE = Workers(DAG, COUNT, LINKS, per_host=2)
NET = Network(2, 2, (Channel(1e9, 1e9, 1e-5), Channel(5e8, 5e8, 1e-5)))


class Trained(NamedTuple):
    """digest: of all of a worker's parameters."""

    digest: str
    losses: list[float]
    versions: list[int]
    fallbacks: int


def random_plan(draw: random.Random, version: int) -> Plan:
    """Options, channels and an order that are all drawn; orders end, as those of any search."""
    some = [DAG.operations[place] for place in DAG.exchanges]
    chosen = {one.name: draw.choice(options(NET, one.kind)) for one in some}
    leads = {one.name: draw.gauss(0.0, 1e-2) for one in some}
    _, order = rehearse(DAG, NET, chosen, leads)
    return Plan(chosen, order, version, spread(DAG, NET, chosen))


def digest(worker: Worker) -> str:
    parts = [worker.bottom.flat, worker.top.flat, *worker.tables.values()]
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def run(
    session: Session, iterations: int, before: Callable[[Session, int], None] | None = None
) -> Trained:
    """before: called with the session before each iteration."""
    rank = session.links.rank
    rows = planted(SHAPE, 1, rank)

    def batches(iteration: int) -> Any:
        if before is not None:
            before(session, iteration)
        return rows(iteration)

    worker = Worker(session, SHAPE, 0.5)
    worker.train(batches, iterations)
    return Trained(digest(worker), worker.losses, session.versions, session.fallbacks)


def ports(count: int = COUNT) -> tuple[list[list[socket.socket]], list[list[mesh.Address]]]:
    """Servers and their addresses, by link and worker; the last link is for words."""
    servers = [
        [socket.create_server(("127.0.0.1", 0)) for _ in range(count)] for _ in range(LINKS + 1)
    ]
    return servers, [[one.getsockname() for one in some] for some in servers]


def together(
    iterations: int,
    before: Callable[[Session, int], None] | None = None,
    ballot: Callable[[int], Ballot | None] = lambda rank: None,
    timeout: float = 20.0,
) -> list[Any]:
    """All workers as threads: what each has trained, or its error."""
    servers, addresses = ports()

    def one(rank: int) -> Any:
        mine = [servers[link][rank] for link in range(LINKS + 1)]
        peers = mesh.connect(rank, mine, addresses, TOKEN)
        links = Links(rank, peers, [math.inf] * (LINKS + 1), timeout)
        try:
            return run(Session(links, EVERYONE, ballot(rank), 20.0), iterations, before)
        except Exception as error:
            return error
        finally:
            links.close()
            for server in mine:
                server.close()

    with ThreadPoolExecutor(COUNT) as pool:
        return list(pool.map(one, range(COUNT)))


def program(role: str, config: Mapping[str, Any]) -> None:
    """One process."""
    if role == "central":
        server = socket.create_server(tuple(config["central"]))
        print(central.serve(server, DAG, COUNT, TOKEN, 2, Search(0.2)))
        return
    rank = int(role)
    addresses = [[(host, port) for host, port in some] for some in config["addresses"]]
    servers = [socket.create_server(some[rank]) for some in addresses]
    peers = mesh.connect(rank, servers, addresses, TOKEN)
    links = Links(rank, peers, [math.inf] * (LINKS + 1), config["timeout"])
    host, port = config["central"]
    until = time.monotonic() + 20
    ballot = Ballot(
        EVERYONE, mesh.connect_to_worker(rank, central.CONTROL, (host, port), TOKEN, until)
    )
    found = probe_links(links, EVERYONE)
    ballot.report(links=[[each.inside, each.latency] for each in found])

    def say(session: Session, iteration: int) -> None:
        print(f"iteration {iteration}", flush=True)

    trained = run(Session(links, EVERYONE, ballot, 20.0), config["iterations"], say)
    print(json.dumps([trained.digest, trained.versions]), flush=True)


if __name__ == "__main__":
    np.seterr(all="raise")
    program(sys.argv[1], json.loads(sys.argv[2]))
