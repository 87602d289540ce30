"""Two predictions of the same rows, against scipy's paired t test and scikit-learn's losses."""

from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

relaxed = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
COLUMNS = "n, mean_a, mean_b, difference, std_err, lower, upper, p_value"
RANDOM = np.random.default_rng(3)
N = 40
POSITIVE = RANDOM.gamma(2.0, size=(3, N))
CHANCES = np.vstack((RANDOM.integers(0, 2, N), RANDOM.random((2, N))))
CLASSES = RANDOM.integers(0, 3, (3, N)).astype(float)
LOSSES = {
    "mse": (POSITIVE, reference.mean_squared_error),
    "mae": (POSITIVE, reference.mean_absolute_error),
    "mape": (POSITIVE, reference.mean_absolute_percentage_error),
    "poisson_deviance": (POSITIVE, reference.mean_poisson_deviance),
    "gamma_deviance": (POSITIVE, reference.mean_gamma_deviance),
    "log_loss": (CHANCES, lambda y, p: reference.log_loss(y, p, labels=[0, 1])),
    "brier": (CHANCES, reference.brier_score_loss),
    "accuracy": (CLASSES, reference.accuracy_score),
}


MSE = "compare(y, a, b, 'mse')"


def compared(asked: Any, rows: Any, call: str = MSE, names: str = "y, a, b") -> Any:
    """The fields of a comparison, as floats and None."""
    source = asked.rows(rows, names)
    shown = ", ".join(f"(t.c).{one.strip()}" for one in COLUMNS.split(","))
    ((found),) = asked.all(f"SELECT {shown} FROM (SELECT {call} AS c FROM {source}) AS t")
    return found


def paired(loss_a: Any, loss_b: Any) -> list[float]:
    """Their means, and the mean difference with its interval, by scipy."""
    found = stats.ttest_rel(loss_a, loss_b)
    low, high = found.confidence_interval(0.95)
    difference = np.mean(loss_a) - np.mean(loss_b)
    error = stats.sem(np.asarray(loss_a) - np.asarray(loss_b))
    return [np.mean(loss_a), np.mean(loss_b), difference, error, low, high, found.pvalue]


@pytest.mark.parametrize("metric", LOSSES)
def test_the_paired_t_of_losses(asked: Any, metric: str) -> None:
    (y, a, b), loss = LOSSES[metric]
    each = [[loss([u], [v]) for u, v in zip(y, p, strict=True)] for p in (a, b)]
    found = compared(asked, np.array((y, a, b)).T, f"compare(y, a, b, '{metric}')")
    assert found[0] == N
    assert found[1:] == pytest.approx(paired(*each), rel=1e-9)


numbers = st.floats(-1e3, 1e3).map(lambda x: round(x, 3))


@relaxed
@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=3, max_size=20))
def test_errors_of_any_numbers(asked: Any, rows: list[tuple[float, ...]]) -> None:
    y, a, b = np.array(rows).T
    found = compared(asked, rows)
    differences = (a - y) ** 2 - (b - y) ** 2
    assert found[3] == pytest.approx(differences.mean(), rel=1e-9, abs=1e-6)
    error = stats.sem(differences)
    assert found[4] == pytest.approx(error, rel=1e-6, abs=1e-6)
    reach = stats.t.ppf(0.975, len(rows) - 1) * error
    assert found[6] - found[5] == pytest.approx(2 * reach, rel=1e-6, abs=1e-5)


def test_rows_of_weight_two_are_two_rows(asked: Any) -> None:
    rows = [*map(tuple, POSITIVE.T.tolist())]
    weights = [i % 3 for i in range(N)]
    weighted = [(*row, w) for row, w in zip(rows, weights, strict=True)]
    repeated = [row for row, w in zip(rows, weights, strict=True) for _ in range(w)]
    found = compared(asked, weighted, "compare(y, a, b, 'mae', w)", "y, a, b, w")
    expected = compared(asked, repeated, "compare(y, a, b, 'mae')")
    assert found[0] == sum(w > 0 for w in weights)
    assert found[1:] == pytest.approx(expected[1:], rel=1e-9)


def test_rows_with_a_null_count_for_neither(asked: Any) -> None:
    rows = [(1, 2, 4), (None, 1, 1), (1, None, 5), (1, 7, None), (2, 4, 5)]
    found = compared(asked, rows)
    assert found[:4] == (2, 2.5, 9.0, -6.5)
    assert compared(asked, [(1, None, 2)]) == (None,) * 8


def test_one_row_has_no_interval(asked: Any) -> None:
    assert compared(asked, [(1, 2, 4)]) == (1, 1.0, 9.0, -8.0, None, None, None, None)
    same = compared(asked, [(1, 2, 2), (3, 5, 5)])
    assert same == (2, 2.5, 2.5, 0.0, 0.0, 0.0, 0.0, None)


