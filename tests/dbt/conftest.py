"""The project of dbt/integration_tests in either database, and a process that runs dbt in them.

Its tests are skipped where dbt is not installed (pip install 'tuskml[dbt]'). They import it when they run:
that takes seconds, which each process that collects all tests would take.
"""

# ruff: noqa: E501, SQL is read better on one line

import importlib.util
import json
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
# This process imports the plugin, too: driver.py says why the package is left out.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
SECONDS = 600
"""A guard against hanging, wide enough for a machine that does other work."""


class Driver:
    """A process that runs dbt for all projects: to import dbt takes longer than most commands."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("driver.py"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, folder: Path, environment: dict[str, str], *arguments: str) -> dict[str, Any]:
        """Runs one command in the project of a folder and returns its result."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked = {"folder": str(folder), "environment": environment, "arguments": arguments}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        timer = threading.Timer(SECONDS, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        assert line, (folder / "dbt.log").read_text()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Project:
    """A copy of the project, in which a driver runs dbt."""

    def __init__(
        self,
        folder: Path,
        environment: dict[str, str],
        connect: Callable[[], Any],
        driver: Driver,
    ) -> None:
        self.folder = folder
        self.connect = connect
        self.environment = environment
        self.driver = driver

    def dbt(self, *arguments: str, success: bool = True) -> dict[str, Any]:
        answer = self.driver.run(self.folder, self.environment, *arguments)
        told = (self.folder / "dbt.log").read_text()
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


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    found = Driver()
    yield found
    found.close()


def drop_role(cluster: Any) -> None:
    with cluster.connect("tusk_dbt") as connection:
        connection.execute("DROP OWNED BY dbt_user CASCADE; DROP ROLE dbt_user")


@pytest.fixture(scope="session", params=["duckdb", "postgres"])
def project(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, driver: Driver
) -> Iterator[Project]:
    from tuskml import dbt as plugin

    folder = tmp_path_factory.mktemp(f"dbt_{request.param}") / "flights"
    plugin.init(folder)
    with ExitStack() as stack:
        if request.param == "duckdb":
            stores = str(tmp_path_factory.mktemp("stores"))
            environment = {"TUSKML_DBT_TARGET": "duckdb", "TUSKML_STORE_ROOT": stores}
            file = folder / "flights.duckdb"
            found = Project(folder, environment, lambda: tuskml.connect(file), driver)
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
            found = Project(folder, environment, lambda: cluster.connect("tusk_dbt"), driver)
        yield found


@pytest.fixture(scope="session")
def built(project: Project) -> dict[str, Any]:
    """The first build; what comes later in this file goes on from it."""
    project.dbt("deps")
    return project.dbt("build")["nodes"]
