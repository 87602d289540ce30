"""Models of more than two classes, and columns and labels of ENUM types, in dbt."""

# ruff: noqa: E501, SQL is read better on one line

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sklearn.metrics import accuracy_score, f1_score, log_loss

ROWS = """select *, case when dep_delay > 30 then 'late' when dep_delay > 0 then 'some' else 'none' end as grade,
cast(case when hour < 12 then 'morning' else 'evening' end as part_of_day) as "part of" from {{ ref('flight_features') }} where dep_delay is not null and distance is not null"""
CONFIG = "{{{{ config(materialized='model', features=['dep_delay', 'distance', '\"part of\"', 'carrier'], held_out='held_out', {}) }}}} "
MODELS = {
    "zz_grades.sql": CONFIG.format("task='logistic', label='grade', options={'l2': 0.01, 'class_weight': {'late': 2, 'none': 1, 'some': 1}}, gates={'f1_macro': 0.3}") + ROWS,
    "zz_trees.sql": CONFIG.format("task='gbdt', label='grade', options={'objective': 'logistic', 'trees': 10}") + ROWS,
    "zz_forest.sql": CONFIG.format("task='random_forest', label='grade', options={'objective': 'gini', 'trees': 10}") + ROWS,
    "zz_two.sql": CONFIG.replace("'\"part of\"', ", "").format("task='random_forest', label='\"part of\"', options={'objective': 'gini', 'trees': 10}") + ROWS,
    "zz_parts.sql": CONFIG.replace("'\"part of\"', ", "").format("task='logistic', label='\"part of\"', options={'l2': 0.01}") + ROWS,
    "zz_said.sql": """select r.grade, r.held_out, {{ tuskml.predict('m.model', tuskml.named(['dep_delay', 'distance', 'part of', 'carrier'], 'r'), answer='class_name') }} as said,
{{ tuskml.predict('m.model', tuskml.named(['dep_delay', 'distance', '"part of"', 'carrier'], 'r'), answer='probabilities') }} as shares
from (""" + ROWS + ") as r cross join {{ ref('zz_grades') }} as m",
    "zz_classes.yml": """
models:
  - name: zz_grades
    columns: [{name: metrics, data_tests: [tuskml.metric_at_least: {arguments: {metric: accuracy, minimum: 0.5}}]}]
  - name: zz_trees
    columns: [{name: metrics, data_tests: [tuskml.metric_at_least: {arguments: {metric: f1_macro, minimum: 0.999}}]}]
""",
}  # fmt: skip
TRAINED = ("zz_grades", "zz_trees", "zz_forest", "zz_two", "zz_parts")


@pytest.fixture
def classes(project: Any, built: dict[str, Any]) -> Iterator[Any]:
    kind = "part_of_day" if project.schema == "main" else "analytics.part_of_day"
    with project.connect() as connection:
        connection.execute(f"CREATE TYPE {kind} AS ENUM ('morning', 'evening')")
    for name, text in MODELS.items():
        (project.folder / "models" / name).write_text(text.replace("part_of_day", kind))
    yield project
    for name in MODELS:
        (project.folder / "models" / name).unlink()
    with project.connect() as connection:
        for name in ("zz_said", *TRAINED):
            connection.execute(f"DROP TABLE IF EXISTS {project.schema}.{name}")


@pytest.mark.nightly
@pytest.mark.parametrize("project", ["duckdb", "postgres"], indirect=True)
def test_more_than_two_classes_and_enums(classes: Any) -> None:
    """Metrics are those of scikit-learn; a text column of an ENUM type is a category."""
    nodes = classes.dbt("build", "--select", "zz_*", success=False)["nodes"]
    trained = {name: told for name, told in nodes.items() if name in TRAINED}
    assert {tuple(told) for told in trained.values()} == {("success", "TRAIN 1 of 1")}, nodes
    tests = {name: status for name, (status, _) in nodes.items() if "at_least" in name}
    assert sorted(tests.values()) == ["fail", "pass"]
    ((features, names, metrics),) = classes.sql(
        f"SELECT (model).features, (model).class_names, metrics::text FROM {classes.schema}.zz_grades"
    )
    assert {"part of[evening]", "part of[morning]", "carrier[AA]", "distance"} <= set(features)
    assert names == ["late", "none", "some"]
    said = classes.sql(
        f"SELECT grade, said, shares::text, {shares_of(classes)} FROM {classes.schema}.zz_said WHERE held_out"
    )
    truth, predicted = [row[0] for row in said], [row[1] for row in said]
    found = json.loads(metrics)
    assert set(found) == {"rows", "on", "log_loss", "f1_macro", "accuracy"}
    assert (found["rows"], found["on"]) == (len(said), "held out")
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, predicted))
    assert found["f1_macro"] == pytest.approx(f1_score(truth, predicted, average="macro"))
    assert found["log_loss"] == pytest.approx(
        log_loss(truth, [row[3:] for row in said], labels=names)
    )
    ((other, ours),) = classes.sql(
        f"SELECT (model).class_names, metrics::text FROM {classes.schema}.zz_parts"
    )
    assert other == ["evening", "morning"]
    assert {"auc", "log_loss", "accuracy"} <= set(json.loads(ours))
    for name, metric in (("zz_forest", "f1_macro"), ("zz_two", "auc")):
        ((judged,),) = classes.sql(f"SELECT metrics::text FROM {classes.schema}.{name}")
        assert set(json.loads(judged)) == {"rows", "on", "log_loss", "accuracy", metric}


def shares_of(project: Any) -> str:
    """SQL of the three probabilities, in the order of the classes."""
    of = "shares['{}']" if project.schema == "main" else "(shares ->> '{}')::float8"
    return ", ".join(of.format(name) for name in ("late", "none", "some"))


def test_gates_know_the_metrics_of_classes(project: Any, built: dict[str, Any]) -> None:
    path = project.folder / "models" / "zz_gate.sql"
    path.write_text(
        CONFIG.replace("'\"part of\"', ", "").format(
            "task='gbdt', label='hour', gates={'auc': 0.5}"
        )
        + "select * from {{ ref('flight_features') }}"
    )
    try:
        nodes = project.dbt("run", "--select", "zz_gate", success=False)["nodes"]
    finally:
        path.unlink()
    assert "gates has 'auc', expected converged, mae, r2, rmse or rows" in nodes["zz_gate"][1]
