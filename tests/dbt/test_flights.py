"""dbt/integration_tests as a user runs it, on both databases: train, skip, test, deploy, roll back."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tuskml import registry

CARRIERS = ["AA", "B6", "DL", "UA"]
LEAST_AUC = "\"{{ var('least_auc') }}\""


ODD = {
    "odd_models.sql": """{{ config(materialized='model', task='linear', label='arr_delay', features=['dep_delay', 'hour', 'late'], model_name='odd', options={'max_iter': 1, 'algorithm': 'bgd'}) }}
select arr_delay, hour, dep_delay, arr_delay > 15 as late from {{ ref('flights') }}""",
    "odd_pairs.sql": """{{ config(materialized='model', task='linear', label='arr_delay', features='features', group_by=['carrier', 'part']) }}
select carrier, case hour % 3 when 0 then 'early/late' when 1 then 'x' end as part, arr_delay, {{ tuskml.array_of(['distance', 'hour']) }} as features from {{ ref('flights') }}""",
    "odd_delays.sql": "select 5 + dep_delay as dep_delay from {{ ref('flight_features') }}",
    "odd.yml": """
models:
  - name: odd_models
    columns: [{name: model, data_tests: [tuskml.model_converged, tuskml.model_status_ok]}]
  - name: odd_delays
    columns: [{name: dep_delay, data_tests: [tuskml.no_drift_from: {arguments: {reference: ref('flight_features')}}]}]
