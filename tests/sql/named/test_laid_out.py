"""Models that score many rows are laid out for them: the same numbers, by hand, in both databases."""

# ruff: noqa: E501, SQL is read better on one line

from typing import Any

import numpy as np
import pytest

ROWS, GROUPS = 4000, 40
LONG = "a level of more than sixteen bytes "


class Rows:
    """Rows of 40 groups in a database; c has levels of their group's own, d the same everywhere."""

    def __init__(self, name: str, session: Any, own_levels: int) -> None:
        self.name, self.session = name, session
        rng = np.random.default_rng(3)
        group = rng.integers(0, GROUPS, ROWS)
        own = rng.integers(0, own_levels, ROWS)
        self.rows = [
            (i, int(g), float(x), f"{LONG if k % 2 else ''}{g}-{k}", f"d{d}", float(y))
            for i, (g, x, k, d, y) in enumerate(
                zip(
                    group,
                    rng.normal(size=ROWS).round(3),
                    own,
                    rng.integers(0, 5, ROWS),
                    rng.normal(size=ROWS).round(3),
                    strict=True,
                )
            )
        ]
        temp = "TEMP" if name == "post" else ""
        text = "text" if name == "post" else "VARCHAR"
        session.execute(
            f"CREATE {temp} TABLE t (i INTEGER, g INTEGER, x DOUBLE PRECISION, c {text}, d {text}, y DOUBLE PRECISION)"
        )
        listed = ", ".join(repr(row) for row in self.rows)
        session.execute(f"INSERT INTO t VALUES {listed}")

    def row(self, **columns: str) -> tuple[str, str]:
        """A row with names, and what follows FROM for it."""
        if self.name == "duck":
            return "{" + ", ".join(f"'{name}': {sql}" for name, sql in columns.items()) + "}", ""
        listed = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        return "r", f", LATERAL (SELECT {listed}) AS r"

    def train(self, options: str, where: str = "true") -> dict[int, dict[str, float]]:
        """The weights by name, and `intercept`, by group; the models are in table m."""
        row, of = self.row(x="t.x", c="t.c", d="t.d")
        temp = "TEMP" if self.name == "post" else ""
        self.session.execute(
            f"CREATE {temp} TABLE m AS SELECT g, train_model('linear', y, {row}, '{options}') AS model FROM t{of} WHERE {where} GROUP BY g"
        )
        found = self.session.execute(
            "SELECT g, (model).features, (model).coef, (model).intercept FROM m"
        ).fetchall()
        return {
            g: {**dict(zip(names, coef, strict=True)), "intercept": b}
            for g, names, coef, b in found
        }

    def predictions(
        self, order: str = "", source: str = "t JOIN m USING (g)", **columns: str
    ) -> dict[int, float]:
        """By row; order: of the rows when they are scored."""
        row, of = self.row(**{"x": "t.x", "c": "t.c", "d": "t.d", **columns})
        found = self.session.execute(
            f"SELECT i, predict(model, {row}) FROM (SELECT * FROM {source} {order}) AS t{of}"
        ).fetchall()
        return dict(found)


@pytest.fixture(params=[3, 40], ids=["few levels", "many levels"])
def rows(session: tuple[str, Any], request: pytest.FixtureRequest) -> Rows:
    """With many, the levels of all groups are far more than a group's."""
    return Rows(*session, own_levels=request.param)


def by_hand(weights: dict[str, float], x: float, c: str, d: str) -> float:
    """The margin of a row; levels that the model does not know weigh 0, or what the others do."""
    c_other, d_other = weights.get("c[other]", 0.0), weights.get("d[other]", 0.0)
    levels = weights.get(f"c[{c}]", c_other) + weights.get(f"d[{d}]", d_other)
    return weights["intercept"] + weights["x"] * x + levels


OPTIONS = '{"l2": 0.01}'


@pytest.mark.parametrize("order", ["", "ORDER BY g"], ids=["mixed", "sorted"])
def test_rows_of_many_models(rows: Rows, order: str) -> None:
    models = rows.train(OPTIONS)
    found = rows.predictions(order)
    assert len(found) == ROWS
    for i, g, x, c, d, _ in rows.rows:
        assert found[i] == pytest.approx(by_hand(models[g], x, c, d), abs=1e-12)


@pytest.mark.parametrize("order", ["", "ORDER BY g"], ids=["mixed", "sorted"])
def test_levels_that_only_other_groups_have(rows: Rows, order: str) -> None:
    """Each row has the levels of the next group, and a level that no group has."""
    models = rows.train(OPTIONS)
    other = "replace(t.c, CAST(t.g AS VARCHAR(9)) || '-', CAST(t.g + 1 AS VARCHAR(9)) || '-')"
    found = rows.predictions(order, c=other, d="CASE WHEN t.i % 2 = 0 THEN t.d ELSE 'new' END")
    for i, g, x, c, d, _ in rows.rows:
        next_one = c.replace(f"{g}-", f"{g + 1}-")
        expected = by_hand(models[g], x, next_one, d if i % 2 == 0 else "new")
        assert found[i] == pytest.approx(expected, abs=1e-12)


