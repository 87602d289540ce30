"""`tuskml store`: lists, verifies, exports, imports and removes stored models."""

import argparse
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuskml.commands.terminal.usage import Parser, add_command, add_json, describe, files
from tuskml.databases.database import Database
from tuskml.databases.postgres import Postgres
from tuskml.errors import StoreError
from tuskml.text.expressions import quote_name

if TYPE_CHECKING:
    from tuskml.kvstore import StoreRoot


REFERENCE = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}@[0-9]{1,9}:[0-9a-f]{16}"
DUCKDB_COLUMNS = """
SELECT c.database_name, c.schema_name, c.table_name, c.column_name, c.data_type
FROM duckdb_columns() AS c JOIN duckdb_tables() AS t USING (database_oid, schema_oid, table_oid)
WHERE NOT t.internal AND regexp_matches(c.data_type, '"?store"? VARCHAR')
"""
POSTGRES_COLUMNS = """
SELECT n.nspname, c.relname, a.attname, a.atttypid <> t.oid
FROM pg_catalog.pg_type AS t
JOIN pg_catalog.pg_extension AS e ON e.extname = 'tuskml' AND e.extnamespace = t.typnamespace
JOIN pg_catalog.pg_attribute AS a ON a.atttypid IN (t.oid, t.typarray) AND NOT a.attisdropped
JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid AND c.relkind IN ('r', 'm', 'p')
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE t.typname = 'tuskml_model' AND a.attnum > 0
"""


def find_used_models(database: Database) -> set[str]:
    """References to stored models in all tables: the registry and any other.

    Raises TuskError if a table may not be read: its references are unknown then.
    """
    statements = _in_postgres if isinstance(database, Postgres) else _in_duckdb
    found: set[str] = set()
    for statement in statements(database):
        found |= {text for (text,) in database.fetch(statement) if text}
    return found


def _in_duckdb(database: Database) -> list[str]:
    statements = []
    for *names, column, kind in database.fetch(DUCKDB_COLUMNS):
        table, value = ".".join(map(quote_name, names)), quote_name(column)
        whole = kind.startswith("STRUCT(task ") and not kind.endswith("]")
        text = f"({value}).store" if whole else f"{value}::VARCHAR"
        found = f"unnest(regexp_extract_all({text}, '{REFERENCE}'))"
        statements.append(f"SELECT DISTINCT {found} FROM {table}")
    return statements


def _in_postgres(database: Database) -> list[str]:
    """A policy that would hide rows is an error, as it is for pg_dump."""
    statements = ["SELECT NULL::text FROM pg_catalog.set_config('row_security', 'off', false)"]
    for schema, name, column, several in database.fetch(POSTGRES_COLUMNS):
        table, value = f"{quote_name(schema)}.{quote_name(name)}", f"t.{quote_name(column)}"
        models = f", pg_catalog.unnest({value}) AS m" if several else ""
        text = "m.store" if several else f"({value}).store"
        statements.append(f"SELECT DISTINCT {text} FROM {table} AS t{models}")
    return statements


Facts = dict[str, Any]
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


EXAMPLES = {
    "list": "tuskml store list\ntuskml store list ads --json",
    "partitionings": "tuskml store partitionings --json",
    "verify": "tuskml store verify --root /srv/stores",
    "export": "tuskml store export ads ads.npz\ntuskml store export ads@3 ads-3.jsonl",
    "import": "tuskml store import ads ads.npz",
    "gc": "tuskml store gc\n"
    "tuskml store gc ads --keep 3 --older-than 12h --database shop.duckdb\n"
    "tuskml store gc --yes",
}


def grammar(store: Parser) -> None:
    """Defines the grammar of `tuskml store`."""
    describe(
        store,
        None,
        "Models in a store, below one root: versions of finished models, and working "
        "stores of trainings.",
        "\n".join(EXAMPLES.values()),
    )
    actions = store.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in ACTIONS.items():
        described = text[0].upper() + text[1:] + "."
        action = add_command(actions, name, show_stores, text, described, EXAMPLES[name])
        _add_arguments(action, name)
        root = "the stores' root (default: TUSKML_STORE_ROOT, or the user's data folder)"
        action.add_argument("--root", type=Path, metavar="DIR", help=root)
        add_json(action, "print one JSON value")


