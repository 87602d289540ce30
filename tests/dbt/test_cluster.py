"""A Python model of dbt that trains on the workers of a Ray cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tuskml

MODEL = """
def model(dbt, session):
    import tuskml

    dbt.config(materialized="table")
    folder = {folder!r}
    tuskml.train(
        tuskml.connect(), "logistic", source=f"{{folder}}/shards/*.parquet", label="y",
        features=["x"], group_by="g", executor="ray", deterministic=True,
        into=f"{{folder}}/models.parquet",
    )
    return session.sql(f"FROM '{{folder}}/models.parquet'")
"""
PROJECT = "name: clustered\nversion: '1.0'\nprofile: clustered\n"
PROFILES = "clustered:\n  target: t\n  outputs:\n    t: {{type: duckdb, path: '{}'}}\n"


@pytest.mark.nightly
def test_a_python_model_trains_on_a_cluster(tmp_path: Path) -> None:
    """A cluster of this machine alone, which starts and ends with the model."""
    pytest.importorskip("ray")
    pytest.importorskip("dbt.adapters.duckdb")
    with tuskml.connect() as con:
        con.execute(
            "CREATE TABLE rows AS SELECT 'g' || i % 3 AS g, hash(i) % 1000 / 500 - 1 AS x, "
            "hash(i, 1) % 1000 / 1000 < 1 / (1 + exp(-x)) AS y FROM range(3000) t(i)"
        )
        given = {"label": "y", "features": ["x"], "group_by": "g", "deterministic": True}
        expected = tuskml.train(con, "logistic", source="rows", **given)
        tuskml.split(con, source="rows", group_by="g", into=tmp_path / "shards")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "by_group.py").write_text(MODEL.format(folder=str(tmp_path)))
    (tmp_path / "dbt_project.yml").write_text(PROJECT)
    (tmp_path / "profiles.yml").write_text(PROFILES.format(tmp_path / "dbt.duckdb"))
    quiet = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DBT_PROFILES_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("driver.py"))],
        input=json.dumps(["run"]) + "\n", capture_output=True, text=True, timeout=300, check=True,
        cwd=tmp_path, env=os.environ | quiet,
    )  # fmt: skip
    assert json.loads(done.stdout)["success"], (done.stdout + done.stderr)[-3000:]
    with tuskml.connect(tmp_path / "dbt.duckdb") as con:
        found = con.execute("SELECT g, model.coef, model.intercept FROM by_group").fetchall()
    assert sorted(found) == [
        (key, list(model.coef), model.intercept) for key, model in expected.items() if model
    ]
