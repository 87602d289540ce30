"""Motifs over TCP: several links between every two workers, each with a limit of its own.

A thread for each connection reads all that comes and keeps it until it is asked for, so no sender
waits for a receiver that itself sends: connections cannot stop each other. Every wait has an end.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from tuskml.schedule.exchange.algebra import Expression, leaves
from tuskml.schedule.exchange.cells import Cells, Message, absorb, destinations, outgoing, sources

HEAD = struct.Struct("<IQ")
PIECE = 65_536
"""Bytes that a link sends at once under its limit."""


class Limit:
    """A link's rate, bytes a second of all that a worker sends over it."""

    def __init__(self, rate: float) -> None:
        self.rate, self.free, self.lock = rate, 0.0, threading.Lock()

    def wait(self, count: int) -> None:
        """Until so many bytes may be sent."""
        with self.lock:
            now = time.monotonic()
            begin = max(self.free, now)
            self.free = begin + count / self.rate
        time.sleep(max(begin - now, 0.0))


class Links:
    """A worker's connections. peers: by worker and link, connected; rates: of its links."""

    def __init__(
        self,
        rank: int,
        peers: dict[tuple[int, int], socket.socket],
        rates: Sequence[float],
        timeout: float = 30.0,
    ) -> None:
        self.rank, self.peers, self.timeout = rank, peers, timeout
        self.limits = [Limit(rate) for rate in rates]
        self.held: dict[tuple[int, str], Message] = {}
        self.lost: set[int] = set()
        self.news = threading.Condition()
        for (peer, _), one in peers.items():
            one.settimeout(None)
            # For sends alone: a reader waits as long as its connection lives.
            wait = struct.pack("ll", int(timeout), int(timeout % 1 * 1e6))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.read, args=(peer, one), daemon=True).start()

    def read(self, peer: int, one: socket.socket) -> None:
        """All that a peer sends over a link, until it ends."""
        try:
            while True:
                sizes = HEAD.unpack(_exactly(one, HEAD.size))
                key, kind, shape = json.loads(_exactly(one, sizes[0]))
                data = np.frombuffer(_exactly(one, sizes[1]), np.dtype(kind))
                with self.news:
                    self.held[peer, key] = Message(data, tuple(shape))
                    self.news.notify_all()
        except (OSError, ValueError):
            with self.news:
                self.lost.add(peer)
                self.news.notify_all()

    def send(self, peer: int, link: int, key: str, message: Message) -> None:
        """Sends under the link's limit. ConnectionError where the peer takes nothing for long."""
        data = np.ascontiguousarray(message.data)
        head = json.dumps([key, data.dtype.str, message.shape]).encode()
        body = memoryview(data.tobytes())
        one = self.peers[peer, link]
        try:
            one.sendall(HEAD.pack(len(head), len(body)) + head)
            for at in range(0, len(body), PIECE):
                piece = body[at : at + PIECE]
                self.limits[link].wait(len(piece))
                one.sendall(piece)
        except OSError as error:
            raise ConnectionError(f"worker {peer} is gone or takes nothing: {error}") from None

    def take(self, peer: int, key: str) -> Message:
        """What a peer has sent under a key. TimeoutError where it does not come, ConnectionError
        where the peer has gone."""
        until = time.monotonic() + self.timeout
        with self.news:
            while (peer, key) not in self.held:
                if peer in self.lost:
                    raise ConnectionError(f"worker {peer} is gone")
                left = until - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"worker {peer} sent nothing for {self.timeout:g} seconds")
                self.news.wait(left)
            return self.held.pop((peer, key))

    def exchange(self, key: str, expression: Expression, memory: Cells, link: int) -> None:
        """Executes a composition, which all workers do with the same key, on one link."""
        for number, motif in enumerate(leaves(expression)):
            name = f"{key}/{number}"
            for to in destinations(motif, self.rank):
                self.send(to, link, name, outgoing(motif, memory, to))
            got = {source: self.take(source, name) for source in sources(motif, self.rank)}
            absorb(motif, memory, got)

    def close(self) -> None:
        """Ends all connections."""
        for one in self.peers.values():
            with suppress(OSError):  # the peer was first
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def _exactly(one: socket.socket, count: int) -> bytes:
    """So many bytes. ConnectionError where the connection ends before."""
    data = bytearray(count)
    view, at = memoryview(data), 0
    while at < count:
        read = one.recv_into(view[at:])
        if not read:
            raise ConnectionError("the connection has ended")
        at += read
    return bytes(data)
