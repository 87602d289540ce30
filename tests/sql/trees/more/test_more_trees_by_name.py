"""Option `warm_start` of `gbdt` on rows by name, whose categories have levels that come and go."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import duckdb
import pandas as pd
import psycopg
import pytest

import tuskml

ROWS = """
CREATE {temp} TABLE t AS
SELECT i, CASE WHEN i % 7 = 0 THEN NULL ELSE chr(CAST(97 + i * i % 11 AS integer)) END AS k, i % 4 AS n,
       CAST(i * 31 % 97 AS double precision) AS x,
       CAST(i * i % 11 * 3 + i * 31 % 97 / 10 + CASE WHEN i % 7 = 0 THEN 9 ELSE 0 END AS double precision) AS y
FROM generate_series(1, 1500) AS s(i)
"""
BASE = {"trees": 10, "num_leaves": 15, "min_category_rows": 10, "max_cat_to_onehot": 2}
TOO_FEW = {"min_child_rows": 100_000}
"""No tree is grown, so a model has those of before alone."""


class Database:
    """One of both databases with the same rows; models are in its table m."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        self.temp = "TEMP" if name == "post" else ""
        session.execute(ROWS.format(temp=self.temp))
        session.execute(
            f"CREATE {self.temp} TABLE asked AS SELECT i, k, n, x FROM t "
            "UNION ALL SELECT 0, 'zz', 9, 5 UNION ALL SELECT -1, NULL, NULL, NULL"
        )

    def features(self, rows: str) -> tuple[str, str]:
        """The features of a query's rows, and what is behind FROM."""
        if self.name == "duck":
            return "{'k': k, 'n': n, 'x': x}", rows
        return "f", f"{rows}, LATERAL (SELECT k, n, x) AS f"

    def train(self, options: dict[str, Any], where: str, start: str = "") -> dict[str, Any]:
        """Replaces the model, and returns it."""
        text = json.dumps({"categories": ["n"]} | options)
        if start:
            text = f'{text[:-1]}, "warm_start": {start}}}'
        features, rows = self.features("t")
        text = text.replace("'", "''")
        self.session.execute("DROP TABLE IF EXISTS m")
        self.session.execute(
            f"CREATE {self.temp} TABLE m AS SELECT train_model('gbdt', y, {features}, '{text}') AS m FROM {rows} WHERE {where}"
        )
        found = self.session.execute("SELECT CAST(to_json(m) AS text) FROM m").fetchall()[0][0]
        return {"text": found} | json.loads(found)

    def predictions(self) -> list[Any]:
        features, rows = self.features("asked")
        return self.session.execute(
            f"SELECT i, predict((SELECT m FROM m), {features}) FROM {rows} ORDER BY i"
        ).fetchall()


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


def levels(model: dict[str, Any]) -> list[str]:
    """Those of k."""
    made = model["preparation"]
    read = json.loads(made) if isinstance(made, str) else made
    return read["columns"][0]["levels"]


def test_ten_trees_and_ten_more_are_twenty(db: Database) -> None:
    first = db.train(BASE, "true")
    db.train(BASE, "true", first["text"])
    both = db.predictions()
    whole = db.train(BASE | {"trees": 20}, "true")
    assert both == db.predictions()
    assert whole["loss"] < first["loss"]


MET: dict[str, tuple[str, str]] = {
    "levels and NULLs that are new": ("i % 11 < 5 AND i % 7 <> 0", "i % 11 >= 4"),
    "levels and NULLs that are gone": ("true", "i % 11 IN (1, 2, 3) AND i % 7 <> 0"),
    "other levels, NULLs in both": ("i % 11 < 5", "i % 11 >= 5"),
    "a column without a level": ("true", "i % 7 = 0"),
    "one number": ("t.n < 3", "t.n = 3"),
}


@pytest.mark.parametrize("case", MET)
@pytest.mark.parametrize("missing", ["keep", "level"])
def test_trees_of_before_say_what_they_said(db: Database, case: str, missing: str) -> None:
    before, after = MET[case]
    options = BASE | {"missing": missing}
    first = db.train(options, before)
    said = db.predictions()
    assert len({prediction for _, prediction in said}) > 20
    again = db.train(options | TOO_FEW, after, first["text"])
    assert again["status"] == "too few rows"
    assert db.predictions() == said
    assert levels(again)[: len(levels(first))] == levels(first)


def test_a_null_that_counted_as_a_level_still_does(db: Database) -> None:
    """`impute` took NULLs for the most frequent level; with `keep` they are one of their own."""
    first = db.train(BASE | {"missing": "impute"}, "i % 7 <> 0")
    said = db.predictions()
    db.train(BASE | TOO_FEW | {"missing": "keep"}, "true", first["text"])
    again = db.predictions()
    known = [i for i, (row, _) in enumerate(said) if row > 0 and row % 7 == 0]
    assert len(known) > 100
    assert [again[i] for i in known] == [said[i] for i in known]


def test_trees_that_are_new_know_all_levels(db: Database) -> None:
    first = db.train(BASE, "i % 11 < 5 AND i % 7 <> 0")
    both = db.train(BASE | {"trees": 100}, "i % 11 >= 5 AND i % 7 <> 0", first["text"])
    assert set(levels(first)) < set(levels(both))
    truth = dict(
        db.session.execute("SELECT i, y FROM t WHERE i % 11 >= 5 AND i % 7 <> 0").fetchall()
    )
    wrong = [abs(said - truth[i]) for i, said in db.predictions() if i in truth]
    assert sum(wrong) / len(wrong) < 0.5


def test_a_number_of_levels_beyond_the_bins(con: duckdb.DuckDBPyConnection) -> None:
    """300 levels and 300 others: the 255 most frequent ones of either training have numbers."""
    con.execute(
        "CREATE TABLE t AS SELECT 'level ' || (i % 300) AS k, (i % 300)::double AS y FROM range(60000) AS r(i); "
        "CREATE TABLE u AS SELECT 'level ' || (300 + i % 300) AS k, (i % 300)::double AS y FROM range(60000) AS r(i)"
    )
    how = BASE | {"max_cat_threshold": 64, "num_leaves": 31}
    first = tuskml.train(con, "gbdt", source="t", label="y", features=["k"], **how)
    both = tuskml.train(
        con, "gbdt", source="u", label="y", features=["k"], **how, warm_start=first
    )
    assert first.preparation is not None
    assert both.preparation is not None
    old, new = (json.loads(one.preparation)["columns"][0]["levels"] for one in (first, both))
    assert len(old) == 255
    assert len(new) == 510
    assert new[:255] == old
    few = tuskml.train(
        con, "gbdt", source="u", label="y", features=["k"], **how | TOO_FEW, warm_start=first
    )
    rows = pd.DataFrame({"k": [f"level {i}" for i in range(600)]})
    assert few.predict(rows).tolist() == first.predict(rows).tolist()


def test_models_without_names_of_levels(db: Database) -> None:
    wrong = duckdb.Error, psycopg.Error
    first = db.train(BASE, "true")
    given = {name: first[name] for name in ("task", "payload", "intercept", "features")}
    with pytest.raises(wrong, match="does not say what the levels of 'k' are called"):
        db.train(BASE, "true", json.dumps(given))
    for damage in (
        "[1]",
        '{"columns": [{"name": "k", "kind": "levels", "levels": ["a", "a"]}]}',
        "{",
    ):
        with pytest.raises(wrong, match="expected a model as JSON"):
            db.train(BASE, "true", json.dumps(given | {"preparation": damage}))
