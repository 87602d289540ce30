"""Metrics of weighted rows: scikit-learn's sample_weight, and a weight of 2 is the row twice."""

from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

relaxed = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
RANDOM = np.random.default_rng(5)
N = 50
W = RANDOM.gamma(1.0, size=N) * (RANDOM.random(N) > 0.1)
SUMS = {
    "log_loss(y, p": ("b", "q", reference.log_loss),
    "brier(y, p": ("b", "q", reference.brier_score_loss),
    "accuracy(y, p": ("k", "k", reference.accuracy_score),
    "rmse(y, p": ("x", "x", reference.root_mean_squared_error),
    "mae(y, p": ("x", "x", reference.mean_absolute_error),
    "r2(y, p": ("x", "x", reference.r2_score),
    "mape(y, p": ("x", "x", reference.mean_absolute_percentage_error),
    "pinball(y, p, 0.8": (
        "x", "x", lambda *a, **k: reference.mean_pinball_loss(*a, alpha=0.8, **k)
    ),
    "poisson_deviance(y, p": ("x", "x", reference.mean_poisson_deviance),
    "gamma_deviance(y, p": ("x", "x", reference.mean_gamma_deviance),
}  # fmt: skip
KINDS = {
    "b": lambda: RANDOM.integers(0, 2, N).astype(float),
    "q": lambda: RANDOM.random(N),
    "k": lambda: RANDOM.integers(0, 3, N).astype(float),
    "x": lambda: RANDOM.gamma(2.0, size=N),
}


@pytest.mark.parametrize("call", SUMS)
def test_sums_are_scikit_learn_s(asked: Any, call: str) -> None:
    label, other, truth = SUMS[call]
    y, p = KINDS[label](), KINDS[other]()
    found = asked.one(f"{call}, w)", list(zip(y, p, W, strict=True)), "y, p, w")
    assert found == pytest.approx(truth(y, p, sample_weight=W), rel=1e-12)


@pytest.mark.parametrize("name", ["precision_score", "recall_score", "f1_score"])
@pytest.mark.parametrize("average", ["binary", "macro", "weighted", "micro"])
def test_scores_of_classes_are_scikit_learn_s(asked: Any, name: str, average: str) -> None:
    kind = "b" if average == "binary" else "k"
    y, p = KINDS[kind](), KINDS[kind]()
    rows = list(zip(y, p, W, strict=True))
    found = asked.one(f"{name}(y, p, '{average}', w)", rows, "y, p, w")
    used = W > 0  # as rows that are not there
    truth = getattr(reference, name)(
        y[used], p[used], average=average, sample_weight=W[used], zero_division=0
    )
    assert found == pytest.approx(truth, rel=1e-12)


def test_confusion_has_the_weights(asked: Any) -> None:
    y, p = KINDS["k"](), KINDS["k"]()
    source = asked.rows(list(zip(y, p, W, strict=True)), "y, p, w")
    found = asked.table("confusion(y, p, w)", "label, predicted, n, weight", source)
    truth = reference.confusion_matrix(y, p, sample_weight=W)
    used = W > 0
    counts = reference.confusion_matrix(y[used], p[used])
    for label, predicted, n, weight in found:
        assert weight == pytest.approx(truth[int(label), int(predicted)])
        assert n == counts[int(label), int(predicted)]
    assert len(found) == np.count_nonzero(counts)
    text = asked.rows([("a", "b", 0.5), ("a", "b", 2)], "y, p, w")
    shown = asked.table("confusion(y, p, w)", "label, predicted, n, weight", text)
    assert shown == [("a", "b", 2, 2.5)]
    assert asked.one("accuracy(y, p, w)", [("a", "a", 3), ("a", "b", 1)], "y, p, w") == 0.75


REPEATED = [
    *(f"{call}, w)" for call in SUMS),
    "precision_score(y, p, 'macro', w)",
    "f1_score(y, p, 'weighted', w)",
    "recall_score(y, p, 'micro', w)",
]


@relaxed
@given(st.lists(st.tuples(*[st.sampled_from([0.0, 1.0])] * 2, st.integers(0, 3)), min_size=1))
def test_a_weight_of_2_is_the_row_twice(asked: Any, rows: list[tuple[float, float, int]]) -> None:
    twice = [row for row in rows for _ in range(row[2])]
    for call in REPEATED:
        if "deviance" in call:
            continue
        plain = call.replace(", w)", ")")
        expected = asked.one(plain, twice, "y, p, w") if twice else None
        found = asked.one(call, rows, "y, p, w")
        assert found == (None if expected is None else pytest.approx(expected, abs=1e-12))


@pytest.mark.parametrize("call", REPEATED)
def test_weights_that_are_refused(asked: Any, call: str) -> None:
    name = call.partition("(")[0]
    for weight, shown in ((-1, "-1"), (np.inf, "inf"), (np.nan, "nan")):
        query = f"SELECT {call} FROM {asked.rows([(1, 1, weight)], 'y, p, w')}"
        sentence = f"{name}: weight is {shown}, expected a finite number of at least 0"
        assert sentence in asked.sentence(query).replace("-nan", "nan")
    assert asked.one(call, [(1, 1, None), (1, 1, 0)], "y, p, w") is None


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e160, 1e280])
@pytest.mark.parametrize("call", ["auc(b, q, w)", "average_precision(b, q, w)", "brier(b, q, w)"])
def test_the_unit_of_weights_does_not_matter(asked: Any, call: str, unit: float) -> None:
    """A product of two weights would be 0 or infinite, and the metric NaN."""
    b, q = KINDS["b"](), KINDS["q"]()
    rows = [list(zip(b, q, weights, strict=True)) for weights in (W * unit, W)]
    found, expected = (asked.one(call, some, "b, q, w") for some in rows)
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "call", ["accuracy(y, p, w)", "auc(y, p, w)", "f1_score(y, p, 'macro', w)"]
)
def test_weights_whose_sum_could_be_infinite_are_refused(asked: Any, call: str) -> None:
    """Their accuracy was 0, something divided by infinity."""
    source = asked.rows([(1, 1, 1e308), (0, 1, 1e308)], "y, p, w")
    expected = "weight is 1e+308, expected a finite number of at least 0 and at most 1e+290"
    assert expected in asked.sentence(f"SELECT {call} FROM {source}")
