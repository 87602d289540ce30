"""Runs every benchmark, prints its tables and merges the JSON."""

from __future__ import annotations

import argparse
import json
from importlib import import_module
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
    """Runs all benchmarks one after another, and stores each as soon as it is done."""
    arguments = _parser().parse_args()
    records: list[dict[str, Any]] = []
    for name in arguments.benchmarks.split(","):
        record = harness.measure(import_module(name).benchmark, arguments)
        records.append(record)
        print(report.plain(record), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(records, indent=2) + "\n")
        harness.keep(record, arguments)


def _parser() -> argparse.ArgumentParser:
    made = harness.parser(__doc__ or "")
    made.add_argument(
        "--benchmarks",
        default=",".join(NAMES),
        help=f"names, separated by commas (default: all but {', '.join(ON_REQUEST)})",
    )
    return made


if __name__ == "__main__":
    main()