""",
}
"""A model that cannot converge, of all rows, and delays of five minutes more: each test that fails."""


def test_the_first_build_trains_and_deploys_all(project: Any, built: dict[str, Any]) -> None:
    assert built["late_models"] == ["success", "TRAIN 4 of 4"]
    assert {status for status, _ in built.values()} <= {"success", "pass"}
    assert project.stages() == {(carrier, 1): "deployed" for carrier in CARRIERS}
    table = project.sql(
        f"SELECT carrier, group_key, version, status, task FROM {project.schema}.late_models ORDER BY 1"
    )
    assert table == [(carrier, carrier, 1, "ok", "logistic") for carrier in CARRIERS]
    runs = project.sql(
        f"SELECT model, built, models, trained, deployed, waiting, tests_failed, tests_not_run FROM {project.schema}.tuskml_runs WHERE model = '{project.name}'"
    )
    assert runs == [(project.name, "success", 4, 4, 4, 0, 0, 0)]


def test_the_models_are_those_of_train_model(
    project: Any, built: dict[str, Any], con: Any, root: Path
) -> None:
    """Each by itself, in another session, on the rows that were not held out."""
    con.execute(f"CREATE TABLE flights AS FROM '{root}/dbt/integration_tests/seeds/flights.csv'")
    expected = con.execute(
        "SELECT carrier, (m).coef, (m).n_rows FROM (SELECT carrier, train_model('logistic', arr_delay > 15, [dep_delay, distance, hour], '{\"l2\": 0.001}') AS m FROM flights WHERE day(date) % 5 <> 0 OR day(date) > 30 GROUP BY carrier) ORDER BY 1"
    ).fetchall()
    found = project.sql(
        f"SELECT carrier, (model).coef, (model).n_rows FROM {project.schema}.late_models ORDER BY 1"
    )
    assert [(c, pytest.approx(coef, rel=1e-4), n) for c, coef, n in expected] == found


def test_predictions_metrics_and_summaries(project: Any, built: dict[str, Any]) -> None:
    schema = project.schema
    by_hand = project.sql(
        f"SELECT carrier, auc(late, probability), count(late) FROM {schema}.flight_predictions WHERE held_out GROUP BY carrier ORDER BY 1"
    )
    by_macro = project.sql(f"SELECT carrier, auc FROM {schema}.carrier_metrics ORDER BY 1")
    kept = project.sql(
        f"SELECT carrier, CAST(metrics ->> 'auc' AS double precision), CAST(metrics ->> 'rows' AS int), metrics ->> 'on' FROM {schema}.late_models ORDER BY 1"
    )
    assert by_macro == [(c, pytest.approx(auc)) for c, auc, _ in by_hand]
    assert kept == [(c, pytest.approx(auc), n, "held out") for c, auc, n in by_hand]
    assert project.sql(
        f"SELECT carrier, term FROM {schema}.late_coefficients WHERE carrier = 'DL' ORDER BY feature"
    ) == [("DL", term) for term in ("intercept", "dep_delay", "distance", "hour")]
    assert "newton" in project.sql(f"SELECT plan FROM {schema}.training_plan")[0][0]
    with project.connect() as connection:
        model = registry.model(connection, project.name, "AA")
    assert model.feature_names == ("dep_delay", "distance", "hour")
    named = f"predict_proba('{project.name}', 'AA', {'ARRAY' if schema == 'analytics' else ''}[60.0, 1000, 12])"
    assert 0.5 < project.sql(f"SELECT {named}")[0][0] < 1


# The tests of deployment below go on from here, so it is never left to the night.
@pytest.mark.parametrize(
    "project", ["duckdb", pytest.param("postgres", marks=pytest.mark.nightly)], indirect=True
)
def test_a_version_that_fails_its_tests_is_not_deployed(
    project: Any, built: dict[str, Any]
) -> None:
    """One row of one carrier changes: that carrier trains, and no other. No model reaches an AUC of 1."""
    before = project.sql(f"SELECT * FROM {project.schema}.late_models ORDER BY 1")
    project.edit(
        "seeds/flights.csv", "2013-01-01,AA,12,1389,-7,10\n", "2013-01-01,AA,12,1389,-7,99\n"
    )
    # No variable of dbt's changes, since each value of one makes dbt parse all files anew.
    project.edit("models/schema.yml", LEAST_AUC, "1.1")
    with odd_models(project):
        nodes = project.dbt("build", success=False)["nodes"]
    assert nodes["late_models"] == ["success", "TRAIN 1 of 4"]
    assert nodes["flight_predictions"][0] == "skipped"
    assert project.stages() == {(carrier, 1): "deployed" for carrier in CARRIERS} | {
        ("AA", 2): "candidate"
    }
    assert project.sql(f"SELECT * FROM {project.schema}.late_models ORDER BY 1") == before
    failed = {name for name, (status, _) in nodes.items() if status == "fail"}
    assert failed == {
        "tuskml_auc_at_least_late_models_metrics__1_1",
        "tuskml_model_converged_odd_models_model",
        "tuskml_model_status_ok_odd_models_model",
        "tuskml_no_drift_from_odd_delays_dep_delay__ref_flight_features_",
    }
    assert project.sql(
        "SELECT group_key, stage, status, metrics ->> 'on', CAST(metrics ->> 'rows' AS int) > 1900 FROM tuskml.models WHERE name = 'odd'"
    ) == [("", "candidate", "not converged", "training", True)]
    assert project.sql(f"SELECT * FROM {project.schema}.odd_models") == [], "nothing is deployed"
    assert nodes["odd_pairs"] == ["success", "TRAIN 8 of 8"], (
        "rows whose key is NULL belong to no group"
    )
    pairs = project.sql(
        f"SELECT carrier, part, group_key FROM {project.schema}.odd_pairs ORDER BY 1, 2"
    )
    expected = [(carrier, part) for carrier in CARRIERS for part in ("early/late", "x")]
    assert pairs == [(*key, registry.group_key(tuple(map(str, key)))) for key in expected]
    assert project.sql(
        "SELECT DISTINCT stage FROM tuskml.models WHERE name LIKE '%odd_pairs'"
    ) == [("deployed",)], "it has no tests"


@contextmanager
def odd_models(project: Any) -> Iterator[None]:
    """The models of ODD are in the project."""
    files = {project.folder / "models" / name: text for name, text in ODD.items()}
    for path, text in files.items():
        path.write_text(text)
    yield
    for path in files:
        path.unlink()


KEPT = {
    "kept_ids.sql": """select arr_delay > 15 as late, {{ tuskml.array_of(['hour', 'hour + 100']) }} as ids, {{ tuskml.array_of(['1.0::float', '1.0::float']) }} as vals
