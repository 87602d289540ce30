"""Cases for tests of options: a value of each, the rows and labels of each task, and trainings."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import duckdb

from tuskml.learners.options.kinds import (
    CATEGORY,
    DATE,
    LIST,
    PAIRS,
    ROW,
    SPARSE,
    WORDS,
    Acts,
    Option,
)
from tuskml.learners.registry import learner_of, learners, task_named

ROWS = """
CREATE TABLE tried AS
SELECT i, i % 7 + sin(i) AS a, CASE WHEN i % 11 = 3 THEN NULL ELSE (i * 37) % 23 / 3.0 END AS b,
       CASE WHEN i % 13 = 4 THEN NULL WHEN i % 17 = 0 THEN 'rare'
            WHEN i % 19 = 0 THEN 'seldom' ELSE 'k' || i % 3 END AS k,
       i % 5 AS n, DATE '2024-01-01' + (17 * i)::INTEGER AS d, i % 9 AS g,
       'red ' || i % 4 || ' blue' AS words,
       (i % 7) * 2 + cos(3 * i) + 9 - (i * 37) % 23 / 3.0 + CASE WHEN i % 3 = 1 THEN 4 ELSE 0 END
       + CASE WHEN i % 31 = 5 THEN 20 ELSE 0 END AS y,
       (i * 7919 % 101 % 7 + i // 8) % 2 AS two, (i % 7 + i * 31 % 4)::INTEGER AS whole
FROM range(1, 121) AS t(i) ORDER BY i
"""
SPOILED = """
CREATE TABLE spoiled AS
SELECT * FROM tried
UNION ALL BY NAME
SELECT -5 AS i, 'nan'::DOUBLE AS a, 1 AS b, 'k1' AS k, 1 AS n, DATE '2024-01-01' AS d, 1 AS g,
       'red' AS words, 1 AS y, 1 AS two, 1 AS whole
"""
"""The rows, and one with NaN, ids below 0 and a weight below 0: option `invalid` is about it."""
FEATURES = {
    LIST: "[a, b, n]",
    SPARSE: "sparse([0, 1 + i % 3], [1 + i % 2, 3])",
    ROW: "{'a': a, 'b': b, 'n': n}",
    CATEGORY: "{'a': a, 'b': b, 'k': k}",
    DATE: "{'a': a, 'd': d, 'k': k, 'words': words, 'n': n, 'g': g}",
    WORDS: "['w' || i % 9, 'v' || i % 4, 'u' || (i * i) % 7]",
    PAIRS: "[i % 12, i * 5 % 31]",
}
"""Features by kind, or by the kind of columns in rows with names."""
SEEN = {
    CATEGORY: {ROW, CATEGORY},
    DATE: {ROW, CATEGORY, DATE},
    **{kind: {kind} for kind in (LIST, SPARSE, ROW, WORDS, PAIRS)},
}
"""The kinds of features that each of them has."""
VALUES: Mapping[str, Any] = {
    "absorb": ["k"],
    "activation": "tanh", "algorithm": None, "alpha": 0.3, "batch_size": 7, "beta": 0.5,
    "biases": False, "bounds": [[1.0, 3.0], None, [2.0]], "cache": "20MB", "cat_l2": 400.0,
    "cat_smooth": 200.0, "categorical": [3], "categories": ["n"], "category_encoding": "one_hot",
    "cg_steps": 1, "class_weight": [1.0, 7.0], "classes": [0, 1], "cluster": "g", "clusters": 5,
    "converge": "weights", "covariance": "HC1", "dates": "parts", "decay": 0.5, "decay_epochs": 1,
    "delta": 0.05, "deterministic": True, "device": "cpu", "dispersion": 0.7, "dropout": 0.4,
    "power": 1.2,
    "embedding": 7, "epsilon": 1e-2, "explain": True, "feature_fraction": 0.4,
    "feature_names": ["one", "two", "three"], "feedback": "implicit", "fit": True,
    "fit_intercept": False, "format": "json", "goss": True, "groups": [[1, 2]],
    "histogram": True, "init": 0.3,
    "interactions": [["a", "n"]], "interaction_constraints": [[1]], "intervals": "covariance",
    "invalid": "skip", "l1": 0.3, "link": "inverse", "l2": 0.5, "l2_factors": 0.5, "lambda": 0.2,
    "layers": [5], "layout": "id", "learning_decay": 0.9, "learning_offset": 50,
    "learning_rate": 0.037, "levels": {"k": ["k1"]}, "likelihood_ratio": True,
    "loss": "bpr", "max_bins": 4,
    "max_cat_threshold": 1, "max_cat_to_onehot": 200, "max_categories": 2, "max_depth": 1,
    "max_iter": 1, "method": "kv",
    "min_category_rows": 30, "min_child_hessian": 30.0, "min_child_rows": 31,
    "min_bin_rows": 40,
    "min_count": 7, "min_gain": 300.0, "missing": "level", "momentum": 0.3, "monotone": [-1, 0, 1],
    "num_leaves": 2, "objective": None, "one_standard_error": True, "optimize_interval": 3,
    "other_rate": 0.4, "partition": 100, "path": {"length": 4, "folds": 3}, "patience": 1,
    "positive": True, "proportions": True, "firth": True,
    "quantile": 0.83, "rank": 2, "reference": {"k": "k1"},
    "resume": True, "row_fraction": 0.5,
    "sampler": "sequential", "schedule": None, "seed": 7,
    "sharing": "push", "sparse_embeddings": True, "speculate": {"sample": 50}, "standardize": True,
    "starts": 1, "step": 0.013,
    "stop_words": ["w1"], "store": "tried", "text": ["words"], "text_bits": 6, "threads": 1,
    "time": "10m", "tol": 0.9, "top_rate": 0.5, "topics": 3, "transform": "eager", "trees": 4,
    "unpenalized": [1], "unseen": "error", "validation": 0.3,
    "warm_start": {"coef": [0.1, 0.2, 0.3], "intercept": 1.0}, "weight_decay": 0.7,
    "weight_kind": "sampling",
}  # fmt: skip
"""A value for each option that is not its default; None: see `value_of`."""
BY_TASK: Mapping[str, Mapping[str, Any]] = {
    "logistic": {"link": "probit"},
    "poisson": {"link": "sqrt"},
    "lda": {"feature_names": ["one", "two", "three", "four"], "min_count": 20},
    "random_forest": {"feature_fraction": 0.9},
    "fm": {"patience": 20},
    "ordinal": {"link": "probit", "classes": ["0", "1"]},
    "matrix_factorization": {
        "transform": "lazy",
        "converge": "loss",
        "feature_names": ["user", "item"],
        "l2": 0.4,
    },
    "mlp": {"schedule": "cosine"},
    "sparse_logistic": {"alpha": 0.4},
}
LINEAR = {"algorithm": "bgd", "schedule": "constant"}
"""Compatible values of options of all linear models."""
QUICK: Mapping[str, Mapping[str, Any]] = {
    "gbdt": {
        "trees": 12,
        "learning_rate": 0.4,
        "min_child_rows": 5,
    },
    "random_forest": {"trees": 5},
    "mlp": {"max_iter": 4, "layers": [6], "learning_rate": 0.05},
    "lda": {"max_iter": 8, "topics": 2},
    "kmeans": {"clusters": 3},
    "lasso": {"path": {"length": 6, "folds": 2}},
    "elastic_net": {"path": {"length": 6, "folds": 2}},
    "sparse_logistic": {"path": {"length": 6, "folds": 2}},
}
"""Options that keep trainings short, unless they are tested."""
OF_LEVELS = ("max_cat_threshold", "max_cat_to_onehot", "cat_smooth", "cat_l2")
MORE: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("gbdt", "patience"): {"trees": 60, "learning_rate": 0.9},
    ("mlp", "patience"): {"max_iter": 90, "learning_rate": 0.08},
    ("fm", "patience"): {"max_iter": 60, "learning_rate": 0.05},
}
"""Further options that make the effect of an option visible, in addition to those that it
requires.
"""
NO_WORD_IS_INVALID = ("invalid", WORDS)
CLASSES = ("logistic", "svm", "squared_hinge", "sparse_logistic", "ordinal")
OF_COUNTS = ("poisson", "negative_binomial")
NOT_COMPARED = ("seconds", "options", "payload", "store")


def choices(option: Option) -> list[str]:
    """The names that an option chooses from, except its default."""
    names = [part.strip("' ") for part in option.kind.allowed.replace(" or ", ", ").split(",")]
    return [name for name in names if name != option.default]


def value_of(task: str, option: Option) -> Any:
    """A value that is not the default."""
    linear = LINEAR if task_named(task).name in learner_of(task_named("linear")).tasks else {}
    given = {**VALUES, **linear, **BY_TASK.get(task, {})}[option.name]
    return choices(option)[-1] if given is None else given


@dataclass(frozen=True)
class Try:
    """An option in combination with others, for a task with features of a kind."""

    task: str
    kind: str
    option: str
    beside: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The column that the task learns."""
        objective = self.beside.get("objective", self.task)
        if not task_named(self.task).has_labels:
            return "NULL"
        if objective in ("gini", *CLASSES):
            return "two"
        return "whole" if objective in OF_COUNTS else "y + 1"

    def base(self) -> dict[str, Any]:
        """The options without it."""
        quick = {k: v for k, v in QUICK.get(self.task, {}).items() if k != self.option}
        if self.option in ("lambda", "path"):
            quick.pop("path", None)
        more = MORE.get((self.task, self.option), {})
        if self.option == "decay" and self.beside.get("schedule") == "step":
            more = {"decay_epochs": 1}
        if self.task == "gbdt" and self.option in OF_LEVELS and self.levels:
            more = {"min_category_rows": 5}
        return {"threads": 1, **quick, **more, **self.beside}

    @property
    def rows(self) -> str:
        """The table that has rows on which the option acts."""
        return "spoiled" if self.option == "invalid" else "tried"

    @property
    def levels(self) -> bool:
        """Returns whether some features are numbers of levels."""
        by_name = self.kind in (CATEGORY, DATE)
        native = self.beside.get("category_encoding", "native") == "native"
        return (by_name and native) or (self.kind == LIST and "categorical" in self.beside)

    def value(self) -> Any:
        return value_of(self.task, learner_of(task_named(self.task)).options.by_name[self.option])

    def __str__(self) -> str:
        return f"{self.task}, {self.kind}, {self.option}, {json.dumps(self.beside)}"


def besides(option: Option, task: str) -> Iterator[dict[str, Any]]:
    """Other options with which one may act: none, and those that its conditions name."""
    seen: list[dict[str, Any]] = [{}]
    table = learner_of(task_named(task)).options.by_name
    for case in option.acts:
        some = [
            (one.values if one.values else (value_of(task, table[one.option]),))
            for one in case.beside
        ]
        for values in product(*(one[:2] for one in some)):
            pairs = zip((one.option for one in case.beside), values, strict=True)
            beside = {name: value for name, value in pairs if value is not None}
            if case.classes and "objective" in table:
                beside["objective"] = "gini" if task == "random_forest" else "logistic"
            if beside not in seen:
                seen.append(beside)
    yield from seen


def tries(task: str, kinds: Iterator[str] | tuple[str, ...] = tuple(FEATURES)) -> Iterator[Try]:
    """Yields each option of a task with each kind of features, and the options that it
    requires.
    """
    for option in learner_of(task_named(task)).options.by_name.values():
        for beside in besides(option, task):
            for kind in kinds:
                if (option.name, kind) != NO_WORD_IS_INVALID:
                    yield Try(task, kind, option.name, beside)


def tasks() -> list[str]:
    """All built-in tasks."""
    return [name for learner in learners() for name in learner.tasks]


def holds(one: Try, case: Acts, value: Any) -> bool:
    """Returns whether the condition of an option holds in a case."""
    table = learner_of(task_named(one.task)).options.by_name
    given = {**{name: option.default for name, option in table.items()}, **one.base()}
    given[one.option] = value
    return bool(
        case.features & ({PAIRS} if one.task == "matrix_factorization" else SEEN[one.kind])
        and (not case.tasks or one.task in case.tasks)
        and one.task not in case.but
        and (not case.values or value in case.values)
        and (not case.classes or one.label == "two")
        and all(beside.holds(given[beside.option]) for beside in case.beside)
    )


Model = dict[str, Any]


def trained(con: duckdb.DuckDBPyConnection, one: Try, options: Mapping[str, Any]) -> Model | str:
    """The model without the fields on its making, or the reason why there is none."""
    given = json.dumps(options).replace("'", "''")
    weight = ", sign(i)" if one.rows == "spoiled" and one.task != "lda" else ""
    call = f"train_model('{one.task}', {one.label}, {FEATURES[one.kind]}, '{given}'{weight})"
    try:
        ((model,),) = con.execute(f"SELECT {call} FROM {one.rows}").fetchall()
    except duckdb.Error as error:
        return str(error)
    assert model is not None, one
    return {name: repr(value) for name, value in model.items() if name not in NOT_COMPARED}
