"""What is deployed: groups that pass their gates, by users who may.

A weak group keeps the version it had, and the run names it. Of a second user of one PostgreSQL
registry, what the user may not do is a sentence, and a GRANT mends it.
"""

# ruff: noqa: E501, SQL is read better on one line

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CARRIERS = ["AA", "B6", "DL", "UA"]
MODELS = {
    # Whether a day is even has nothing to do with the features, so its AUC is about 1/2.
    "gated_models.sql": """{{ config(materialized='model', task='logistic', label='late', features=['dep_delay', 'distance', 'hour'], group_by='carrier', held_out='held_out', options={'l2': 0.001}, gates={'auc': 0.75, 'rows': 20, 'converged': true}) }}
select carrier, dep_delay, distance, hour, held_out, case when carrier = 'none' then extract(day from date) in (2, 4, 5, 7, 8, 10, 13, 15, 16, 18, 21, 25, 27, 28) else late end as late from {{ ref('flight_features') }}""",
    "gated_predictions.sql": "select f.carrier, {{ tuskml.predict('m.model', ['f.dep_delay', 'f.distance', 'f.hour'], answer='probability') }} as p from {{ ref('flight_features') }} as f join {{ ref('gated_models') }} as m on m.carrier = f.carrier",
    "gated.yml": """
models:
  - name: gated_models
    columns:
      - {name: model, data_tests: [tuskml.model_converged]}
      - {name: metrics, data_tests: [tuskml.auc_at_least: {arguments: {minimum: 0.75}}]}
""",
}


@pytest.fixture
def gated(project: Any, built: dict[str, Any]) -> Iterator[Any]:
    for name, text in MODELS.items():
        (project.folder / "models" / name).write_text(text)
    yield project
    for name in MODELS:
        (project.folder / "models" / name).unlink()


def build(project: Any, weak: str, success: bool = True) -> tuple[dict[str, Any], str]:
    """What a build of the gated models did, and what it printed; weak: the carrier whose AUC is
    low, which is no variable of dbt's, as each value of one would make dbt parse all files anew.
    """
    path = project.folder / "models" / "gated_models.sql"
    path.write_text(re.sub(r"when carrier = '\w+'", f"when carrier = '{weak}'", path.read_text()))
    seen = (project.folder / "dbt.log").stat().st_size
    nodes = project.dbt("build", "--select", "gated_models+", success=success)["nodes"]
    return nodes, (project.folder / "dbt.log").read_text()[seen:]


def stages(project: Any) -> dict[tuple[str, int], str]:
    query = f"SELECT group_key, version, stage FROM tuskml.models WHERE name = '{project.schema}.gated_models'"
    return {(group, version): stage for group, version, stage in project.sql(query)}


def served(project: Any) -> dict[str, int]:
    """The version of each group in the table of models."""
    return dict(project.sql(f"SELECT carrier, version FROM {project.schema}.gated_models"))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "project", ["duckdb", pytest.param("postgres", marks=pytest.mark.nightly)], indirect=True
)
def test_a_weak_group_keeps_its_version_and_the_others_deploy(gated: Any) -> None:
    with gated.connect() as connection:  # as a version without gates made the table
        connection.execute(f"ALTER TABLE {gated.schema}.tuskml_runs DROP COLUMN held_back")
    others = {(carrier, 1): "deployed" for carrier in CARRIERS if carrier != "B6"}
    nodes, told = build(gated, "B6")
    assert nodes["gated_models"][0] == "success"
    assert nodes["gated_models"][1].startswith("TRAIN 4 of 4; held back: B6 (auc 0.")
    assert nodes["gated_predictions"][0] == "success", "what depends on the model is built"
    assert stages(gated) == others | {("B6", 1): "candidate"}
    assert served(gated) == {carrier: 1 for carrier, _ in others}
    assert "3 models, 4 trained, 3 deployed, 0 waiting, held back: B6 (auc 0." in told
    assert "expected at least 0.75)" in told

    nodes, told = build(gated, "none")
    assert nodes["gated_models"] == ["success", "TRAIN 1 of 4"]
    assert "held back" not in told
    assert stages(gated) == others | {("B6", 1): "candidate", ("B6", 2): "deployed"}

    nodes, told = build(gated, "DL")
    assert nodes["gated_models"][1].startswith("TRAIN 1 of 4; held back: DL (auc 0.")
    assert stages(gated)["DL", 1] == "deployed"
    assert stages(gated)["DL", 3] == "candidate"
    assert served(gated)["DL"] == 1, "the table, too, holds the version before"
    runs = gated.sql(
        f"SELECT held_back FROM {gated.schema}.tuskml_runs WHERE model = '{gated.schema}.gated_models' ORDER BY run_started_at"
    )
    assert [text.partition(" (")[0] for (text,) in runs] == ["B6", "", "DL"]

    path = gated.folder / "models" / "gated_models.sql"
    path.write_text(path.read_text().replace("'auc': 0.75", "'auc': 0.2"))
    nodes, told = build(gated, "DL", success=False)
    assert nodes["gated_models"] == ["success", "TRAIN 0 of 4"], "a gate is no part of the recipe"
    assert served(gated)["DL"] == 1
    assert "1 failed (auc_at_least: DL), " in told, "a test that fails names its groups, too"
    assert stages(gated)["DL", 3] == "candidate"

    path = gated.folder / "models" / "gated.yml"
    path.write_text(path.read_text().replace("minimum: 0.75", "minimum: 0.2"))
    build(gated, "DL")
    assert stages(gated)["DL", 3] == "deployed"


