# ruff: noqa: E501, SQL is read better on one line
"""Trainings that would take much more than a small limit, for both databases, by storage.

A case is a query with {train}, the aggregate's call but for its options, in DuckDB's spelling.
"""

import json

LIMIT = 64
"""Megabytes that a statement may have."""
TOLERANCE = 96
"""Megabytes beyond it: the database's own, Python's and malloc's, and what is freed too late."""

ALGORITHMS = (
    "auto", "bgd", "mgd", "sgd", "hogwild", "hogbatch", "lbfgs", "newton", "newton_cg", "svrg",
)  # fmt: skip
STORED_ALGORITHMS = ("auto", "sgd", "mgd", "hogwild", "hogbatch")
ROWS = {
    # 800 groups of 100 features: 230 MB of curvature at once
    "many groups": (
        "{train}, [{x}]::FLOAT[]",
        "(SELECT i % 800 AS g, i AS i, i * 7919 % 1000 AS y FROM range(3200) t(i)) AS r GROUP BY g",
        100,
    ),
    # 3,500 features: 49 MB for each triangle of the curvature
    "many features": ("{train}, [{x}]::FLOAT[]", "(SELECT i, i * 7919 % 1000 AS y FROM range(150) t(i)) AS r", 3500),
    # few ids, of which the largest is 6 million: 48 MB for each list of coefficients
    "a large id": (
        "{train}, sparse([0, 6000000], [sin(i), cos(i)])",
        "(SELECT i, i * 7919 % 1000 AS y FROM range(20) t(i)) AS r",
        0,
    ),
    # 350,000 ids that occur
    "many ids": (
        "{train}, sparse([{ids}], [{ones}])",
        "(SELECT i, i * 7919 % 1000 AS y FROM range(20000) t(i)) AS r",
        0,
    ),
}  # fmt: skip


SPARSE = (
    "lasso",
    "sparse_logistic",
    "fm",
    "poisson",
    "quantile",
    "squared_hinge",
    "lda",
    "kmeans",
)
"""Other tasks whose rows may be sparse."""
LABELS = {
    **dict.fromkeys(("linear", "lasso", "fm", "poisson", "quantile"), "y::DOUBLE"),
    **dict.fromkeys(("lda", "kmeans"), "NULL"),
}
"""Numbers; the labels of other tasks are classes."""


def ridge(storage: str, task: str, algorithm: object) -> dict[str, float]:
    """A penalty, without which groups of so few rows are separable: fitting them takes seconds.

    auto and newton go without, for the memory that it takes.
    """
    separable = storage == "many groups" and task == "logistic"
    return {"l2": 0.01} if separable and algorithm not in ("auto", "newton") else {}


def query(storage: str, task: str, **options: object) -> str:
    """The statement in DuckDB's spelling; labels are classes but for linear."""
    call, rows, width = ROWS[storage]
    label = LABELS.get(task, "y < 400")
    x = f"list_transform(range({width}), lambda k: sin(i * (k + 1)))" if width else ""
    ids = ", ".join(f"(i * {7919 + 104729 * k} + {k}) % 3000000" for k in range(20))
    filled = call.format(
        train=f"train_model('{task}', {label}", ids=ids, ones=", ".join(["1.0"] * 20), x="{x}"
    ).replace("[{x}]", x)
    text = json.dumps({"max_iter": 2} | ridge(storage, task, options.get("algorithm")) | options)
    return f"SELECT count(m), max(len(m.coef)) FROM (SELECT {filled}, '{text}') AS m FROM {rows}) AS s"


def cases() -> dict[str, str]:
    """Every storage with every algorithm, and with every task."""
    found = {}
    for storage in ROWS:
        for algorithm in ALGORITHMS:
            found[f"{storage}, {algorithm}"] = query(storage, "logistic", algorithm=algorithm)
        found[f"{storage}, dcd"] = query(storage, "svm", algorithm="dcd", l2=0.1)
        found[f"{storage}, linear"] = query(storage, "linear")
        found[f"{storage}, svm"] = query(storage, "svm", l2=0.1)
        found[f"{storage}, penalty"] = query(storage, "logistic", l1=0.01)
        found[f"{storage}, deterministic"] = query(
            storage, "logistic", deterministic=True, validation=0.2
        )
        if "sparse" not in ROWS[storage][0]:
            continue
        for task in SPARSE:
            more = {"rank": 2} if task == "fm" else {}
            found[f"{storage}, {task}"] = query(storage, task, **more)
        many = query(storage, "logistic").replace("y < 400", "y % 5")
        found[f"{storage}, many classes"] = many
    return found


STORED = {
    f"stored, {storage}, {what}": query(storage, task, store="s", **options).replace(
        "len(m.coef)", "m.n_features"
    )
    for storage in ("a large id", "many ids")
    for what, task, options in (
        *((algorithm, "logistic", {"algorithm": algorithm}) for algorithm in STORED_ALGORITHMS),
        ("linear", "linear", {}),
        ("svm", "svm", {"l2": 0.1}),
        ("deterministic", "logistic", {"deterministic": True}),
        ("a large cache", "logistic", {"cache": "1GB"}),
    )
} | {
    "stored, many users": 'SELECT m.n_features FROM (SELECT train_model(\'matrix_factorization\', i % 5, [i, i % 90], \'{"rank": 60, "max_iter": 2, "store": "f"}\') AS m FROM range(120000) t(i)) AS s',
    "stored, a large user": 'SELECT m.n_features FROM (SELECT train_model(\'matrix_factorization\', i % 5, [i * 1000000, i % 9], \'{"rank": 2, "store": "f"}\') AS m FROM range(20) t(i)) AS s',
}
"""Models in a store, whose coefficients need not fit into the limit."""
TRAINS = ("stored, a large id", "stored, many ids", "stored, many users")
"""How those begin that are not refused."""
RATINGS = {
    "many users": "SELECT len(m.coef) FROM (SELECT train_model('matrix_factorization', i % 5, [i, i % 90], '{\"rank\": 60, \"max_iter\": 2}') AS m FROM range(120000) t(i)) AS s",
    "a large user": "SELECT len(m.coef) FROM (SELECT train_model('matrix_factorization', i % 5, [i * 1000000, i % 9], '{\"rank\": 2}') AS m FROM range(20) t(i)) AS s",
    **{
        f"{table} of a forest": f"SELECT count(*) FROM (SELECT train_model('random_forest', i * 7919 % 1009, {{'a': i % 100, 'b': 'level ' || i * 7 % 200}}, '{{\"trees\": 100}}') AS m FROM range(2000) t(i)) AS s, {table}(m)"
        for table in ("tree_dump", "feature_importance")
    },
    "a long warm start": "SELECT m.n_rows FROM (SELECT train_model('linear', i, [i], o.t) AS m FROM range(2) t(i), (SELECT '{\"warm_start\": {\"coef\": [' || repeat('1,', 4000000) || '1]}}' AS t) AS o) AS s",
    "frequencies": "SELECT len(f) FROM (SELECT feature_frequencies([{ids}]) AS f FROM range(20000) t(i)) AS s",
    "partition": "SELECT f.features FROM (SELECT partition_model([{ids}]) AS f FROM range(20000) t(i)) AS s",
}
"""What is not train_model over features."""