def test_gaps_amid_rows_of_one_model(rows: Rows) -> None:
    rows.train('{"l2": 0.01, "missing": "level"}')
    gap = "CASE WHEN t.i % 7 = 0 THEN NULL ELSE t.c END"
    mixed = rows.predictions("ORDER BY g", c=gap)
    whole = rows.predictions("ORDER BY g")
    assert all(mixed[i] == whole[i] for i in whole if i % 7)
    unseen = rows.predictions("ORDER BY g", c="'a level of none'")
    assert all(mixed[i] == pytest.approx(unseen[i], abs=1e-12) for i in whole if i % 7 == 0)


def test_gaps_that_are_skipped(rows: Rows) -> None:
    rows.train(OPTIONS)
    gap = "CASE WHEN t.i % 7 = 0 THEN NULL ELSE t.x END"
    found = rows.predictions("ORDER BY g", x=gap)
    whole = rows.predictions()
    assert all(found[i] == (None if i % 7 == 0 else whole[i]) for i in whole)


def test_an_unseen_level_is_refused_late_in_a_run(rows: Rows) -> None:
    rows.train('{"l2": 0.01, "unseen": "error"}')
    one = "t, (SELECT model FROM m WHERE g = 0) AS one"
    known = "(SELECT c FROM t WHERE g = 0 LIMIT 1)"
    c = f"CASE WHEN t.i = 3333 THEN 'new' ELSE {known} END"
    with pytest.raises(Exception, match="column 'c' is 'new', which the model was not trained on"):
        rows.predictions(source=one, c=c)
    assert len(rows.predictions(source=one, c=known)) == ROWS


def test_texts_that_begin_alike_are_different_levels(session: tuple[str, Any]) -> None:
    """Each group has all texts of up to 4 letters of two, and longer ones that share 8 or 16."""
    texts = [""]
    for _ in range(4):
        texts += [text + letter for text in texts for letter in "ab"]
    texts += [LONG[:n] + letter for n in (7, 8, 9, 15, 16, 17) for letter in "abé"]
    levels = sorted(set(texts), key=str.encode)
    name, con = session
    text = "text" if name == "post" else "VARCHAR"
    con.execute(f"CREATE {'TEMP' if name == 'post' else ''} TABLE s (c {text})")
    con.execute(
        f"INSERT INTO s VALUES {', '.join(repr((one,)).replace(',)', ')') for one in levels)}"
    )
    row = "{'c': s.c}" if name == "duck" else "x"
    of = "" if name == "duck" else ", LATERAL (SELECT s.c) AS x"
    found = con.execute(
        f"SELECT (train_model('linear', length(s.c), {row}, '{OPTIONS}')).features FROM s, generate_series(1, 20) AS r(g){of} GROUP BY g"
    ).fetchall()
    assert [features for (features,) in found] == [[f"c[{level}]" for level in levels]] * 20


@pytest.mark.parametrize("order", ["", "ORDER BY g"], ids=["mixed", "sorted"])
def test_levels_whose_letters_in_a_row_are_the_same(session: tuple[str, Any], order: str) -> None:
    """The levels of groups are the same letters cut elsewhere, or other letters cut alike."""
    levels = [("a", "bc"), ("ab", "c"), ("a", "bd"), ("a", "bc"), ("a", "bc", "bd"), ("", "abc")]
    name, con = session
    temp = "TEMP" if name == "post" else ""
    con.execute(
        f"CREATE {temp} TABLE cut (g INTEGER, c {'text' if temp else 'VARCHAR'}, y INTEGER)"
    )
    rows = [(g, c, 10 * g + k) for g, own in enumerate(levels) for k, c in enumerate(own)]
    con.execute(f"INSERT INTO cut VALUES {', '.join(repr(row) for row in rows * 40)}")
    row, of = ("x", ", LATERAL (SELECT cut.c) AS x") if temp else ("{'c': cut.c}", "")
    con.execute(
        f"CREATE {temp} TABLE m AS SELECT g, train_model('linear', y, {row}) AS model FROM cut{of} GROUP BY g"
    )
    found = con.execute(
        f"SELECT y, predict(model, {row}) FROM (SELECT * FROM cut JOIN m USING (g) {order}) AS cut{of}"
    ).fetchall()
    assert len(found) == 40 * len(rows)
    for y, predicted in found:
        assert predicted == pytest.approx(y, abs=1e-6)
