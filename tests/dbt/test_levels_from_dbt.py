"""Ordinal models from dbt, in both databases: how late the flights of each carrier are."""

# ruff: noqa: E501, SQL is read better on one line

import json
from collections.abc import Iterator
from typing import Any

import pytest

LEVEL = "case when arr_delay > 30 then 2 when arr_delay > 0 then 1 else 0 end"
CONFIG = (
    f"materialized='model', task='ordinal', label='{LEVEL}', features=['dep_delay', 'distance'], "
    "group_by='carrier', held_out='extract(day from date) in (5, 10, 15)', options={'l2': 0.001}"
)
MODEL = f"{{{{ config({CONFIG}) }}}} select * from {{{{ ref('flights') }}}} where arr_delay is not null"


@pytest.fixture
def levels(project: Any, built: dict[str, Any]) -> Iterator[Any]:
    path = project.folder / "models" / "zo_levels.sql"
    path.write_text(MODEL)
    yield project
    path.unlink()
    with project.connect() as connection:
        connection.execute(f"DROP TABLE IF EXISTS {project.schema}.zo_levels CASCADE")


@pytest.mark.parametrize(
    "project", [pytest.param("duckdb", marks=pytest.mark.nightly), "postgres"], indirect=True
)
def test_levels_of_each_carrier(levels: Any) -> None:
    nodes = levels.dbt("run", "--select", "zo_levels")["nodes"]
    assert nodes["zo_levels"][0] == "success", nodes
    models = levels.sql(f"SELECT task, metrics::text FROM {levels.schema}.zo_levels")
    assert {task for task, _ in models} == {"ordinal"}
    found = [json.loads(metrics) for _, metrics in models]
    assert {one["on"] for one in found} == {"held out"}
    assert all(0 < one["log_loss"] < 1.2 and one["accuracy"] > 0.4 for one in found)
