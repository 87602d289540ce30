"""Functions that look into models, on tables in which some groups could not be fitted.

Such a group has no rows; that its model cannot answer never ends a query over all groups.
"""

from typing import Any

import duckdb
import psycopg
import pytest

Session = tuple[str, Any]

FITTED = range(2, 4)
ROWS = """
CREATE TABLE given AS
SELECT g, i, CASE WHEN g = 0 AND i = 5 THEN CAST('nan' AS double precision) WHEN g = 4 THEN 1
                  WHEN g = 5 THEN (i % 7) * 1e300 ELSE i % 7 END AS a,
       sin(CAST(i AS double precision)) AS b,
       CASE WHEN g = 0 AND i = 5 THEN CAST('nan' AS double precision) WHEN g = 1 THEN 0
            WHEN g = 5 THEN 1e200 * i WHEN g = 6 THEN NULL
            ELSE 2 * (i % 7) + sin(CAST(i AS double precision)) + 0.3 * (i * 7 % 5) + 1 END AS y,
       CASE WHEN g = 1 THEN 'no' WHEN g = 6 THEN NULL
            WHEN (i * 7919 % 101) % 2 = 1 THEN 'yes' ELSE 'no' END AS two,
       CASE WHEN g = 0 AND i = 5 THEN -1 ELSE 1 END AS n
"""
"""Groups: 0 has an invalid row, 1 a single label, 4 a constant feature, 5 labels whose squares are
beyond doubles, 6 no label, 7 a single row; 2 and 3 are ordinary."""
RANGES = {
    "duck": "FROM range(60) AS r (i), range(8) AS s (g) WHERE g < 7 OR i = 1",
    "post": "FROM generate_series(0, 59) AS r (i), generate_series(0, 7) AS s (g) "
    "WHERE g < 7 OR i = 1",
}
DENSE = {"duck": "[a, b]", "post": "ARRAY[a, b]::float8[]"}
PAIRS = {"duck": "[i % 9, i % 5]", "post": "ARRAY[i % 9, i % 5]"}
COUNTS = {
    "duck": "sparse([i % 5, i % 4 + 5], [n, 2])",
    "post": "sparse(ARRAY[i % 5, i % 4 + 5], ARRAY[n, 2]::float8[])",
}
OF_FIT = "model_summary(m) model_fit(m) model_terms(m) explain_prediction(m,X)"
TREES = "model_summary(m) feature_importance(m) tree_dump(m) explain_prediction(m,X)"
PATH = '{"path": {"length": 4, "folds": 2}}'
CASES = [
    ("linear", "y", DENSE, '{"fit": true}', OF_FIT),
    ("logistic", "two", DENSE, '{"fit": true, "likelihood_ratio": true}', OF_FIT),
    ("gamma", "y", DENSE, '{"fit": true}', OF_FIT),
    ("linear", "y", DENSE, '{"l2": [0.1, 1], "folds": 2}', "model_trials(m)"),
    ("logistic", "two", DENSE, '{"l2": [0.1, 1], "folds": 2}', "model_trials(m)"),
    (
        "gbdt",
        "two",
        DENSE,
        '{"trees": [1, 2], "search": {"strategy": "halving"}}',
        "model_trials(m)",
    ),
    ("auto", "y", DENSE, '{"tasks": ["linear", "lasso"], "folds": 2}', "model_trials(m)"),
    ("lasso", "y", DENSE, PATH, "model_path(m) model_summary(m)"),
    ("sparse_logistic", "two", DENSE, PATH, "model_path(m) model_summary(m)"),
    ("gbdt", "y", DENSE, '{"trees": 2}', TREES),
    ("random_forest", "two", DENSE, '{"trees": 2}', TREES.replace(" explain_prediction(m,X)", "")),
    ("matrix_factorization", "y", PAIRS, '{"max_iter": 2}', "recommend(m,1) similar_items(m,1)"),
    ("lda", "NULL::float8", COUNTS, '{"max_iter": 2, "topics": 2}', "model_topics(m)"),
    ("kmeans", "NULL::float8", DENSE, '{"clusters": 2}', "model_summary(m)"),
]


def rows_of_groups(session: Session, function: str) -> dict[int, list[tuple[Any, ...]]]:
    """By group what a function of models returns; all groups are asked in one query."""
    name, con = session
    features = "[1.0, 2.0]" if name == "duck" else "ARRAY[1.0, 2.0]::float8[]"
    call = function.replace("X", features)
    found: dict[int, list[tuple[Any, ...]]] = {}
    for g, *row in con.execute(f"SELECT g, r.* FROM made, {call} AS r").fetchall():
        found.setdefault(int(g), []).append(tuple(row))
    return found


@pytest.mark.parametrize(("task", "label", "features", "options", "functions"), CASES)
def test_a_group_without_a_fit_has_no_rows(
    session: Session,
    task: str,
    label: str,
    features: dict[str, str],
    options: str,
    functions: str,
) -> None:
    name, con = session
    con.execute(f"{ROWS} {RANGES[name]}")
    call = f"train_model('{task}', {label}, {features[name]}, '{options}')"
    con.execute(f"CREATE TABLE made AS SELECT g, {call} AS m FROM given GROUP BY g")
    invalid = con.execute("SELECT (m).status, (m).n_features FROM made WHERE g = 0").fetchall()
    assert invalid == [("invalid rows", 0)]
    for function in functions.replace(", ", ",").split():
        found = rows_of_groups(session, function)
        assert all(found.get(g) for g in FITTED), function
        assert 0 not in found or function.startswith("model_summary"), function


def test_a_model_without_a_record_is_refused_all_the_same(session: Session) -> None:
    name, con = session
    con.execute(f"{ROWS} {RANGES[name]}")
    call = f"train_model('linear', y, {DENSE[name]})"
    con.execute(f"CREATE TABLE made AS SELECT g, {call} AS m FROM given GROUP BY g")
    for function in ("model_fit", "model_terms", "model_trials", "model_path"):
        with pytest.raises((duckdb.Error, psycopg.Error), match=f"{function}: the model "):
            con.execute(f"SELECT r.* FROM made, {function}(m) AS r WHERE g = 2").fetchall()
