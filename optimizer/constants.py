"""Seconds that a machine takes for the operators' parts: tables that `tuskml calibrate` measures.

`shipped.json` beside this file is what one machine measured; deterministic trainings use it
alone, others what was measured on the host where there is such a file. Times of other sizes lie
between those measured, on straight lines in logarithms.
"""

import json
import math
import os
import tempfile
import warnings
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

VERSION = 1
SHIPPED = Path(__file__).with_name("shipped.json")
PASSES = ("gradient", "curvature", "sgd", "mgd", "svrg", "hogwild", "hogbatch")
STEPS = ("lbfgs", "bgd", "newton")
STORAGE = ("dense float32", "dense float64", "sparse float32", "sparse float64")

Table = tuple[tuple[float, float], ...]


def interpolated(table: Table, x: float) -> float:
    """The table's value at x > 0; beyond its ends the last line is continued, at most as x^3."""
    if len(table) == 1:
        return table[0][1]
    places = [point[0] for point in table]
    at = min(max(bisect_right(places, x), 1), len(table) - 1)
    (x0, y0), (x1, y1) = table[at - 1], table[at]
    slope = math.log(y1 / y0) / math.log(x1 / x0)
    slope = min(max(slope, -1.0), 3.0)
    base_x, base_y = (x1, y1) if x > x1 else (x0, y0)
    return base_y * math.exp(slope * math.log(x / base_x))


@dataclass(frozen=True)
class Constants:
    """What a machine takes.

    passes[kind][storage]: seconds of one thread an entry of the rows, of `curvature` an entry of
    the triangles, by features; steps[algorithm]: seconds of an iteration's work on the
    weights, by weights; scaling[kind]: how many threads' work two threads do.
    """

    passes: Mapping[str, Mapping[str, Table]]
    steps: Mapping[str, Table]
    scaling: Mapping[str, float]
    source: str

    def entry(self, kind: str, storage: str, features: int) -> float:
        """Seconds an entry."""
        return interpolated(self.passes[kind][storage], max(features, 1))

    def step(self, algorithm: str, weights: float) -> float:
        """Seconds of an iteration's work on so many weights."""
        table = self.steps[algorithm]
        return max(interpolated(table, max(weights, 1)), min(y for _, y in table))

    def speedup(self, kind: str, threads: int) -> float:
        """Of several threads over one: each further thread adds what the second one did."""
        return 1.0 + (threads - 1) * max(self.scaling[kind] - 1.0, 0.0)


def _table(value: Any) -> Table:
    points = tuple((float(x), float(y)) for x, y in value)
    numbers = [number for point in points for number in point]
    if not points or not all(math.isfinite(n) and n > 0 for n in numbers):
        raise ValueError("a table needs points of positive numbers")
    if any(a[0] >= b[0] for a, b in pairwise(points)):
        raise ValueError("a table's sizes must rise")
    return points


def parse(text: str, source: str) -> Constants:
    """Constants from JSON. Raises ValueError for anything but a whole file of this version."""
    try:
        value = json.loads(text)
        if value["version"] != VERSION:
            raise ValueError(f"it is of version {value['version']}, expected {VERSION}")
        scaling = {kind: float(value["scaling"][kind]) for kind in PASSES}
        if not all(math.isfinite(number) and number > 0 for number in scaling.values()):
            raise ValueError("scaling needs positive numbers")
        return Constants(
            {k: {s: _table(value["passes"][k][s]) for s in STORAGE} for k in PASSES},
            {name: _table(value["steps"][name]) for name in STEPS},
            scaling,
            source,
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it lacks what a calibration holds ({error})") from None


@cache
def shipped() -> Constants:
    """The constants that come with the package, the same on every host."""
    return parse(SHIPPED.read_text(), "shipped with tuskml")


def host_file() -> Path:
    """Where this host's calibration lies: in the user's cache folder, one file a host name."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(folder) if os.path.isabs(folder) else Path.home() / ".cache"
    return base / "tuskml" / f"calibration-{os.uname().nodename}.json"


@cache
def of_host() -> Constants:
    """This host's constants; the shipped ones, with a warning, where its file is broken."""
    try:
        path = host_file()
        text = path.read_text()
    except (OSError, RuntimeError, UnicodeDecodeError):  # none, unreadable, or no home folder
        return shipped()
    try:
        return parse(text, str(path))
    except ValueError as error:
        warnings.warn(
            f"the calibration {path} is ignored: {error}; run 'tuskml calibrate' again",
            RuntimeWarning,
            stacklevel=2,
        )
        return shipped()


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
