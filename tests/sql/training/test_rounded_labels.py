"""Labels that are numbers which a double rounds: the status says so where that changes the model,
whatever the task, the storage and the type, and nowhere else."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import pytest

ROUNDED = "rounded feature"
TASKS: dict[str, dict[str, Any]] = {
    "linear": {},
    "poisson": {},
    "gamma": {},
    "huber": {},
    "quantile": {},
    "lasso": {"lambda": 0.1},
    "elastic_net": {"lambda": 0.1},
    "gbdt": {"trees": 3},
    "random_forest": {"trees": 3},
    "mlp": {"layers": [2], "max_iter": 2},
    "fm": {"rank": 1, "max_iter": 3},
    "matrix_factorization": {"rank": 1, "max_iter": 3},
}
SOLVED = ["linear", "poisson", "gamma", "gbdt", "random_forest"]
"""Tasks that end with `ok` wherever their labels lie."""
STORAGES = ["dense", "sparse", "named"]
SPARSE = ["linear", "huber", "quantile", "poisson", "gamma", "lasso", "elastic_net", "fm"]


class Trainer:
    """One of both databases, which trains on labels that are SQL of the row's number i."""

    def __init__(self, session: Any, postgres: bool) -> None:
        self.session, self.postgres = session, postgres

    def status(
        self, task: str, label: str, storage: str = "dense", more: str = "", **options: Any
    ) -> str:
        x = "(i * 7 % 13)::float8"
        form = {
            "dense": f"ARRAY[{x}]",
            "sparse": f"sparse(ARRAY[3], ARRAY[{x}])",
            "named": f"(SELECT c FROM (SELECT {x} AS x) AS c)"
            if self.postgres
            else f"{{'x': {x}}}",
        }[storage]
        if task == "matrix_factorization":
            form = "ARRAY[i % 7, i * 3 % 8]"
        given = json.dumps({**TASKS.get(task, {}), **options})
        sql = f"SELECT (train_model('{task}', {label}, {form}, '{given}'{more})).status FROM generate_series(1, 60) AS s(i)"
        return str(self.session.execute(sql).fetchall()[0][0])


@pytest.fixture
def trainer(session: tuple[str, Any]) -> Trainer:
    return Trainer(session[1], session[0] == "post")


NEAR = "(9007199254740993 + i * i % 11)::bigint"
FAR = "(9007199254740993 + (i * i % 11) * 100000000)::bigint"


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("task", TASKS)
def test_labels_near_each_other_beyond_2_53(trainer: Trainer, task: str, storage: str) -> None:
    if storage == "sparse" and task not in SPARSE:
        storage = "dense"
    assert trainer.status(task, NEAR, storage) in (
        ROUNDED,
        "diverged",
        "not converged",
        "label among features",
    )
    if task in SOLVED:
        assert trainer.status(task, NEAR, storage) == ROUNDED
        assert trainer.status(task, FAR, storage) == "ok"


@pytest.mark.parametrize("task", SOLVED)
def test_numbers_that_become_one_double(trainer: Trainer, task: str) -> None:
    """Such labels do not vary any more; labels that never did are not rounded."""
    told = "no split" if task in ("gbdt", "random_forest") else ROUNDED
    apart = {
        "whole": "(9007199254740992 + i % 2)::bigint",
        "decimal": "CASE WHEN i % 2 = 0 THEN 0.12345678901234567890 ELSE 0.12345678901234567891 END::numeric(38, 20)",
    }
    for label in apart.values():
        assert trainer.status(task, label) == told
    for label in ("9007199254740992::bigint", "0.125::numeric(38, 20)", "3::float8"):
        assert trainer.status(task, label) != ROUNDED


@pytest.mark.parametrize("kind", ["bigint", "wide", "numeric(38, 2)", "float8"])
def test_types_say_the_same(trainer: Trainer, kind: str) -> None:
    name = kind if kind != "wide" else "numeric" if trainer.postgres else "hugeint"
    near = f"(9007199254740993 + i * i % 11)::{name}"
    far = f"(9007199254740993 + (i * i % 11) * 100000000)::{name}"
    for task in ("linear", "gbdt"):
        assert (trainer.status(task, near), trainer.status(task, far)) == (ROUNDED, "ok")


@pytest.mark.parametrize("task", ["linear", "gbdt"])
def test_weights_offsets_searches_and_stores(trainer: Trainer, task: str, tmp_path: Any) -> None:
    assert trainer.status(task, NEAR, more=", 2.0::float8") == ROUNDED
    if task == "linear":
        assert trainer.status("gamma", NEAR, more=", 2.0::float8, 1.0::float8") == ROUNDED
        assert trainer.status(task, NEAR, l2=[0.0, 0.1], folds=2) == ROUNDED
        if not trainer.postgres:
            assert trainer.status(
                task, NEAR, store="rounded", storage="sparse", deterministic=True
            ) in (ROUNDED, "not converged")
    else:
        assert trainer.status(task, NEAR, trees=[2, 3], folds=2) == ROUNDED


def test_classes_are_refused_or_kept_apart(trainer: Trainer) -> None:
    assert trainer.status("logistic", "(9007199254740992 + i % 2)::bigint") == "invalid rows"
    assert trainer.status("logistic", "(9007199254740992 + i % 2)::text", l2=1) == "ok"
    assert trainer.status("logistic", "i % 2 = 0", l2=1) == "ok"
