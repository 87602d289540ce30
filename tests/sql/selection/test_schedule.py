"""How the trainings of a search lie on threads: estimated by `explain_training`, then measured."""

import json
from typing import Any

import pytest

ROWS = """CREATE TEMP TABLE rows AS
SELECT i % 3 AS g, i % 7 > 3 AS y, sin(i) AS a, cos(7 * i) AS b FROM {series} AS r(i)"""


@pytest.fixture(params=["duckdb", "postgres"])
def ask(request: pytest.FixtureRequest) -> Any:
    """Runs SQL, in which {x} stands for the features of the table `rows`: 3 groups of 100 rows."""
    here = request.param == "duckdb"
    connection = request.getfixturevalue("con" if here else "post")
    series = "range(300)" if here else "generate_series(0, 299)"
    connection.execute(ROWS.format(series=series))
    features = "[a, b]" if here else "ARRAY[a, b]::float8[]"
    return lambda sql: list(connection.execute(sql.replace("{x}", features)).fetchall())


def explained(ask: Any, options: dict[str, Any], task: str = "logistic") -> list[str]:
    text = json.dumps(options)
    sql = (
        f"SELECT g, explain_training('{task}', y, {{x}}, '{text}') FROM rows GROUP BY g ORDER BY g"
    )
    return [row[1] for row in ask(sql)]


@pytest.mark.parametrize("task", ["logistic", "gbdt"])
def test_explained_before(ask: Any, task: str) -> None:
    """Three equal groups on two threads: one has two of them, C* is a half of all rows."""
    options = {"seed": [1, 2], "folds": 5, "threads": 2}
    found = json.loads(explained(ask, options | {"format": "json"}, task)[0])["search"]
    assert found["trainings"] == 11
    schedule = found["schedule"]
    assert {k: v for k, v in schedule.items() if "seconds" not in k} == {
        "groups": 3,
        "threads": 2,
        "rows": 300,
        "makespan_rows": 200,
        "least_makespan_rows": 150,
    }
    assert schedule["seconds"] == pytest.approx(schedule["least_seconds"] * 4 / 3)
    assert schedule["least_seconds"] > 0
    text = explained(ask, options, task)[0]
    assert "schedule: 3 groups of 300 rows on 2 threads, 0.667 of the rows on the fullest" in text
    assert "makespan: about " in text


def test_in_time_a_training_has_the_rows_before(con: Any) -> None:
    """Of 6 stretches 1, 2, 3, 4 or 5; of 5 folds always 4; and then all rows, of one model."""
    con.execute(f"{ROWS.format(series='range(300)')}".replace("AS b", "AS b, i"))
    seconds = []
    for option in ("fold_by", "time_by"):
        given = {"seed": [1, 2], "folds": 5, option: "i", "format": "json", "threads": 2}
        row = "{'a': a, 'b': b, 'i': i}"
        sql = f"SELECT explain_training('linear', y::INT, {row}, '{json.dumps(given)}') FROM rows"
        ((text,),) = con.execute(sql).fetchall()
        seconds.append(json.loads(text)["search"]["schedule"]["seconds"])
    assert seconds[1] / seconds[0] == pytest.approx((1 + 2 * 15 / 6) / (1 + 2 * 4))


def test_measured_after(ask: Any) -> None:
    text = json.dumps({"l2": [1, 0.1], "folds": 3, "threads": 2})
    sql = f"SELECT g, (train_model('logistic', y, {{x}}, '{text}')).trials FROM rows GROUP BY g"
    found = [json.loads(row[1])["schedule"] for row in ask(sql)]
    assert found[0] == found[1] == found[2]
    assert found[0]["seconds"] > 0
    half = found[0]["processor_seconds"] / 2
    assert found[0]["least_seconds"] == pytest.approx(half)
