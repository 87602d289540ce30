"""Runs the contenders of a benchmark interleaved (A B C A B C ...) after one warm-up and reports
medians.

Each contender lives in a process of its own (worker.py). A benchmark script ends with

    if __name__ == "__main__":
        harness.main(benchmark)

where `benchmark(settings)` returns a `Benchmark`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import report
import result_files
from contender import Benchmark, Contender, Settings, Summary
from worker import Reply, Worker

Maker = Callable[[Settings], Benchmark]
DEFAULT_DATA_DIR = Path(tempfile.gettempdir()) / "tuskml-bench"


def main(maker: Maker) -> None:
    """The command line of one benchmark script."""
    arguments = parser(
        maker.__module__ and (sys.modules[maker.__module__].__doc__ or "")
    ).parse_args()
    record = measure(maker, arguments)
    print(report.plain(record))
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")
    keep(record, arguments)


def parser(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--repeat", type=int, default=5, help="timed runs of each contender (default 5)"
    )
    made.add_argument(
        "--scale", type=float, default=1.0, help="share of the full data size (default 1)"
    )
    made.add_argument("--threads", type=int, default=2, help="threads of every system (default 2)")
    made.add_argument(
        "--layout",
        choices=("list", "array", "columns"),
        default="list",
        help="how the dense table holds x",
    )
    made.add_argument(
        "--only",
        default="",
        metavar="TEXT",
        help="only the contenders whose name contains one of TEXT,TEXT",
    )
    made.add_argument(
        "--data-dir",
        type=Path,
        default=DEFAULT_DATA_DIR,
        help="where data sets are kept (%(default)s)",
    )
    made.add_argument(
        "--warm",
        action="store_true",
        help="an untimed run right before each timed one, for machines that take idle memory away",
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write the record as JSON")
    made.add_argument(
        "--results",
        action="store_true",
        help="write the figures into scripts/bench/results, for docs/benchmarks.md",
    )
    return made


def keep(record: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Writes the figures of a whole run into scripts/bench/results, where --results says so."""
    if arguments.results:
        _say(f"wrote {result_files.add(result_files.run_of(record))}")


def measure(maker: Maker, arguments: argparse.Namespace) -> dict[str, Any]:
    """Makes the data, runs the contenders, returns the record that report.py prints."""
    if arguments.results and (arguments.scale != 1 or arguments.only):
        sys.exit("--results takes runs of all contenders at scale 1, without --only")
    settings = Settings(
        arguments.data_dir.resolve(), arguments.scale, arguments.threads, arguments.layout
    )
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    _limit_threads(settings.threads)
    benchmark = maker(settings)
    facts = machine.facts()
    _say(f"{benchmark.name}: data in {settings.data_dir}")
    with benchmark.around(settings) as notes:
        benchmark.prepare(settings)
        results = _run(benchmark, settings, arguments)
    if arguments.warm:
        notes = [*notes, "Each time is that of the second of two runs in a row."]
    return report.as_dict(benchmark, settings, results, facts, notes)


def _run(
    benchmark: Benchmark, settings: Settings, arguments: argparse.Namespace
) -> dict[str, Summary]:
    wanted = [text for text in arguments.only.split(",") if text]
    chosen = [
        one
        for one in benchmark.contenders
        if not wanted or any(text in one.name for text in wanted)
    ]
    if benchmark.fresh:
        results = _run_fresh(chosen, settings, arguments.repeat)
    else:
        results = _run_interleaved(chosen, settings, arguments.repeat, arguments.warm)
    return results | {one.name: one.summary(settings) for one in benchmark.recorded}


def _run_interleaved(
    contenders: list[Contender], settings: Settings, repeat: int, warm: bool
) -> dict[str, Summary]:
    """Runs in rounds with all processes alive; the warm-up round also checks the quality and
    reads the peak memory.
    """
    workers = {}
    results = {one.name: Summary(one.name) for one in contenders}
    try:
        for one in contenders:
            _say(f"  set up {one.name}")
            workers[one.name] = Worker(one, settings)
        for round_number in range(repeat + 1):
            for name, worker in workers.items():
                if worker.problem is None:
                    _wait()
                    if warm and round_number:
                        worker.run(False)
                    _record(results[name], worker.run(round_number == 0), timed=round_number > 0)
                results[name].problem = worker.problem
    finally:
        for worker in workers.values():
            worker.close()
    return _with_medians(results)


def _run_fresh(contenders: list[Contender], settings: Settings, repeat: int) -> dict[str, Summary]:
    """A new process for every run, one at a time."""
    results = {one.name: Summary(one.name) for one in contenders}
    for round_number in range(repeat):
        for one in contenders:
            if results[one.name].problem:
                continue
            worker = Worker(one, settings)
            if worker.problem is None:
                _wait()
                _record(results[one.name], worker.run(round_number == 0), timed=True)
            results[one.name].problem = worker.problem
            worker.close()
    return _with_medians(results)


def _record(summary: Summary, reply: Reply, timed: bool) -> None:
    if "problem" in reply:
        _say(f"    {summary.name}: {reply['problem']}")
        return
    if timed:
        summary.runs.append(reply["seconds"])
        if reply["train"] is not None:
            summary.trains.append(reply["train"])
    summary.quality.update(reply["quality"])
    summary.peak_bytes = max(summary.peak_bytes or 0, reply["peak_bytes"])
    _say(f"    {summary.name}: {reply['seconds']:.4g} s{'' if timed else ' (warm-up)'}")


def _with_medians(results: dict[str, Summary]) -> dict[str, Summary]:
    for summary in results.values():
        if summary.problem is None and summary.runs:
            summary.seconds = statistics.median(summary.runs)
            summary.train = statistics.median(summary.trains) if summary.trains else None
    return results


def _limit_threads(threads: int) -> None:
    """Limits every thread pool before a library loads, so that none spins while others run."""
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
    ):
        os.environ[name] = str(threads)


def _wait() -> None:
    if not machine.wait_until_quiet():
        _say("    (the machine is busy with other work: this run will not be at its best)")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
