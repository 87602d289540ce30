"""`tuskml postgres`: the grammar of the commands in `postgres.py`."""

import argparse
from pathlib import Path

from tuskml.commands.terminal.usage import Parser, add_command, add_json, describe, files

ACTIONS = {
    "install": "build the extensions, install them, and create them in a database if one is given",
    "check": "show versions and paths as a database's server sees them, and train a tiny model",
    "upgrade": "install this version, and update a database's extension if one is given",
    "uninstall": "drop the extensions in a database if one is given, and remove unused files",
}
EXAMPLES = {
    "install": """
        tuskml postgres install --database postgres
        tuskml postgres install --pg-config /usr/lib/postgresql/15/bin/pg_config
        tuskml postgres install --scorer --database shop --schema ml""",
    "check": "tuskml postgres check --database postgresql:///shop --json",
    "upgrade": "tuskml postgres upgrade --database shop",
    "uninstall": "tuskml postgres uninstall --database shop",
}
ALL = """
install the extension in the server that pg_config describes, and in its database shop:
  sudo tuskml postgres install --database shop
check that it works there:
  tuskml postgres check --database shop
"""


def grammar(postgres: Parser) -> None:
    """Defines the grammar of `tuskml postgres`."""
    describe(
        postgres,
        None,
        "Installs the extension for PostgreSQL in a server and a database, or removes it.",
        ALL,
    )
    actions = postgres.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in ACTIONS.items():
        described = text[0].upper() + text[1:] + "."
        action = add_command(actions, name, show_postgres, text, described, EXAMPLES[name])
        url = "a URL such as postgresql://user@host/name, or a name alone"
        action.add_argument("--database", metavar="URL", help=url)
        add_choices(action, name)
        if name == "check":
            action.set_defaults(pg_config=None)
        else:
            server = "the server's pg_config (default: the one on the PATH)"
            files(action.add_argument("--pg-config", type=Path, metavar="PATH", help=server))
        add_json(action, "print one JSON object")


def add_choices(action: Parser, name: str) -> None:
    """Adds the options that choose parts of the extension and the target."""
    action.set_defaults(schema=None, scorer=False, force=False)
    if name in ("install", "upgrade"):
        scorer = "predictions and metrics alone: no Python in the server, and no superuser"
        action.add_argument("--scorer", action="store_true", help=scorer)
    if name == "install":
        schema = "where types and documented functions go (default: the first of search_path)"
        action.add_argument("--schema", metavar="NAME", help=schema)
    if name == "uninstall":
        force = "remove the files without a look into the server's databases"
        action.add_argument("--force", action="store_true", help=force)


def show_postgres(args: argparse.Namespace) -> None:
    """Runs the action, and prints its result."""
    from tuskml.databases.extension import install as postgres

    request = postgres.Request(args.pg_config, args.database, args.schema, args.scorer, args.force)
    postgres.show(postgres.run(args.action, request), args.json)
