"""Models that LightGBM, XGBoost and CatBoost wrote as text, read and asked in SQL."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

TESTS = Path(__file__).parents[2] / "front"
KEPT = {
    package: json.loads((TESTS / "own" / f"{package.lower()}_models.json").read_text())
    for package in ("XGBoost", "CatBoost")
}
RECORDED = (TESTS / "model" / "lightgbm_recorded.txt").read_text().partition("predictions\n")


@pytest.mark.parametrize("package", KEPT)
def test_sql_predicts_as_the_package_does(pg: psycopg.Connection, package: str) -> None:
    """Rows lie at thresholds, and miss values."""
    kept: Any = KEPT[package]
    pg.execute("DROP TABLE IF EXISTS x")
    pg.execute("CREATE TEMP TABLE x (place int, x float8[])")
    for row in enumerate(kept["rows"]):
        pg.execute("INSERT INTO x VALUES (%s, %s)", row)
    for name, one in kept["models"].items():
        pg.execute("DROP TABLE IF EXISTS m")
        text = json.dumps(one["model"])
        pg.execute("CREATE TEMP TABLE m AS SELECT model_from(%s) AS m", [text])
        call = "predict_probas(m, x)" if one["classes"] else "predict(m, x)"
        found = pg.execute(f"SELECT {call} FROM m, x ORDER BY place").fetchall()
        names = [str(one).lower() for one in one["classes"]]
        answers = [[p[one] for one in names] if names else p for (p,) in found]
        np.testing.assert_allclose(answers, one["predicted"], rtol=1e-6, atol=1e-6, err_msg=name)
        if not one["classes"] and name != "linear":
            told = pg.execute(
                "SELECT sum(contribution) - (SELECT decision(m, ARRAY[1, 2, 3]) FROM m) "
                "FROM m, explain_prediction(m, ARRAY[1, 2, 3])"
            ).fetchone()
            assert told is not None
            assert told[0] == pytest.approx(0, abs=1e-9), name


def test_lightgbms_text_and_its_names(pg: psycopg.Connection) -> None:
    row = pg.execute(
        "SELECT (m).plan, (m).class_names, (m).n_features, (m).features, predict_probas(m, x) "
        "FROM (SELECT model_from(%s) AS m, %s::float8[] AS x) AS t",
        [RECORDED[0], [float(one) for one in RECORDED[2].split("\n")[0].split()[:3]]],
    ).fetchone()
    assert row is not None
    assert row[:3] == ("read from LightGBM's text", ["0", "1", "2"], 3)
    assert len(row[3]) == 3
    expected = [float(one) for one in RECORDED[2].split("\n")[0].split()[3:]]
    assert list(row[4].values()) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["hello", "{}", '{"learner": 3}', RECORDED[0][:-400]])
def test_other_texts_are_refused(pg: psycopg.Connection, text: str) -> None:
    with pytest.raises(psycopg.Error, match="model_from: the text ") as refused, pg.transaction():
        pg.execute("SELECT model_from(%s)", [text])
    assert refused.value.sqlstate == "22023", refused.value.sqlstate
    assert pg.execute("SELECT 1").fetchall() == [(1,)]
    assert pg.execute("SELECT model_from(NULL) IS NULL").fetchall() == [(True,)]


def test_it_is_for_those_who_may_train(pg: psycopg.Connection) -> None:
    asked = "SELECT (model_from(%s)).n_features"
    with pg.transaction(force_rollback=True):
        pg.execute("CREATE ROLE stranger; CREATE ROLE reader IN ROLE tuskml_user")
        pg.execute("SET LOCAL ROLE reader")
        assert pg.execute(asked, [RECORDED[0]]).fetchall() == [(3,)]
        pg.execute("SET LOCAL ROLE stranger")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="model_from"):
            pg.execute(asked, [RECORDED[0]])
