"""The neural net of the example project, in both databases."""

# ruff: noqa: E501, SQL is read better on one line

import json
from pathlib import Path
from typing import Any

import pytest

import tuskml

OPTIONS = '{"objective": "logistic", "layers": [16], "max_iter": 20, "embedding": 2}'


def test_the_net_is_that_of_train_model(
    project: Any, built: dict[str, Any], con: Any, root: Path
) -> None:
    """It is judged by rows that were held out, and a carrier has two numbers."""
    assert built["delay_nets"] == ["success", "TRAIN 1 of 1"]
    assert built["tuskml_auc_at_least_delay_nets_metrics__0_8"][0] == "pass"
    taken = "to_jsonb(model)" if project.schema == "analytics" else "model"
    ((value, metrics),) = project.sql(
        f"SELECT {taken}, metrics::text FROM {project.schema}.delay_nets"
    )
    model, found = tuskml.Model.of(value), json.loads(metrics)
    assert (model.task, model.status, found["on"]) == ("mlp", "ok", "held out")
    con.execute(
        f"CREATE TABLE flights AS SELECT *, arr_delay > 15 AS late, day(date) % 5 = 0 AND day(date) <= 30 AS out FROM '{root}/dbt/integration_tests/seeds/flights.csv'"
    )
    row = "{'dep_delay': dep_delay, 'distance': distance, 'hour': hour, 'carrier': carrier}"
    con.execute(
        f"CREATE TABLE nets AS SELECT train_model('mlp', late, {row}, '{OPTIONS}') AS m FROM flights WHERE NOT out"
    )
    ((n, loss, auc, log_loss),) = con.execute(
        f"SELECT any_value(m.n_rows), any_value(m.loss), auc(late, predict_proba(m, {row})), log_loss(late, predict_proba(m, {row})) FROM flights, nets WHERE out"
    ).fetchall()
    assert model.n_rows == n
    assert model.loss == pytest.approx(loss, rel=1e-2), "rows come in another order"
    assert found["auc"] == pytest.approx(auc, abs=0.01)
    assert found["log_loss"] == pytest.approx(log_loss, rel=0.02)
    assert json.loads(model.preparation or "")["columns"][-1]["name"] == "carrier"
    carriers = 4
    assert len(model.coef or []) > 2 * carriers + (3 + 2 + 1) * 16
