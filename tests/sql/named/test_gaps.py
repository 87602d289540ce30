"""Rare levels and gaps of rows with names, in both databases."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

sys.path.append(str(Path(__file__).parents[1] / "inference"))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

LEVELS = ["a", "b", "c", "d", "Ä"]


def frame() -> pd.DataFrame:
    """400 rows; `c` has levels of 200, 100, 60, 30 and 10 rows; a tenth of `c` and `x` is NULL."""
    rng = np.random.default_rng(3)
    c = rng.permutation(np.repeat(LEVELS, [200, 100, 60, 30, 10])).astype(object)
    x = rng.normal(size=400).round(3)
    y = (x + (c == "b") - (c == "d") + rng.normal(size=400)).round(3)
    seen = pd.DataFrame({"i": range(400), "c": c, "x": x, "y": y, "u": rng.random(400) < 0.4})
    seen.loc[rng.choice(400, 40, replace=False), "c"] = None
    seen.loc[rng.choice(400, 40, replace=False), "x"] = None
    return seen


def cell(value: Any) -> str:
    if pd.isna(value):
        return "NULL"
    return str(value) if isinstance(value, bool | int | float) else f"'{value}'"


@pytest.fixture
def table(client: Client) -> Iterator[Client]:
    rows = ", ".join(f"({', '.join(map(cell, row))})" for row in frame().itertuples(index=False))
    run = client.connection.execute
    run("DROP TABLE IF EXISTS named")
    run(
        "CREATE TABLE named (i integer, c varchar, x double precision, y double precision, u boolean)"
    )
    run(f"INSERT INTO named VALUES {rows}")
    yield client
    run("DROP TABLE named")


def models(client: Client, features: str, **options: Any) -> list[Any]:
    """coef, features, intercept, n_rows, n_skipped and preparation of a linear model."""
    fields = ", ".join(
        f"(m).{name}"
        for name in ("coef", "features", "intercept", "n_rows", "n_skipped", "preparation")
    )
    text = json.dumps({"epsilon": 1e-10} | options)
    call = (
        f"train_model('linear', y, r, '{text}') AS m FROM named, LATERAL (SELECT {features}) AS r"
    )
    return list(
        client.connection.execute(f"SELECT {fields} FROM (SELECT {call}) AS t").fetchall()[0]
    )


def truth(seen: pd.DataFrame, columns: dict[str, Any]) -> tuple[list[float], list[str]]:
    x = sm.add_constant(pd.DataFrame(columns, index=seen.index).astype(float))
    fit = sm.OLS(seen.y, x).fit()
    return fit.params.tolist(), list(columns)


def agree(found: list[Any], expected: tuple[list[float], list[str]]) -> None:
    assert found[1] == expected[1]
    assert [found[2], *found[0]] == pytest.approx(expected[0], abs=1e-7)


def test_rows_with_a_gap_are_skipped(table: Client) -> None:
    found = models(table, "named.x, named.c")
    seen = frame().dropna()
    agree(found, truth(seen, {"x": seen.x} | {f"c[{k}]": seen.c == k for k in sorted(LEVELS)[1:]}))
    assert found[3:5] == [len(seen), 400 - len(seen)]


def test_gaps_are_filled_with_the_mean_and_the_most_frequent(table: Client) -> None:
    found = models(table, "named.x, named.c", missing="impute")
    seen = frame()
    x, c = seen.x.fillna(seen.x.mean()), seen.c.fillna("a")
    columns = {"x": x, "x[missing]": seen.x.isna()}
    columns |= {f"c[{k}]": c == k for k in sorted(LEVELS)[1:]} | {"c[missing]": seen.c.isna()}
    names = ["x", "x[missing]", *(f"c[{k}]" for k in sorted(LEVELS)[1:]), "c[missing]"]
    expected, _ = truth(seen, columns)
    agree(found, (expected, names))
    assert found[3:5] == [400, 0]
    fills = {column["name"]: column["fill"] for column in json.loads(found[5])["columns"]}
    assert fills == {"x": pytest.approx(seen.x.mean()), "c": "a"}


def test_a_gap_is_a_level(table: Client) -> None:
    found = models(table, "named.c", missing="level")
    seen = frame()
    agree(
        found,
        truth(
            seen,
            {f"c[{k}]": seen.c == k for k in sorted(LEVELS)[1:]} | {"c[missing]": seen.c.isna()},
        ),
    )


@pytest.mark.parametrize(
    ("options", "kept"), [({"max_categories": 2}, "ab"), ({"min_count": 40}, "abc")]
)
def test_rare_levels_are_one(table: Client, options: dict[str, int], kept: str) -> None:
    found = models(table, "named.c", **options)
    seen = frame().dropna(subset="c")
    columns = {f"c[{k}]": seen.c == k for k in kept[1:]}
    agree(found, truth(seen, columns | {"c[other]": ~seen.c.isin(list(kept))}))


def predictions(client: Client, options: dict[str, Any], rows: list[str]) -> list[Any]:
    text = json.dumps({"epsilon": 1e-10} | options)
    run = client.connection.execute
    model = f"(SELECT train_model('linear', y, r, '{text}') AS m FROM named, LATERAL (SELECT named.x, named.c) AS r) AS t"
    query = "SELECT (m).coef, (m).features, (m).intercept" + "".join(
        f", predict(m, (SELECT r FROM (SELECT {row}) AS r))" for row in rows
    )
    return list(run(f"{query} FROM {model}").fetchall()[0])


def test_predictions_fill_gaps_and_know_others(table: Client) -> None:
    rows = [
        "0 AS x, 'b' AS c",
        "0 AS x, 'never' AS c",
        "0 AS x, CAST(NULL AS varchar) AS c",
        "CAST(NULL AS double precision) AS x, 'a' AS c",
    ]
    coef, names, base, b, other, none, no_x = predictions(
        table, {"max_categories": 2, "missing": "impute"}, rows
    )
    weight = dict(zip(names, coef, strict=True))
    assert b == pytest.approx(base + weight["c[b]"])
    assert other == pytest.approx(base + weight["c[other]"])
    assert none == pytest.approx(base + weight["c[missing]"])
    assert no_x == pytest.approx(base + weight["x"] * frame().x.mean() + weight["x[missing]"])
    coef, names, base, b, other, none, no_x = predictions(table, {"missing": "level"}, rows)
    assert other == pytest.approx(base)
    assert none == pytest.approx(base + dict(zip(names, coef, strict=True))["c[missing]"])
    assert predictions(table, {}, rows)[5:] == [None, None]


def refused(client: Client, call: str) -> str:
    with pytest.raises(Exception, match=r"train_model|predict") as raised:
        client.connection.execute(f"SELECT {call} FROM named").fetchall()
    return " ".join(str(raised.value).split())


def test_the_same_as_a_pipeline_of_scikit_learn(table: Client) -> None:
    """Imputed, with indicators, and encoded: the same optimum, and the same probabilities of rows
    that it was not trained on, whose gaps are filled as in training and whose new level is no level.
    """
    from sklearn.compose import make_column_transformer
    from sklearn.impute import MissingIndicator, SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    seen, penalty = frame(), 0.02
    seen["c"] = seen.c.astype(object).where(seen.c.notna(), None)
    trained, asked = seen[seen.i < 300], seen[seen.i >= 300].copy()
    asked.loc[asked.c == "Ä", "c"] = "new"
    filled = make_pipeline(
        SimpleImputer(strategy="most_frequent", missing_values=None),
        OneHotEncoder(handle_unknown="ignore"),
    )
    whole = make_pipeline(
        make_column_transformer(
            (SimpleImputer(add_indicator=True), ["x"]),
            (filled, ["c"]),
            (MissingIndicator(missing_values=None), ["c"]),
        ),
        LogisticRegression(C=1 / (penalty * len(trained)), tol=1e-10, max_iter=10_000),
    ).fit(trained, trained.y > 0)
    options = {"l2": penalty, "missing": "impute", "epsilon": 1e-10}
    model = f"(SELECT train_model('logistic', CASE WHEN y > 0 THEN 1 ELSE 0 END, r, '{json.dumps(options)}') AS m FROM named, LATERAL (SELECT named.x, named.c) AS r WHERE i < 300) AS t"
    level = "CASE WHEN c = 'Ä' THEN 'new' ELSE c END AS c"
    found = table.connection.execute(
        f"SELECT predict_proba(m, r), (m).coef, (m).intercept FROM {model}, (SELECT i, x, {level} FROM named WHERE i >= 300) AS rows, "
        "LATERAL (SELECT rows.x, rows.c) AS r ORDER BY i"
    ).fetchall()
    truth = whole[-1]
    assert [row[0] for row in found] == pytest.approx(whole.predict_proba(asked)[:, 1], abs=1e-6)
    assert found[0][1] == pytest.approx(truth.coef_[0], abs=1e-5)
    assert found[0][2] == pytest.approx(truth.intercept_[0], abs=1e-5)


def test_gaps_can_be_refused(table: Client) -> None:
    told = refused(table, """train_model('linear', y, named, '{"missing": "error"}')""")
    assert (
        "column 'c' is NULL in 40 rows of a group, expected none as option 'missing' is 'error'"
        in told
    )


def test_option_values_are_checked(table: Client) -> None:
    told = refused(table, """train_model('linear', y, named, '{"missing": "drop"}')""")
    assert "option 'missing' is \"drop\", expected 'skip', 'impute', 'level' or 'error'" in told
    told = refused(table, """train_model('linear', y, named, '{"max_categories": 0}')""")
    assert "option 'max_categories' is 0, expected a whole number from 1 to 100000" in told


def test_labels_are_text(table: Client) -> None:
    """The second class, in order, is the positive one, as with numbers; alike for lists."""
    run = table.connection.execute
    run("ALTER TABLE named ADD COLUMN answer varchar")
    run("UPDATE named SET answer = CASE WHEN u THEN 'yes' ELSE 'no' END")
    for x in ("r", "ARRAY[r.x]", "sparse(ARRAY[0], ARRAY[r.x])"):
        found = [
            run(
                f"SELECT (m).coef, (m).classes, (m).class_names, (m).n_rows FROM (SELECT train_model('logistic', {label}, {x}) AS m FROM named, LATERAL (SELECT named.x) AS r) AS t"
            ).fetchall()[0]
            for label in ("answer", "u")
        ]
        assert found[0][0] == pytest.approx(found[1][0])
        assert list(found[0][1:]) == [[0, 1], ["no", "yes"], 360]
    assert "label is text such as 'no', task 'linear' needs numbers" in refused(
        table, "train_model('linear', answer, ARRAY[i])"
    )


def test_a_group_of_one_class_knows_its_name(table: Client) -> None:
    run = table.connection.execute
    found = run(
        "SELECT (m).status, (m).class_names, (m).classes FROM (SELECT train_model('logistic', CASE WHEN i > 200 THEN 'late' WHEN i % 3 = 0 THEN 'late' ELSE 'early' END, r) AS m FROM named, LATERAL (SELECT named.c) AS r GROUP BY i > 200) AS t ORDER BY (m).status"
    ).fetchall()
    assert found[0][1:] == (["early", "late"], [0, 1])
    assert found[1] == ("one class", ["late"], [0])


ANSWERS = "CASE WHEN i > 200 OR u THEN 'yes' ELSE 'no' END"


def test_classes_are_named(table: Client) -> None:
    """So that a group of one class knows which one it is, and the second is the positive one."""
    run = table.connection.execute
    found = run(
        f"""SELECT (m).status, (m).class_names, (m).classes, (m).intercept > 0, (m).options FROM (SELECT train_model('logistic', {ANSWERS}, r, '{{"classes": ["no", "yes"]}}') AS m FROM named, LATERAL (SELECT named.x) AS r GROUP BY i > 200) AS t ORDER BY (m).status"""
    ).fetchall()
    assert found[1][:4] == ("one class", ["no", "yes"], [0, 1], True)
    assert json.loads(found[0][4])["classes"] == ["no", "yes"]
    turned = [
        run(
            f"""SELECT (m).coef, (m).class_names FROM (SELECT train_model('logistic', {ANSWERS}, r, '{{"classes": {names}}}') AS m FROM named, LATERAL (SELECT named.x) AS r WHERE i <= 200) AS t"""
        ).fetchall()[0]
        for names in ('["no", "yes"]', '["yes", "no"]')
    ]
    assert turned[0][0][0] == pytest.approx(-turned[1][0][0])
    assert turned[1][1] == ["yes", "no"]


def test_class_weights_are_by_name(table: Client) -> None:
    run = table.connection.execute
    found = [
        run(
            f"""SELECT (m).coef, (m).intercept FROM (SELECT train_model('logistic', {label}, r, '{{"class_weight": {weights}}}') AS m FROM named, LATERAL (SELECT named.x) AS r) AS t"""
        ).fetchall()[0]
        for label, weights in ((ANSWERS, '{"yes": 1, "no": 4}'), ("i > 200 OR u", "[4, 1]"))
    ]
    assert [*found[0][0], found[0][1]] == pytest.approx([*found[1][0], found[1][1]])


@pytest.mark.parametrize(
    ("label", "options", "sentence"),
    [
        (
            ANSWERS,
            '{"classes": ["no", "maybe"], "invalid": "error"}',
            "label is 'yes', expected 'no' or 'maybe' as the options have",
        ),
        (
            ANSWERS,
            '{"classes": [0, 1]}',
            "option 'classes' is [0.0, 1.0], expected a list of two texts, since labels are text such as",
        ),
        (
            ANSWERS,
            '{"class_weight": {"no": 1, "maybe": 2}, "invalid": "error"}',
            "label is 'yes', expected 'maybe' or 'no' as the options have",
        ),
        (
            ANSWERS,
            '{"classes": ["no", "yes"], "class_weight": {"no": 1, "maybe": 2}}',
            "name different classes, expected the same",
        ),
        (
            "u",
            '{"classes": ["no", "yes"]}',
            """option 'classes' is ["no", "yes"], expected a list of two labels that are numbers""",
        ),
        (
            "u",
            '{"class_weight": {"no": 1, "yes": 2}}',
            "expected weights of two classes that are numbers, as the labels are",
        ),
    ],
)
def test_classes_that_are_refused(table: Client, label: str, options: str, sentence: str) -> None:
    assert sentence in refused(table, f"train_model('logistic', {label}, named, '{options}')")
