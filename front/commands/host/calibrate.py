"""`tuskml calibrate`: measures this host for the planner."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tuskml.commands.terminal.usage import Parser, add_json, describe, files

EXAMPLES = """
measure this machine, and keep it for the planner:
  tuskml calibrate
measure what reading a table of PostgreSQL takes too, as the user who runs its server:
  tuskml calibrate --postgres postgresql:///shop
look at the figures without keeping them where a planner looks:
  tuskml calibrate --output /tmp/here.json --json
"""


def grammar(made: Parser) -> None:
    """Defines the grammar."""
    describe(
        made,
        show_calibration,
        "Measures in a few seconds what passes over rows and work on weights take "
        "on this machine, and keeps it for the planner, which otherwise uses the figures "
        "of another machine. Deterministic trainings do not use it.",
        EXAMPLES,
    )
    where = "write the figures to this file, which the planner does not read"
    files(made.add_argument("--output", type=Path, metavar="FILE", help=where))
    refine = "let trainings on this host record the time of iterations, for later plans"
    made.add_argument("--refine", action="store_true", help=refine)
    url = "a URL such as postgresql:///name: measure reading tables there too"
    made.add_argument("--postgres", metavar="URL", help=url)
    add_json(made, "print what was measured as one JSON object")


def show_calibration(args: argparse.Namespace) -> None:
    """Measures, saves and prints."""
    from tuskml.api import reading_seconds
    from tuskml.learners.machine.constants import host_file, save
    from tuskml.learners.registry import learners

    told = sys.stderr.isatty()

    def tell(part: str) -> None:
        if told:
            print(f"measuring {part}", file=sys.stderr)

    reading = reading_seconds.measure(tell, args.postgres)
    measured: dict[str, Any] = {}
    for learner in learners():
        found = learner.facts.calibrate(tell)
        for name, seconds in found.pop("reading", {}).items():
            reading[name] |= seconds
        measured |= found
    measured["reading"] = reading
    if args.refine:
        measured = measured | {"refine": True}
    path = args.output or host_file()
    save(measured, path)
    if args.json:
        print(json.dumps(measured | {"file": str(path)}))
        return
    each = measured["passes"]["gradient"]["dense float32"]
    width, seconds = each[-1]
    print(
        f"{path}: {measured['processor']}, {measured['cores']} cores; "
        f"a gradient takes {seconds * 1e9:.2f} ns per value of {width} features"
    )
