"""`tuskml calibrate`: measures this host for the planner."""

import argparse
import json
import sys
from pathlib import Path


def add_calibrate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The grammar."""
    made = commands.add_parser(
        "calibrate",
        help="measure what this machine takes, for the choice of training plans",
        description="Measures in a few seconds what passes over rows and work on weights take "
        "on this machine, and keeps it for the planner, which otherwise counts with the figures "
        "of another machine. Deterministic trainings do not look at it.",
    )
    add = made.add_argument
    add("--output", type=Path, metavar="FILE", help="write there, where no planner looks")
    add(
        "--refine",
        action="store_true",
        help="let trainings on this host report what iterations took, for later plans",
    )
    add("--json", action="store_true", help="print what was measured as one JSON object")


def show_calibration(given: argparse.Namespace) -> None:
    """Measures, saves and prints."""
    from tuskml.groups.calibration import measure
    from tuskml.optimizer.constants import host_file, save

    told = sys.stderr.isatty()
    measured = measure(lambda part: print(f"measuring {part}", file=sys.stderr) if told else None)
    if given.refine:
        measured = measured | {"refine": True}
    path = given.output or host_file()
    save(measured, path)
    if given.json:
        print(json.dumps(measured | {"file": str(path)}))
        return
    each = measured["passes"]["gradient"]["dense float32"]
    width, seconds = each[-1]
    print(
        f"{path}: {measured['processor']}, {measured['cores']} cores; "
        f"a gradient takes {seconds * 1e9:.2f} ns a value of {width} features"
    )