ACTIONS = {
    "list": "list versions and working stores, of one name or all",
    "partitionings": "list partitionings that partition_model kept, of one name or all",
    "verify": "read every byte of the models and say which are sound",
    "export": "write a model to a file, .npz for NumPy or .jsonl",
    "import": "store the model of such a file as the next version of a name",
    "gc": "remove files that no version uses, and what ended trainings left behind",
}


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    add = action.add_argument
    if name == "export":
        add("model", metavar="NAME[@VERSION]", help="the model (default: its current version)")
    elif name == "import":
        add("model", metavar="NAME", help="the store's name")
    else:
        add("model", nargs="?", metavar="NAME", help="a store's name (default: all)")
    if name in ("export", "import"):
        files(add("file", type=Path, metavar="FILE", help="ends with .npz or .jsonl"))
    if name == "gc":
        age = "keep what is newer, such as 12h or 7d (default: 1d); 0s keeps nothing"
        add("--older-than", type=duration, default=86400.0, metavar="AGE", help=age)
        keep = (
            "remove versions, but keep the one in use and N before it of each lineage; the models "
            "of one statement's groups are separate lineages, continued by warm starts"
        )
        add("--keep", type=int, metavar="N", help=keep)
        newest = (
            "keep only the versions of the newest N trainings, for names whose trainings always "
            "train all groups again"
        )
        add("--trainings", type=int, metavar="N", help=newest)
        used = "keep what the tables of this database refer to; may be repeated"
        databases = add("--database", action="append", default=[], metavar="PATH|URL", help=used)
        files(databases)
        add("--dry-run", action="store_true", help="list what would be removed, and end")
        add("--yes", action="store_true", help="do not ask; needed without a terminal")


def duration(text: str) -> float:
    """Seconds of a text such as `90s`, `12h` or `7d`."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not an age such as 90s, 15m, 12h or 7d")
    return float(int(number) * UNITS[unit])


def show_stores(args: argparse.Namespace) -> None:
    """Runs the action and prints the result. Raises StoreError for a damaged model."""
    from tuskml.kvstore import StoreRoot
    from tuskml.kvstore.access import expand_home

    place = None if args.root is None else expand_home(args.root)
    if place is not None and args.action != "import" and not place.is_dir():
        raise StoreError(
            f"--root is {place}, which does not exist: expected the folder of the stores"
        )
    root = StoreRoot(place)
    found = _collect(root, args) if args.action == "gc" else _run(root, args)
    lines = [json.dumps(facts, default=str) for facts in found]
    if args.json:
        print("[" + ",\n ".join(lines) + "]")
    else:
        for facts in found:
            print(_line(facts))
        if not found:
            what = f"of {args.model!r} " if args.model else ""
            end = {"gc": " to remove", "declined": " was removed"}.get(args.action, "")
            print(f"nothing {what}in {root.path}{end}")
    bad = [facts for facts in found if facts.get("error")]
    if bad:
        raise StoreError(f"{len(bad)} of {len(found)} are damaged, the first: {bad[0]['error']}")


def _run(root: "StoreRoot", args: argparse.Namespace) -> list[Facts]:
    from tuskml import kvstore

    if args.action == "list":
        return kvstore.list_stores(root, args.model)
    if args.action == "partitionings":
        return kvstore.list_partitionings(root.path, args.model)
    if args.action == "verify":
        return list(kvstore.verify_stores(root, args.model))
    if args.action == "export":
        return [asdict(kvstore.export_model(root, args.model, args.file))]
    return [asdict(kvstore.import_model(root, args.model, args.file))]


def _collect(root: "StoreRoot", args: argparse.Namespace) -> list[Facts]:
    """Lists unused objects, asks, and removes just these; returns what was removed, or would
    be.
    """
    from tuskml.kvstore import Rules, collect

    rules = Rules(args.older_than, args.keep, args.trainings, _read_used_models(args.database))
    listed = collect(root, args.model, rules, dry_run=True)
    found = [asdict(each) for each in listed]
    if args.dry_run or not listed:
        return [facts | {"dry": True} for facts in found] if not args.json else found
    if not args.yes and not _agreed(found, args.json):
        args.action = "declined"
        return []
    rules = replace(rules, only={each.path for each in listed})
    return [asdict(each) for each in collect(root, args.model, rules)]


def _read_used_models(databases: list[str]) -> set[str]:
    """The stored models that these databases' tables name."""
    if not databases:
        return set()
    from tuskml.databases.opening import open_database

    found: set[str] = set()
    for each in databases:
        with open_database(each) as database:
            found |= find_used_models(database)
    return found


