"""Weights, counts, feedback and limits at their extremes: the model that it should be, or a status
that says why not."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import duckdb
import numpy as np
import pytest

ROWS = "(SELECT i, sin(i * 1.3) AS a, cos(i * 0.7) AS b, 1 + i % 3 + sin(i * 1.3) AS y FROM range(200) AS s(i)) AS t"


def model(con: duckdb.DuckDBPyConnection, call: str, rows: str = ROWS) -> dict[str, Any]:
    ((found,),) = con.execute(f"SELECT train_model({call}) FROM {rows}").fetchall()
    return found


@pytest.mark.parametrize("options", [{}, {"algorithm": "lbfgs"}, {"l2": 0.1}], ids=str)
def test_large_weights_of_several_classes(
    con: duckdb.DuckDBPyConnection, options: dict[str, Any]
) -> None:
    call = f"'logistic', i % 3, [a, b], '{json.dumps(options)}', WEIGHT * (1 + i % 2)"
    plain = model(con, call.replace("WEIGHT", "1.0"))
    for weight in ("1e160", "1e250", "1e-250"):
        found = model(con, call.replace("WEIGHT", weight))
        assert (plain["status"], found["status"]) == ("ok", "ok")
        assert found["coef"] == pytest.approx(plain["coef"], abs=1e-5)


@pytest.mark.parametrize("task", ["gbdt", "random_forest"])
@pytest.mark.parametrize("label", ["y", "CAST(i % 3 AS varchar)"])
def test_trees_with_weights_of_any_size(
    con: duckdb.DuckDBPyConnection, task: str, label: str
) -> None:
    """Weights are counted in a unit of their own, so that the smallest ones have sums too."""
    first, *others = (
        model(con, f"'{task}', {label}, [a, b], '{{}}', {weight} * (1 + i % 2)")
        for weight in ("1.0", "1e-200", "1e-300")
    )
    assert first["status"] == "ok"
    for other in others:
        assert other["status"] == "ok"
        assert other["loss"] == pytest.approx(first["loss"], rel=1e-9)


@pytest.mark.parametrize("algorithm", ["gibbs", "online_vb"])
def test_counts_that_no_topic_can_be_drawn_for_one_by_one(
    con: duckdb.DuckDBPyConnection, algorithm: str
) -> None:
    call = f'\'lda\', NULL, sparse([0, i % 5 + 1], [1, COUNT]), \'{{"algorithm": "{algorithm}", "max_iter": 1}}\''
    rows = "range(20) AS s(i)"
    found = model(con, call.replace("COUNT", "1e8"), rows)
    assert found["status"] == "invalid rows"
    assert found["plan"] == (
        "a group has 2,000,000,020 tokens in 40 counts of words, and 'lda' reads each token by "
        "itself: expected at most 2,000,000 tokens, or 100 in a count on average: divide the counts"
    )
    assert model(con, call.replace("COUNT", "1e3"), rows)["status"] == "ok"


def test_personalised_ranking_without_an_item_left(con: duckdb.DuckDBPyConnection) -> None:
    options = '{"feedback": "implicit", "loss": "bpr"}'
    call = f"'matrix_factorization', 1, [i % 10, i // 10], '{options}'"
    whole = model(con, call, "range(70) AS s(i)")
    assert (whole["status"], whole["converged"]) == ("no feedback", False)
    assert not np.any(whole["coef"][3:])
    some = model(con, call, "(SELECT i FROM range(70) AS s(i) WHERE i % 9 > 0) AS t")
    assert some["status"] == "ok"


@pytest.mark.parametrize("task", ["lasso", "elastic_net"])
def test_paths_whose_penalties_were_not_solved(con: duckdb.DuckDBPyConnection, task: str) -> None:
    """The largest one has nothing to solve, and would be the best of those that are not."""
    found = model(con, f"'{task}', y, [a, b], '{{\"max_iter\": 1}}'")
    assert found["status"] == "not converged"
    assert model(con, f"'{task}', y, [a, b]")["status"] == "ok"


def test_a_path_of_almost_no_l1(con: duckdb.DuckDBPyConnection) -> None:
    """As in glmnet, it does not begin where nothing is left of the weights on the whole path."""
    shares = [1e-9, 1e-4]
    found = [model(con, f"'elastic_net', y, [a, b], '{{\"alpha\": {one}}}'") for one in shares]
    least = model(con, "'linear', y, [a, b]")["loss"]
    assert all(one["loss"] < 3 * least for one in found)
    assert found[0]["coef"] == pytest.approx(found[1]["coef"], abs=1e-2)


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1e6])
def test_the_penalty_of_a_path_is_that_of_its_options(
    con: duckdb.DuckDBPyConnection, size: float
) -> None:
    """The options of a model of a path give the same model without one."""
    found = model(con, f"'elastic_net', y * {size}, [a, b]")
    options = json.loads(found["options"])
    given = {name: options[name] for name in ("alpha", "lambda")}
    again = model(con, f"'elastic_net', y * {size}, [a, b], '{json.dumps(given)}'")
    assert again["coef"] == pytest.approx(found["coef"], rel=1e-4)


@pytest.mark.parametrize("time", ["0.001s", "1s"])
def test_huber_s_time_limit(con: duckdb.DuckDBPyConnection, time: str) -> None:
    found = model(con, f"'huber', y, [a, b], '{{\"time\": \"{time}\"}}'")
    assert found["status"] in ("ok", "time limit")
    assert json.loads(found["options"])["tuskml"] == 1
