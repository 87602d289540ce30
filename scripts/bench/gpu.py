"""The GPU's figures: gradient passes against the copy bandwidth and CuPy, lbfgs, many groups.

Runs from a plain checkout where CuPy is: `python scripts/bench/gpu.py [--json FILE]`. What is
compared with the CPU needs the kernels (`make native`), and what goes through SQL the installed
package and pyarrow; without them these lines say so. --scale shrinks the data.
"""

import argparse
import importlib.util
import json
import runpy
import statistics
import sys
import tempfile
import time
import types
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
ROWS = 20_000_000
GROUPS, GROUP_ROWS, GROUP_FEATURES = 100_000, 1_000, 16
REPEATS = 7


def from_checkout() -> None:
    """Makes `tuskml.udas` importable where the package is not: without databases, as links."""
    if importlib.util.find_spec("tuskml") is not None:
        return
    folder = Path(tempfile.mkdtemp(prefix="tuskml-links-"))
    for place, target in runpy.run_path(str(ROOT / "scripts" / "link_tree.py"))["links"]().items():
        link = folder / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    package = types.ModuleType("tuskml")  # its own __init__ would want DuckDB
    package.__path__ = [str(folder / "tuskml")]
    sys.modules["tuskml"] = package


from_checkout()

from tuskml.errors import TuskError  # noqa: E402
from tuskml.udas import kernels  # noqa: E402
from tuskml.udas.algorithms import ALGORITHMS  # noqa: E402
from tuskml.udas.gpu import cuda, passes, source  # noqa: E402
from tuskml.udas.gpu.rows import SLACK, DeviceRows, places  # noqa: E402
from tuskml.udas.kernels import GROUP, Pass  # noqa: E402
from tuskml.udas.operators import run  # noqa: E402
from tuskml.udas.plan import Plan  # noqa: E402
from tuskml.udas.problem import Problem  # noqa: E402
from tuskml.udas.segments import SEGMENT  # noqa: E402
from tuskml.udas.tasks import TASKS  # noqa: E402


