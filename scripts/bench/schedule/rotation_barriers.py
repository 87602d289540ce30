"""Rotation of blocks of words: one barrier or many, and the heaviest block first or last.

python scripts/bench/run.py rotation_barriers --tokens 2000000

The two effects of the static engine's figures 8 and 9 (J. K. Kim et al., SMPFRAME,
CMU-PDL-15-103, 2015), with the sampler of `lda` and Zipf-distributed words. First every visit of a
block at a part is made, one after the other, and its processor seconds are noted. From these,
schedules of the same visits follow on as many simulated workers: with one barrier per rotation, as
the engine has it, or with one after each step (micro-synchronisation), and with blocks dealt and
taken by weight, or in their order, or cut as ranges of words. Messages take no time there. With
`--real` two workers, which are threads, rotate by both barriers in turn, and the medians of their
seconds are printed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import corpora
import numpy as np
from numpy.typing import NDArray
from rowblock import linked_entries

from tuskml.kernels.parts import topics
from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.passes import Pass
from tuskml.schedule.programs.program import Program, Static, dealt, threads

Floats = NDArray[np.float64]
ALPHA, BETA = 0.1, 0.01


class Blocks(Program):
    """Parts of documents, and blocks of words that rotate; seconds: of visits, (parts, blocks)."""

    def __init__(self, args: argparse.Namespace, parts: int, blocks: int) -> None:
        word, start, words = corpora.planted(args.tokens, args.words, 50, args.mean)
        word = np.random.default_rng(1).permutation(words).astype(np.int32)[word]
        ends = np.linspace(0, len(start) - 1, parts + 1).astype(int)
        frequency = np.bincount(word, minlength=words).astype(np.uint32)
        self.rows: list[Pass] = []
        self.held: list[Any] = []
        self.beside = [Beside() for _ in range(parts)]
        given = {"topics": args.topics, "beta": BETA, "blocks": blocks}
        for p, beside in enumerate(self.beside):
            own = start[ends[p] : ends[p + 1] + 1]
            ones = np.ones(own[-1] - own[0], np.int64)
            group, held = linked_entries(
                [(own - own[0], word[own[0] : own[-1]].astype(np.int64), ones)], words
            )
            self.held.append(held)
            self.rows.append(Pass(group, threads=1))
            arrays = [frequency, None, None, np.array([p], np.uint64)]
            topics.open_part(self.rows[p], arrays, given, beside)
        about = {"what": "places", "visits": 0, "blocks": blocks}
        self.places = topics.answer(self.rows[0], [], about, self.beside[0])
        self.loads = [float(frequency[one].sum()) for one in self.places]
        self.alpha = np.full(args.topics, ALPHA)
        self.visits, self.seconds = [0] * parts, np.zeros((parts, blocks))

    def start(self) -> Any:
        """Counts the tokens of each block."""
        empty = [
            [np.zeros(len(one), np.uint32), np.zeros(0, np.uint16), np.zeros(0, np.uint32)]
            for one in self.places
        ]
        return self.serially({"blocks": empty, "totals": 0 * self.alpha.astype(int), "sweep": 0})

    def serially(self, model: Any) -> Any:
        """A rotation, part by part."""
        blocks = list(model["blocks"])
        self.schedule(model, None)
        for p in range(len(self.rows)):
            for b in range(len(blocks)):
                blocks[b] = self.update(p, b, None, blocks[b])
        return self.aggregate(blocks, model)

    def schedule(self, A: Any, D: Any) -> Any:
        self.sweep, self.totals = A["sweep"], [A["totals"]] * len(self.rows)
        return range(len(A["blocks"]))

    def part(self, S_p: int, A: Any) -> Any:
        return A["blocks"][S_p]

    def weight(self, S_p: int) -> float:
        return self.loads[S_p]

    def update(self, p: int, S_p: int, D_p: Any, A: Any) -> Any:
        began = time.thread_time()
        about = {"what": "visit", "visits": self.visits[p], "sweep": self.sweep, "block": S_p}
        arrays = [*A, self.alpha, self.totals[p]]
        *found, self.totals[p] = topics.answer(self.rows[p], arrays, about, self.beside[p])
        self.visits[p] += 1
        self.seconds[p, S_p] = time.thread_time() - began
        return found

    def aggregate(self, R: Any, A: Any) -> Any:
        totals = A["totals"] + sum(one - A["totals"] for one in self.totals)
        return {"blocks": R, "totals": totals, "sweep": A["sweep"] + 1}


class Micro(Static):
    """The engine with a barrier after each step."""

    def rotate(self, program: Program, A: Any, D: Any, workers: Any) -> Any:
        jobs = list(program.schedule(A, D))
        blocks = [program.part(job, A) for job in jobs]
        held = dealt([program.weight(job) for job in jobs], workers.count)
        for step in range(workers.count):
            for p in range(workers.count):
                for one in held[(p - step) % workers.count]:
                    blocks[one] = workers.update(p, jobs[one], blocks[one])
            workers.get([one for one in blocks if hasattr(one, "result")])
        return program.aggregate(workers.get(blocks), A)


def makespan(seconds: Floats, held: list[list[int]], micro: bool) -> float:
    """Seconds of a rotation: each worker takes its blocks in turn, when it and they are free."""
    n = len(seconds)
    worker, ready = np.zeros(n), np.zeros(seconds.shape[1])
    for step in range(n):
        for p in range(n):
            for b in held[(p - step) % n]:
                worker[p] = ready[b] = max(worker[p], ready[b]) + seconds[p, b]
        if micro:
            worker[:] = worker.max()
    return float(worker.max())


def in_order(blocks: int, workers: int) -> list[list[int]]:
    """Blocks dealt in their order, as many to each worker."""
    return [list(range(p, blocks, workers)) for p in range(workers)]


def by_words(program: Blocks) -> Floats:
    """Seconds of visits of blocks that are ranges of words instead, by seconds per token."""
    frequency = np.zeros(1 + max(int(one.max()) for one in program.places))
    weights = [np.zeros(len(frequency)) for _ in program.rows]
    for p, rows in enumerate(program.rows):
        _, _, _, tokens = topics.count_words(rows, [], {}, program.beside[p])
        weights[p][:] = tokens[: len(frequency)]
    per_token = program.seconds.sum(axis=1) / np.array([one.sum() for one in weights])
    cut = np.array_split(np.arange(len(frequency)), len(program.places))
    pairs = zip(weights, per_token, strict=True)
    return np.array([[one[words].sum() * each for words in cut] for one, each in pairs])


def main() -> None:
    """Prints a line of JSON for each number of workers and blocks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2_000_000)
    parser.add_argument("--words", type=int, default=20_000)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--mean", type=int, default=120)
    parser.add_argument("--rotations", type=int, default=5)
    parser.add_argument("--workers", default="32,2")
    parser.add_argument("--each", default="1,4", help="blocks per worker")
    parser.add_argument("--real", action="store_true")
    args = parser.parse_args()
    for workers in map(int, args.workers.split(",")):
        for each in map(int, args.each.split(",")):
            program = Blocks(args, workers, workers * each)
            model = program.start()
            if args.real:
                print(json.dumps(real(program, model, args.rotations)), flush=True)
                continue
            print(json.dumps(simulated(program, model, args.rotations)), flush=True)


