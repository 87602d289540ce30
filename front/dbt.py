"""The plugin of dbt-duckdb that loads tuskml, and the way to the dbt package.

A profile needs no more than

    plugins:
      - module: tuskml.dbt

and a project's packages.yml what `python -m tuskml.dbt` prints; `python -m tuskml.dbt init FOLDER`
makes a project that runs.
"""

import argparse
import shutil
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
from dbt.adapters.duckdb.plugins import BasePlugin

import tuskml
from tuskml import registry
from tuskml.databases.connection import ensure_macros, load, see_macros, share_macros, trusting
from tuskml.errors import ClusterWarning, DataError, ExtensionError, TuskError

CONFIG = ("registry", "store_root")


class Plugin(BasePlugin):
    """Loads tuskml into dbt's DuckDB.

    config: `registry: false` makes no registry of models (materialization `model` needs it);
    `store_root` is the directory of stored models.
    """

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        settings = (self.creds and self.creds.settings) or {}  # which dbt-duckdb adds
        unknown = sorted(set(plugin_config) - set(CONFIG) - set(settings))
        if unknown:
            allowed = " or ".join(CONFIG)
            raise ValueError(
                f"the plugin tuskml.dbt has a config {unknown[0]!r}, expected {allowed}"
            )
        self.registry = plugin_config.get("registry", True)
        self.store_root = plugin_config.get("store_root")
        self.shared = False

    def update_connection_config(self, creds: Any, config: dict[str, Any]) -> None:
        config.update(trusting(config))

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        load(conn, self.store_root)
        if self.registry:
            registry.create(conn)
        self.shared = share_macros(conn)

    def configure_cursor(self, cursor: duckdb.DuckDBPyConnection) -> None:
        if not (self.shared and see_macros(cursor)):
            ensure_macros(cursor)


def train_on_workers(cursor: Any, given: dict[str, Any], said: str) -> duckdb.DuckDBPyRelation:
    """Trains a model of dbt on a cluster, in the transaction of dbt's cursor.

    given: arguments of `tuskml.train`; the table that it makes has a column group_key, which is ''
    without groups; said: a temporary table to make, for a message: `error` tells whether
    `sentence` is the reason why there are no models, or a warning. dbt would print a traceback of
    an exception here. Returns that table, as Python models of dbt do.
    """
    connection: duckdb.DuckDBPyConnection = getattr(cursor, "_cursor", cursor)
    sentences: list[tuple[bool, str]] = []
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", ClusterWarning)
        try:
            tuskml.train(connection, **given)
            if "group_by" not in given:
                connection.execute(f"ALTER TABLE {given['into']} ADD group_key VARCHAR DEFAULT ''")
        except TuskError as error:
            sentences.append((True, str(error)))
    sentences += [(False, str(note.message)) for note in notes]
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {said} (error BOOLEAN, sentence VARCHAR)")
    if sentences:
        connection.executemany(f"INSERT INTO {said} VALUES (?, ?)", sentences)
    return connection.table(said)


def package_path() -> Path:
    """The folder of the dbt package: in the checkout, or next to the installed modules."""
    here = Path(tuskml.__file__).resolve().parent
    for folder in (here / "dbt_package", here.parent / "dbt"):
        if (folder / "dbt_project.yml").is_file():
            return folder
    raise ExtensionError(f"the dbt package is not installed: no {here / 'dbt_package'}")


def packages() -> str:
    """The text of a project's packages.yml."""
    return f"packages:\n  - local: {package_path()}\n"


def init(folder: Path) -> None:
    """Makes a project: flights, features, a model per carrier, predictions, metrics."""
    if folder.exists():
        raise DataError(f"{folder} exists already, expected a new folder")
    left_out = shutil.ignore_patterns(
        "target", "dbt_packages", "logs", "*.duckdb", "package-lock.yml"
    )
    shutil.copytree(package_path() / "integration_tests", folder, ignore=left_out)
    (folder / "packages.yml").write_text(packages())


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m tuskml.dbt [init FOLDER]`; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tuskml.dbt", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    action = actions.add_parser("init", help="create an example project about flights")
    action.add_argument("folder", type=Path, metavar="FOLDER", help="where; it must not exist")
    args = parser.parse_args(argv)
    try:
        if args.action == "init":
            init(args.folder)
            print(f"next: cd {args.folder} && dbt deps && dbt build")
        else:
            print(packages(), end="")
    except (TuskError, OSError) as error:
        print(f"tuskml: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