def seconds(device: Any, body: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median of some runs after a first one; the device has done all of it."""
    body()
    device.launched().wait()
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        body()
        device.launched().wait()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def normals(xp: Any, shape: tuple[int, ...], seed: int) -> Any:
    """float32, where the arrays are."""
    if xp is np:
        return np.random.default_rng(seed).standard_normal(shape, np.float32)
    return xp.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def logistic_rows(device: Any, sizes: Any, d: int, seed: int = 0) -> Any:
    """A pass over groups of these sizes, multiples of 4, whose labels follow a logistic model."""
    xp, start = device.xp, places(sizes)
    total = int(start[-1])
    values = xp.zeros((total + SLACK, d), np.float32)
    labels = xp.zeros(total + SLACK, np.float64)
    truth = device.to_device(np.random.default_rng(seed).normal(size=d) / np.sqrt(d))
    step = max(1, (1 << 26) // d)
    for number, low in enumerate(range(0, total, step)):
        some = normals(xp, (min(step, total - low), d), seed + number)
        values[low : low + len(some)] = some
        noise = normals(xp, (len(some),), seed + number + 10_000)
        labels[low : low + len(some)] = some @ truth.astype(np.float32) + noise > 0
    held = DeviceRows.of_device(device, values, labels, sizes, 0)
    groups = np.zeros(len(sizes), GROUP)
    groups["head"], groups["n_rows"], groups["dim"] = 1 + np.arange(len(sizes)), sizes, d
    return passes.DevicePass(
        groups, TASKS["logistic"].loss, np.ones(len(sizes)), None, True, 1,
        on_device=held, which=np.arange(len(sizes)), heads=groups["head"].copy(),
    )  # fmt: skip


def problem_of(rows: Pass, l2: float) -> Problem:
    """Features have mean 0 and deviation 1 already."""
    shift = np.zeros((rows.n_groups, rows.n_features))
    return Problem(rows, TASKS["logistic"], 0.0, l2, shift, shift + 1)


def trained(problem: Problem, algorithm: str) -> Any:
    """The state where the algorithm ends at 1e-6."""
    plan = Plan(
        algorithm, 1000, 1e-6, "gradient", "auto", "line_search", 32, False, False, False, 0,
        problem.rows.threads, (0.0,), 1, "",
    )  # fmt: skip
    start = np.zeros((problem.n_groups, problem.d + 1))
    return run(problem, ALGORITHMS[algorithm](problem, plan, start, None))


def cpu_rows(rows: Any, threads: int) -> tuple[Pass, Any] | None:
    """The same rows for the CPU's kernels, and the memory; None where these are not built."""
    try:
        kernels.library()
    except (OSError, TuskError) as error:
        print(f"no comparison with the CPU: {error}", file=sys.stderr)
        return None
    (part,), held, d = rows.on_device.visit(), rows.on_device, rows.n_features
    each = SEGMENT.itemsize + held.n_rows * (8 + 4 * d)
    begin = np.concatenate([[0], np.cumsum(-(-each // 64) * 64)])
    memory = np.zeros(int(begin[-1]) + 64, np.uint8)
    base = -memory.ctypes.data % 64
    values, labels = rows.device.to_host(part.values), rows.device.to_host(part.labels)
    groups = rows.groups.copy()
    for g, n in enumerate(held.n_rows):
        segment = memory[base + begin[g] : base + begin[g] + each[g]]
        segment[16:24].view(np.uint32)[:] = n
        low = held.start[g]
        segment[32 : 32 + 8 * n].view(np.float64)[:] = labels[low : low + n]
        segment[32 + 8 * n :].view(np.float32)[:] = values[low : low + n].ravel()
        groups["head"][g] = segment.ctypes.data
    plain = Pass(groups, rows.loss, rows.positive, None, True, threads)
    return plain, memory


def copy_bandwidth(device: Any, size: int) -> float:
    """Bytes read and written a second by a copy on the device."""
    a = device.xp.zeros(size // 4, np.float32)
    b = device.xp.zeros_like(a)

    def copy() -> None:
        b[:] = a

    return 2 * a.nbytes / seconds(device, copy)


def gradient_pass(device: Any, n: int, d: int, bandwidth: float) -> list[dict[str, Any]]:
    """One pass: the whole call, and against two products in CuPy."""
    rows = logistic_rows(device, np.array([n // 4 * 4]), d)
    w = np.random.default_rng(1).normal(size=(1, d + 1)) / np.sqrt(d)
    whole = seconds(device, lambda: rows.gradient(w))
    part = rows.on_device.parts[0]
    x, y = part.values[: n // 4 * 4], part.labels[: n // 4 * 4].astype(np.float32) * 2 - 1
    at = device.to_device(w[0, :-1].astype(np.float32))

    def two_products() -> None:
        z = y * (x @ at)
        _ = x.T @ (-y / (1 + device.xp.exp(z)))

    peer = seconds(device, two_products)
    size = len(x) * (4 * d + 8)
    name = f"logistic gradient pass, n={len(x):,}, d={d}"
    kernel = source.gradient(d, 4, n)
    share = size / whole / bandwidth
    return [
        line(name, ">= 0.70 of the copy bandwidth", share, seconds=whole, gb=size / whole / 1e9,
             macros=dict(kernel.macros)),
        line(f"{name} against X @ w, X.T @ r", ">= 1.7x", peer / whole, seconds=peer),
    ]  # fmt: skip


def lbfgs(device: Any, n: int, d: int, threads: int) -> list[dict[str, Any]]:
    """To 1e-6 on rows that are there, and the copy that brings them."""
    rows = logistic_rows(device, np.array([n // 4 * 4]), d)
    name = f"lbfgs to 1e-6, n={n:,}, d={d}"
    problem = problem_of(rows, 1e-4)
    found: list[Any] = []
    ours = seconds(device, lambda: found.append(trained(problem, "lbfgs")), 3)
    state = found[-1]
    lines = [line(f"{name}, rows there", "", ours, iterations=int(state.iterations[0]))]
    cpu = cpu_rows(rows, threads)
    if cpu is None:
        return [*lines, line(f"{name}, rows there, against the CPU", ">= 10x", None)]
    began = time.perf_counter()
    theirs = trained(problem_of(cpu[0], 1e-4), "lbfgs")
    took = time.perf_counter() - began
    began = time.perf_counter()
    placed: Any = passes.on_device(cpu[0], device)
    copied = time.perf_counter() - began
    placed.on_device.close()
    size = n * (4 * d + 8)
    return [
        *lines,
        line(f"{name}, rows there, against the CPU", ">= 10x", took / ours, cpu_seconds=took),
        line(f"{name}, copy included", ">= 10x", took / (ours + copied), copy_seconds=copied,
             copy_gb=size / copied / 1e9),
        optimum(name, state, theirs),
    ]  # fmt: skip


def optimum(name: str, ours: Any, theirs: Any) -> dict[str, Any]:
    """How far objectives are apart where both ended, relative, and the weights, which say less:
    within the tolerance they may differ."""
    off = np.abs(ours.objective - theirs.objective) / theirs.objective
    weights = np.abs(ours.v - theirs.v).max() / np.abs(theirs.v).max()
    return line(f"{name}, optimum", "<= 1e-6", float(off.max()), weights=float(weights))


def many_groups(device: Any, groups: int, threads: int) -> list[dict[str, Any]]:
    """Newton's method of all at once."""
    rows = logistic_rows(device, np.full(groups, GROUP_ROWS), GROUP_FEATURES)
    name = f"{groups:,} groups x {GROUP_ROWS:,} x {GROUP_FEATURES}, logistic, newton"
    problem = problem_of(rows, 0.01)
    found: list[Any] = []
    ours = seconds(device, lambda: found.append(trained(problem, "newton")), 3)
    converged = float(found[-1].converged.mean())
    lines = [line(f"{name}, rows there", "", ours, converged=converged)]
    cpu = cpu_rows(rows, threads)
    if cpu is None:
        return [*lines, line(f"{name}, against the CPU", ">= 20x", None)]
    began = time.perf_counter()
    theirs = trained(problem_of(cpu[0], 0.01), "newton")
    took = time.perf_counter() - began
    return [
        *lines,
        line(f"{name}, against the CPU", ">= 20x", took / ours, cpu_seconds=took),
        optimum(name, found[-1], theirs),
    ]


def through_sql(n: int, d: int) -> list[dict[str, Any]]:
    """lbfgs by `train_model` from a DuckDB table, on both devices."""
    name = f"lbfgs to 1e-6, n={n:,}, d={d}, through SQL"
    try:
        import pyarrow as pa

        import tuskml

        con = tuskml.connect()
    except Exception as error:
        print(f"nothing through SQL: {error}", file=sys.stderr)
        return [line(f"{name}, against the CPU", ">= 10x", None)]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d), np.float32)
    y = x @ (rng.normal(size=d) / np.sqrt(d)).astype("f4") + rng.standard_normal(n, "f4") > 0
    lists = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), d)
    con.register("given", pa.table({"y": y, "x": lists}))
    con.execute("CREATE TABLE t AS SELECT y, x::FLOAT[] AS x FROM given")
    took, model = {}, {}
    for place in ("gpu", "cpu"):
        options = json.dumps({"algorithm": "lbfgs", "l2": 1e-4, "device": place})
        query = f"SELECT train_model('logistic', y, x, '{options}') FROM t"
        if place == "gpu":
            con.execute(query.replace("FROM t", "FROM (SELECT * FROM t LIMIT 1000)")).fetchall()
        began = time.perf_counter()
        model[place] = con.execute(query).fetchone()[0]
        took[place] = time.perf_counter() - began
    split = {f"{place}_{what}": value for place in took for what, value in
             (("seconds", took[place]), ("training", model[place]["seconds"]))}  # fmt: skip
    a, b = (np.array(model[place]["coef"]) for place in ("gpu", "cpu"))
    return [
        line(f"{name}, against the CPU", ">= 10x", took["cpu"] / took["gpu"], **split),
        line(
            f"{name}, optimum, relative", "<= 1e-6", float(np.abs(a - b).max() / np.abs(b).max())
        ),
    ]


def line(work: str, asked: str, reached: float | None, **more: Any) -> dict[str, Any]:
    """One figure; reached None: it could not be measured here."""
    found = {"work": work, "asked": asked, "reached": reached, **more}
    shown = "not measured" if reached is None else f"{reached:.4g}"
    rest = ", ".join(f"{k} {v:.4g}" for k, v in more.items() if isinstance(v, float))
    print(f"{work:<75} {asked:<30} {shown:>12}  {rest}", flush=True)
    return found


def main(arguments: list[str] | None = None, device: Any = None) -> dict[str, Any]:
    """Prints the figures; device: what runs the kernels, the GPU unless given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="file for all numbers")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows, groups")
    parser.add_argument("--threads", type=int, default=0, help="of the CPU, 0: all")
    parser.add_argument("--sql-rows", type=int, default=2_000_000, help="through SQL, 0: none")
    given = parser.parse_args(arguments)
    if device is None:
        if cuda.availability() is not None:
            sys.exit(f"no GPU to measure: {cuda.availability()}")
        device = cuda.device()
    from tuskml.optimizer.rule import cores

    threads = given.threads or cores()
    n, groups = int(ROWS * given.scale), max(32, int(GROUPS * given.scale))
    when = datetime.now(UTC).isoformat(timespec="seconds")
    print(f"{device.name}, {when}, {threads} CPU threads, scale {given.scale:g}")
    bandwidth = copy_bandwidth(device, max(1 << 12, int((4 << 30) * given.scale)))
    lines = [line("device-to-device copy, bytes read and written, GB/s", "", bandwidth / 1e9)]
    for d in (28, 256):
        lines += gradient_pass(device, n, d, bandwidth)
        device.release()
    lines += lbfgs(device, n, 256, threads)
    device.release()
    lines += many_groups(device, groups, threads)
    device.release()
    if given.sql_rows:
        lines += through_sql(given.sql_rows, 256)
    report = {"device": device.name, "date": when, "scale": given.scale, "lines": lines}
    if given.json:
        given.json.write_text(json.dumps(report, indent=1) + "\n")
    return report


if __name__ == "__main__":
    main()
