"""Simulation of training iterations on one stream for computations and one for each channel.

It serves the optimizer, which simulates few iterations, and the comparison with other orders,
which simulates many. A stream executes one task at a time. Ready tasks are ordered by a key, or by
an enforced plan, where a stream waits for the next task of its sequence.

`research/kingpin/events.py` is another simulation: its tasks wait for one gate each and go to any
idle worker. Here an operation waits for several, and streams differ.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tuskml.schedule.exchange.network import Network
from tuskml.schedule.exchange.plan import Dag, Option, Strand, strands

Key = Callable[[float, int, int], tuple[float, ...]]
"""Priority by the time when an exchange became ready, its index and its iteration; least first."""
COMPUTE = 0


@dataclass(frozen=True)
class Rules:
    """Rules of a simulation.

    key: order of ready motifs; sequence: instead, the order of all motifs, as (index, motif,
    iteration); single: whether all channels are one stream; prefetched: whether exchanges may
    begin before the program would submit them.
    """

    key: Key = lambda ready, place, iteration: (ready, iteration, place)
    sequence: Sequence[tuple[int, int, int]] = ()
    single: bool = False
    prefetched: bool = False


@dataclass
class Ran:
    """Times of a run.

    starts: of motifs (index, motif, iteration); ends: of operations (iteration, index); computed:
    end of the last computation of each iteration.
    """

    starts: dict[tuple[int, int, int], float] = field(default_factory=dict)
    ends: dict[tuple[int, int], float] = field(default_factory=dict)
    computed: list[float] = field(default_factory=list)
    makespan: float = 0.0

    def period(self, skipped: int) -> float:
        """Mean seconds of an iteration without the first `skipped` ones and the tail of the
        last.
        """
        return (self.computed[-1] - self.computed[skipped]) / (len(self.computed) - 1 - skipped)


class Streams:
    """Simulates some iterations.

    stretch: factors of computations, by iteration and index.
    """

    def __init__(
        self,
        dag: Dag,
        net: Network,
        chosen: Mapping[str, Option],
        iterations: int,
        rules: Rules,
        stretch: Sequence[Sequence[float]] = (),
    ) -> None:
        self.dag, self.rules, self.iterations, self.stretch = dag, rules, iterations, stretch
        self.ran = Ran(computed=[0.0] * iterations)
        count = 1 + (1 if rules.single else len(net.channels))
        self.ready: list[list[tuple[tuple[float, ...], int, int, int]]] = [
            [] for _ in range(count)
        ]
        self.busy = [False] * count
        self.strands: dict[int, tuple[Strand, ...]] = {
            place: strands(net, one.kind, one.size, chosen[one.name])
            for place, one in enumerate(dag.operations)
            if one.kind
        }
        self.left: dict[tuple[int, int], int] = {}
        self.waits: dict[tuple[int, int], int] = {}
        self.opens: dict[int, list[tuple[int, int]]] = {}
        self.events: list[tuple[float, int, int, int]] = []
        self.line: list[list[tuple[int, int, int]]] = [[] for _ in range(count)]
        for one in reversed(rules.sequence):
            self.line[self.stream(one[0], one[1])].append(one)

    def stream(self, place: int, motif: int) -> int:
        """Returns the stream of a motif."""
        return 1 if self.rules.single else 1 + self.strands[place][motif].channel

    def run(self) -> Ran:
        """Runs all operations in order. Raises RuntimeError if a sequence can never go on."""
        before = self.dag.before(self.rules.prefetched)
        for place, needs in enumerate(before):
            for need, lag in needs:
                self.opens.setdefault(need, []).append((place, lag))
        for iteration in range(self.iterations):
            for place, needs in enumerate(before):
                waits = sum(lag <= iteration for _, lag in needs)
                self.waits[iteration, place] = waits
                if not waits:
                    self.open(iteration, place, 0.0)
        self.begin(0.0)
        while self.events:
            now = self.events[0][0]
            # All events at this time are processed before anything begins.
            while self.events and self.events[0][0] == now:
                _, stream, place, iteration = heapq.heappop(self.events)
                self.busy[stream] = False
                self.finish(iteration, place, now)
            self.begin(now)
        if len(self.ran.ends) < self.iterations * len(self.dag.operations):
            raise RuntimeError("the sequence of motifs contradicts the order of the operations")
        return self.ran

    def open(self, iteration: int, place: int, now: float) -> None:
        """Queues the motifs of an exchange, or a computation, whose dependencies have all
        ended.
        """
        if place not in self.strands:
            heapq.heappush(self.ready[COMPUTE], ((now, iteration), place, 0, iteration))
            return
        self.left[iteration, place] = len(self.strands[place])
        key = self.rules.key(now, place, iteration)
        for motif in range(len(self.strands[place])):
            stream = self.stream(place, motif)
            heapq.heappush(self.ready[stream], (key, place, motif, iteration))

    def begin(self, now: float) -> None:
        """Starts the next task of each idle stream."""
        for stream, busy in enumerate(self.busy):
            if busy or not self.ready[stream]:
                continue
            if stream == COMPUTE or not self.rules.sequence:
                _, place, motif, iteration = heapq.heappop(self.ready[stream])
            else:
                latest = self.line[stream] and self.line[stream][-1]
                if not latest or (latest[2], latest[0]) not in self.left:
                    continue
                place, motif, iteration = self.line[stream].pop()
            self.busy[stream] = True
            took = self.seconds(iteration, place, motif)
            self.ran.starts[place, motif, iteration] = now
            heapq.heappush(self.events, (now + took, stream, place, iteration))

    def seconds(self, iteration: int, place: int, motif: int) -> float:
        """Returns the seconds of a motif or a computation."""
        if place in self.strands:
            return self.strands[place][motif].seconds
        factor = self.stretch[iteration][place] if self.stretch else 1.0
        return self.dag.operations[place].seconds * factor

    def finish(self, iteration: int, place: int, now: float) -> None:
        """Records the end of a motif or a computation."""
        self.ran.makespan = now
        if place in self.strands:
            self.left[iteration, place] -= 1
            if self.left[iteration, place]:
                return
        else:
            self.ran.computed[iteration] = max(self.ran.computed[iteration], now)
        self.ran.ends[iteration, place] = now
        for after, lag in self.opens.get(place, ()):
            one = iteration + lag, after
            if one[0] < self.iterations:
                self.waits[one] -= 1
                if not self.waits[one]:
                    self.open(*one, now)
