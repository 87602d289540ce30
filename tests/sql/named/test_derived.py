"""Numbers as categories, parts of dates, interactions and hashed words, in both databases."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import patsy
import psycopg
import pytest
import statsmodels.api as sm

import tuskml

sys.path.append(str(Path(__file__).parents[1] / "inference"))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

WORDS = ("good", "bad", "Bad", "day", "12", "süß")


def frame() -> pd.DataFrame:
    """600 rows from 1969 to 1972, a time every 61 hours and 17 minutes."""
    rng = np.random.default_rng(5)
    n = 600
    when = pd.Timestamp("1969-03-30 23:59:59.999999") + pd.to_timedelta(np.arange(n) * 3677, "m")
    seen = pd.DataFrame(
        {
            "i": range(n),
            "whn": when,
            "d": when.normalize().astype("datetime64[us]"),
            "k": rng.choice([-2, 0, 3, 11], n),
            "x": rng.normal(size=n).round(3),
            "c": rng.choice(["p", "q", "r"], n),
            "t": [", ".join(rng.choice(WORDS, rng.integers(1, 6))) + "!" for _ in range(n)],
        }
    )
    seen["y"] = (seen.x * (seen.k == 3) + when.hour / 7 + rng.normal(size=n)).round(3)
    return seen


@pytest.fixture
def table(client: Client) -> Iterator[Client]:
    run = client.connection.execute
    run("DROP TABLE IF EXISTS derived")
    run(
        "CREATE TABLE derived (i integer, whn timestamp, d date, k integer, x double precision, c varchar, t varchar, y double precision)"
    )
    rows = ", ".join(
        f"({r.i}, '{r.whn}', '{r.d.date()}', {r.k}, {r.x}, '{r.c}', '{r.t}', {r.y})"
        for r in frame().itertuples()
    )
    run(f"INSERT INTO derived VALUES {rows}")
    yield client
    run("DROP TABLE derived")


def trained(client: Client, features: str, **options: Any) -> tuple[list[str], list[float]]:
    """Names and coefficients of a linear model, the intercept first."""
    text = json.dumps({"epsilon": 1e-12} | options)
    rows = f"derived, LATERAL (SELECT {features}) AS r"
    run = client.connection.execute
    run("DROP TABLE IF EXISTS derived_model")
    run(
        f"CREATE TABLE derived_model AS SELECT train_model('linear', y, r, '{text}') AS m FROM {rows}"
    )
    names, coef, intercept, payload = run(
        "SELECT (m).features, (m).coef, (m).intercept, (m).payload = (with_payload(m)).payload FROM derived_model"
    ).fetchall()[0]
    assert payload
    return ["intercept", *names], [intercept, *coef]


def predicted(client: Client, features: str) -> list[float]:
    rows = f"derived, derived_model, LATERAL (SELECT {features}) AS r"
    found = client.connection.execute(f"SELECT predict(m, r) FROM {rows} ORDER BY i").fetchall()
    return [p for (p,) in found]


def agree(client: Client, features: str, design: pd.DataFrame, **options: Any) -> None:
    """The model is that of statsmodels on the design, and predicts the same."""
    names, coef = trained(client, features, **options)
    truth = sm.OLS(frame().y, sm.add_constant(design.astype(float))).fit()
    assert names == ["intercept", *design.columns]
    assert coef == pytest.approx(truth.params.tolist(), abs=1e-6)
    assert predicted(client, features) == pytest.approx(truth.fittedvalues.tolist(), abs=1e-6)


def levels(name: str, values: Any) -> dict[str, Any]:
    """A column for each value but the least, in the order of the values."""
    return {f"{name}[{v}]": values == v for v in sorted(set(values))[1:]}


def test_numbers_are_categories(table: Client) -> None:
    seen = frame()
    design = pd.DataFrame({"x": seen.x} | levels("k", seen.k))
    assert list(design.columns) == ["x", "k[0]", "k[3]", "k[11]"]
    agree(table, "x, k", design, categories=["k"])


def test_parts_of_dates_are_those_of_pandas(table: Client) -> None:
    seen = frame()
    whn, day = seen.whn.dt, seen.d.dt
    design: dict[str, Any] = {"whn.year": whn.year} | levels("whn.month", whn.month)
    design |= levels("whn.weekday", whn.day_of_week + 1) | levels("whn.hour", whn.hour)
    agree(table, "whn", pd.DataFrame(design), dates="parts")
    design = {"d.year": day.year} | levels("d.month", day.month)
    agree(
        table, "d", pd.DataFrame(design | levels("d.weekday", day.day_of_week + 1)), dates="parts"
    )


def test_cycles_are_angles(table: Client) -> None:
    whn = frame().whn.dt
    design: dict[str, Any] = {"whn.year": whn.year}
    for name, place, length in (
        ("month", whn.month - 1, 12),
        ("weekday", whn.day_of_week, 7),
        ("hour", whn.hour, 24),
    ):
        angle = 2 * np.pi * place / length
        design |= {f"whn.{name}[sin]": np.sin(angle), f"whn.{name}[cos]": np.cos(angle)}
    agree(table, "whn", pd.DataFrame(design), dates="cycles")


@pytest.mark.parametrize(
    ("products", "formula"),
    [
        ([["c", "k"]], "x + c + C(k) + c:C(k)"),
        ([["c", "x"], ["k", "x"]], "x + c + C(k) + c:x + C(k):x"),
        ([["k", "c", "x"]], "x + c + C(k) + C(k):c:x"),
    ],
)
def test_interactions_are_those_of_a_formula(
    table: Client, products: list[list[str]], formula: str
) -> None:
    """Treatment coding: without the combinations of a reference level, which patsy leaves out
    where the columns by themselves are there too."""
    names, coef = trained(table, "x, c, k", categories=["k"], interactions=products)
    design = patsy.dmatrix(formula, frame(), return_type="dataframe")
    ours = {
        name.replace("[T.", "[").replace("C(k)", "k"): column for name, column in design.items()
    }
    both = [name for name in ours if name.count("[") <= 1]
    assert names[: len(both)] == [
        name.replace("Intercept", "intercept") for name in names[: len(both)]
    ]
    fitted = sm.OLS(frame().y, design).fit()
    if len(products[0]) == 2:  # patsy codes the product of three fully
        assert len(coef) == design.shape[1]
        assert predicted(table, "x, c, k") == pytest.approx(fitted.fittedvalues.tolist(), abs=1e-6)
    seen = frame()
    design_of_ours = np.column_stack([value_of(name, seen) for name in names])
    truth = np.linalg.lstsq(design_of_ours, seen.y, rcond=None)[0]
    assert np.linalg.matrix_rank(design_of_ours) == len(names)
    assert coef == pytest.approx(truth.tolist(), abs=1e-6)
    assert predicted(table, "x, c, k") == pytest.approx(
        (design_of_ours @ truth).tolist(), abs=1e-6
    )


def value_of(name: str, seen: pd.DataFrame) -> Any:
    """A feature by its name, such as c:k[q:3] or c:x[q]."""
    if name == "intercept":
        return np.ones(len(seen))
    columns, _, inside = name.rstrip("]").partition("[")
    left = inside.split(":") if inside else []
    value = np.ones(len(seen))
    for column in columns.split(":"):
        value = value * (seen.x if column == "x" else seen[column].astype(str) == left.pop(0))
    return value


def test_combinations_that_are_new_fall_back_to_the_columns(table: Client) -> None:
    rows = "CASE WHEN derived.c = 'q' THEN 0 ELSE derived.k END AS k, derived.c"
    names, coef = trained(table, rows, categories=["k"], interactions=[["c", "k"]])
    assert not any(name.startswith("c:k[q:") and name != "c:k[q:0]" for name in names)
    of = dict(zip(names, coef, strict=True))
    run = table.connection.execute
    call = "predict(m, (SELECT r FROM (SELECT 'q' AS c, 11 AS k) AS r))"
    ((found,),) = run(f"SELECT {call} FROM derived_model").fetchall()
    assert found == pytest.approx(of["intercept"] + of["c[q]"] + of["k[11]"])


def test_rare_combinations_have_no_feature(table: Client) -> None:
    seen = frame()
    counts = Counter(zip(seen.c, seen.k, strict=True))
    names, _ = trained(
        table, "c, k", l2=0.1, categories=["k"], interactions=[["c", "k"]], min_count=50
    )
    frequent = sorted(f"c:k[{c}:{k}]" for (c, k), n in counts.items() if n >= 50)
    assert 0 < len(frequent) < len(counts)
    assert sorted(name for name in names if ":" in name) == frequent


def test_words_and_pairs_are_counted(table: Client) -> None:
    """With enough buckets, a ridge regression on scikit-learn's counts of words and pairs."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import Ridge

    seen = frame()
    counts = CountVectorizer(token_pattern=r"\w+", ngram_range=(1, 2)).fit_transform(seen.t)
    truth = Ridge(alpha=0.1 * len(seen), tol=1e-12).fit(counts.toarray(), seen.y)
    names, coef = trained(table, "t", text=["t"], text_bits=20, l2=0.1)
    assert len(names) == counts.shape[1] + 1
    assert sorted(coef[1:]) == pytest.approx(sorted(truth.coef_), abs=1e-5)
    assert predicted(table, "t") == pytest.approx(truth.predict(counts.toarray()), abs=1e-5)
    few, _ = trained(table, "t", text=["t"], text_bits=4, l2=0.1)
    assert 1 < len(few) <= 17


