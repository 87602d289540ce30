"""Trains one model for each task and prints what it answers as JSON: python learners_answers.py

Equal packages on other machines print the same, as `arm_check.py` tests. Rows are quotients of
whole numbers, so no machine's libraries have a part in them.
"""

import json
import sys
import time
from typing import Any

import tuskml

ROWS = """
CREATE TABLE rows AS
SELECT i, [a, b, c] AS x, 3 * a - 2 * b + c + e AS y, 3 * a - 2 * b + e > 0.4 AS yes,
       ['low', 'middle', 'high'][1 + (a > 0.3)::INT + (a + e > 0.7)::INT] AS class,
       i * 29 % 7 AS counts, 1 + a + b * b + e AS positive, [i % 20, i * 7 % 15] AS pair,
       ['w' || i % 5, 'w' || i % 3, 'v' || i % 7, 'v' || i % 2] AS words
FROM (
    SELECT i, i * 37 % 101 / 101.0::DOUBLE AS a, i * 53 % 97 / 97.0::DOUBLE AS b,
           i * 71 % 89 / 89.0::DOUBLE AS c, (i * 29 % 83 / 83.0::DOUBLE - 0.5) / 2 AS e
    FROM range(400) t(i)
)
"""
TASKS = {
    "linear": ("y", "x", "{}"),
    "logistic": ("yes", "x", '{"l2": 0.01}'),
    "multinomial": ("class", "x", '{"l2": 0.01}'),
    "svm": ("yes", "x", '{"l2": 0.01}'),
    "squared_hinge": ("yes", "x", '{"l2": 0.01}'),
    "poisson": ("counts", "x", "{}"),
    "negative_binomial": ("counts", "x", "{}"),
    "gamma": ("positive", "x", "{}"),
    "tweedie": ("positive", "x", "{}"),
    "inverse_gaussian": ("positive", "x", "{}"),
    "huber": ("y", "x", "{}"),
    "quantile": ("y", "x", "{}"),
    "ordinal": ("class", "x", "{}"),
    "matrix_factorization": ("y", "pair", '{"rank": 3, "max_iter": 5}'),
    "gbdt": ("y", "x", '{"trees": 10}'),
    "random_forest": ("y", "x", '{"trees": 5}'),
    "mlp": ("y", "x", '{"max_iter": 5}'),
    "lasso": ("y", "x", "{}"),
    "elastic_net": ("y", "x", "{}"),
    "sparse_logistic": ("yes", "x", "{}"),
    "lda": ("NULL", "words", '{"topics": 2, "max_iter": 10}'),
    "kmeans": ("NULL", "x", '{"clusters": 3}'),
    "fm": ("y", "x", '{"rank": 2, "max_iter": 5}'),
}
"""Label, features and options by task."""
PREDICTED = {
    "logistic": "predict_proba(model, x)",
    "multinomial": "predict_probas(model, x)",
    "ordinal": "predict_probas(model, x)",
    "svm": "decision(model, x)",
    "squared_hinge": "decision(model, x)",
    "sparse_logistic": "predict_proba(model, x)",
    "lda": "predict_topics(model, words)",
}
"""What is compared in place of `predict`."""
SHOWN = 40


def answers(con: Any, task: str) -> dict[str, Any]:
    """The model's status, its numbers, and predictions for the first rows."""
    label, features, options = TASKS[task]
    called = "logistic" if task == "multinomial" else task
    given = json.loads(options) | {"threads": 1}
    con.execute(
        f"CREATE OR REPLACE TABLE m AS SELECT train_model('{called}', {label}, {features}, "
        f"'{json.dumps(given)}') AS model FROM rows"
    )
    predicted = PREDICTED.get(task, f"predict(model, {features})")
    query = "SELECT model.status, model.coef, model.intercept, model.iterations FROM m"
    status, coef, intercept, iterations = con.execute(query).fetchall()[0]
    query = f"SELECT {predicted} FROM rows, m WHERE i < {SHOWN} ORDER BY i"
    predictions = [number for (value,) in con.execute(query).fetchall() for number in flat(value)]
    return {
        "status": status,
        "coef": [*(coef or []), *([] if intercept is None else [intercept])],
        "predictions": predictions,
        "iterations": iterations,
    }


def flat(value: Any) -> list[float]:
    """The numbers of a prediction, which may be a map or a list; a class of true or false too."""
    if isinstance(value, dict):
        value = list(value.values())
    return [float(one) for one in (value if isinstance(value, list) else [value])]


def main() -> None:
    """Prints the answers of the tasks that the arguments name, or of all."""
    found = {}
    with tuskml.connect(threads=1) as con:
        con.execute("SET enable_progress_bar = false")
        con.execute(ROWS)
        for task in sys.argv[1:] or TASKS:
            began = time.monotonic()
            found[task] = answers(con, task)
            print(f"{task}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
