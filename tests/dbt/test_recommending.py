"""Recommendations and paths of penalties in dbt, beside the functions that the macros call."""

# ruff: noqa: E501, SQL is read better on one line

import json
from collections.abc import Iterator
from typing import Any

import pytest

PLAYS = """select c.country, u.listener, f.film, 1 + (u.listener * f.film) % 3 as plays
from (values ('fr'), ('se')) as c(country) cross join generate_series(0, 39) as u(listener) cross join generate_series(0, 19) as f(film)
where (u.listener + f.film) % 2 = case when c.country = 'fr' then 0 else 1 end and (u.listener * 7 + f.film * 3) % 5 <> 0"""
TASTE = "{{{{ config(materialized='model', task='matrix_factorization', label='plays', features=['listener', 'film'], options={{'feedback': 'implicit', 'rank': 4, 'l2': 0.1}}{}) }}}} select * from {{{{ ref('zz_plays') }}}}"
PENALISED = "{{{{ config(materialized='model', task='{}', label='{}', features=['dep_delay', 'distance', 'hour', 'carrier'], held_out='held_out', group_by='first_half', options={{'path': {{'length': 8, 'folds': 3}}}}) }}}} select *, extract(day from date) < 16 as first_half, arr_delay from {{{{ ref('zz_flights') }}}}"
MODELS = {
    "zz_plays.sql": PLAYS,
    "zz_taste.sql": TASTE.format(""),
    "zz_tastes.sql": TASTE.format(", group_by='country'"),
    "zz_best.sql": "{{ tuskml.recommend(ref('zz_taste'), ref('zz_plays'), 'listener', n=3, seen=ref('zz_plays'), item='film') }}",
    "zz_best_each.sql": "{{ tuskml.recommend(ref('zz_tastes'), ref('zz_plays'), 'listener', n=2, seen=ref('zz_plays'), item='film', keys='country') }}",
    "zz_new.sql": "{{ tuskml.recommend(ref('zz_taste'), '(select 1000 as listener union all select 1000 union all select null) as new', 'listener') }}",
    "zz_similar.sql": "{{ tuskml.similar_items(ref('zz_tastes'), ref('zz_plays'), 'film', n=4, keys=['country']) }}",
    "zz_flights.sql": "select f.*, r.arr_delay from {{ ref('flight_features') }} as f join (select distinct carrier, date, dep_delay, distance, hour, min(arr_delay) over (partition by carrier, date, dep_delay, distance, hour) as arr_delay from {{ ref('flights') }}) as r using (carrier, date, dep_delay, distance, hour)",
    "zz_lasso.sql": PENALISED.format("lasso", "arr_delay").replace(", arr_delay from", " from"),
    "zz_sparse.sql": PENALISED.format("sparse_logistic", "late").replace(", arr_delay from", " from"),
    "zz_path.sql": "{{ tuskml.model_path(ref('zz_lasso'), keys='first_half') }}",
}  # fmt: skip


@pytest.fixture
def recommending(project: Any, built: dict[str, Any]) -> Iterator[Any]:
    for name, text in MODELS.items():
        (project.folder / "models" / name).write_text(text)
    yield project
    for name in MODELS:
        (project.folder / "models" / name).unlink()
    with project.connect() as connection:
        for name in (name[:-4] for name in reversed(MODELS)):
            kind = "VIEW" if of_kind(connection, project.schema, name) == "VIEW" else "TABLE"
            connection.execute(f"DROP {kind} IF EXISTS {project.schema}.{name} CASCADE")


def of_kind(connection: Any, schema: str, name: str) -> str | None:
    found = connection.execute(
        f"SELECT table_type FROM information_schema.tables WHERE table_schema = '{schema}' AND table_name = '{name}'"
    ).fetchone()
    return found and found[0]


@pytest.mark.parametrize(
    "project", ["duckdb", pytest.param("postgres", marks=pytest.mark.nightly)], indirect=True
)
def test_recommendations_and_paths_are_relations(recommending: Any) -> None:
    nodes = recommending.dbt("build", "--select", "zz_*")["nodes"]
    assert {told for told, _ in nodes.values()} == {"success"}, nodes
    schema = recommending.schema
    seen = set(recommending.sql(f"SELECT country, listener, film FROM {schema}.zz_plays"))
    best = recommending.sql(
        f"SELECT country, listener, item, basis FROM {schema}.zz_best_each ORDER BY 1, 2"
    )
    assert len(best) == 2 * 40 * 2
    assert not {row[:3] for row in best} & seen
    assert {basis for *_, basis in best} == {"user"}
    wrong = [row for row in best if (row[1] + row[2]) % 2 != (0 if row[0] == "fr" else 1)]
    assert len(wrong) < 8, "listeners like films of their own parity, the other one in se"
    ((listener,),) = recommending.sql(f"SELECT min(listener) + 5 FROM {schema}.zz_plays")
    called = recommending.sql(
        f"SELECT r.item, r.score FROM {schema}.zz_taste AS m, LATERAL recommend(m.model, {listener}, 3, exclude => (SELECT array_agg(film::double precision) FROM {schema}.zz_plays WHERE listener = {listener})) AS r"
    )
    found = recommending.sql(
        f"SELECT item, score FROM {schema}.zz_best WHERE listener = {listener}"
    )
    assert sorted(found) == sorted(called)
    strangers = recommending.sql(f"SELECT listener, item, basis FROM {schema}.zz_new")
    assert len(strangers) == 10
    assert {(user, basis) for user, _, basis in strangers} == {(1000, "mean of users")}
    similar = recommending.sql(f"SELECT film, similar_item FROM {schema}.zz_similar")
    assert len(similar) == 2 * 20 * 4
    assert sum((film + other) % 2 for film, other in similar) < 40
    check_paths(recommending)


def check_paths(project: Any) -> None:
    """The chosen penalty's weights are those of the model, by name; classes have a log loss."""
    models = project.sql(
        f"SELECT first_half, (model).features, (model).coef, metrics::text FROM {project.schema}.zz_lasso"
    )
    assert len(models) == 2
    for half, features, coef, metrics in models:
        path = project.sql(
            f"SELECT step, term, weight, chosen FROM {project.schema}.zz_path WHERE first_half = {half} ORDER BY step"
        )
        weights = {
            name: weight for name, weight in zip(features, coef, strict=True) if weight != 0
        }
        assert {term: weight for _, term, weight, chosen in path if chosen} == pytest.approx(
            weights
        )
        assert {step for step, *_ in path} == set(range(1, 9))
        assert [row[1:3] for row in path if row[0] == 1] == [(None, None)]
        assert set(json.loads(metrics)) == {"rows", "on", "rmse", "mae", "r2"}
    for (metrics,) in project.sql(f"SELECT metrics::text FROM {project.schema}.zz_sparse"):
        found = json.loads(metrics)
        assert set(found) == {"rows", "on", "auc", "log_loss", "accuracy"}
        assert found["auc"] > 0.7
