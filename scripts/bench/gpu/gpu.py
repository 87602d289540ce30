"""The GPU's figures: gradient passes against the copy bandwidth and CuPy, lbfgs, many groups,
matrix factorization, nets.

It runs from a plain checkout where CuPy is: `python scripts/bench/gpu/gpu.py [--json FILE]`; with
--quick it takes a fiftieth of the data. What is compared with the CPU needs a C++ compiler, by
which the kernels are built where they are not, and what goes through SQL DuckDB, pyarrow and the
built extension; without them these lines say so. A part that fails says why and the next one
runs; when --seconds are over, no further one begins, and the CPU's trainings end where they are.
The file is written after each line.
"""

import argparse
import faulthandler
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpu_checkout import built, importable, machine

importable()

from gpu_common import line, packed, seconds  # noqa: E402
from gpu_factorization import factorization  # noqa: E402
from gpu_nets import nets  # noqa: E402
from gpu_passes import WIDTHS, ceilings, gradient_pass, logistic_rows, truth_of  # noqa: E402
from gpu_sql import through_sql  # noqa: E402

from tuskml.kernels.gpu import cuda, passes  # noqa: E402
from tuskml.kernels.passes import Pass  # noqa: E402
from tuskml.learners.linear.algorithms import ALGORITHMS  # noqa: E402
from tuskml.learners.linear.operators import run  # noqa: E402
from tuskml.learners.linear.problem import Problem  # noqa: E402
from tuskml.learners.linear.request import Plan  # noqa: E402
from tuskml.learners.linear.tasks import LINEAR  # noqa: E402

Lines = Iterable[dict[str, Any]]
ROWS = 20_000_000
QUICK = 0.02
"""Share of the data with --quick."""
SECONDS = 450.0
"""Seconds for all; the part that runs then may take about a hundred more."""
GRACE = 120.0
PARTS = 5
"""Pieces in which rows go to the GPU where they are said not to fit."""
GROUPS, GROUP_ROWS, GROUP_FEATURES = 100_000, 1_000, 16
NETS = 1_000


def problem_of(rows: Pass, l2: float) -> Problem:
    """Features have mean 0 and deviation 1 already."""
    shift = np.zeros((rows.n_groups, rows.n_features))
    return Problem(rows, LINEAR["logistic"], 0.0, l2, shift, shift + 1)


def trained(problem: Problem, algorithm: str, deadline: float | None = None) -> Any:
    """The state where the algorithm ends at 1e-6, or at the deadline (`time.monotonic`)."""
    plan = Plan(
        algorithm,
        1000,
        1e-6,
        "gradient",
        "auto",
        "line_search",
        32,
        False,
        False,
        False,
        0,
        problem.rows.threads,
        (0.0,),
        1,
        "",
    )
    start = np.zeros((problem.n_groups, problem.d + 1))
    return run(problem, ALGORITHMS[algorithm].operators(problem, plan, start, deadline))


def cpu_rows(rows: Any, threads: int) -> tuple[Pass, Any]:
    """The rows for the CPU's kernels, and their memory."""
    (part,), held, d = rows.on_device.visit(), rows.on_device, rows.n_features
    values, labels = rows.device.to_host(part.values), rows.device.to_host(part.labels)
    groups, memory = packed(values, labels, held.start[:-1], held.n_rows, d)
    return Pass(groups, rows.loss, rows.positive, None, True, threads), memory


