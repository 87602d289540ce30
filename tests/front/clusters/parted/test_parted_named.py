"""Rows with names, and labels that are text, of groups on several shards: the features of all."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import sharded

import tuskml
from tuskml.groups.execution import choosing

ROWS = """
SELECT ['big', 'big', 'large'][1 + i % 3] AS g, i, hash(i, 1) % 1000 / 500 - 1 AS x,
       CASE WHEN hash(i, 7) % 5 > 0 THEN hash(i, 6) % 1024 / 1024 END AS u,
       ['red', 'green', 'blue', 'v' || hash(i, 12) % 7][(1 + hash(i, 11) % 4)::INT] AS colour,
       CASE WHEN hash(i, 17) % 9 > 0 THEN ['a', 'b', 'c d e', 'é'][1 + i // 3000] END AS word,
       DATE '2020-01-01' + (hash(i, 14) % 1000)::INT AS day, hash(i, 15) % 5 AS level,
       hash(i, 3) % 1000 / 1000 < 1 / (1 + exp(0.3 - 3 * x - (colour = 'red')::INT)) AS y,
       ['no', 'yes', 'perhaps'][(1 + hash(i, 4) % 2 + (x > 0.2)::INT)::INT] AS k
FROM range(12000) t(i)
"""
GIVEN: dict[str, Any] = {"label": "y", "features": ["x", "colour", "u", "day"], "group_by": "g"}
TREES = {"trees": 4, "num_leaves": 6, "objective": "logistic"}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect() as connection:
        connection.execute(f"CREATE TABLE rows AS {ROWS}")
        yield connection


def both(con: duckdb.DuckDBPyConnection, source: str, task: str, **more: Any) -> Any:
    """The models by parts, and those of one query."""
    given = GIVEN | more
    found = sharded.by_parts(con, task, **given | {"source": source})
    return found, tuskml.train(con, task, **given | {"source": "rows"})


def prepared(model: tuskml.Model) -> Any:
    """What the columns became, with what fills gaps to so many digits."""
    assert model.preparation is not None
    found = json.loads(model.preparation)
    for column in found["columns"]:
        if isinstance(column.get("fill"), float):
            column["fill"] = round(column["fill"], 12)
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "more",
    [
        {"missing": "impute"},
        {"features": ["colour", "word"], "max_categories": 3, "missing": "level"},
        {"features": ["word", "day"], "dates": "parts", "missing": "level"},
        {"features": ["level", "colour", "x"], "categories": ["level"], "min_count": 300},
        {"features": ["colour", "x"], "levels": {"colour": ["v3", "red", "green"]}},
        {"features": ["word", "x"], "text": ["word"], "l2": 0.1},
        {
            "features": ["colour", "x", "level"],
            "categories": ["level"],
            "interactions": [["colour", "level"], ["x", "level"]],
            "l2": 0.1,
            "missing": "impute",
        },
        {"features": "{'one': x, 'other': colour}", "l2": 0.01},
        {"label": "k", "features": ["x", "colour"], "l2": 0.1},
    ],
)
def test_features_and_models_are_those_of_rows_in_one_place(
    con: duckdb.DuckDBPyConnection, source: str, more: dict[str, Any]
) -> None:
    found, expected = both(con, source, "logistic", **more)
    for key, model in expected.items():
        assert model is not None
        other = found[key]
        assert other is not None
        assert (other.features, other.class_names) == (model.features, model.class_names)
        assert (other.n_rows, other.n_skipped) == (model.n_rows, model.n_skipped)
        assert other.note == model.note
        if model.preparation is not None:
            assert prepared(other) == prepared(model)
        assert other.coef == pytest.approx(model.coef, rel=1e-6, abs=1e-9)
        assert other.std_err == (model.std_err and pytest.approx(model.std_err, rel=1e-6))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("gbdt", {"features": ["x", "colour", "word", "u"]}),
        ("gbdt", {"features": ["x", "colour", "word"], "label": "k"}),
        ("gbdt", {"features": ["level", "x"], "categories": ["level"], "validation": 0.2}),
        (
            "gbdt",
            {"category_encoding": "one_hot", "features": ["x", "colour"], "row_fraction": 0.5},
        ),
        ("random_forest", {"objective": "gini", "features": ["x", "colour", "word", "u"]}),
    ],
)
def test_trees_have_the_bits_of_rows_in_one_place(
    con: duckdb.DuckDBPyConnection, source: str, task: str, more: dict[str, Any]
) -> None:
    found, expected = both(con, source, task, **TREES | more)
    for key, model in expected.items():
        other = found[key]
        for field in ("coef", "intercept", "class_names", "features", "preparation", "n_rows"):
            assert getattr(other, field) == getattr(model, field), (key, field)


def test_trees_go_on_from_a_model_with_other_levels(
    con: duckdb.DuckDBPyConnection, source: str
) -> None:
    con.execute(
        "CREATE OR REPLACE TABLE few AS FROM rows WHERE colour <> 'red' AND word IS NOT NULL"
    )
    more = TREES | {"features": ["x", "colour", "word"], "min_category_rows": 20}
    before = tuskml.train(con, "gbdt", label="y", source="few", **more)
    found, expected = both(con, source, "gbdt", **more, warm_start=before)
    for key, model in expected.items():
        assert found[key].coef == model.coef
        assert found[key].preparation == model.preparation
        assert '"red"' in model.preparation
        assert len(model.coef) > len(before.coef)


NET = {"objective": "logistic", "max_iter": 3, "layers": [8], "features": ["x", "colour"]}


@pytest.mark.sample(1)
@pytest.mark.parametrize("more", [{"validation": 0.2}, {"label": "k", "weight": "1 + i % 3"}])
def test_nets_embed_the_categories_of_all_parts(
    con: duckdb.DuckDBPyConnection, source: str, more: dict[str, Any]
) -> None:
    found, expected = both(con, source, "mlp", **NET | more)
    for key, model in expected.items():
        other = found[key]
        head = 9  # of one hidden layer and one table
        assert other.coef[:head] == model.coef[:head]
        assert len(other.coef) == len(model.coef)
        assert other.preparation == model.preparation
        assert other.loss == pytest.approx(model.loss, rel=0.1)


def test_a_net_that_embeds_predicts_what_it_says(
    con: duckdb.DuckDBPyConnection, source: str
) -> None:
    """Its loss is that of its predictions, and the vectors of a category have the mean 0."""
    sharded.by_parts(con, "mlp", **GIVEN | NET | {"source": source, "into": "found"})
    ((loss, said, coef),) = con.execute(
        "SELECT log_loss(y, predict_proba(model, {'x': x, 'colour': colour})), "
        "any_value(model.loss), "
        "any_value(model.coef) FROM rows JOIN found USING (g) WHERE g = 'big'"
    ).fetchall()
    assert loss == pytest.approx(said, rel=1e-5)
    rows = con.execute("SELECT count(*) FROM rows WHERE g = 'big' GROUP BY colour ORDER BY colour")
    counts = np.array(rows.fetchall())[:, 0]
    levels, numbers = int(coef[7]), int(coef[8])
    vectors = np.array(coef[9 : 9 + levels * numbers]).reshape(levels, numbers)
    assert levels == len(counts)
    assert counts @ vectors / counts.sum() == pytest.approx(np.zeros(numbers), abs=1e-6)
    assert np.abs(vectors).max() > 0.1


@pytest.mark.sample(1)
@pytest.mark.parametrize("task", ["logistic", "mlp"])
def test_the_bits_do_not_depend_on_the_number_of_workers(
    con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    given = GIVEN | {"source": source, "missing": "impute"}
    given |= NET if task == "mlp" else {"deterministic": True}
    found = []
    for n in (1, 3):
        monkeypatch.setattr(choosing.budget, "threads", lambda asked=None, n=n: n)
        models = sharded.by_parts(con, task, **given)
        big = models["big"]  # the other one is not cut
        found.append((big.coef, big.preparation, big.loss))
    assert found[0] == found[1]


@pytest.mark.nightly
def test_a_search_chooses_from_rows_with_names(
    con: duckdb.DuckDBPyConnection, source: str
) -> None:
    found, expected = both(con, source, "logistic", l2=[0.3, 0.001], folds=3)
    for key, model in expected.items():
        assert found[key].features == model.features
        assert found[key].coef == pytest.approx(model.coef, rel=1e-4, abs=1e-6)


def test_candidates_that_make_other_features_are_trained_in_one_place(
    con: duckdb.DuckDBPyConnection, source: str
) -> None:
    with pytest.warns(tuskml.ClusterWarning, match="candidates that make different features"):
        tuskml.train(
            con, "logistic", **GIVEN, source=source, l2=[0.0, 0.1], folds=2,
            executor="threads", placement="gap",
        )  # fmt: skip


def test_a_column_of_another_type_in_another_file_is_refused(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    for place, kind in enumerate(("VARCHAR", "INTEGER")):
        con.execute(
            f"COPY (SELECT 'a' AS g, (i % 3)::{kind} AS c, i % 2 AS y FROM range(4000) t(i)) "
            f"TO '{tmp_path}/{place}.parquet' (FORMAT parquet)"
        )
    with pytest.raises(tuskml.ClusterError, match="other names or types in another file"):
        tuskml.train(
            con, "logistic", source=str(tmp_path / "*.parquet"), label="y", features=["c"],
            group_by="g", executor="threads", placement="gap",
        )  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("reference", ["most frequent", {"colour": "red"}, {"level": "4"}])
def test_reference_levels_are_those_of_one_place(
    con: duckdb.DuckDBPyConnection, source: str, reference: Any
) -> None:
    features = {"features": ["colour", "level"], "categories": ["level"], "invalid": "skip"}
    found, expected = both(con, source, "linear", **features, reference=reference)
    for key, model in expected.items():
        assert found[key].status == model.status == "ok"
        assert found[key].coefficients == pytest.approx(model.coefficients, rel=1e-9)


def test_a_reference_level_that_rows_lack_makes_their_group_invalid(
    con: duckdb.DuckDBPyConnection, source: str
) -> None:
    """The group on several shards lacks it; the other has its model."""
    seen = "CASE WHEN g = 'large' THEN colour ELSE 'red' END"
    found, expected = both(
        con, source, "linear", features=f"{{'c': {seen}, 'x': x}}", reference={"c": "blue"}
    )
    assert {key: model.status for key, model in found.items()} == {
        key: model.status for key, model in expected.items()
    }
    assert found["big"].status == "invalid rows"
    assert "'blue'" in found["big"].plan
