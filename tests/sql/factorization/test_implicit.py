"""Implicit feedback in both databases: the model value, predictions, groups, options, errors."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import duckdb
import numpy as np
import pytest

PLAYS = """SELECT i, i % 2 AS g, CAST((i * 7919) % 61 AS DOUBLE PRECISION) AS u, CAST((i * 10473) % 47 AS DOUBLE PRECISION) AS f,
    CAST((i * 31) % 5 AS DOUBLE PRECISION) AS plays FROM generate_series(1, 900) AS r(i)"""


@pytest.fixture
def ask(session: tuple[str, Any]) -> Any:
    """Answers of a database to SQL."""
    name, connection = session
    connection.execute(f"CREATE {'TEMP ' if name == 'post' else ''}TABLE t AS {PLAYS}")
    return lambda sql: connection.execute(sql).fetchall()


def call(features: str = "ARRAY[u, f]", label: str = "plays", **options: object) -> str:
    given = json.dumps({"feedback": "implicit"} | options)
    return f"train_model('matrix_factorization', {label}, {features}, '{given}')"


def table(ask: Any, where: str = "true") -> np.ndarray:
    """Plays of each user (61) and film (47)."""
    whole = np.zeros((61, 47))
    for u, f, plays in ask(f"SELECT u, f, plays FROM t WHERE {where}"):
        whole[int(u), int(f)] += plays
    return whole


def objective(plays: np.ndarray, coef: list[float], alpha: float, l2: float) -> float:
    vectors = np.array(coef).reshape(61 + 47, -1)
    x, y = vectors[:61], vectors[61:]
    seen = np.ix_(x.any(axis=1), y.any(axis=1))
    c = (1 + alpha * plays)[seen]
    squares = (c * ((plays > 0) - x @ y.T)[seen] ** 2).sum() + l2 * (vectors**2).sum()
    return float(squares / (2 * c.sum()))


@pytest.mark.parametrize("cg_steps", [0, 3])
def test_the_model_value(ask: Any, cg_steps: int) -> None:
    ((coef, intercept, classes, loss, history, status, options),) = ask(
        f"""SELECT (m).coef, (m).intercept, (m).classes, (m).loss, (m).history, (m).status, (m).options
        FROM (SELECT {call(rank=3, alpha=2, l2=0.5, cg_steps=cg_steps, max_iter=9)} AS m FROM t) AS f"""
    )
    assert (intercept, classes, status) == (0, [61, 47, 3], "ok")
    assert loss == pytest.approx(objective(table(ask), coef, 2, 0.5), rel=1e-5)
    assert len(history) == 9
    assert history[-1] == loss
    assert (np.diff(history) < 1e-6).all()
    wanted = {"feedback": "implicit", "biases": False, "alpha": 2, "l2": 0.5, "cg_steps": cg_steps}
    assert wanted.items() <= json.loads(options).items()


def test_predictions_are_products_of_vectors(ask: Any) -> None:
    model = f"(SELECT {call(rank=3)} AS m FROM t) AS f"
    ((coef,),) = ask(f"SELECT (m).coef FROM {model}")
    found = ask(
        f"SELECT u, f, predict(m, ARRAY[u, f]) FROM t, (SELECT {call(rank=3)} AS m FROM t) AS s"
    )
    vectors = np.array(coef).reshape(108, 3)
    for u, f, p in found:
        assert p == pytest.approx(vectors[int(u)] @ vectors[61 + int(f)], rel=1e-9, abs=1e-12)
    unknown = ask(
        f"SELECT predict(m, ARRAY[99.0, 3.0]) FROM (SELECT {call(rank=3)} AS m FROM t) AS s"
    )
    users = vectors[:61][vectors[:61].any(axis=1)]
    assert unknown[0][0] == pytest.approx(users.mean(axis=0) @ vectors[64], rel=1e-9)


def test_groups_train_by_themselves(ask: Any) -> None:
    found = ask(
        f"SELECT g, (m).coef, (m).n_rows FROM (SELECT g, {call()} AS m FROM t GROUP BY g) AS f ORDER BY g"
    )
    for g, coef, n in found:
        assert ask(
            f"SELECT (m).coef, (m).n_rows FROM (SELECT {call()} AS m FROM t WHERE g = {g}) AS f"
        ) == [(coef, n)]


def test_null_rows_are_skipped(ask: Any) -> None:
    ((with_nulls,),) = ask(
        f"SELECT (m).coef FROM (SELECT {call(label='CASE WHEN g = 0 THEN plays END')} AS m FROM t) AS f"
    )
    ((without,),) = ask(f"SELECT (m).coef FROM (SELECT {call()} AS m FROM t WHERE g = 0) AS f")
    assert with_nulls == without


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"validation": 0.1}, "option 'validation' is for option 'feedback': 'explicit', which is 'implicit'"),
        ({"biases": True}, "option 'biases' is for option 'feedback': 'explicit', which is 'implicit'"),
        ({"algorithm": "hogwild"}, "algorithm 'hogwild' is not available with option 'feedback': 'implicit', expected 'auto' or 'als'"),
        ({"device": "gpu"}, "option 'device' is 'gpu', expected 'auto' or 'cpu' with option 'feedback': 'implicit'"),
        ({"loss": "bpr", "alpha": 2}, "option 'alpha' is for option 'loss': 'squared', which is 'bpr'"),
        ({"step": 0.1}, "option 'step' is for option 'feedback': 'explicit', which is 'implicit'"),
        ({"loss": "bpr", "algorithm": "als"}, "algorithm 'als' is not available with option 'feedback': 'implicit' and 'loss': 'bpr', expected 'auto' or 'sgd'"),
        ({"feedback": "explicit", "loss": "bpr"}, "option 'loss' is for option 'feedback': 'implicit', which is 'explicit'"),
        ({"feedback": "explicit", "alpha": 2}, "option 'alpha' is for option 'feedback': 'implicit', which is 'explicit'"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(ask: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Exception, match="train_model") as caught:
        ask(f"SELECT {call(**options)} FROM t")
    assert sentence in str(caught.value)


def test_feedback_is_not_negative(ask: Any) -> None:
    with pytest.raises(
        Exception,
        match=r"label is -1 in row \d+ of the group, expected a number from 0 to 1e\+30 with option 'feedback': 'implicit'",
    ):
        ask(f"SELECT {call(label='plays - 1', invalid='error')} FROM t")


def test_one_item_or_no_plays(ask: Any) -> None:
    """Any feedback has a model; one of no plays says 0, and says why."""
    ((coef,),) = ask(
        f"SELECT (m).coef FROM (SELECT {call(features='ARRAY[u, 0.0]', label='1')} AS m FROM t) AS f"
    )
    assert np.isfinite(coef).all()
    ((p, status),) = ask(
        f"SELECT predict(m, ARRAY[1.0, 1.0]), (m).status FROM (SELECT {call(label='0')} AS m FROM t) AS f"
    )
    assert (abs(p) < 1e-3, status) == (True, "no feedback")


def test_the_explanation(ask: Any) -> None:
    ((text,),) = ask(f"SELECT {call(alpha=2).replace('train_model', 'explain_training')} FROM t")
    assert "sum of c (p - p_u.q_i)^2 + 10 (|p_u|^2 + |q_i|^2), c = 1 + 2 y, p = 1 if y > 0" in text
    assert "als, implicit feedback, rank 10, 3 steps of conjugate gradient" in text


def test_personalised_ranking(ask: Any) -> None:
    """Items with feedback come before the others, and the model recommends."""
    model = f"(SELECT {call(loss='bpr', rank=8, max_iter=60, l2=0.001)} AS m FROM t) AS f"
    ((coef, classes, status, options),) = ask(
        f"SELECT (m).coef, (m).classes, (m).status, (m).options FROM {model}"
    )
    assert (classes, status) == ([61, 47, 9], "ok")
    wanted = {"loss": "bpr", "algorithm": "sgd", "biases": True, "step": 0.1, "l2": 0.001}
    assert wanted.items() <= json.loads(options).items()
    vectors = np.array(coef).reshape(108, 9)
    assert not vectors[:61, 0].any()
    scores = vectors[61:, 0] + vectors[:61, 1:] @ vectors[61:, 1:].T
    liked = table(ask) > 0
    assert (
        np.mean([scores[u][liked[u]].mean() > scores[u][~liked[u]].mean() for u in range(61)])
        > 0.9
    )
    found = ask(f"SELECT r.item, r.score FROM {model}, LATERAL recommend(m, 3, 4) AS r")
    order = np.argsort(-scores[3], kind="stable")[:4]
    assert found == [(i, pytest.approx(scores[3, i], rel=1e-9)) for i in order]


def test_both_databases_have_the_same_bits(con: duckdb.DuckDBPyConnection, post: Any) -> None:
    found = []
    for database in (con, post):
        database.execute(f"CREATE TABLE same AS {PLAYS}")
        found.append(
            database.execute(
                f"SELECT (m).coef, (m).loss FROM (SELECT {call(seed=5)} AS m FROM same) AS f"
            ).fetchall()
        )
    assert found[0] == found[1]
