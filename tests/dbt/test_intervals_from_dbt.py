"""Intervals of predictions, covariances and contrasts from dbt, in both databases."""

# ruff: noqa: E501, SQL is read better on one line

from collections.abc import Iterator
from typing import Any

import pytest

CONFIG = (
    "materialized='model', task='linear', label='arr_delay', features=['dep_delay', 'hour'], "
    "group_by='carrier', options={'intervals': 'covariance'}"
)
MODELS = {
    "zi_sure.sql": f"{{{{ config({CONFIG}) }}}} select * from {{{{ ref('flights') }}}} where arr_delay is not null and dep_delay is not null",
    "zi_intervals.sql": "{{ config(materialized='table') }} select r.carrier, {{ tuskml.predict('m.model', ['r.dep_delay', 'r.hour'], answer='interval', level=0.8) }} as i "
    "from {{ ref('flights') }} as r join {{ ref('zi_sure') }} as m on m.carrier = r.carrier",
    "zi_covariances.sql": "{{ config(materialized='table') }} {{ tuskml.model_covariance(ref('zi_sure'), keys='carrier') }}",
    "zi_contrasts.sql": "{{ config(materialized='table') }} {{ tuskml.model_contrast(ref('zi_sure'), {'x1': 60, 'x2': -1}, keys='carrier') }}",
}


@pytest.fixture
def sure(project: Any, built: dict[str, Any]) -> Iterator[Any]:
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
    "project", ["duckdb", pytest.param("postgres", marks=pytest.mark.nightly)], indirect=True
)
def test_intervals_and_covariances_of_each_carrier(sure: Any) -> None:
    sure.dbt("build", "--select", "zi_*")
    known = sure.sql(
        f"SELECT DISTINCT (i).lower < (i).fit, (i).prediction_upper > (i).upper FROM {sure.schema}.zi_intervals WHERE (i).fit IS NOT NULL"
    )
    assert known == [(True, True)]
    terms = sure.sql(
        f"SELECT carrier, count(*), sum(CASE WHEN term = with_term AND covariance <= 0 THEN 1 ELSE 0 END) FROM {sure.schema}.zi_covariances GROUP BY carrier"
    )
    assert len(terms) == 4
    assert {(n, wrong) for _, n, wrong in terms} == {(9, 0)}
    contrasts = sure.sql(
        f"SELECT carrier, test, estimate > 0, std_err > 0 FROM {sure.schema}.zi_contrasts"
    )
    assert len(contrasts) == 4
    assert {tuple(found) for _, *found in contrasts} == {("t", True, True)}