def test_classes_of_text_and_truths(asked: Any) -> None:
    rows = [("u", "u", "v"), ("v", "v", "v"), ("w", "u", "w"), ("u", "u", "w")]
    texts = compared(asked, rows, "compare(y, a, b, 'accuracy')")
    assert texts[:4] == (4, 0.75, 0.5, 0.25)
    truths = [(y == "u", a == "u", b == "u") for y, a, b in rows]
    assert compared(asked, truths, "compare(y, a, b, 'accuracy')")[:3] == (4, 0.75, 0.5)
    chances = [(y == "u", 0.75, 0.5) for y, *_ in rows]
    found = compared(asked, chances, "compare(y, a, b, 'log_loss')")
    assert found[2] == pytest.approx(np.log(2))


def test_groups_and_windows(asked: Any) -> None:
    rows = [(i % 2, y, a, b) for i, (y, a, b) in enumerate(POSITIVE.T.tolist())]
    source = asked.rows(rows, "g, y, a, b")
    shown = "(t.c).n, (t.c).difference"
    call = "compare(y, a, b, 'mse')"
    groups = asked.all(
        f"SELECT {shown} FROM (SELECT g, {call} AS c FROM {source} GROUP BY g) AS t ORDER BY g"
    )
    window = f"SELECT g, y, {call} OVER (PARTITION BY g ORDER BY y) AS c FROM {source}"
    running = asked.all(f"SELECT {shown} FROM ({window}) AS t ORDER BY g, (t.c).n")
    y, a, b = POSITIVE
    for g in (0, 1):
        differences = ((a - y) ** 2 - (b - y) ** 2)[g::2]
        assert groups[g] == (N // 2, pytest.approx(differences.mean()))
        ordered = differences[np.argsort(y[g::2])]
        expected = np.cumsum(ordered) / np.arange(1, N // 2 + 1)
        found = [value for _, value in running[g * N // 2 : (g + 1) * N // 2]]
        assert found == pytest.approx(expected.tolist())


@pytest.mark.parametrize(
    ("rows", "metric", "sentence"),
    [
        ([(1, 2, 3)], "'rmse'", "metric is 'rmse', expected a mean over rows: 'mse', 'mae',"),
        ([(1, 2, 3)], "NULL::VARCHAR", "metric is 'NULL', expected a mean over rows"),
        ([(1, 2, 0.5)], "'log_loss'", "p is 2, expected a probability between 0 and 1"),
        ([(1, 0.2, 1.5)], "'brier'", "p is 1.5, expected a probability between 0 and 1"),
        ([(3, 0.2, 0.5)], "'brier'", "label is 3, expected a boolean, 0 or 1, or -1 or +1"),
        ([("a", "a", "b")], "'mae'", "label or a prediction is text, expected numbers"),
        (
            [(1, 1, 1), (2, 1, 1)],
            "CASE WHEN y = 1 THEN 'mae' ELSE 'mse' END",
            "metric is both 'mae' and 'mse', expected one for all rows of a group",
        ),
    ],
)
def test_what_is_refused(asked: Any, rows: Any, metric: str, sentence: str) -> None:
    source = asked.rows(rows, "y, a, b")
    found = asked.sentence(f"SELECT compare(y, a, b, {metric}) FROM {source}")
    assert f"compare: {sentence}" in found


def test_text_and_numbers_are_refused(here: Any) -> None:
    source = here.rows([("a", 1, 2)], "y, a, b")
    found = here.sentence(f"SELECT compare(y, a, b, 'accuracy') FROM {source}")
    assert "one of label and predictions is text and another is not" in found


def test_workers_states_become_one(there: Any) -> None:
    con = there.connection
    con.execute(
        "CREATE TABLE spread AS SELECT sin(i) AS y, cos(i) AS a, sin(i / 3.0) AS b "
        "FROM generate_series(1, 20000) AS s(i)"
    )
    for name in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
        con.execute(f"SET {name} = 0")
    call = "compare(y, a, b, 'mse')"
    plan = "".join(row[0] for row in there.all(f"EXPLAIN SELECT {call} FROM spread"))
    assert "Partial Aggregate" in plan
    shown = "(t.c).n, (t.c).difference, (t.c).std_err"
    ((*found,),) = there.all(f"SELECT {shown} FROM (SELECT {call} AS c FROM spread) AS t")
    con.execute("DROP TABLE spread")
    i = np.arange(1, 20001)
    losses = (np.cos(i) - np.sin(i)) ** 2 - (np.sin(i / 3) - np.sin(i)) ** 2
    assert found == pytest.approx([20000, losses.mean(), stats.sem(losses)])
