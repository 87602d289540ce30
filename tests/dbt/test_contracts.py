"""Contracts of dbt on tables of models: the type `tuskml_model` in both databases."""

from typing import Any

import pytest

MODELS = {
    "zk_kept.sql": "select carrier, {{ tuskml.train_model('linear', 'dep_delay', "
    "['distance', 'hour']) }} as model from {{ ref('flight_features') }} group by carrier",
    "zk_wrong.sql": "select carrier, 1.5 as model from {{ ref('flight_features') }}",
    "zk_predicted.sql": "select k.carrier, {{ tuskml.predict('k.model', ['500', '12']) }} as said "
    "from {{ ref('zk_kept') }} as k",
    "zk.yml": """
models:
  - name: zk_kept
    config: {contract: {enforced: true}}
    columns: &columns
      - {name: carrier, data_type: varchar}
      - {name: model, data_type: tuskml_model}
  - name: zk_wrong
    config: {contract: {enforced: true}}
    columns: *columns
""",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("project", ["duckdb", "postgres"], indirect=True)
def test_a_contract_names_the_type_of_models(project: Any, built: dict[str, Any]) -> None:
    for name, content in MODELS.items():
        (project.folder / "models" / name).write_text(content)
    try:
        nodes = project.dbt("run", "--select", "zk_*", success=False)["nodes"]
        assert nodes["zk_kept"][0] == nodes["zk_predicted"][0] == "success", nodes
        status, message = nodes["zk_wrong"]
        assert status == "error"
        assert "contract" in message, message
        rows = project.sql(f"SELECT count(said) FROM {project.schema}.zk_predicted")
        assert rows[0][0] > 0
    finally:
        for name in MODELS:
            (project.folder / "models" / name).unlink()
        with project.connect() as connection:
            for name in ("zk_predicted", "zk_kept"):
                connection.execute(f"DROP TABLE IF EXISTS {project.schema}.{name}")