from {{ ref('flights') }} where dep_delay is not null""",
    "kept_layout.sql": """{{ config(materialized='table') }}
select (partition_model(ids, '{"name": "hours", "top": 4, "block": 8, "layout": "id"}')).partitions as n_keys from {{ ref('kept_ids') }}""",
    "kept_models.sql": """-- depends_on: {{ ref('kept_layout') }}
{{ config(materialized='model', task='logistic', label='late', features='sparse(ids, vals)', options={'store': 'hours', 'partition': 'hours', 'max_iter': 2, 'threads': 1}) }}
select late, ids, vals from {{ ref('kept_ids') }}""",
    "kept_list.sql": """-- depends_on: {{ ref('kept_layout') }}
{{ config(materialized='table') }}
select distinct keys, features from partitionings() where partitioning = 'hours'""",
}
"""A layout that one model keeps under a name and another one trains with."""


@pytest.mark.nightly
@pytest.mark.sample(1)
def test_a_training_takes_a_partitioning_by_name(project: Any, built: dict[str, Any]) -> None:
    paths = {project.folder / "models" / name: text for name, text in KEPT.items()}
    for path, text in paths.items():
        path.write_text(text)
    nodes = project.dbt("run", "--select", "kept_*")["nodes"]
    assert nodes["kept_models"] == ["success", "TRAIN 1 of 1"]
    for path in paths:
        path.unlink()
    schema = project.schema
    ((plan, store),) = project.sql(f"SELECT (model).plan, (model).store FROM {schema}.kept_models")
    assert "blocks of 8" in plan
    assert store.startswith("hours@")
    ((keys,),) = project.sql(f"SELECT n_keys FROM {schema}.kept_layout")
    assert project.sql(f"SELECT keys, features FROM {schema}.kept_list") == [(keys, 4)]


@pytest.mark.sample(1)
def test_what_the_manual_shows_builds(project: Any, built: dict[str, Any], root: Path) -> None:
    """The models of docs/dbt.md on flights, in this project; test_recommending.py has the others."""
    shown = re.findall(r"^```sql\n(-- models/.*?)^```", (root / "docs/dbt.md").read_text(), re.M | re.S)  # fmt: skip
    found = [text for text in shown if "flight" in text]
    assert (len(found), len(shown)) == (3, 4)
    paths = [project.folder / "models" / f"zz_shown_{k}.sql" for k in range(len(found))]
    for path, text in zip(paths, found, strict=True):
        path.write_text(text)
    nodes = project.dbt("run", "--select", "zz_shown_*")["nodes"]
    trained = [message for _, message in nodes.values() if message.startswith("TRAIN")]
    assert trained == ["TRAIN 4 of 4"] * 2
    for path in paths:
        path.unlink()


NAMED = {
    "zz_named": """{{{{ config(materialized='model', task='logistic', label="case when late then 'late' when not late then 'in time' end",
    features={features}, held_out='held_out', options={{'l2': 0.01, 'categories': ['hour'], 'dates': 'parts'}}) }}}}
select * from {{{{ ref('flight_features') }}}}""",
    "zz_scored": """select f.late, f.held_out, {{{{ tuskml.predict('m.model', tuskml.named(['dep_delay', 'hour', 'carrier', 'date'], 'f'), answer='probability') }}}} as p
