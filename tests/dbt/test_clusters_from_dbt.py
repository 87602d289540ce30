"""Clusters from dbt, in both databases: kinds of flights of each carrier."""

# ruff: noqa: E501, SQL is read better on one line

import json
from collections.abc import Iterator
from typing import Any

import pytest

CONFIG = (
    "materialized='model', task='kmeans', features=['distance', 'hour'], group_by='carrier', "
    "held_out='extract(day from date) in (5, 10, 15)', options={'clusters': 3, 'standardize': true}, "
    "gates={'mean_squared_distance': 3}"
)
MODELS = {
    "zc_kinds.sql": f"{{{{ config({CONFIG}) }}}} select * from {{{{ ref('flights') }}}}",
    "zc_centres.sql": "{{ tuskml.model_summary(ref('zc_kinds'), keys='carrier') }}",
}


@pytest.fixture
def kinds(project: Any, built: dict[str, Any]) -> Iterator[Any]:
    models = project.folder / "models"
    for name, text in MODELS.items():
        (models / name).write_text(text)
    yield project
    for name in MODELS:
        (models / name).unlink()
    with project.connect() as connection:
        for name in reversed(MODELS):
            relation = f"{project.schema}.{name.removesuffix('.sql')}"
            connection.execute(f"DROP TABLE IF EXISTS {relation} CASCADE")


# Its macros are the same in both databases, whose dialects test_flights.py has.
@pytest.mark.parametrize(
    "project", [pytest.param("duckdb", marks=pytest.mark.nightly), "postgres"], indirect=True
)
def test_clusters_of_each_carrier(kinds: Any) -> None:
    nodes = kinds.dbt("build", "--select", "zc_*")["nodes"]
    assert nodes["zc_kinds"][0] == "success"
    models = kinds.sql(
        f"SELECT task, status, metrics::text FROM {kinds.schema}.zc_kinds ORDER BY carrier"
    )
    assert {(task, status) for task, status, _ in models} == {("kmeans", "ok")}
    found = [json.loads(metrics) for *_, metrics in models]
    assert {one["on"] for one in found} == {"held out"}
    assert all(0 < one["mean_squared_distance"] <= 3 for one in found)
    terms = kinds.sql(f"SELECT DISTINCT term FROM {kinds.schema}.zc_centres ORDER BY 1")
    assert len(terms) == 9
    edited = "features=['distance', 'hour'], label='hour'"
    kinds.edit("models/zc_kinds.sql", "features=['distance', 'hour']", edited)
    answer = kinds.dbt("run", "--select", "zc_kinds", success=False)
    assert "task 'kmeans' has no label" in answer["nodes"]["zc_kinds"][1] + answer["error"]