def lbfgs(device: Any, n: int, d: int, threads: int, cpu: bool, end: float) -> Lines:
    """Trains to 1e-6 on rows on the device, and times their copy."""
    rows = logistic_rows(device, np.array([n // 4 * 4]), d)
    name = f"lbfgs to 1e-6, n={n:,}, d={d}"
    problem = problem_of(rows, 1e-4)
    found: list[Any] = []
    ours = seconds(device, lambda: found.append(trained(problem, "lbfgs")), 3)
    state = found[-1]
    part = rows.on_device.parts[0]
    sums = truth_of(device, part.values[: n // 4 * 4], part.labels[: n // 4 * 4], state.v[0])
    slope = np.append(sums[2:-1] / sums[1] + 1e-4 * state.v[0, :-1], sums[-1] / sums[1])
    yield line(
        f"{name}, rows there, seconds",
        "",
        ours,
        iterations=int(state.iterations[0]),
        off=float(np.abs(slope).max()),
        allowed=2e-6,
    )
    del part
    if not cpu:
        yield line(f"{name}, rows there, against the CPU", ">= 10x", None)
        return
    plain, _memory = cpu_rows(rows, threads)
    rows.on_device.close()
    began = time.perf_counter()
    placed: Any = passes.on_device(plain, device)
    copied = time.perf_counter() - began
    both = (one.gradient(state.v) for one in (placed, plain))
    wrong = {"off": relative(*both)}
    placed.on_device.close()
    size = n * (4 * d + 8)
    yield line(f"{name}, the copy, GB/s", "", size / copied / 1e9, copy_seconds=copied, **wrong)
    yield by_parts(device, plain, name, size)
    theirs, took, met = on_cpu(problem_of(plain, 1e-4), "lbfgs", end)
    if not met:
        met = {"off": optimum(state, theirs)}
    yield line(
        f"{name}, rows there, against the CPU", ">= 10x", took / ours, cpu_seconds=took, **met
    )
    yield line(f"{name}, copy included, against the CPU", ">= 10x", took / (ours + copied), **met)


def by_parts(device: Any, plain: Pass, name: str, size: int) -> dict[str, Any]:
    """A gradient pass over rows of which a part is on the device at a time."""
    streamed: Any = passes.on_device(plain, device, budget=size // PARTS)
    w = np.zeros((1, plain.n_features + 1))
    each = seconds(device, lambda: streamed.gradient(w), 2)
    parts = -(-int(streamed.on_device.start[-1]) // streamed.on_device.part_rows)
    streamed.on_device.close()
    work = f"{name}, a gradient pass by parts, GB/s"
    return line(work, "", size / each / 1e9, seconds=each, parts=parts)


def on_cpu(problem: Problem, algorithm: str, end: float) -> tuple[Any, float, dict[str, Any]]:
    """The state, seconds, and whether they are too few since the time was over."""
    began = time.monotonic()
    state = trained(problem, algorithm, end)
    took = time.monotonic() - began
    over = time.monotonic() >= end
    if over:
        print(f"the CPU's {algorithm} was ended after {took:.0f} s: it takes longer", flush=True)
    return state, took, {"cpu_unfinished": True} if over else {}


def relative(ours: Any, theirs: Any) -> float:
    """The difference of arrays relative to the largest item."""
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def optimum(ours: Any, theirs: Any) -> float:
    """The relative difference of objectives where both ended, of the worst group."""
    return float((np.abs(ours.objective - theirs.objective) / theirs.objective).max())


def many_groups(device: Any, groups: int, threads: int, cpu: bool, end: float) -> Lines:
    """Newton's method of all at once."""
    rows = logistic_rows(device, np.full(groups, GROUP_ROWS), GROUP_FEATURES)
    name = f"{groups:,} groups x {GROUP_ROWS:,} x {GROUP_FEATURES}, logistic, newton"
    problem = problem_of(rows, 0.01)
    found: list[Any] = []
    ours = seconds(device, lambda: found.append(trained(problem, "newton")), 3)
    converged = float(found[-1].converged.mean())
    some = rows.on_device.parts[0].values[:GROUP_ROWS], rows.on_device.parts[0].labels[:GROUP_ROWS]
    sums = truth_of(device, *some, found[-1].v[0])
    slope = np.append(sums[2:-1] / sums[1] + 0.01 * found[-1].v[0, :-1], sums[-1] / sums[1])
    yield line(
        f"{name}, rows there, seconds",
        "",
        ours,
        converged=converged,
        off=float(np.abs(slope).max()),
        allowed=2e-6,
    )
    if not cpu:
        yield line(f"{name}, against the CPU", ">= 20x", None)
        return
    plain, _memory = cpu_rows(rows, threads)
    theirs, took, met = on_cpu(problem_of(plain, 0.01), "newton", end)
    if not met:
        met = {"off": optimum(found[-1], theirs)}
    yield line(f"{name}, against the CPU", ">= 20x", took / ours, cpu_seconds=took, **met)


class Report:
    """The figures so far, written after each line: a later one may end the program."""

    def __init__(
        self, device: Any, scale: float, threads: int, file: Path | None, allowed: float = SECONDS
    ) -> None:
        when = datetime.now(UTC).isoformat(timespec="seconds")
        self.device, self.file, self.began = device, file, time.monotonic()
        self.end = self.began + allowed
        self.found: dict[str, Any] = {
            "device": device.name,
            "host": machine(),
            "date": when,
            "scale": scale,
            "threads": threads,
            "failed": {},
            "seconds": {},
            "lines": [],
        }
        print(f"{device.name}; {machine()}, {threads} threads; {when}; scale {scale:g}")

    def add(self, part: str, body: Callable[[], Lines]) -> None:
        """Runs a part; prints its exception, and the next one runs."""
        began = time.monotonic()
        try:
            if began >= self.end:
                raise TimeoutError("no time was left")
            for entry in body():
                self.found["lines"].append(entry)
                self.write()
        except TimeoutError as error:
            print(f"{part}: {error}", flush=True)
            self.found["failed"][part] = str(error)
        except Exception as error:
            traceback.print_exc()
            self.found["failed"][part] = f"{type(error).__name__}: {error}"
            line(part, "", None)
        try:
            self.device.release()
        except Exception as error:  # after a fault the device may answer no more
            print(f"memory was not released: {error}", file=sys.stderr)
        self.found["seconds"][part] = round(time.monotonic() - began, 1)
        print(f"  [{part}: {self.found['seconds'][part]} s]", file=sys.stderr, flush=True)
        self.write()

    def write(self) -> None:
        """Replaces the file."""
        if self.file:
            new = self.file.with_name(self.file.name + ".new")
            new.write_text(json.dumps(self.found, indent=1) + "\n")
            new.replace(self.file)


def table(found: dict[str, Any]) -> str:
    """The figures as a table in Markdown, below the device's name and the date."""
    rows = [f"{found['device']}; {found['host']}; {found['date']}; scale {found['scale']:g}", ""]
    rows += ["| work | to reach | reached | off the truth |", "|---|---|---|---|"]
    for entry in found["lines"]:
        reached = "not measured" if entry["reached"] is None else f"{entry['reached']:.4g}"
        more = (
            " (the CPU was ended early)"
            if entry.get("cpu_unfinished") or entry.get("unfinished")
            else ""
        )
        off = f"{entry['off']:.1g}" if "off" in entry else ""
        asked = entry["asked"] or "none set"
        rows.append(f"| {entry['work']} | {asked} | {reached}{more} | {off} |")
    return "\n".join(rows)


def asked(arguments: list[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="file for all numbers")
    parser.add_argument("--quick", action="store_true", help=f"--scale {QUICK}, to see it run")
    parser.add_argument("--scale", type=float, help="of the numbers of rows and groups")
    parser.add_argument("--threads", type=int, default=0, help="of the CPU, 0: all")
    parser.add_argument("--sql-rows", type=int, help="through SQL, 0: none")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for all parts")
    args = parser.parse_args(arguments)
    if args.scale is None:
        args.scale = QUICK if args.quick else 1.0
    if args.sql_rows is None:
        args.sql_rows = int(ROWS * args.scale)
    return args


def main(arguments: list[str] | None = None, device: Any = None) -> dict[str, Any]:
    """Prints the figures; device: the device of the kernels, by default the GPU."""
    given = asked(arguments)
    if device is None:
        if cuda.availability() is not None:
            sys.exit(f"no GPU to measure: {cuda.availability()}")
        device = cuda.device()
        faulthandler.dump_traceback_later(given.seconds + GRACE, exit=True)
    from tuskml.schedule import budget

    missing = built()
    if missing is not None:
        print(f"no comparison with the CPU: {missing}", file=sys.stderr)
    threads, cpu = budget.threads(given.threads), missing is None
    n, groups = int(ROWS * given.scale), max(32, int(GROUPS * given.scale))
    report = Report(device, given.scale, threads, given.json, given.seconds)
    size = max(1 << 12, int((4 << 30) * given.scale))
    bandwidth = {"copy": float("nan"), "read": float("nan")}
    report.add("ceilings", lambda: ceilings(device, size, bandwidth))
    for d in WIDTHS:
        report.add(
            f"gradient pass, d={d}", partial(gradient_pass, device, max(n, 400), d, bandwidth)
        )
    report.add("many groups", lambda: many_groups(device, groups, threads, cpu, report.end))
    report.add("lbfgs", lambda: lbfgs(device, n, 256, threads, cpu, report.end))
    if given.sql_rows:
        report.add("through SQL", lambda: through_sql(device, given.sql_rows, 256, report.end))
    report.add("factorization", lambda: factorization(device, given.scale, threads, cpu))
    report.add("nets", lambda: nets(device, max(4, int(NETS * given.scale)), threads, cpu))
    faulthandler.cancel_dump_traceback_later()
    print(f"\n{table(report.found)}")
    return report.found


if __name__ == "__main__":
    main()
