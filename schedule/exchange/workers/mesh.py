"""Connections between all pairs of workers, one for each link."""

from __future__ import annotations

import hmac
import json
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

Address = tuple[str, int]
PAUSE = 0.02
"""Seconds between two attempts to connect to a worker that does not listen yet."""
LONGEST = 4096
"""Longest greeting in bytes."""
GREETING = 5.0
"""Seconds to wait for a greeting."""
LOOK = 0.1
"""Seconds between two checks whether to wait any longer."""
LEFT = -2
"""Sent in place of a link's index by a worker that will not connect."""


def connect(
    rank: int,
    servers: Sequence[socket.socket],
    addresses: Sequence[Sequence[Address]],
    token: str,
    timeout: float = 30.0,
) -> dict[tuple[int, int], socket.socket]:
    """Connects to all workers; returns the connections by worker and link.

    servers: the worker's own listening sockets, one for each link; addresses: of all servers, by
    link and worker; token: a secret that all workers share. Raises TimeoutError if a worker does
    not connect in time.
    """
    until = time.monotonic() + timeout
    sockets: dict[tuple[int, int], socket.socket] = {}
    for link, some in enumerate(addresses):
        for peer in range(rank):
            sockets[peer, link] = connect_to_worker(rank, link, some[peer], token, until)
    for link, server in enumerate(servers):
        while any((peer, link) not in sockets for peer in range(rank + 1, len(addresses[link]))):
            peer, one = accept_worker(server, link, token, until)
            if not rank < peer < len(addresses[link]) or (peer, link) in sockets:
                one.close()
                continue
            sockets[peer, link] = one
    return sockets


def connect_to_worker(
    rank: int, link: int, address: Address, token: str, until: float
) -> socket.socket:
    """Connects to a server and sends the greeting.

    until: deadline on the clock `time.monotonic`.
    """
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no worker listens at {address[0]}:{address[1]}")
        try:
            one = socket.create_connection(address, timeout=left)
        except OSError:
            time.sleep(PAUSE)
            continue
        one.sendall(json.dumps([rank, link, token]).encode() + b"\n")
        return one


def accept_worker(
    server: socket.socket,
    link: int,
    token: str,
    until: float,
    ended: Callable[[], bool] = lambda: False,
) -> tuple[int, socket.socket]:
    """Accepts a worker that knows the token; closes other connections.

    Raises ConnectionError if a worker has left, or if `ended` returns true.
    """
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("not all workers came in time")
        if ended():
            raise ConnectionError("the training has ended")
        server.settimeout(min(left, LOOK))
        try:
            one, _ = server.accept()
        except TimeoutError:
            continue
        one.settimeout(min(left, GREETING))
        try:
            rank, which, known = json.loads(_line(one))
            if hmac.compare_digest(str(known), token):
                if which == LEFT:
                    one.close()
                    raise WorkerLeft(f"worker {int(rank)} is gone")
                if which == link:
                    return int(rank), one
        except (OSError, ValueError, TypeError) as error:
            if isinstance(error, WorkerLeft):
                raise
        one.close()


class WorkerLeft(ConnectionError):
    """A worker has announced that it will not connect."""


def leave(rank: int, addresses: Iterable[Address], token: str) -> None:
    """Notifies the workers at these addresses that this worker will not connect."""
    for address in addresses:
        with suppress(OSError), socket.create_connection(address, timeout=GREETING) as one:
            one.sendall(json.dumps([rank, LEFT, token]).encode() + b"\n")


def _line(one: socket.socket) -> bytes:
    """Reads a line byte by byte, since the bytes after the greeting belong to the links."""
    line = b""
    while not line.endswith(b"\n"):
        byte = one.recv(1)
        if not byte or len(line) > LONGEST:
            raise ValueError("this is not a worker's greeting")
        line += byte
    return line