from {{{{ ref('flight_features') }}}} as f cross join {{{{ ref('zz_named') }}}} as m""",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "features",
    [
        "['dep_delay', 'hour', 'carrier', 'date']",
        "{'hour': 'hour', 'date': 'date', 'carrier': 'carrier', 'dep_delay': 'dep_delay'}",
    ],
)
def test_columns_of_text_and_dates_need_nothing_more(
    project: Any, built: dict[str, Any], features: str
) -> None:
    """The model is that of train_model on rows with names; its metrics are of its predictions."""
    paths = [project.folder / "models" / f"{name}.sql" for name in NAMED]
    for path, text in zip(paths, NAMED.values(), strict=True):
        path.write_text(text.format(features=features))
    nodes = project.dbt("run", "--select", "zz_named", "zz_scored")["nodes"]
    assert nodes["zz_named"] == ["success", "TRAIN 1 of 1"]
    again = project.dbt("run", "--select", "zz_named")["nodes"]
    assert again["zz_named"] == ["success", "TRAIN 0 of 1"]
    ((terms, metrics),) = project.sql(
        f"SELECT (model).features, metrics::text FROM {project.schema}.zz_named"
    )
    assert {"dep_delay", "carrier[AA]", "hour[8]", "date.month[7]", "date.weekday[1]"} <= set(
        terms
    )
    assert not any(term.startswith("date.hour") for term in terms)
    ((auc,),) = project.sql(f"SELECT auc(late, p) FROM {project.schema}.zz_scored WHERE held_out")
    assert json.loads(metrics)["auc"] == pytest.approx(auc)
    assert 0.7 < auc < 1
    for path in paths:
        path.unlink()


WEIGHTED = """{{{{ config(materialized='model', task='{task}', label='{label}', features=['dep_delay', '{other}'],
    group_by='carrier', held_out='held_out', options={{'epsilon': 1e-8}}, {more}) }}}}
select *, 1 + distance / 500.0 as heavy from {{{{ ref('flight_features') }}}}"""
HEAVY = "(SELECT *, 1 + distance / 500.0 AS heavy FROM {schema}.flight_features WHERE carrier = 'AA') AS f"


EXTRAS = {
    "weight": ("logistic", "late", "weight='heavy'", "auc(late, decision(m.model, {x}), heavy)"),
    "offset": ("logistic", "late", "offset='heavy'", "auc(late, decision(m.model, {x}) + heavy)"),
    "rate": ("poisson", "hour", "offset='ln(heavy)'", "rmse(hour, predict(m.model, {x}) * heavy)"),
}


@pytest.mark.nightly
@pytest.mark.parametrize(
    "project", ["duckdb", pytest.param("postgres", marks=pytest.mark.nightly)], indirect=True
)
def test_a_config_has_weights_by_column(project: Any, built: dict[str, Any]) -> None:
    assert_trains_with(project, *EXTRAS["weight"])


@pytest.mark.nightly
@pytest.mark.parametrize(
    "project", [pytest.param("duckdb", marks=pytest.mark.nightly), "postgres"], indirect=True
)
@pytest.mark.parametrize("name", ["offset", pytest.param("rate", marks=pytest.mark.nightly)])
def test_a_config_has_offsets_by_column(project: Any, built: dict[str, Any], name: str) -> None:
    assert_trains_with(project, *EXTRAS[name])


def assert_trains_with(project: Any, task: str, label: str, more: str, metric: str) -> None:
    """The model is that of train_model, and its metrics are of its predictions; a weight that
    changes trains again."""
    path = project.folder / "models" / "zz_weighted.sql"
    other = "distance" if label == "hour" else "hour"
    path.write_text(WEIGHTED.format(task=task, label=label, other=other, more=more))
    nodes = project.dbt("run", "--select", "zz_weighted")["nodes"]
    assert nodes["zz_weighted"] == ["success", "TRAIN 4 of 4"]
    again = project.dbt("run", "--select", "zz_weighted")["nodes"]
    assert again["zz_weighted"] == ["success", "TRAIN 0 of 4"]
    schema, extras = project.schema, "heavy"
    if "offset" in more:
        extras = "1, ln(heavy)" if "ln" in more else "1, heavy"
    rows, x = HEAVY.format(schema=schema), f"ARRAY[dep_delay, {other}]"
    call = f"train_model('{task}', {label}, {x}, '{{\"epsilon\": 1e-8}}', {extras})"
    ((coef,),) = project.sql(f"SELECT ({call} FILTER (WHERE NOT held_out)).coef FROM {rows}")
    own = f"{schema}.zz_weighted AS m"
    ((found, metrics),) = project.sql(
        f"SELECT (model).coef, metrics::text FROM {own} WHERE carrier = 'AA'"
    )
    assert found == pytest.approx(coef, rel=1e-5)
    name, expression = metric.split("(", maxsplit=1)[0], metric.format(x=x)
    ((value,),) = project.sql(
        f"SELECT {expression} FROM {rows} JOIN {own} ON m.carrier = f.carrier WHERE held_out"
    )
    assert json.loads(metrics)[name] == pytest.approx(value, rel=1e-9)
    path.write_text(path.read_text().replace("500.0", "400.0"))
    nodes = project.dbt("run", "--select", "zz_weighted")["nodes"]
    assert nodes["zz_weighted"] == ["success", "TRAIN 4 of 4"]
    path.unlink()


CLUSTERED = """{{{{ config(materialized='model', task='linear', label='dep_delay', features=['distance', 'hour'],
    options={{'cluster': 'carrier', 'epsilon': 1e-8}}) }}}}
