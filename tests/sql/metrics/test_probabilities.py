"""log_loss and brier of the probabilities of all classes, against scikit-learn."""

# ruff: noqa: E501, SQL is read better on one line

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

NAMES = ["", "b", "it's", "Äpfel"]


def made(k: int, n: int = 40) -> tuple[list[str], list[dict[str, float]], Any]:
    """Labels, shares by class, and the shares as an array of the sorted classes."""
    random = np.random.default_rng(k)
    shares = random.dirichlet(np.ones(k), n)
    shares[0] = np.eye(k)[0]
    classes = sorted(NAMES[:k])
    y = [classes[0], *(classes[i] for i in random.integers(0, k, n - 1))]
    return y, [dict(zip(classes, row.tolist(), strict=True)) for row in shares], shares


@pytest.mark.parametrize("k", [2, 3, 4])
def test_scikit_learn_s_values(asked: Any, k: int) -> None:
    y, shares, array = made(k)
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    rows = list(zip(y, shares, weight, strict=True))
    classes = sorted(NAMES[:k])
    for name, truth in (("log_loss", log_loss), ("brier", brier_score_loss)):
        given = array if name == "log_loss" or k > 2 else array[:, 1]
        more: dict[str, Any] = {"labels": classes}
        if name == "brier" and k == 2:
            more = {"pos_label": classes[1]}
        plain = asked.one(f"{name}(y, p)", rows, "y, p, w")
        assert plain == pytest.approx(truth(y, given, **more), rel=1e-12)
        weighted = asked.one(f"{name}(y, p, w)", rows, "y, p, w")
        assert weighted == pytest.approx(truth(y, given, sample_weight=weight, **more), rel=1e-12)


def test_labels_that_are_numbers_or_truth_values(asked: Any) -> None:
    """They are called as models call classes: 2.0 is '2', true is '1'."""
    shares = {"1": 0.2, "2": 0.3, "2.5": 0.5}
    for label, p in ((1, 0.2), (2, 0.3), (2.5, 0.5), (True, 0.2)):
        found = asked.one("log_loss(y, p)", [(label, shares)], "y, p")
        assert found == pytest.approx(-np.log(p))
    assert asked.one("log_loss(y::int, p)", [(2, shares)], "y, p") == pytest.approx(-np.log(0.3))


def test_rows_with_a_null_do_not_count(asked: Any) -> None:
    good = {"a": 0.25, "b": 0.75}
    rows = [("a", good, 1), (None, good, 1), ("a", None, 1), ("a", {"a": 0.5, "b": None}, 1),
            ("b", good, None), ("b", good, 0)]  # fmt: skip
    assert asked.one("log_loss(y, p, w)", rows, "y, p, w") == pytest.approx(-np.log(0.25))
    assert asked.one("log_loss(y, p)", rows[1:4], "y, p, w") is None
    assert asked.one("brier(y, p, w)", rows[4:], "y, p, w") is None


def test_a_label_without_a_chance_loses_at_most_36(asked: Any) -> None:
    found = asked.one("log_loss(y, p)", [("a", {"a": 0, "b": 1})], "y, p")
    assert found == pytest.approx(-np.log(np.finfo(float).eps))


@pytest.mark.parametrize(
    ("label", "shares", "sentence"),
    [
        ("a", {"a": 1.5, "b": -0.5}, "p of class 'a' is 1.5, expected a probability between 0"),
        ("a", {"a": 0.5, "b": 0.4}, "p adds up to 0.9, expected 1"),
        ("a", {}, "p has no classes, expected their probabilities"),
    ],
)
def test_what_is_refused(asked: Any, label: str, shares: Any, sentence: str) -> None:
    for name in ("log_loss", "brier"):
        query = f"SELECT {name}(y, p) FROM {asked.rows([(label, shares)], 'y, p')}"
        assert f"{name}: {sentence}" in asked.sentence(query)


def test_a_class_that_was_never_seen_is_a_wrong_prediction(asked: Any) -> None:
    """It has the probability 0, and brier adds up all classes."""
    for shares in ({"a": 0.25, "b": 0.75}, {"a": 0.25, "b": 0.25, "d": 0.5}):
        rows = [("c", shares), ("a", shares)]
        lost = -np.log([np.finfo(float).eps, 0.25])
        assert asked.one("log_loss(y, p)", rows, "y, p") == pytest.approx(lost.mean())
        missed = 1 + sum(p**2 for p in shares.values())
        assert asked.one("brier(y, p)", rows[:1], "y, p") == pytest.approx(missed)


def test_a_model_that_has_seen_one_class(asked: Any) -> None:
    """The rest of its probability is that of all other classes."""
    rows = [("a", {"a": 0.75}), ("b", {"a": 0.75}), ("b", {"a": 0.75})]
    assert asked.one("log_loss(y, p)", rows, "y, p") == pytest.approx(
        -(np.log(0.75) + 2 * np.log(0.25)) / 3
    )
    assert asked.one("brier(y, p)", rows, "y, p") == pytest.approx((0.25**2 + 2 * 0.75**2) / 3)


def test_jsonb_that_holds_no_probabilities(there: Any) -> None:
    for text, sentence in (
        ("[1]", "p is no object, expected probabilities by class such as predict_probas"),
        ("1", "p is no object"),
        ('{"a": "1"}', "p of class 'a' is no number"),
        ('{"a": {"b": 1}}', "p of class 'a' is no number"),
    ):
        assert sentence in there.sentence(f"SELECT log_loss('a', '{text}'::jsonb)")


def test_a_model_s_own_probabilities(asked: Any) -> None:
    """The log loss of a training without a penalty is the model's loss."""
    source = "(SELECT i * 7 % 11 AS x, 'k' || (i * 7919 % 13) % 3 AS y FROM generate_series(1, 90) AS s(i)) AS r"
    query = (
        f"SELECT (m).loss, log_loss(y, predict_probas(m, ARRAY[x])), accuracy(y, predict_class(m, ARRAY[x])) "
        f"FROM {source}, (SELECT train_model('logistic', y, ARRAY[x]) AS m FROM {source}) AS t GROUP BY (m).loss"
    )
    ((loss, found, accuracy),) = asked.all(query)
    assert found == pytest.approx(loss, rel=1e-9)
    assert accuracy > 1 / 3


def test_groups_and_parallel_workers(asked: Any) -> None:
    """100,000 rows, combined from several threads or workers."""
    shares = "map(['a', 'b'], [q, 1 - q])"
    if asked.postgres:
        shares = "jsonb_build_object('a', q, 'b', 1 - q)"
    source = "(SELECT i % 3 AS g, (i % 1000) / 1000.0 AS q, i FROM generate_series(1, 100000) AS s(i)) AS r"
    query = (
        f"SELECT g, log_loss(CASE WHEN i % 7 < 3 THEN 'a' ELSE 'b' END, {shares}), "
        f"log_loss(i % 7 < 3, q::float8) FROM {source} GROUP BY g ORDER BY g"
    )
    for _, many, two in asked.all(query):
        assert many == pytest.approx(two, rel=1e-12)
