"""`tuskml split`: rows into Parquet shards that are sorted by group, from the shell."""

import argparse
import json
from typing import Any

from tuskml.cluster.shards.manifest import Manifest
from tuskml.cluster.shards.splitting import SHARD_BYTES, split
from tuskml.commands.terminal.rows_arguments import add_database, keys
from tuskml.commands.terminal.usage import Parser, add_json, describe, files

EXAMPLES = """
a table of a DuckDB file; the workers of a Ray cluster then train on its shards:
  tuskml split flights.duckdb --source flights --group-by carrier --into shards
  tuskml train :memory: --task logistic --source 'shards/*.parquet' --label 'arr_delay > 15' \\
      --features dep_delay,distance --group-by carrier --executor ray
PostgreSQL:
  tuskml split postgresql:///shop --source sales --group-by store --into shards
"""


def grammar(command: Parser) -> None:
    """Defines the grammar of `tuskml split`."""
    describe(
        command,
        show_split,
        "Writes a table, a query or Parquet files as Parquet shards, sorted by group, with a "
        "manifest of their groups and checksums. Without --group-by they are for one model, and "
        "rows are mixed. Workers of a cluster read such shards.",
        EXAMPLES,
    )
    add_database(command)
    add = command.add_argument
    source = "a table, a query (SELECT ...), or Parquet files in DuckDB"
    add("--source", required=True, metavar="SOURCE", help=source)
    key = "columns or expressions with commas, `month(date) AS month` names one"
    add("--group-by", default="", metavar="SQL", help=key)
    files(
        add(
            "--into",
            required=True,
            metavar="FOLDER",
            help="a new folder for the shards, also s3://bucket/name",
        )
    )
    size = f"the most bytes of a shard ({SHARD_BYTES:,})"
    add("--shard-bytes", type=int, default=SHARD_BYTES, metavar="N", help=size)
    add("--replace", action="store_true", help="let --into replace an earlier folder of shards")
    add_json(command, "print one JSON object")


def show_split(args: argparse.Namespace) -> None:
    """Writes the shards, and prints how many there are."""
    manifest = split(
        args.database,
        source=args.source,
        group_by=keys(args.group_by),
        into=args.into,
        shard_bytes=args.shard_bytes,
        replace=args.replace,
    )
    print(json.dumps(counts(manifest)) if args.json else summary_sentence(manifest))


def counts(manifest: Manifest) -> dict[str, Any]:
    """Reports how much was written, and where."""
    return {
        "groups": len(manifest.groups),
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "shards": len(manifest.shards),
        "source": manifest.source,
    }


def summary_sentence(manifest: Manifest) -> str:
    """Describes the manifest in a sentence."""
    shards = len(manifest.shards)
    of = f" of {len(manifest.groups):,} groups" if manifest.group_by else ""
    return (
        f"{manifest.rows:,} rows{of} in {shards:,} "
        f"shard{'s' if shards != 1 else ''} of {manifest.folder}: train with --source "
        f"'{manifest.source}'"
    )
