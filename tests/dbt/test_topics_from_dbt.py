"""Topics of documents from dbt, in both databases: the hours at which a day's flights were late."""

# ruff: noqa: E501, SQL is read better on one line

import json
from collections.abc import Iterator
from typing import Any

import pytest

CONFIG = (
    "materialized='model', task='lda', features='words', group_by='carrier', held_out='held_out', "
    "options={'topics': 2, 'max_iter': 20, 'seed': 1}"
)
DOCUMENTS = """select carrier, date, extract(day from date) in (5, 10, 15, 20, 25, 30) as held_out,
    array_agg(case when arr_delay > 15 then 'late' else 'fine' end || cast(hour / 6 as integer) order by hour, arr_delay) as words
from {{ ref('flights') }} group by carrier, date"""
MODELS = {
    "zt_documents.sql": DOCUMENTS,
    "zt_topics.sql": f"{{{{ config({CONFIG}, gates={{'perplexity': 1e6}}) }}}} select * from {{{{ ref('zt_documents') }}}}",
    "zt_words.sql": "{{ tuskml.model_topics(ref('zt_topics'), keys='carrier', words=3) }}",
    "zt_shares.sql": "{{ config(materialized='table') }} select d.carrier, d.date, {{ tuskml.predict('m.model', 'd.words', answer='topics') }} as shares "
    "from {{ ref('zt_documents') }} as d join {{ ref('zt_topics') }} as m on m.carrier = d.carrier",
}


@pytest.fixture
def topics(project: Any, built: dict[str, Any]) -> Iterator[Any]:
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
def test_topics_of_each_carrier_their_words_and_the_shares_of_documents(topics: Any) -> None:
    nodes = topics.dbt("build", "--select", "zt_*")["nodes"]
    assert nodes["zt_topics"] == ["success", "TRAIN 4 of 4"]
    models = topics.sql(
        f"SELECT carrier, task, status, metrics::text FROM {topics.schema}.zt_topics ORDER BY 1"
    )
    assert [(task, status) for _, task, status, _ in models] == [("lda", "ok")] * 4
    found = [json.loads(metrics) for *_, metrics in models]
    assert {one["on"] for one in found} == {"held out"}
    assert all(1 < one["perplexity"] < 20 for one in found)
    words = topics.sql(
        f"SELECT carrier, topic, count(*), max(rank) FROM {topics.schema}.zt_words GROUP BY 1, 2 ORDER BY 1, 2"
    )
    assert [(k, n, last) for _, k, n, last in words] == [(1, 3, 3), (2, 3, 3)] * 4
    shares = topics.sql(f"SELECT shares FROM {topics.schema}.zt_shares")
    assert shares
    assert all(sum(one) == pytest.approx(1) and len(one) == 2 for (one,) in shares)
    assert topics.dbt("build", "--select", "zt_topics")["nodes"]["zt_topics"][1] == "TRAIN 0 of 4"


@pytest.mark.sample(1)
@pytest.mark.parametrize(("old", "new", "told"), [
    ("features='words'", "features='words', label='held_out'", "task 'lda' has no label"),
    ("features='words'", "features=['words']", "task 'lda' takes documents: features is one text"),
    ("'perplexity': 1e6", "'rmse': 1", "gates has 'rmse', expected converged, perplexity or rows"),
])  # fmt: skip
def test_what_a_config_of_documents_cannot_have(
    topics: Any, old: str, new: str, told: str
) -> None:
    topics.edit("models/zt_topics.sql", old, new)
    answer = topics.dbt("run", "--select", "zt_documents", "zt_topics", success=False)
    assert told in answer["nodes"]["zt_topics"][1] + answer["error"]