def _agreed(found: list[Facts], as_json: bool) -> bool:
    """Shows what would be removed, and asks; raises StoreError without a terminal."""
    out = sys.stderr if as_json else sys.stdout
    for facts in found:
        print(_line(facts | {"dry": True}), file=out)
    size = _size(sum(facts["size"] for facts in found))
    return ask_terminal(f"Remove these {len(found)}, {size}? [y/N] ").strip().lower() in (
        "y",
        "yes",
    )


def ask_terminal(question: str) -> str:
    """The answer typed at the terminal; raises StoreError without one."""
    if not sys.stdin.isatty():
        raise StoreError(
            "there is no terminal to ask on, expected --yes to remove them without a question"
        )
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def _line(facts: Facts) -> str:
    """Describes an object in a line."""
    if "what" in facts:
        return f"{facts['what']}: {'sound' if facts['ok'] else facts['error']}"
    if "partitioning" in facts:
        return _partitioning_line(facts)
    if "error" in facts:
        return f"{facts['name']} {facts.get('version', facts.get('working'))}: {facts['error']}"
    if "why" in facts:
        done = "would remove" if facts.get("dry") else "removed"
        return f"{done} {facts['path']}, {_size(facts['size'])}: {facts['why']}"
    if "working" in facts:
        return _working_line(facts)
    number = facts.get("version", facts.get("number"))
    created = time.strftime("%Y-%m-%d %H:%M", time.localtime(facts["created"]))
    current = ", current" if facts.get("current") else ""
    counts = f"{facts['dimension']:,} features, {facts['nonzero']:,} not 0"
    owner = facts.get("owner") or {}
    whose = f", of {owner['role']} in {owner['database']}" if owner.get("database") else ""
    named = f"{facts['name']}@{number}: {counts}"
    return f"{named}, {_size(facts['size'])}, {created}{whose}{current}"


def _partitioning_line(facts: Facts) -> str:
    named = f"{facts['partitioning']}@{facts['version']}"
    if "error" in facts:
        return f"{named}: {facts['error']}"
    return (
        f"{named}: {facts['features']:,} features in {facts['keys']:,} keys, others in "
        f"{facts['others']}, {facts['requests_after']:,.1f} requests per row of "
        f"{facts['requests_before']:,.1f}, {_size(facts['size'])}, {facts['created']}"
    )


def _working_line(facts: Facts) -> str:
    owner, number = facts["owner"], facts["checkpoint"]
    state = "nobody's" if owner is None else f"open in process {owner}"
    kept = f"checkpoint {number}" if number else "no checkpoint"
    return f"{facts['name']}, {facts['working']}: {state}, {kept}, {_size(facts['size'])}"


def _size(size: int) -> str:
    units: Iterable[str] = ("bytes", "KiB", "MiB", "GiB")
    number = float(size)
    for unit in units:
        if number < 1024 or unit == "GiB":
            break
        number /= 1024
    return f"{number:,.0f} {unit}" if unit == "bytes" else f"{number:,.1f} {unit}"
