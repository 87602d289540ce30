"""The table that a model of dbt makes: its indexes, metrics as columns, misspelt columns."""

from collections.abc import Iterator
from typing import Any

import pytest

CONFIG = (
    "materialized='model', task='linear', label='dep_delay', features=['distance', 'hour'], "
    "group_by='carrier', indexes=[{'columns': ['carrier']}]"
)
ROWS = "select * from {{ ref('flight_features') }}"
MODELS = {
    "zi_indexed.sql": f"{{{{ config({CONFIG}) }}}} {ROWS} where hour < 24",
    "zi_metrics.sql": "{{ tuskml.model_metrics(ref('zi_indexed'), keys='carrier') }}",
}


@pytest.fixture
def indexed(project: Any, built: dict[str, Any]) -> Iterator[Any]:
    for name, text in MODELS.items():
        (project.folder / "models" / name).write_text(text)
    yield project
    for name in MODELS:
        (project.folder / "models" / name).unlink()
    with project.connect() as connection:
        for name in ("zi_metrics", "zi_indexed"):
            connection.execute(f"DROP TABLE IF EXISTS {project.schema}.{name}")


def test_an_index_survives_runs_and_metrics_are_columns(indexed: Any) -> None:
    nodes = indexed.dbt("run", "--select", "zi_*")["nodes"]
    assert nodes["zi_indexed"] == ["success", "TRAIN 4 of 4"]
    with indexed.connect() as connection:  # an index of the user's own is no obstacle either
        connection.execute(f"CREATE INDEX zi_own ON {indexed.schema}.zi_indexed (version)")
    indexed.edit("models/zi_indexed.sql", "hour < 24", "hour < 20")
    nodes = indexed.dbt("run", "--select", "zi_*")["nodes"]
    assert nodes["zi_indexed"][1].startswith("TRAIN ")
    assert nodes["zi_indexed"][1] != "TRAIN 0 of 4"
    rows = (
        "duckdb_indexes() WHERE table_name"
        if "duck" in str(indexed.folder)
        else ("pg_indexes WHERE tablename")
    )
    assert indexed.sql(f"SELECT count(*) FROM {rows} = 'zi_indexed'") == [(1,)]
    metrics = indexed.sql(
        f"SELECT carrier, rmse, mae, r2, rows FROM {indexed.schema}.zi_metrics ORDER BY carrier"
    )
    text = "->>".join(("m.metrics", "'rmse'"))
    kept = indexed.sql(f"SELECT {text} FROM {indexed.schema}.zi_indexed AS m ORDER BY carrier")
    assert [row[1] for row in metrics] == [float(value) for (value,) in kept]
    assert len(metrics) == 4


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("'distance'", "'distence'", "features names column 'distence', which"),
        ("label='dep_delay'", "label='dep_dely'", "label names column 'dep_dely', which"),
        ("group_by='carrier'", "group_by='carier'", "group_by names column 'carier', which"),
        ("group_by", "weight='hourr', group_by", "weight names column 'hourr', which"),
    ],
)
def test_a_misspelt_column_is_named_with_the_nearest(
    indexed: Any, old: str, new: str, sentence: str
) -> None:
    indexed.edit("models/zi_indexed.sql", old, new)
    status, message = indexed.dbt("run", "--select", "zi_indexed", success=False)["nodes"][
        "zi_indexed"
    ]
    right = {"distence": "distance", "dep_dely": "dep_delay", "carier": "carrier", "hourr": "hour"}
    wrong = sentence.split("'")[1]
    assert status == "error"
    assert sentence in message
    assert f"did you mean '{right[wrong]}'?" in message
