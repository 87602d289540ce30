"""Models as expressions in plain SQL give the same numbers in databases without tuskml."""

# ruff: noqa: E501, SQL is read better on one line

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import tuskml
from tuskml import DataError, Model, model_to_sql

NAMES = ["a", 'b "b"', "k", "n", "t"]
TYPES = ("DOUBLE PRECISION", "DOUBLE PRECISION", "TEXT", "DOUBLE PRECISION", "BOOLEAN")
LEVELS = ["it's", "", "Ünï", "k"]


def rows(n: int = 160, new: bool = False) -> pd.DataFrame:
    """Rows with gaps in two columns; new: with levels that trainings do not see."""
    rng = np.random.default_rng(8)
    seen = pd.DataFrame({"a": rng.normal(size=n), 'b "b"': rng.integers(-3, 4, n) / 3})
    seen["k"] = rng.choice(LEVELS, n, p=[0.4, 0.3, 0.2, 0.1])
    seen["n"] = rng.choice([-1.5, 2.0, 10.0], n)
    seen["t"] = rng.random(n) > 0.4
    seen["y"] = (
        1.5 * seen.a + (seen.k == "k") + (seen.n == 2) * seen['b "b"'] + rng.normal(size=n) + 6
    )
    seen["two"], seen["three"] = (
        seen.y > 6,
        pd.cut(seen.y, 3, labels=["lo", "it's", "hi"]).astype(str),
    )
    seen["whole"] = seen.y.clip(0).round()
    seen["late"] = np.where(seen.two, "yes", "no")
    seen.loc[rng.random(n) < 0.1, "a"] = np.nan
    seen["k"] = seen.k.where(rng.random(n) > 0.1, None)
    if new:
        seen["k"] = seen.k.where(rng.random(n) > 0.2, "new")
        seen["n"] = seen.n.where(rng.random(n) > 0.2, 3.0)
    return seen


def table(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """The features' values, None where one is missing."""
    plain = frame[NAMES].astype(object)
    return [tuple(row) for row in plain.where(plain.notna(), None).to_numpy().tolist()]


Run = Callable[[list[str], pd.DataFrame], list[list[Any]]]
"""Evaluates expressions for each row of a frame."""


def created(execute: Callable[..., Any], many: Callable[..., Any], mark: str, frame: Any) -> None:
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in zip(NAMES, TYPES, strict=True))
    execute(f"CREATE TABLE plain_rows (place INTEGER, {columns})")
    given = [(at, *row) for at, row in enumerate(table(frame))]
    many(f"INSERT INTO plain_rows VALUES ({', '.join([mark] * 6)})", given)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def in_duckdb(expressions: list[str], frame: pd.DataFrame) -> list[list[Any]]:
    with duckdb.connect() as plain:
        created(plain.execute, plain.executemany, "?", frame)
        found = plain.execute(query(expressions)).fetchall()
    return by_column(found)


def query(expressions: list[str]) -> str:
    return f"SELECT {', '.join(expressions)} FROM plain_rows ORDER BY place"


def by_column(found: list[Any]) -> list[list[Any]]:
    return [list(column) for column in zip(*found, strict=True)]


def in_sqlite(expressions: list[str], frame: pd.DataFrame) -> list[list[Any]]:
    """SQLite has no booleans: they are kept as texts."""
    plain = sqlite3.connect(":memory:")
    texts = frame.assign(t=np.where(frame.t, "true", "false"))
    created(plain.execute, plain.executemany, "?", texts)
    try:
        found = plain.execute(query(expressions)).fetchall()
    finally:
        plain.close()
    return by_column(found)


@pytest.fixture
def in_postgres(cluster: Any) -> Iterator[Run]:
    """A database without the extension."""
    with cluster.connect("postgres") as plain, plain.cursor() as cursor:

        def run(expressions: list[str], frame: pd.DataFrame) -> list[list[Any]]:
            cursor.execute("DROP TABLE IF EXISTS pg_temp.plain_rows")
            created(
                lambda text: cursor.execute(text.replace("CREATE TABLE", "CREATE TEMP TABLE")),
                cursor.executemany,
                "%s",
                frame,
            )
            return by_column(cursor.execute(query(expressions)).fetchall())

        yield run


def fitted(con: Any, task: str, label: str, features: Any = NAMES, **options: Any) -> Model:
    con.register("plain_frame", rows())
    source = "SELECT * REPLACE (nullif(a, 'nan') AS a) FROM plain_frame"
    return tuskml.train(con, task, source=source, label=label, features=features, **options)


