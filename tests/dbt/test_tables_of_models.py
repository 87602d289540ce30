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


@pytest.mark.parametrize(
    "project", [pytest.param("duckdb", marks=pytest.mark.nightly), "postgres"], indirect=True
)
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


@pytest.mark.sample(2)
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


KEYS = """{{ config(materialized='model', task='linear', label='y', features=['x'],
group_by=['k', 't']) }}
select h.x, g.k, g.t, 2 * h.x + 10 * g.place as y from (values (1e0), (2e0), (4e0)) as h (x),
(values (cast(0 as double precision), '', 0), (cast('-0' as double precision), '', 0),
(0.5, '', 1), (0.5, 'a/', 2), (0.5, 'A/', 3), (1e300, 'a/', 4)) as g (k, t, place)"""
BY_NAME = """
select f.y, {{ tuskml.predict("'SCHEMA.zj_keys'", ['f.x'], group=['f.k', 'f.t']) }} as found
from {{ ref('zj_rows') }} as f where f.k <> 0"""


@pytest.mark.parametrize(
    "project", ["duckdb", pytest.param("postgres", marks=pytest.mark.nightly)], indirect=True
)
def test_groups_are_told_apart_and_found_again(project: Any, built: dict[str, Any]) -> None:
    """Keys of which one is '' or has a slash, that differ by case, or are 0 and -0."""
    files = {
        "zj_keys.sql": KEYS,
        "zj_rows.sql": KEYS[KEYS.index("select") :],
        "zj_named.sql": BY_NAME.replace("SCHEMA", project.schema),
    }
    schema = project.schema
    joined = f"{schema}.zj_keys AS m JOIN {schema}.zj_rows AS f USING (k, t)"
    scored = "predict(m.model, ARRAY[f.x])"
    try:
        for name, text in files.items():
            (project.folder / "models" / name).write_text(text)
        nodes = project.dbt("run", "--select", "zj_keys", "zj_rows")["nodes"]
        assert nodes["zj_keys"] == ["success", "TRAIN 5 of 5"]
        project.dbt("run", "--select", "zj_named")
        for found, rows, n in (("f.found", f"{schema}.zj_named AS f", 12), (scored, joined, 18)):
            right = f"count(CASE WHEN abs({found} - f.y) <= 1e-9 * f.y THEN 1 END)"
            assert project.sql(f"SELECT count(*), {right} FROM {rows}") == [(n, n)]
        project.edit("models/zj_keys.sql", "['k', 't']", "'t'")
        nodes = project.dbt("run", "--select", "zj_keys", success=False)["nodes"]
        assert nodes["zj_keys"][0] == "error"
        assert "the key of a group is ''" in nodes["zj_keys"][1]
    finally:
        for name in files:
            (project.folder / "models" / name).unlink()
