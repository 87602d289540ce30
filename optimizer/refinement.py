"""What trainings on this host reported, as factors of estimated costs.

Only where the host was calibrated with `tuskml calibrate --refine`; and a process reads reports
once, when it first plans: within it the same statistics give the same plan. A report is the ratio
of an iteration's seconds to their estimate. The factor of a family, a layout and a size is the
median of the last ones, held between a half and two, and 1 before there are a few.
"""

import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median

VERSION = 1
LEAST_REPORTS, MOST_REPORTS = 5, 15
MOST_KEYS = 256
MOST_FACTOR = 2.0
LEAST_SECONDS = 0.05
"""Of a training's iterations, below which clocks and neighbours tell more than the machine."""

Reports = Mapping[str, tuple[float, ...]]


def key_of(algorithm: str, layout: str, entries: float) -> str:
    """Trainings of one family on rows of one layout, their entries within four times."""
    return f"{algorithm} {layout} {int(math.log2(max(entries, 1))) // 2 * 2}"


def reports_file(calibration: Path) -> Path:
    """Beside the host's calibration."""
    return calibration.with_name(calibration.name.replace("calibration-", "reports-", 1))


def read(path: Path) -> dict[str, tuple[float, ...]]:
    """What was reported; nothing where there is no such file, or a broken one."""
    try:
        value = json.loads(path.read_text())
        if value["version"] != VERSION:
            return {}
        return {str(key): tuple(usable(ratios)) for key, ratios in list(value["ratios"].items())}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def usable(ratios: object) -> list[float]:
    """Those that are ratios."""
    if not isinstance(ratios, list):
        raise TypeError("ratios are a list")
    found = [float(ratio) for ratio in ratios]
    return [ratio for ratio in found if math.isfinite(ratio) and ratio > 0][-MOST_REPORTS:]


def factors(reports: Reports) -> dict[str, float]:
    """By key; none for those with too few reports."""
    return {
        key: min(max(median(ratios), 1 / MOST_FACTOR), MOST_FACTOR)
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
    """Adds a report to the file, which is replaced as a whole; of two at a time one may be lost.

    A folder that cannot be written to is no reason to fail a training.
    """
    if not (math.isfinite(ratio) and ratio > 0):
        return
    ratios = with_report(read(path), key, float(f"{ratio:.3g}"))
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "w") as file:
            json.dump({"version": VERSION, "ratios": ratios}, file)
        Path(name).replace(path)
    except OSError:
        if name is not None:
            Path(name).unlink(missing_ok=True)