@pytest.mark.parametrize(
    ("options", "features"),
    [
        ({"dates": "parts", "categories": ["k"], "missing": "impute"}, "whn, d, k, x"),
        (
            {"dates": "cycles", "interactions": [["c", "whn.hour"]], "missing": "level"},
            "whn, x, c",
        ),
        (
            {
                "text": ["t"],
                "categories": ["k"],
                "missing": "impute",
                "interactions": [["k", "c"]],
            },
            "k, t, c",
        ),
    ],
)
def test_gaps_are_filled_alike_in_training_and_prediction(
    table: Client, options: dict[str, Any], features: str
) -> None:
    """The loss of the model is half the mean square of what its predictions miss."""
    gappy = ", ".join(
        f"CASE WHEN i % 7 = {place} THEN NULL ELSE derived.{name.strip()} END AS {name.strip()}"
        for place, name in enumerate(features.split(","))
    )
    trained(table, gappy, **options)
    ((loss,),) = table.connection.execute("SELECT (m).loss FROM derived_model").fetchall()
    missed = np.array(predicted(table, gappy)) - frame().y
    assert loss == pytest.approx(np.mean(missed**2) / 2, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"categories": ["kk"]},
            "option 'categories' names 'kk', expected a column of the rows: x, c, k",
        ),
        ({"text": ["k"]}, "option 'text' names 'k', expected a column of text: c"),
        (
            {"interactions": [["c", "z"]]},
            "option 'interactions' names 'z', expected one of: x, c, k",
        ),
        (
            {"text": ["c"], "categories": ["c"]},
            "options 'text' and 'categories' both name 'c', expected one of them",
        ),
        ({"text": ["c"], "cluster": "c"}, "options 'text' and 'cluster' both name 'c', expected"),
        (
            {"categories": ["k"], "fold_by": "k"},
            "options 'categories' and 'fold_by' both name 'k', expected one of them",
        ),
        (
            {"categories": ["x", "k"], "time_by": "k", "l2": [0.1, 1]},
            "options 'categories' and 'time_by' both name 'k', expected one of them",
        ),
        ({"fold_by": None}, "option 'fold_by' is null, expected a name such as"),
        ({"time_by": "k", "gap": None}, "option 'gap' is null, expected a number of at least 0"),
        ({"l2": [0.1, 1], "metric": None}, "option 'metric' is null, expected 'log_loss'"),
        ({"folds": None}, "option 'folds' is null, expected a whole number from 2 to 100"),
        ({"tasks": None}, "option 'tasks' is for task 'auto'"),
    ],
)
def test_names_that_are_refused(table: Client, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((duckdb.Error, psycopg.Error), match=re.escape(sentence)):
        trained(table, "x, c, k", **options)


def test_lists_have_no_names(client: Client) -> None:
    call = "train_model('linear', i, ARRAY[i % 2], '{\"categories\": [\"k\"]}')"
    sentence = "option 'categories' is for rows with names, and these features are lists"
    with pytest.raises((duckdb.Error, psycopg.Error), match=re.escape(sentence)):
        client.connection.execute(
            f"SELECT {call} FROM (SELECT unnest(ARRAY[1, 2, 3, 4]) AS i) AS r"
        ).fetchall()


def test_python_predicts_the_same_of_a_frame() -> None:
    seen = frame()
    options = {
        "dates": "parts",
        "categories": ["k"],
        "text": ["t"],
        "interactions": [["c", "whn.weekday"], ["k", "x"]],
        "l2": 0.01,
    }
    names = ["whn", "d", "k", "x", "c", "t"]
    with tuskml.connect(threads=1) as con:
        con.register("seen", seen)
        con.execute("CREATE TABLE rows AS SELECT * REPLACE (d::DATE AS d) FROM seen")
        model = tuskml.train(con, "linear", source="rows", label="y", features=names, **options)
        rows = tuskml.predict(con, model, source="rows", columns=[], kind="decision", name="m")
        dates = con.execute("FROM rows").df().assign(d=seen.d.dt.date)
    assert model.trained_columns == tuple(names)
    assert model.decision(seen) == pytest.approx(rows.m.to_numpy(), abs=1e-9)
    assert model.decision(dates) == pytest.approx(rows.m.to_numpy(), abs=1e-9)