def check(model: Model, run: Run, frame: pd.DataFrame, width: int | None = None) -> None:
    """All answers of a model; width: of lists of numbers."""
    given = frame[NAMES] if width is None else frame[NAMES[:width]].to_numpy(float)
    answers = {"predict": model.predict(given)}
    if len(model.classes or ()) <= 2:
        answers["decision"] = model.decision(given)
    if model.classes:
        answers["predict_class"] = np.array(model.predict_class(given), object)
    pairs = [(model_to_sql(model, answer), expected) for answer, expected in answers.items()]
    if model.classes and model.task != "svm":
        shares = model.predict_probas(given)
        for k, name in enumerate(model.names_of_classes):
            pairs.append((model_to_sql(model, "predict_proba", name), shares[:, k]))
    found = run([expression for expression, _ in pairs], frame)
    for column, (_, expected) in zip(found, pairs, strict=True):
        compare(column, expected)


def compare(found: list[Any], expected: Any) -> None:
    assert len(found) == len(expected) > 100
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, str) or other is None:
            assert one == other
        elif np.isnan(other):
            assert one is None
        else:
            assert one == pytest.approx(float(other), rel=1e-11, abs=1e-13)


BY_NAME: dict[str, tuple[str, str, dict[str, Any]]] = {
    "linear": ("linear", "y", {}),
    "without an intercept": ("linear", "y", {"fit_intercept": False, "categories": ["n"]}),
    "means": ("linear", "y", {"missing": "impute", "categories": ["n"]}),
    "levels": ("linear", "y", {"missing": "level", "max_categories": 2, "l2": 0.01}),
    "rare levels": ("huber", "y", {"missing": "impute", "min_count": 40}),
    "products": (
        "linear",
        "y",
        {
            "missing": "level",
            "categories": ["n"],
            "interactions": [["k", "n"], ["a", "t"], ["a", 'b "b"']],
        },
    ),
    "reference": ("linear", "y", {"reference": {"k": "Ünï"}, "categories": ["n"]}),
    "listed levels": (
        "linear",
        "y",
        {"levels": {"k": ["z", "Ünï"]}, "categories": ["n"], "missing": "level"},
    ),
    "NULL for new levels": (
        "linear",
        "y",
        {"unseen": "null", "categories": ["n"], "missing": "level"},
    ),
    "exp": ("poisson", "whole", {"missing": "impute"}),
    "logistic": ("logistic", "two", {"l2": 0.01}),
    "text classes": ("logistic", "late", {"missing": "level", "l2": 0.01}),
    "three classes": ("logistic", "three", {"missing": "impute", "l2": 0.01}),
    "svm": ("svm", "late", {"missing": "level", "l2": 0.01}),
    "path": ("lasso", "y", {"path": {"length": 4}, "missing": "level"}),
    "path of classes": ("sparse_logistic", "late", {"path": {"length": 4}, "missing": "level"}),
    "trees": ("gbdt", "y", {"categories": ["n"]}),
    "trees of means": ("gbdt", "y", {"missing": "impute"}),
    "trees of listed levels": ("gbdt", "y", {"levels": {"k": ["z", "Ünï"]}}),
    "trees without gaps": ("gbdt", "y", {"missing": "skip", "unseen": "null"}),
    "trees of indicators": ("gbdt", "y", {"category_encoding": "one_hot", "missing": "level"}),
    "trees of rare levels": ("gbdt", "late", {"max_categories": 2, "missing": "level"}),
    "trees of counts": ("gbdt", "whole", {"objective": "poisson"}),
    "trees of amounts": ("gbdt", "whole", {"objective": "tweedie"}),
    "trees of three classes": ("gbdt", "three", {"trees": 3}),
    "a forest": ("random_forest", "y", {"category_encoding": "one_hot"}),
    "a forest of classes": ("random_forest", "late", {}),
    "a forest of three classes": ("random_forest", "three", {}),
}
TREES = {"trees": 6, "max_depth": 4}


def of_case(con: Any, case: str) -> Model:
    task, label, options = BY_NAME[case]
    trees = TREES if task in ("gbdt", "random_forest") else {}
    more = {"min_child_rows": 5} | (
        {"min_category_rows": 5} if task == "gbdt" and "category_encoding" not in options else {}
    )
    return fitted(con, task, label, **{**trees, **(more if trees else {}), **options})