def simulated(program: Blocks, model: Any, rotations: int) -> dict[str, Any]:
    """Mean idle shares of workers by kind of schedule, and rotations per second compared."""
    found: dict[str, list[float]] = {}
    for _ in range(rotations):
        model = program.serially(model)
        seconds = program.seconds.copy()
        n, blocks = seconds.shape
        heaviest, plain = dealt(program.loads, n), in_order(blocks, n)
        ranges = by_words(program)
        kinds = {
            "one barrier, heaviest first": (seconds, heaviest, False),
            "a barrier per step, heaviest first": (seconds, heaviest, True),
            "one barrier, blocks in order": (seconds, plain, False),
            "one barrier, words in order": (ranges, plain, False),
        }
        for kind, (times, held, micro) in kinds.items():
            span = makespan(times, held, micro)
            found.setdefault(kind, []).append(1 - float(times.sum()) / (n * span))
    idle = {kind: round(statistics.mean(each), 3) for kind, each in found.items()}
    return {"workers": n, "blocks": blocks, "idle": idle}


def real(program: Blocks, model: Any, pairs: int) -> dict[str, Any]:
    """Seconds of rotations by threads, with one barrier and with many, in turn."""
    parts = range(len(program.rows))
    took: dict[str, list[float]] = {"one barrier": [], "a barrier per step": []}
    with threads(program, parts) as workers:
        for _ in range(pairs):
            for kind, engine in zip(took, (Static(1), Micro(1)), strict=True):
                began = time.perf_counter()
                model = engine.rotate(program, model, parts, workers)
                took[kind].append(time.perf_counter() - began)
    n, blocks = program.seconds.shape
    median = {kind: round(statistics.median(each), 4) for kind, each in took.items()}
    ratios = [b / a for a, b in zip(*took.values(), strict=True)]
    return {
        "workers": n, "blocks": blocks, "seconds": median,
        "ratio": round(statistics.median(ratios), 3),
    }  # fmt: skip


if __name__ == "__main__":
    main()
