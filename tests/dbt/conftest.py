"""The project of dbt/integration_tests in either database, and a process that runs dbt in it.

Its tests are skipped where dbt is not installed (pip install 'tuskml[dbt]'). They import it when they run:
that takes seconds, which each process that collects all tests would take.
"""

# ruff: noqa: E501, SQL is read better on one line

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import tuskml
from tuskml import registry

if importlib.util.find_spec("dbt.adapters.duckdb") is None:
    collect_ignore_glob = ["test_*.py"]
SECONDS = 600
"""A guard against hanging, wide enough for a machine that does other work."""


class Project:
    """A copy of the project, and a process that runs dbt in it."""

    def __init__(
        self, folder: Path, environment: dict[str, str], connect: Callable[[], Any]
    ) -> None:
        self.folder = folder
        self.connect = connect
        self.environment = environment
        driver = Path(__file__).with_name("driver.py")
        self.log = (folder / "dbt.log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(driver)],
            cwd=folder, env=os.environ | environment | {"DBT_PROFILES_DIR": str(folder)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
        )  # fmt: skip

    def dbt(self, *arguments: str, success: bool = True) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(arguments) + "\n")
        self.process.stdin.flush()
        timer = threading.Timer(SECONDS, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        told = (self.folder / "dbt.log").read_text()
        assert line, told
        answer = json.loads(line)
        assert answer["success"] is success, (answer, told[-4000:])
        return answer

    def sql(self, query: str) -> list[tuple]:
        with self.connect() as connection:
            return connection.execute(query).fetchall()

    def stages(self) -> dict[tuple[str, int], str]:
        with self.connect() as connection:
            return {
                (e.group_key, e.version): e.stage for e in registry.entries(connection, self.name)
            }

    @property
    def schema(self) -> str:
        return "analytics" if "postgres" in str(self.folder) else "main"

    @property
    def name(self) -> str:
        return f"{self.schema}.late_models"

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


def drop_role(cluster: Any) -> None:
    with cluster.connect("tusk_dbt") as connection:
        connection.execute("DROP OWNED BY dbt_user CASCADE; DROP ROLE dbt_user")


@pytest.fixture(scope="session", params=["duckdb", "postgres"])
def project(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    from tuskml import dbt as plugin

    folder = tmp_path_factory.mktemp(f"dbt_{request.param}") / "flights"
    plugin.init(folder)
    with ExitStack() as stack:
        if request.param == "duckdb":
            stores = str(tmp_path_factory.mktemp("stores"))
            environment = {"TUSKML_DBT_TARGET": "duckdb", "TUSKML_STORE_ROOT": stores}
            found = Project(folder, environment, lambda: tuskml.connect(folder / "flights.duckdb"))
        else:
            cluster = request.getfixturevalue("cluster")
            cluster.create_database("tusk_dbt")
            stack.callback(cluster.drop_database, "tusk_dbt")
            with cluster.connect(
                "tusk_dbt"
            ) as connection:  # what docs/dbt.md asks for, and no more
                connection.execute(
                    "CREATE ROLE dbt_user LOGIN IN ROLE tuskml_user; GRANT CREATE ON DATABASE tusk_dbt TO dbt_user; GRANT CREATE ON SCHEMA tuskml TO dbt_user"
                )
            stack.callback(drop_role, cluster)
            environment = {
                "TUSKML_DBT_TARGET": "postgres",
                "PGHOST": str(cluster.folder),
                "PGPORT": str(cluster.port),
                "PGUSER": "dbt_user",
                "PGDATABASE": "tusk_dbt",
            }
            found = Project(folder, environment, lambda: cluster.connect("tusk_dbt"))
        stack.callback(found.close)
        yield found


@pytest.fixture(scope="session")
def built(project: Project) -> dict[str, Any]:
    """The first build; what comes later in this file goes on from it."""
    project.dbt("deps")
    return project.dbt("build")["nodes"]
