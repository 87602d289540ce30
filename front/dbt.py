"""The plugin of dbt-duckdb that loads tuskml, and where the dbt package lies.

A profile needs no more than

    plugins:
      - module: tuskml.dbt

and a project's packages.yml what `python -m tuskml.dbt` prints.
"""

from pathlib import Path
from typing import Any

import duckdb
from dbt.adapters.duckdb.plugins import BasePlugin

import tuskml
from tuskml import registry
from tuskml.connection import UNSIGNED, load, run_macros

CONFIG = ("registry", "store_root")


class Plugin(BasePlugin):
    """Loads tuskml into dbt's DuckDB.

    config: `registry: false` makes no registry of models (materialization `model` needs it);
    `store_root` is the directory of stored models.
    """

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        unknown = sorted(set(plugin_config) - set(CONFIG))
        if unknown:
            allowed = " or ".join(CONFIG)
            raise ValueError(
                f"the plugin tuskml.dbt has a config {unknown[0]!r}, expected {allowed}"
            )
        self.registry = plugin_config.get("registry", True)
        self.store_root = plugin_config.get("store_root")

    def update_connection_config(self, creds: Any, config: dict[str, Any]) -> None:
        config[UNSIGNED] = True

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        load(conn, self.store_root)
        if self.registry:
            registry.create(conn)

    def configure_cursor(self, cursor: duckdb.DuckDBPyConnection) -> None:
        run_macros(cursor)


def package_path() -> Path:
    """The folder of the dbt package: in the checkout, or beside the installed modules."""
    here = Path(tuskml.__file__).resolve().parent
    for folder in (here / "dbt_package", here.parent / "dbt"):
        if (folder / "dbt_project.yml").is_file():
            return folder
    raise FileNotFoundError(f"the dbt package is not installed: no {here / 'dbt_package'}")


if __name__ == "__main__":
    print(f"packages:\n  - local: {package_path()}")
