"""Searches over hashed features: however many bits, the weak penalty wins and predicts exactly.

Each model of such a search is trained on the ids that occur and judged with a list as long as the
largest id. Labels are those of the words, other ones in each group, so that a model judged with
the weights of another one is found out.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import duckdb
import psycopg
import pytest

from tuskml.learners.registry import learners

WORDS, GROUPS = 7, 3
ROWS = f"(SELECT i, i % {GROUPS} AS g, i % {WORDS} AS w FROM generate_series(1, 240) AS t(i))"
FOLDS = {"folds": 3}
LABEL = f"1 + (1 + 2 * g) * ((w + 3 * g) % {WORDS})"
CLASS = f"(w + 3 * g) % {WORDS} >= 2 + g"
GRIDS = {
    "huber": {"l2": [1e-7, 1000], "delta": 1},  # exact labels have no residuals to estimate it by
    "lasso": {"lambda": [1e-6, 100]},
    "elastic_net": {"lambda": [1e-6, 100]},
    "sparse_logistic": {"lambda": [1e-5, 100]},
    "fm": {
        "l2": [1e-6, 1000],
        "max_iter": 200,
        "learning_rate": 0.3,
        "rank": 1,
        "deterministic": True,
    },
}
CLASSES = ("logistic", "svm", "squared_hinge", "sparse_logistic", "ordinal")
NUMBERS = (
    *("linear", "poisson", "negative_binomial", "gamma", "tweedie", "inverse_gaussian"),
    *("huber", "quantile", "lasso", "elastic_net", "fm"),
)
WORST = {"negative_binomial": 0.1, "tweedie": 0.1, "inverse_gaussian": 0.1}
"""The largest mean absolute error of a held-out fold, of labels from 1 on; others: 0.02."""


def search(task: str, bits: int, how: dict | None = None) -> str:
    """Of each group the winner, and of each candidate the metrics of its folds."""
    grid = GRIDS.get(task, {"l2": [1e-7, 1000]})
    metric = "accuracy" if task in CLASSES else "mae"
    options = json.dumps(grid | {"seed": 7, "metric": metric} | (how or FOLDS))
    label, given = (CLASS if task in CLASSES else LABEL), f"ARRAY['w' || w], {bits}"
    return (
        "SELECT g, (m).trials FROM (SELECT g, "
        f"train_model('{task}', {label}, hash_features({given}), '{options}') AS m "
        f"FROM {ROWS} AS r GROUP BY g) AS s ORDER BY g"
    )


def check(task: str, found: list[tuple]) -> None:
    assert len(found) == GROUPS
    for g, text in found:
        trials = json.loads(text)
        best = trials["trials"][trials["chosen"]]
        penalty = next(iter(best["configuration"].values()))
        assert penalty < 1e-3, (task, g, trials)
        for fold in best["folds"]:
            if task in CLASSES:
                assert fold["metric"] == 1, (task, g, best)
            else:
                assert fold["metric"] < WORST.get(task, 0.02), (task, g, best)


@pytest.mark.parametrize(
    ("task", "bits"),
    [
        *((task, bits) for task in CLASSES + NUMBERS for bits in (12, 17)),
        ("linear", 21),
        *(
            pytest.param(task, bits, marks=pytest.mark.nightly)
            for task in CLASSES + NUMBERS
            for bits in (20, 21, 22)
        ),
    ],
)
def test_a_search_over_hashed_features(con: duckdb.DuckDBPyConnection, task: str, bits: int):
    check(task, con.execute(search(task, bits)).fetchall())


def test_every_task_with_sparse_features_is_tried():
    takes = {
        task
        for learner in learners()
        if learner.facts.takes_sparse
        for task, known in learner.tasks.items()
        if known.weighs_features or task in ("fm", "ordinal")
    }
    assert takes == {*CLASSES, *NUMBERS}


def test_threads_that_search_at_once_do_not_judge_each_others_models(new_con):
    """Models of equal rows are equal, whichever thread's memory was freed meanwhile."""
    query = search("linear", 18, FOLDS | {"threads": 1})
    with ThreadPoolExecutor(4) as pool:
        given = [new_con.cursor() for _ in range(8)]
        for found in pool.map(lambda cursor: cursor.execute(query).fetchall(), given):
            check("linear", found)


@pytest.mark.parametrize(
    "how",
    [
        {"validation": 0.3},
        {"folds": 3, "search": {"strategy": "halving"}, "l2": [1e-7, 30, 1000, 3000]},
        {"folds": 2, "deterministic": True},
        {"folds": 2, "threads": 1},
    ],
)
@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_however_it_searches(con, task, how):
    check(task, con.execute(search(task, 18, how)).fetchall())


@pytest.mark.parametrize(("task", "bits"), [("linear", 17), ("logistic", 19), ("linear", 22)])
def test_the_same_in_postgresql(post: psycopg.Connection, task: str, bits: int):
    """From 21 bits on the memory that was judged was not mapped any more, which ended sessions."""
    post.execute("SET tuskml.memory_limit = '1GB'")
    check(task, post.execute(search(task, bits)).fetchall())
