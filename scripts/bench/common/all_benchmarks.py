"""Runs every benchmark, merges the JSON, prints or appends Markdown for docs/benchmarks.md."""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import harness
import report

NAMES = (
    "dense_sgd",
    "dense_converge",
    "gradient_pass",
    "groups_zipf",
    "groups_million",
    "sparse_sgd",
    "predict",
    "spill",
    "partition",
    "factorization",
    "factorization_100",
    "stored_billion",
    "postgres_dense",
    "postgres_sgd",
    "postgres_groups",
    "postgres_pack",
    "postgres_first",
    "postgres_million",
)
ON_REQUEST = ("postgres_large",)


def main() -> None:
    """All benchmarks one after another, each kept as soon as it is done."""
    arguments = _parser().parse_args()
    records: list[dict[str, Any]] = []
    for name in arguments.benchmarks.split(","):
        record = harness.measure(import_module(name).benchmark, arguments)
        records.append(record)
        print(report.plain(record), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(records, indent=2) + "\n")
        if arguments.markdown:
            _append(arguments.markdown, report.markdown(record))
    if not arguments.markdown:
        print("\n\n".join(report.markdown(record) for record in records))


def _parser() -> argparse.ArgumentParser:
    made = harness.parser(__doc__ or "")
    made.add_argument(
        "--benchmarks",
        default=",".join(NAMES),
        help=f"names, separated by commas (default: all but {', '.join(ON_REQUEST)})",
    )
    made.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="append the tables to FILE instead of printing them",
    )
    return made


def _append(path: Path, section: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("\n" + section.rstrip() + "\n")


if __name__ == "__main__":
    main()