select * from {{{{ ref('flight_features') }}}}"""


@pytest.mark.sample(1)
def test_a_config_names_the_column_of_clusters(project: Any, built: dict[str, Any]) -> None:
    """The features are a row then, of which the column of clusters is no feature."""
    path = project.folder / "models" / "zz_clustered.sql"
    path.write_text(CLUSTERED.format())
    nodes = project.dbt("run", "--select", "zz_clustered")["nodes"]
    path.unlink()
    assert nodes["zz_clustered"] == ["success", "TRAIN 1 of 1"]
    row = "{'distance': distance, 'hour': hour, 'carrier': carrier}"
    if project.schema != "main":
        row = "(SELECT r FROM (SELECT distance, hour, carrier) AS r)"
    call = (
        f'train_model(\'linear\', dep_delay, {row}, \'{{"cluster": "carrier", "epsilon": 1e-8}}\')'
    )
    ((names, truth),) = project.sql(
        f"SELECT (m).features, (m).std_err FROM (SELECT {call} AS m FROM {project.schema}.flight_features) AS t"
    )
    ((found, errors, metrics),) = project.sql(
        f"SELECT (model).features, (model).std_err, metrics::text FROM {project.schema}.zz_clustered"
    )
    assert found == names == ["distance", "hour"]
    assert errors == pytest.approx(truth, rel=1e-6)
    assert json.loads(metrics)["rmse"] > 0


MISTAKES = {
    "holdout": ("late", "['hour']", "holdout='held_out'", "no config holdout; did you mean held_out"),
    "groupby": ("late", "['hour']", "groupby='carrier'", "no config groupby; did you mean group_by"),
    "executor": ("late", "['hour']", "executor='rey'", "executor is 'rey', expected 'ray'|which is for DuckDB"),
    "cluster": ("late", "['hour']", "cluster='rey'", "executor is 'rey', expected 'ray'|which is for DuckDB"),
    "finished": ("late", "['hour']", "finished='f'", r"a config finished, but .* tuskml\.train\("),
    "text_label": ("carrier", "['hour']", "task='linear'", "label is of type (VARCHAR|text), expected a number or"),
    "time_feature": ("late", "['hour', \"time '12:00'\"]", "", "feature .* is of type (TIME|time .*), expected a number or a boolean, text or a date"),
    "one_feature": ("late", "'hour'", "", "features is 'hour', of type (INTEGER|integer), expected a list"),
    "two_in_a_text": ("late", "'hour, distance'", "", "features is 'hour, distance', of type .*expected a list"),
    "wrong_column": ("late", "['huor']", "", "huor"),
    "wrong_option": ("late", "['hour']", "options={'max_itr': 5}", "did you mean 'max_iter'"),
    "wrong_task": ("late", "['hour']", "task='logistc'", "did you mean 'logistic'"),
    "no_features": ("late", "[]", "", "materialization 'model' has no features, expected config"),
}  # fmt: skip


@pytest.mark.sample(1)
def test_first_mistakes_are_sentences(project: Any, built: dict[str, Any]) -> None:
    """A model each, of which none trains; all that held_out spares is no mistake but a warning."""
    config = "{{{{ config(materialized='model', task='logistic', label='{}', features={}, {}) }}}} select * from {{{{ ref('flight_features') }}}}"
    files = {
        project.folder / "models" / f"zz_{name}.sql": config.format(label, features, more).replace(
            "task='logistic', ", "" if "task=" in more else "task='logistic', "
        )
        for name, (label, features, more, _) in MISTAKES.items()
    }
    files[project.folder / "models" / "zz_spared.sql"] = config.format("late", "['hour']", "held_out='true'")  # fmt: skip
    for path, text in files.items():
        path.write_text(text)
    seen = (project.folder / "dbt.log").stat().st_size
    nodes = project.dbt("run", "--select", "zz_*", success=False)["nodes"]
    for name, (*_, sentence) in MISTAKES.items():
        status, message = nodes[f"zz_{name}"]
        assert status == "error"
        assert re.search(sentence, message), message
    assert nodes["zz_spared"] == ["success", "TRAIN 1 of 1"]
    told = (project.folder / "dbt.log").read_text()[seen:]
    assert "1 of the 1 groups of" in told
    for path in files:
        path.unlink()


@pytest.mark.parametrize(
    "project", ["duckdb", pytest.param("postgres", marks=pytest.mark.nightly)], indirect=True
)
def test_it_is_deployed_when_they_pass(project: Any, built: dict[str, Any]) -> None:
    """Nothing changed but the test: nothing is trained. The order of the rows is no change."""
    project.edit("models/schema.yml", "minimum: 1.1", f"minimum: {LEAST_AUC}")
    path = project.folder / "seeds/flights.csv"
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([head, *reversed(rows)]) + "\n")
    nodes = project.dbt("build", "--select", "+late_models")["nodes"]
    assert nodes["late_models"] == ["success", "TRAIN 0 of 4"]
    assert project.stages() == {(carrier, 1): "deployed" for carrier in CARRIERS} | {
        ("AA", 1): "retired",
        ("AA", 2): "deployed",
    }
    assert project.sql(f"SELECT version FROM {project.schema}.late_models ORDER BY carrier") == [
        (2,),
        (1,),
        (1,),
        (1,),
    ]


@pytest.mark.nightly
def test_a_rollback(project: Any, built: dict[str, Any]) -> None:
    rollback = ["run-operation", "tuskml_rollback", "--args"]
    project.dbt(*rollback, "{model: late_models}")
    assert project.stages() == {(carrier, 1): "deployed" for carrier in CARRIERS} | {
        ("AA", 2): "withdrawn"
    }
    assert project.sql(f"SELECT DISTINCT version FROM {project.schema}.late_models") == [(1,)]
    failed = project.dbt(*rollback, "{model: late_model}", success=False)
    expected = "expected a model of materialization 'model': delay_nets, late_models"
    assert f"model is 'late_model', {expected}" in (
        failed["error"] + (project.folder / "dbt.log").read_text()
    )


@pytest.mark.nightly
def test_dbt_run_waits_for_dbt_test(project: Any, built: dict[str, Any]) -> None:
    """A row that comes twice is a change, of one carrier."""
    if project.schema == "analytics":
        pytest.skip("the same macros as in DuckDB, where it takes less time")
    path = project.folder / "seeds/flights.csv"
    text = path.read_text()
    row = next(line for line in text.splitlines() if ",DL," in line)
    path.write_text(text + row + "\n")
    project.dbt("seed")
    assert project.dbt("run", "--select", "flight_features", "late_models")["nodes"][
        "late_models"
    ] == [
        "success",
        "TRAIN 1 of 4",
    ]
    assert project.stages()["DL", 3] == "candidate"
    project.dbt("test", "--select", "late_models")
    assert project.stages()["DL", 3] == "deployed"
    assert project.stages()["AA", 1] == "deployed", "what was withdrawn stays so"
