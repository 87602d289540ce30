"""Motifs over TCP: several links between every two workers, each with its own rate limit.

A thread for each connection reads all messages and keeps them until they are taken, so no sender
waits for a receiver that itself sends: connections cannot block each other. Every wait has a
timeout.

Messages belong to an epoch. A worker that gives one up notifies all others, whose waits in that
epoch then end at once.
"""

from __future__ import annotations

import json
import math
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
"""Bytes that a rate-limited link sends at once."""
GIVEN_UP = "given up"
MOST_HEAD, MOST_BODY = 1 << 16, 1 << 36
"""Largest accepted sizes of a message, in bytes."""


class EpochHalted(RuntimeError):
    """This worker or another one has given up the epoch."""


class Limit:
    """Rate limit of a link, bytes per second of all that a worker sends over it."""

    def __init__(self, rate: float) -> None:
        self.rate, self.free, self.lock = rate, 0.0, threading.Lock()

    def wait(self, count: int) -> None:
        """Waits until `count` bytes may be sent."""
        if math.isinf(self.rate):
            return
        with self.lock:
            now = time.monotonic()
            begin = max(self.free, now)
            self.free = begin + count / self.rate
        time.sleep(max(begin - now, 0.0))


class Links:
    """A worker's connections.

    peers: connected sockets by worker and link; rates: of its links, bytes per second, `math.inf`
    without a limit; timeout: seconds that a message may take to arrive.

    Workers announce on the last link that they give up an epoch: it should carry no payloads.
    """

    def __init__(
        self,
        rank: int,
        peers: dict[tuple[int, int], socket.socket],
        rates: Sequence[float],
        timeout: float = 30.0,
    ) -> None:
        self.rank, self.peers, self.timeout = rank, peers, timeout
        self.limits = [Limit(rate) for rate in rates]
        self.held: dict[tuple[int, int, str], Message] = {}
        self.lost: set[tuple[int, int]] = set()
        self.given_up = -1
        self.news = threading.Condition()
        self.turns = {both: threading.Lock() for both in peers}
        for (peer, link), one in peers.items():
            one.settimeout(None)
            # A timeout for sends only: a reader waits as long as its connection lives.
            wait = struct.pack("ll", int(timeout), int(timeout % 1 * 1e6))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.read, args=(peer, link, one), daemon=True).start()

    def read(self, peer: int, link: int, one: socket.socket) -> None:
        """Reads all messages of a peer over a link until the connection ends."""
        try:
            while True:
                sizes = HEAD.unpack(_exactly(one, HEAD.size))
                if sizes[0] > MOST_HEAD or sizes[1] > MOST_BODY:
                    raise ValueError("a message says that it is too large")
                epoch, key, kind, shape = json.loads(_exactly(one, sizes[0]))
                data = np.frombuffer(_exactly(one, sizes[1]), np.dtype(kind))
                with self.news:
                    if key == GIVEN_UP:
                        self.given_up = max(self.given_up, epoch)
                    elif epoch > self.given_up:
                        self.held[peer, epoch, key] = Message(data, tuple(shape))
                    self.news.notify_all()
        except (OSError, ValueError, MemoryError):
            with self.news:
                self.lost.add((peer, link))
                self.news.notify_all()

    def send(self, peer: int, link: int, key: str, message: Message, epoch: int = 0) -> None:
        """Sends within the link's limit. Raises ConnectionError if the peer does not read in
        time.
        """
        data = np.ascontiguousarray(message.data)
        head = json.dumps([epoch, key, data.dtype.str, message.shape]).encode()
        body = memoryview(data.reshape(-1).view(np.uint8).data)
        one = self.peers[peer, link]
        try:
            # One message at a time: an epoch may be given up while its last message is sent.
            with self.turns[peer, link]:
                one.sendall(HEAD.pack(len(head), len(body)) + head)
                for at in range(0, len(body), PIECE):
                    piece = body[at : at + PIECE]
                    self.limits[link].wait(len(piece))
                    one.sendall(piece)
        except OSError as error:
            with self.news:
                self.lost.add((peer, link))
                self.news.notify_all()
            with suppress(OSError):  # the peer must not wait for the rest of a message
                one.shutdown(socket.SHUT_RDWR)
            raise ConnectionError(f"worker {peer} is gone or takes nothing: {error}") from None

    def alive(self) -> list[int]:
        """Links that reach all workers."""
        with self.news:
            broken = {link for _, link in self.lost}
        return [link for link in range(len(self.limits)) if link not in broken]

    def take(
        self, peer: int, key: str, link: int, epoch: int = 0, patience: float | None = None
    ) -> Message:
        """Waits for a peer's message under a key.

        Raises TimeoutError if it does not arrive, ConnectionError if the link is broken,
        EpochHalted if the epoch has been given up.
        """
        wait = self.timeout if patience is None else patience
        until = time.monotonic() + wait
        with self.news:
            while (peer, epoch, key) not in self.held:
                if epoch <= self.given_up:
                    raise EpochHalted(f"epoch {epoch} has been given up")
                if (peer, link) in self.lost:
                    raise ConnectionError(f"worker {peer} is gone")
                left = until - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"worker {peer} sent nothing for {wait:g} seconds")
                self.news.wait(left)
            return self.held.pop((peer, epoch, key))

    def give_up(self, epoch: int) -> None:
        """Ends all waits of an epoch, here and at all reachable workers."""
        with self.news:
            self.given_up = max(self.given_up, epoch)
            self.held = {one: each for one, each in self.held.items() if one[1] > self.given_up}
            self.news.notify_all()
        nothing = Message(np.empty(0), (0,))
        for peer, link in self.peers:
            if link == len(self.limits) - 1 and (peer, link) not in self.lost:
                with suppress(ConnectionError):
                    self.send(peer, link, GIVEN_UP, nothing, epoch)

    def exchange(
        self, key: str, expression: Expression, memory: Cells, link: int, epoch: int = 0
    ) -> None:
        """Executes a composition on one link; all workers do so with the same key."""
        for number, motif in enumerate(leaves(expression)):
            name = f"{key}/{number}"
            for to in destinations(motif, self.rank):
                self.send(to, link, name, outgoing(motif, memory, to), epoch)
            some = sources(motif, self.rank)
            got = {source: self.take(source, name, link, epoch) for source in some}
            absorb(motif, memory, got)

    def close(self) -> None:
        """Closes all connections."""
        for one in self.peers.values():
            with suppress(OSError):  # the peer closed it first
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def _exactly(one: socket.socket, count: int) -> bytes:
    """Receives `count` bytes. Raises ConnectionError if the connection ends before."""
    data = bytearray(count)
    view, at = memoryview(data), 0
    while at < count:
        read = one.recv_into(view[at:])
        if not read:
            raise ConnectionError("the connection has ended")
        at += read
    return bytes(data)
