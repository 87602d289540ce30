"""A positive class that is named: labels of any type, against the same labels as booleans."""

from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference

RANDOM = np.random.default_rng(9)
N = 80
P = RANDOM.random(N).round(2) * 0.98 + 0.01
TRUTH = RANDOM.random(N) < P
W = RANDOM.gamma(1.0, size=N)
LABELS = {
    "text": (np.where(TRUTH, "yes", "no").tolist(), "yes"),
    "numbers": (np.where(TRUTH, 2.0, 1.0).tolist(), "2"),
    "lower": (np.where(TRUTH, 1.5, 7.0).tolist(), "1.5"),
    "boolean": (TRUTH.tolist(), "true"),
    "bit": (TRUTH.tolist(), "1"),
    "of three": (np.where(TRUTH, "b", RANDOM.choice(["a", "c"], N)).tolist(), "b"),
}
RANKED = ["auc", "average_precision", "log_loss", "brier", "ks"]
TABLES = {
    "roc_curve": "threshold, tpr, fpr",
    "precision_recall_curve": "threshold, precision, recall",
    "calibration": "bin, lower, upper, mean_p, rate, n",
    "lift": "decile, n, positives, rate, lift, cumulative_gain",
}
SCORES = {
    "auc": reference.roc_auc_score,
    "average_precision": reference.average_precision_score,
    "log_loss": reference.log_loss,
    "brier": reference.brier_score_loss,
    "ks": lambda *rows, **weights: np.ptp(reference.roc_curve(*rows, **weights)[:2], axis=0).max(),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("name", RANKED)
def test_scores_are_scikit_learn_s(asked: Any, kind: str, name: str) -> None:
    labels, positive = LABELS[kind]
    rows = [(label, float(p), float(w)) for label, p, w in zip(labels, P, W, strict=True)]
    found = asked.one(f"{name}(y, p, '{positive}')", rows, "y, p, w")
    assert found == pytest.approx(SCORES[name](TRUTH, P), rel=1e-12)
    weighted = asked.one(f"{name}(y, p, '{positive}', w)", rows, "y, p, w")
    assert weighted == pytest.approx(SCORES[name](TRUTH, P, sample_weight=W), rel=1e-12)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("name", ["precision_score", "recall_score", "f1_score"])
def test_scores_of_classes_are_scikit_learn_s(asked: Any, kind: str, name: str) -> None:
    labels, positive = LABELS[kind]
    predicted = labels[5:] + labels[:5]
    rows = list(zip(labels, predicted, W.tolist(), strict=True))
    guess = np.roll(TRUTH, -5)
    truth = getattr(reference, name)
    found = asked.one(f"{name}(y, p, 'binary', '{positive}')", rows, "y, p, w")
    assert found == pytest.approx(truth(TRUTH, guess), rel=1e-12)
    weighted = asked.one(f"{name}(y, p, 'binary', '{positive}', w)", rows, "y, p, w")
    assert weighted == pytest.approx(truth(TRUTH, guess, sample_weight=W), rel=1e-12)


@pytest.mark.parametrize("kind", ["text", "numbers", "bit"])
@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_of_a_boolean(asked: Any, kind: str, name: str) -> None:
    labels, positive = LABELS[kind]
    source = asked.rows(list(zip(labels, P.tolist(), TRUTH.tolist(), strict=True)), "y, p, b")
    columns = TABLES[name]
    found = asked.table(f"{name}(y, p, '{positive}')", columns, source)
    assert found == asked.table(f"{name}(b, p)", columns, source)
    assert found
    if name == "calibration":
        more = asked.table(f"{name}(y, p, '{positive}', 4)", columns, source)
        assert more == asked.table(f"{name}(b, p, 4)", columns, source)
        assert len(more) <= 4


def test_an_enum_is_text(asked: Any) -> None:
    rows = [("no", 0.2), ("yes", 0.4), ("no", 0.3)]
    source = asked.rows(rows, "y, p")
    asked.connection.execute("CREATE TYPE answer AS ENUM ('yes', 'no')")
    call = "auc(y::answer, p, 'yes'), f1_score(y::answer, y::answer, 'binary', 'no')"
    assert asked.all(f"SELECT {call} FROM {source}") == [(1.0, 1.0)]


def test_a_class_that_no_row_has_has_no_score(asked: Any) -> None:
    rows = [("a", 0.2), ("b", 0.4)]
    assert asked.one("auc(y, p, 'c')", rows, "y, p") is None


def test_an_average_of_all_classes_has_no_positive_one(asked: Any) -> None:
    with pytest.raises(Exception, match="a positive class is named, expected average 'binary'"):
        asked.one("f1_score(y, y, 'macro', 'a')", [("a",), ("b",)], "y")
