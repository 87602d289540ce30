"""A search in the example project: the best model of each carrier, and what was tried."""

# ruff: noqa: E501, SQL is read better on one line

import json
from collections.abc import Iterator
from typing import Any

import pytest

OPTIONS = "{'l2': [1, 0.1, 0.001], 'folds': 3, 'metric': 'auc', 'fold_by': 'day_of_month'}"
MODELS = {
    "zz_best.sql": f"{{{{ config(materialized='model', task='logistic', label='late', features=['dep_delay', 'distance', 'hour'], group_by='carrier', held_out='held_out', options={OPTIONS}) }}}} "
    "select *, cast(hour % 7 as integer) as day_of_month from {{ ref('flight_features') }}",
    "zz_tried.sql": "{{ tuskml.model_trials(ref('zz_best'), keys='carrier') }}",
}


@pytest.fixture
def searches(project: Any, built: dict[str, Any]) -> Iterator[Any]:
    for name, text in MODELS.items():
        (project.folder / "models" / name).write_text(text)
    yield project
    for name in MODELS:
        (project.folder / "models" / name).unlink()
    with project.connect() as connection:
        for name in ("zz_tried", "zz_best"):
            connection.execute(f"DROP TABLE IF EXISTS {project.schema}.{name}")


# Its macros are the same in both databases, whose dialects test_flights.py has.
@pytest.mark.parametrize(
    "project", [pytest.param("duckdb", marks=pytest.mark.nightly), "postgres"], indirect=True
)
def test_the_best_of_each_carrier_and_its_trials(searches: Any) -> None:
    nodes = searches.dbt("build", "--select", "zz_*")["nodes"]
    assert nodes["zz_best"] == ["success", "TRAIN 4 of 4"]
    models = searches.sql(
        f"SELECT carrier, status, (model).options, (model).n_features, metrics IS NOT NULL FROM {searches.schema}.zz_best ORDER BY 1"
    )
    assert {(status, n, judged) for _, status, _, n, judged in models} == {("ok", 3, True)}
    tried = searches.sql(
        f"SELECT carrier, configuration, metric, chosen FROM {searches.schema}.zz_tried WHERE fold IS NULL ORDER BY 1"
    )
    assert len(tried) == 12
    for carrier, _, options, _, _ in models:
        own = [row for row in tried if row[0] == carrier]
        best = max(own, key=lambda row: row[2])
        assert [row[1] for row in own if row[3]] == [best[1]]
        assert json.loads(options)["l2"] == json.loads(best[1])["l2"]
    folds = searches.sql(f"SELECT count(*) FROM {searches.schema}.zz_tried WHERE fold >= 0")
    assert folds == [(36,)]
