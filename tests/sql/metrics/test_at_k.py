"""Metrics of the k highest scores, in both databases: scikit-learn, and sums by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

RANDOM = np.random.default_rng(8)
KS = [1, 3, 10, 40, 1000]
METRICS = ("ndcg", "precision_at_k", "recall_at_k", "average_precision_at_k")


@pytest.fixture
def ask(session: tuple[str, Any]) -> Callable[..., list[Any]]:
    """Answers to a selection from rows of a group, a label and a score."""
    name, connection = session

    def asked(selection: str, g: Any, y: Any, score: Any) -> list[Any]:
        temporary = "TEMP " if name == "post" else ""
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute(f"CREATE {temporary}TABLE t (g int, y float8, score float8)")
        given = ", ".join(f"({a}, {b!r}, {c!r})" for a, b, c in zip(g, y, score, strict=True))
        connection.execute(f"INSERT INTO t VALUES {given}")
        found: list[Any] = connection.execute(selection).fetchall()
        return found

    return asked


def rows(ties: bool, graded: bool) -> tuple[list[int], list[float], list[float]]:
    """Three groups of 30 rows."""
    g = np.repeat(np.arange(3), 30)
    y = RANDOM.integers(0, 5 if graded else 2, 90).astype(float)
    score = RANDOM.integers(0, 6, 90) / 2 if ties else RANDOM.permutation(90) / 7
    return g.tolist(), y.tolist(), score.tolist()


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("k", [None, *KS])
def test_ndcg_is_scikit_learn_s(ask: Any, ties: bool, graded: bool, k: int | None) -> None:
    g, y, score = rows(ties, graded)
    call = "ndcg(y, score)" if k is None else f"ndcg(y, score, {k})"
    for group, found in ask(f"SELECT g, {call} FROM t GROUP BY g", g, y, score):
        mine = np.array(g) == group
        wanted = ndcg_score([np.array(y)[mine]], [np.array(score)[mine]], k=k)
        assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("k", KS)
def test_hits_by_hand(ask: Any, k: int) -> None:
    """Without ties: a hit's precision is its place among hits over its rank."""
    g, y, score = rows(ties=False, graded=False)
    calls = ", ".join(f"{name}(y > 0.5, score, {k})" for name in METRICS[1:])
    for group, *found in ask(f"SELECT g, {calls} FROM t GROUP BY g", g, y, score):
        mine = np.array(g) == group
        hit = np.array(y)[mine][np.argsort(-np.array(score)[mine])]
        precisions = (np.cumsum(hit) / np.arange(1, 31) * hit)[:k].sum()
        wanted = [hit[:k].sum() / k, hit[:k].sum() / hit.sum(), precisions / min(k, hit.sum())]
        assert found == pytest.approx(wanted, rel=1e-12)


def test_average_precision_of_all_rows_is_scikit_learn_s(ask: Any) -> None:
    """With ties too, which are taken together."""
    g, y, score = rows(ties=True, graded=False)
    ((found, precision, recall),) = ask(
        "SELECT average_precision_at_k(y, score), precision_at_k(y, score), recall_at_k(y, score)"
        " FROM t",
        g, y, score,
    )  # fmt: skip
    assert found == pytest.approx(average_precision_score(y, score), rel=1e-12)
    assert (precision, recall) == (pytest.approx(np.mean(y)), 1)


def test_equal_scores_are_worth_their_mean(ask: Any) -> None:
    """Of four rows that tie, two of them hits, one hit is among the first two."""
    calls = ", ".join(f"{name}(y, score, 2)" for name in METRICS[1:])
    (found,) = ask(f"SELECT {calls} FROM t", [0] * 4, [1, 0, 0, 1], [5] * 4)
    assert found == pytest.approx((0.5, 0.5, 0.25))


def test_no_hits_and_no_rows(ask: Any) -> None:
    calls = ", ".join(f"{name}(y, score, 2)" for name in METRICS)
    assert ask(f"SELECT {calls} FROM t", [0, 0], [0, 0], [1, 2]) == [(None, 0, None, None)]
    assert ask(f"SELECT {calls} FROM t WHERE g = 1", [0], [0], [1]) == [(None,) * 4]


@pytest.mark.parametrize("name", METRICS)
def test_nulls_are_skipped_and_order_does_not_matter(ask: Any, name: str) -> None:
    g, y, score = rows(ties=True, graded=False)
    nulls = "(SELECT * FROM t UNION ALL SELECT 0, NULL, 1 UNION ALL SELECT 0, 1, NULL) AS s"
    ((found,),) = ask(f"SELECT {name}(y, score, 7) FROM {nulls}", g, y, score)
    ((other,),) = ask(f"SELECT {name}(y, score, 7) FROM t", g[::-1], y[::-1], score[::-1])
    assert found == other


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("ndcg(y - 3, score)", "ndcg: label is -3, expected a number of at least 0"),
        ("ndcg(y, score, 0)", "ndcg: k is 0, expected a number from 1 on"),
        ("recall_at_k(y, score, g)", "k is both 1 and 2, expected one number"),
        ("precision_at_k(y + 2, score, 3)", "precision_at_k: label is 2, expected"),
        ("ndcg(y, score - 'NaN'::float8)", "ndcg: score is NaN, expected a number"),
    ],
)
def test_refusals(ask: Any, call: str, sentence: str) -> None:
    with pytest.raises(Exception, match=r"label|k is|score") as caught:
        ask(f"SELECT {call} FROM t", [1, 2], [0, 0], [1, 2])
    assert sentence in str(caught.value)