WRONG = {
    "metric": ("{'auk': 0.7}", "gates has 'auk', expected accuracy, auc, converged, f1_macro, log_loss or rows; did you mean auc"),
    "bound": ("{'auc': 'high'}", "the gate auc is 'high', expected a number"),
    "truth": ("{'converged': 1}", "the gate converged is 1, expected true"),
    "kind": ("0.7", "gates is 0.7, expected a mapping such as"),
    "task": ("{'rmse': 3}", "gates has 'rmse', expected accuracy, auc"),
}  # fmt: skip


def test_wrong_gates_are_sentences(project: Any, built: dict[str, Any]) -> None:
    paths: list[Path] = []
    for name, (gates, _) in WRONG.items():
        path = project.folder / "models" / f"zg_{name}.sql"
        path.write_text(
            f"{{{{ config(materialized='model', task='logistic', label='late', features=['hour'], gates={gates}) }}}} select * from {{{{ ref('flight_features') }}}}"
        )
        paths.append(path)
    try:
        nodes = project.dbt("run", "--select", "zg_*", success=False)["nodes"]
    finally:
        for path in paths:
            path.unlink()
    for name, (_, sentence) in WRONG.items():
        status, message = nodes[f"zg_{name}"]
        assert status == "error"
        assert sentence in message, message


# --- a second user of one registry ---

NAME = "other.late_models"


@pytest.fixture
def other(project: Any, built: dict[str, Any], cluster: Any, tmp_path: Path) -> Iterator[Any]:
    """The project of another role, which may train, in a schema of its own."""
    folder = tmp_path / "postgres_other"
    left_out = shutil.ignore_patterns("target", "logs", "dbt.log")
    shutil.copytree(project.folder, folder, symlinks=True, ignore=left_out)
    profile = folder / "profiles.yml"
    profile.write_text(profile.read_text().replace("schema: analytics", "schema: other"))
    with project.connect() as connection:
        connection.execute(
            "CREATE ROLE dbt_other LOGIN IN ROLE tuskml_user; GRANT CREATE ON DATABASE tusk_dbt TO dbt_other"
        )
    environment = project.environment | {"PGUSER": "dbt_other"}
    yield type(project)(folder, environment, project.connect, project.driver)
    with project.connect() as connection:
        connection.execute(f"DELETE FROM tuskml.models WHERE name = '{NAME}'")
        connection.execute("DROP OWNED BY dbt_other CASCADE; DROP ROLE dbt_other")


def stages_of_other(project: Any) -> list[tuple]:
    return project.sql(f"SELECT DISTINCT stage FROM tuskml.models WHERE name = '{NAME}'")


@pytest.mark.nightly
@pytest.mark.parametrize("project", ["postgres"], indirect=True)  # DuckDB has no users
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
    assert stages_of_other(other) == [("candidate",)]

    grant = re.search(r"GRANT .*? TO dbt_other", message)
    assert grant is not None
    with other.connect() as connection:
        connection.execute(f"SET ROLE dbt_user; {grant[0]}")
    again = other.dbt("build", "--select", "late_models")["nodes"]
    assert again["late_models"][1] == "TRAIN 0 of 4"
    assert stages_of_other(other) == [("deployed",)]
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