@pytest.mark.sample(1)
@pytest.mark.parametrize("case", BY_NAME)
def test_rows_with_names(con: Any, in_postgres: Run, case: str) -> None:
    model = of_case(con, case)
    for run in (in_duckdb, in_sqlite, in_postgres):
        check(model, run, rows(new=True))


@pytest.mark.parametrize(
    ("task", "label", "options"),
    [
        ("linear", "y", {}),
        ("logistic", "two", {}),
        ("gbdt", "y", TREES),
        ("gbdt", "y", TREES | {"missing": "skip"}),
        ("random_forest", "three", TREES),
    ],
)
def test_lists(con: Any, in_postgres: Run, task: str, label: str, options: dict[str, Any]) -> None:
    """Features of lists are called by the names that the training has."""
    features = ["a", '"b ""b"""']
    model = fitted(con, task, label, features, feature_names=NAMES[:2], **options)
    for run in (in_duckdb, in_sqlite, in_postgres):
        check(model, run, rows(), 2)


@pytest.mark.parametrize("task", ["logistic", "poisson"])
def test_extreme_margins(con: Any, in_postgres: Run, task: str) -> None:
    """Where exp() would be too large or too small for PostgreSQL."""
    model = fitted(
        con,
        task,
        "two" if task == "logistic" else "whole",
        ["a", '"b ""b"""'],
        feature_names=NAMES[:2],
    )
    frame = rows().assign(a=np.linspace(-3e4, 3e4 if task == "logistic" else 0.0, len(rows())))
    for run in (in_duckdb, in_sqlite, in_postgres):
        check(model, run, frame, 2)


def test_rows_that_a_model_refuses_are_null(con: Any) -> None:
    model = fitted(con, "linear", "y", unseen="error", features=["k", "n"])
    frame = rows(new=True)
    (found,) = in_duckdb([model_to_sql(model)], frame)
    known = frame.k.isin(LEVELS)
    assert [one is None for one in found] == (~known).tolist()
    np.testing.assert_allclose(
        [one for one in found if one is not None],
        model.predict(frame[known][["k", "n"]]),
        rtol=1e-12,
    )


def test_many_trees_are_no_deep_expression(con: Any) -> None:
    model = fitted(con, "gbdt", "y", trees=1200, num_leaves=2, missing="keep", features=["a", "n"])
    (found,) = in_sqlite([model_to_sql(model)], rows())
    compare(found, model.predict(rows()[["a", "n"]]))


@pytest.mark.parametrize(
    ("task", "label", "options", "given", "sentence"),
    [
        ("mlp", "y", {"max_iter": 2, "missing": "impute"}, (), "the model is 'mlp', which plain SQL cannot say"),
        ("kmeans", None, {"missing": "impute"}, (), "the model is 'kmeans'"),
        ("ordinal", "two", {}, (), "the model is 'ordinal', which plain SQL cannot say"),
        ("linear", "y", {"text": ["k"]}, (), "the feature 'k' is hashed words"),
        ("linear", "y", {}, ("predict_proba",), "the model predicts numbers"),
        ("linear", "y", {}, ("predct",), "did you mean 'predict'"),
        ("svm", "two", {}, ("predict_proba",), "the model is 'svm', which has no probabilities"),
        ("logistic", "three", {"l2": 0.1}, ("decision",), "more than two classes"),
        ("logistic", "three", {"l2": 0.1}, ("predict_proba",), "expected label_class to name one"),
        ("logistic", "three", {"l2": 0.1}, ("predict_proba", "mid"), "label_class is 'mid', expected 'hi'"),
        ("linear", "y", {"store": "kept"}, (), "lie in the store"),
    ],
)  # fmt: skip
def test_what_cannot_be_said(
    con: Any,
    tmp_path: Any,
    task: str,
    label: str | None,
    options: dict[str, Any],
    given: Any,
    sentence: str,
) -> None:
    if "store" in options:
        with tuskml.connect(store_root=tmp_path) as own:
            model = fitted(own, task, label or "", **options)
    else:
        model = fitted(con, task, label, **options)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=sentence):
        model_to_sql(model, *given)


def test_parts_of_dates_are_refused(con: Any) -> None:
    source = "SELECT DATE '2024-01-01' + i::INT AS d, i AS y FROM range(90) AS t(i)"
    model = tuskml.train(con, "linear", source=source, label="y", features="d", dates="parts")
    with pytest.raises(DataError, match=r"'d\.year' is a part of a date"):
        model_to_sql(model)
