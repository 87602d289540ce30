"""Seconds of the operators' parts on a machine: tables that `tuskml calibrate` measures.

`shipped.json` next to this file has the measurements of one machine; deterministic trainings use
it alone, others the file of the host if there is one. Times of other sizes are interpolated
linearly in logarithms.
"""

import json
import math
import os
import tempfile
import warnings
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from tuskml.user_folders import cache_folder

REPORTS_VERSION = 1
LEAST_REPORTS, MOST_REPORTS = 5, 15
MOST_KEYS = 256
MOST_FACTOR = 2.0
LEAST_SECONDS = 0.05
"""Seconds of a training's iterations below which clocks and other processes dominate."""

Reports = Mapping[str, tuple[float, ...]]


def key_of(algorithm: str, layout: str, entries: float) -> str:
    """Trainings of one family on rows of one layout, their entries within four times."""
    return f"{algorithm} {layout} {int(math.log2(max(entries, 1))) // 2 * 2}"


def reports_file(calibration: Path) -> Path:
    """Beside the host's calibration."""
    return calibration.with_name(calibration.name.replace("calibration-", "reports-", 1))


def read(path: Path) -> dict[str, tuple[float, ...]]:
    """The reports in a file; none if it is missing or broken."""
    try:
        value = json.loads(path.read_text())
        if value["version"] != REPORTS_VERSION:
            return {}
        return {str(key): tuple(usable(ratios)) for key, ratios in list(value["ratios"].items())}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def usable(ratios: object) -> list[float]:
    """The positive finite ratios, the latest MOST_REPORTS of them."""
    if not isinstance(ratios, list):
        raise TypeError("ratios are a list")
    found = [float(ratio) for ratio in ratios]
    return [ratio for ratio in found if math.isfinite(ratio) and ratio > 0][-MOST_REPORTS:]


def factors(reports: Reports) -> dict[str, float]:
    """The median factor by key; keys with too few reports are left out."""
    return {
        key: min(max(float(np.median(ratios)), 1 / MOST_FACTOR), MOST_FACTOR)
        for key, ratios in reports.items()
        if len(ratios) >= LEAST_REPORTS
    }


def with_report(reports: Reports, key: str, ratio: float) -> dict[str, tuple[float, ...]]:
    """The reports and one more; the key that waited longest makes room."""
    found = dict(reports)
    ratios = found.pop(key, ())
    while len(found) >= MOST_KEYS:
        del found[next(iter(found))]
    found[key] = (*ratios, ratio)[-MOST_REPORTS:]
    return found


def report(path: Path, key: str, ratio: float) -> None:
    """Adds a report to the file, which is replaced as a whole; of two concurrent ones one may be
    lost.

    A folder that cannot be written to does not fail a training.
    """
    if not (math.isfinite(ratio) and ratio > 0):
        return
    ratios = with_report(read(path), key, float(f"{ratio:.3g}"))
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "w") as file:
            json.dump({"version": REPORTS_VERSION, "ratios": ratios}, file)
        Path(name).replace(path)
    except OSError:
        if name is not None:
            Path(name).unlink(missing_ok=True)


VERSION = 3
SHIPPED = Path(__file__).with_name("shipped.json")
LOOKS = ("labels", "classes", "moments", "counts")
LAYOUTS = ("dense", "sparse")
STORAGE = ("dense float32", "dense float64", "sparse float32", "sparse float64")
LOSSES = ("linear", "logistic", "svm")

Table = tuple[tuple[float, float], ...]
Sizes = tuple[tuple[float, float, float], ...]


def interpolate_table(table: Table, x: float) -> float:
    """The table's value at x > 0; beyond its ends the last line is continued, at most as x^3."""
    if len(table) == 1:
        return table[0][1]
    at = min(max(bisect_right(table, x, key=itemgetter(0)), 1), len(table) - 1)
    (x0, y0), (x1, y1) = table[at - 1], table[at]
    slope = math.log(y1 / y0) / math.log(x1 / x0)
    if not x0 <= x <= x1:
        slope = min(max(slope, -1.0), 3.0)
    base_x, base_y = (x1, y1) if x > x1 else (x0, y0)
    return base_y * math.exp(slope * math.log(x / base_x))


