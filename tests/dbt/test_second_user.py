"""A second dbt user of one PostgreSQL registry: what the user may not do is a sentence, and a GRANT mends it."""

# ruff: noqa: E501, SQL is read better on one line

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbt.cli.main", reason="dbt is not installed: pip install 'tuskml[dbt]'")

NAME = "other.late_models"


@pytest.fixture
def other(project: Any, built: dict[str, Any], cluster: Any, tmp_path: Path) -> Iterator[Any]:
    """The project of another role, which may train, in a schema of its own."""
    if project.schema != "analytics":
        pytest.skip("DuckDB has no users")
    folder = tmp_path / "postgres_other"
    left_out = shutil.ignore_patterns("target", "logs", "dbt.log")
    shutil.copytree(project.folder, folder, symlinks=True, ignore=left_out)
    profile = folder / "profiles.yml"
    profile.write_text(profile.read_text().replace("schema: analytics", "schema: other"))
    with project.connect() as connection:
        connection.execute(
            "CREATE ROLE dbt_other LOGIN IN ROLE tuskml_user; GRANT CREATE ON DATABASE tusk_dbt TO dbt_other"
        )
    found = type(project)(folder, project.environment | {"PGUSER": "dbt_other"}, project.connect)
    yield found
    found.close()
    with project.connect() as connection:
        connection.execute(f"DELETE FROM tuskml.models WHERE name = '{NAME}'")
        connection.execute("DROP OWNED BY dbt_other CASCADE; DROP ROLE dbt_other")


def stages(project: Any) -> list[tuple]:
    return project.sql(f"SELECT DISTINCT stage FROM tuskml.models WHERE name = '{NAME}'")


def test_a_second_user_is_told_what_to_grant(other: Any) -> None:
    done = other.dbt("build", "--select", "+late_models", success=False)
    told = (other.folder / "dbt.log").read_text()
    assert done["nodes"]["late_models"] == ["success", "TRAIN 4 of 4"]
    status, message = done["nodes"]["tuskml-on-run-end-0"]
    assert status == "error"
    assert "dbt_other may not deploy models: " in message
    assert "which dbt_user may do" in message
    assert "interrupt" not in told
    assert "permission denied" not in told
    assert told.index("dbt_other may not deploy models") < told.index("late_models"), (
        "before it trains, too"
    )
    assert f"{NAME}: 4 models, 4 trained, 0 deployed, 4 waiting" in told
    assert stages(other) == [("candidate",)]

    grant = re.search(r"GRANT .*? TO dbt_other", message)
    assert grant is not None
    with other.connect() as connection:
        connection.execute(f"SET ROLE dbt_user; {grant[0]}")
    assert (
        other.dbt("build", "--select", "+late_models")["nodes"]["late_models"][1] == "TRAIN 0 of 4"
    )
    assert stages(other) == [("deployed",)]
    manual = (Path(__file__).parents[2] / "docs/dbt.md").read_text()
    assert grant[0].replace("dbt_other", "dbt_user") in manual

    with other.connect() as connection:
        connection.execute("REVOKE UPDATE (stage, deployed_at) ON tuskml.models FROM dbt_other")
    arguments = ["run-operation", "tuskml_rollback", "--args", "{model: late_models}"]
    refused = other.dbt(*arguments, success=False)
    assert (
        "dbt_other may not deploy models: "
        in refused["error"] + (other.folder / "dbt.log").read_text()[len(told) :]
    )
