"""Models of dbt that train on the workers of a cluster."""

from pathlib import Path
from typing import Any

import pytest

import tuskml

BY_PYTHON = """
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
ROWS = """
select i, 'g' || i % 4 as g, 'c' || i % 3 as c, hash(i) % 1000 / 500 - 1 as x,
       case when i % 4 < 3 then hash(i, 1) % 1000 / 1000 < 1 / (1 + exp(-2 * x * (i % 4))) end as y
from range(4000) t(i)
"""
MODEL = """
{{{{ config(materialized='model', task='logistic', label='y', features={features}, group_by='g',
            held_out='i % 5 = 0', options={{'deterministic': true}}, gates={{'auc': 0.6}}{more})
}}}}
{rows}
"""
BY_GROUP = " group_by='g',"


def ran(project: Any, folder: Path, models: dict[str, str]) -> dict[str, Any]:
    """Runs these models, by file, and returns their results; rows for workers lie in folder."""
    paths = [project.folder / "models" / file for file in models]
    for path, text in zip(paths, models.values(), strict=True):
        path.write_text(text)
    environment = project.environment | {"TUSKML_CLUSTER_FOLDER": str(folder)}
    names = [path.stem for path in paths]
    command = ["run", "--threads", "1", "--select", *names]
    nodes: dict[str, Any] = project.driver.run(project.folder, environment, *command)["nodes"]
    for path in paths:
        path.unlink()
    assert nodes.keys() >= {*names}, (project.folder / "dbt.log").read_text()[-3000:]
    return nodes


def materialized(place: str) -> dict[str, str]:
    """A model that its database trains, and the same on a cluster; features and names."""
    found = {}
    for name, features in {"numbers": "['x', 'x * x']", "names": "['x', 'c']"}.items():
        for where, more in {"here": "", "there": f", cluster='{place}'"}.items():
            given = {"features": features, "more": more, "rows": ROWS}
            found[f"{name}_{where}.sql"] = MODEL.format(**given)
            if name == "numbers":
                found[f"one_{where}.sql"] = found[f"{name}_{where}.sql"].replace(BY_GROUP, "")
    return found


def assert_same_models(project: Any, folder: Path) -> None:
    """The same rows of the tables, versions of the registry and bits of the models."""
    query = (
        "SELECT * EXCLUDE (trained_at, model), model.coef, model.intercept, model.loss, "
        "model.features, model.payload FROM {}_{} ORDER BY group_key"
    )
    versions = (
        "SELECT group_key, version, stage, status, recipe, data_fingerprint, metrics "
        "FROM tuskml.models WHERE name = 'main.{}_{}' ORDER BY ALL"
    )
    with project.connect() as con:
        for name in ("numbers", "names", "one"):
            for text, least in ((query, 1), (versions, 1 if name == "one" else 3)):
                here, there = (
                    con.execute(text.format(name, w)).fetchall() for w in ("here", "there")
                )
                assert there == here
                assert len(here) >= least
        stages = con.execute(
            "SELECT DISTINCT stage FROM tuskml.models WHERE name LIKE '%here' ORDER BY ALL"
        ).fetchall()
    assert stages == [("candidate",), ("deployed",)]
    assert list(folder.glob("tuskml-shards-*")) == []


@pytest.mark.parametrize("project", ["duckdb"], indirect=True)  # PostgreSQL trains in its server
def test_the_materialization_trains_on_workers(
    project: Any, built: dict[str, Any], tmp_path: Path
) -> None:
    """With a gate that holds a group back and a group without usable rows, and one model without
    groups; what is wrong is a sentence."""
    wrong = {"wrong.sql": MODEL.format(features="['x']", more=", cluster='rey'", rows=ROWS)}
    nodes = ran(project, tmp_path, materialized("threads") | wrong)
    assert nodes["numbers_there"] == nodes["numbers_here"]
    assert nodes["names_there"][1].startswith("TRAIN 4 of 4; held back: g0 (auc 0.")
    assert nodes["one_there"] == nodes["one_here"]
    assert nodes["one_there"][1].startswith("TRAIN 1 of 1")
    assert_same_models(project, tmp_path)
    assert nodes["wrong"][0] == "error"
    assert "executor is 'rey', expected 'ray'" in nodes["wrong"][1]
    assert "Traceback" not in nodes["wrong"][1]


@pytest.mark.nightly
@pytest.mark.parametrize("project", ["duckdb"], indirect=True)
def test_models_of_both_kinds_train_on_ray(
    project: Any, built: dict[str, Any], tmp_path: Path
) -> None:
    """A cluster of this machine alone, which starts and ends with each of them."""
    pytest.importorskip("ray")
    with tuskml.connect() as con:
        con.execute(f"CREATE TABLE rows AS {ROWS}")
        given = {"label": "y", "features": ["x"], "group_by": "g", "deterministic": True}
        expected = tuskml.train(con, "logistic", source="rows", **given)
        tuskml.split(con, source="rows", group_by="g", into=tmp_path / "shards")
    by_python = {"by_group.py": BY_PYTHON.format(folder=str(tmp_path))}
    nodes = ran(project, tmp_path, materialized("ray") | by_python)
    assert {status for status, _ in nodes.values()} == {"success"}, nodes
    assert_same_models(project, tmp_path)
    with project.connect() as con:
        found = con.execute("SELECT g, model.coef, model.intercept FROM by_group").fetchall()
    assert sorted(row for row in found if row[1]) == [
        (key, list(model.coef), model.intercept) for key, model in expected.items() if model
    ]