@dataclass(frozen=True)
class Constants:
    """The timings of a machine.

    passes[kind][storage]: seconds of one thread an entry of a million, with the squared loss, of
    `curvature` an entry of the triangles, by features; penalised: the same of sparse epochs that
    apply a penalty or a scale; rows[kind][layout][task]: further seconds per row;
    sizes[kind][layout]: by entries, the cost of an entry relative to that among a million, and
    the speed-up of two threads; steps: seconds of an iteration's work on the weights, by weights,
    by the names that algorithms have given them; looks: seconds a row of labels and classes, an
    entry of moments and counts, before any plan starts; store: seconds of a request to a store
    and of each of its weights, where they were measured; refine: whether trainings report;
    factors: of iterations, from their reports (`refinement.py`).
    """

    passes: Mapping[str, Mapping[str, Table]]
    penalised: Mapping[str, Mapping[str, Table]]
    rows: Mapping[str, Mapping[str, Mapping[str, float]]]
    sizes: Mapping[str, Mapping[str, Sizes]]
    steps: Mapping[str, Table]
    looks: Mapping[str, float]
    source: str
    store: tuple[float, ...] | None = None
    refine: bool = False
    factors: Mapping[str, float] = field(default_factory=dict)

    def entry(self, kind: str, storage: str, features: int, penalised: bool = False) -> float:
        """Seconds an entry."""
        tables = self.penalised if penalised and kind in self.penalised else self.passes
        return interpolate_table(tables[kind][storage], max(features, 1))

    def row(self, kind: str, storage: str, task: str) -> float:
        """Seconds per row, in addition to its entries; an unmeasured task is like `logistic`."""
        found = self.rows[kind][layout_of(storage)]
        return found.get(task, found["logistic"])

    def slower(self, kind: str, storage: str, entries: float) -> float:
        """The cost of an entry among `entries`, relative to one among a million."""
        return interpolate(self.sizes[kind][layout_of(storage)], entries, 1)

    def factor(self, algorithm: str, storage: str, entries: float) -> float:
        """The factor on an iteration that trainings on this host reported."""
        return self.factors.get(key_of(algorithm, layout_of(storage), entries), 1.0)

    def step(self, algorithm: str, weights: float) -> float:
        """Seconds of an iteration's work on `weights` weights."""
        table = self.steps[algorithm]
        return max(interpolate_table(table, max(weights, 1)), min(y for _, y in table))

    def speedup(self, kind: str, storage: str, entries: float, threads: int) -> float:
        """The speed-up of several threads over one: each further thread adds as much as the second
        one.
        """
        two = interpolate(self.sizes[kind][layout_of(storage)], entries, 2)
        return two if threads == 2 else max(1.0 + (threads - 1) * (two - 1.0), min(two, 1.0))


def layout_of(storage: str) -> str:
    """dense or sparse."""
    return storage.split(maxsplit=1)[0]


def interpolate(sizes: Sizes, x: float, column: int) -> float:
    """The value at x > 0, beyond the table's ends that at the end."""
    within = min(max(x, sizes[0][0]), sizes[-1][0])
    return interpolate_table(tuple((size[0], size[column]) for size in sizes), within)


def _points(value: Any, width: int) -> tuple[tuple[float, ...], ...]:
    points = tuple(tuple(float(number) for number in point) for point in value)
    numbers = [number for point in points for number in point]
    if not points or not all(math.isfinite(n) and n > 0 for n in numbers):
        raise ValueError("a table needs points of positive numbers")
    if any(len(point) != width for point in points):
        raise ValueError(f"a table's points need {width} numbers")
    if any(a[0] >= b[0] for a, b in pairwise(points)):
        raise ValueError("a table's sizes must rise")
    return points


def _table(value: Any) -> Table:
    return tuple((x, y) for x, y in _points(value, 2))


def _sizes(value: Any) -> Sizes:
    return tuple((x, y, z) for x, y, z in _points(value, 3))


def _seconds(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError("seconds need numbers that are not negative")
    return number


@cache
def read_shipped_value() -> Any:
    """The shipped file: every calibration has its kinds of passes and of steps."""
    return json.loads(SHIPPED.read_text())


def names_in(value: Any) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Kinds of passes, those that may have a penalty, and steps of a calibration."""
    return tuple(value["passes"]), tuple(value["penalised"]), tuple(value["steps"])


def parse(text: str, source: str) -> Constants:
    """Constants from JSON. Raises ValueError for anything but a whole file of this version."""
    try:
        value = json.loads(text)
        if value["version"] != VERSION:
            raise ValueError(f"it is of version {value['version']}, expected {VERSION}")
        kinds, epochs, steps = names_in(read_shipped_value())
        passes, rows = value["passes"], value["rows"]
        dense = {k: {s: passes[k][s] for s in STORAGE[:2]} for k in epochs}
        penalised = {k: dense[k] | value["penalised"][k] for k in epochs}
        return Constants(
            {k: {s: _table(passes[k][s]) for s in STORAGE} for k in kinds},
            {k: {s: _table(penalised[k][s]) for s in STORAGE} for k in epochs},
            {
                k: {at: {t: _seconds(rows[k][at][t]) for t in LOSSES} for at in LAYOUTS}
                for k in kinds
            },
            {k: {at: _sizes(value["sizes"][k][at]) for at in LAYOUTS} for k in kinds},
            {name: _table(value["steps"][name]) for name in steps},
            {name: _seconds(value["looks"][name]) for name in LOOKS},
            source,
            _points([value["store"]], 2)[0] if "store" in value else None,
            value.get("refine") is True,
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it lacks what a calibration holds ({error})") from None


@cache
def shipped_constants() -> Constants:
    """The constants that come with the package, the same on every host."""
    return parse(SHIPPED.read_text(), "shipped with tuskml")


def host_file() -> Path:
    """Where this host's calibration lies: in the user's cache folder, one file a host name."""
    return cache_folder() / f"calibration-{os.uname().nodename}.json"


@cache
def of_host() -> Constants:
    """This host's constants; the shipped ones, with a warning, if its file is broken."""
    try:
        path = host_file()
        text = path.read_text()
    except (OSError, RuntimeError, UnicodeDecodeError):  # none, unreadable, or no home folder
        return shipped_constants()
    try:
        known = parse(text, str(path))
        if not known.refine:
            return known
        reports = read(reports_file(path))
        return replace(known, factors=factors(reports))
    except ValueError as error:
        warnings.warn(
            f"the calibration {path} is ignored: {error}; run 'tuskml calibrate' again",
            RuntimeWarning,
            stacklevel=2,
        )
        return shipped_constants()


def save(measured: Mapping[str, Any], path: Path) -> None:
    """Writes a calibration as a whole or not at all. Raises OSError."""
    parse(json.dumps(measured), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(measured, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    of_host.cache_clear()
