"""`permutation_importance` and `partial_dependence` in SQL, beside brute force in Python."""

# ruff: noqa: E501, SQL is read better on one line
import hashlib
import math
from typing import Any

import numpy as np
import pytest

import tuskml

ROWS = """CREATE {temp} TABLE t AS SELECT i, i % 3 AS g, ((i * 7919) % 1009)::float8 / 1009 AS a,
((i * 31) % 101)::float8 / 101 AS b, CASE WHEN i % 7 < 3 THEN 'x' ELSE 'y' || (i % 2)::text END AS c
FROM generate_series(0, 599) AS r(i)"""


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        session.execute(ROWS.format(temp="TEMP" if name == "post" else ""))

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self.session.execute(sql).fetchall()

    def keep(self, sql: str) -> tuskml.Model:
        """Trains the model in table f, whose first model it returns."""
        temp = "TEMP" if self.name == "post" else ""
        self.session.execute(f"CREATE {temp} TABLE f AS SELECT {self.written(sql)}")
        taken = "m" if self.name == "duck" else "to_jsonb(m)"
        return tuskml.Model.of(self.ask(f"SELECT {taken} FROM f")[0][0])

    def written(self, sql: str) -> str:
        """The SQL with rows and arrays as the database has them."""
        row = "{'a': a, 'b': b, 'c': c}"
        if self.name == "duck":
            return sql.replace("{row}", row).replace("{list}", "[a, b, i % 7]")
        named = "(SELECT r FROM (SELECT a, b, c) AS r)"
        return sql.replace("{row}", named).replace("{list}", "ARRAY[a, b, i % 7]::float8[]")

    def features(self, *names: str) -> str:
        """A list of features as an argument."""
        listed = ", ".join(f"'{name}'" for name in names)
        return f"[{listed}]" if self.name == "duck" else f"ARRAY[{listed}]"

    def rows(self, columns: str) -> list[tuple[Any, ...]]:
        return self.ask(f"SELECT {columns} FROM t ORDER BY i")


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


def permuted(n: int, k: int, seed: int) -> np.ndarray:
    """For each row, in the order of its values, the row whose value it takes."""
    digests = [hashlib.md5(f"{seed}:{k}:{i}".encode()).hexdigest() for i in range(1, n + 1)]
    places = np.empty(n, int)
    places[np.argsort(digests, kind="stable")] = np.arange(n)
    return places


def test_importance_is_the_rise_of_the_loss(db: Database) -> None:
    model = db.keep("train_model('gbdt', 3 * a + b, {list}, '{\"trees\": 10}') AS m FROM t")
    table = sorted((3 * a + b, a, b, float(z)) for a, b, z in db.rows("a, b, i % 7"))
    y, x = np.array(table)[:, 0], np.array(table)[:, 1:]
    plain = np.mean((model.predict(x) - y) ** 2)
    expected = {}
    for j in range(3):
        rises = []
        for k in range(4):
            other = x.copy()
            other[:, j] = x[permuted(len(x), k, 7), j]
            rises.append(np.mean((model.predict(other) - y) ** 2) - plain)
        expected[f"x{j + 1}"] = (np.mean(rises), np.std(rises), plain)
    features = db.features(db.written("{list}"))
    arguments = f"'t', '(SELECT m FROM f)', '3 * a + b', {features}, repeats => 4, seed => 7"
    if db.name == "duck":
        arguments = arguments.replace(features, features[1:-1])
    found = db.ask(f"SELECT * FROM permutation_importance({arguments})")
    assert [row[1] for row in found] == sorted(expected, key=lambda name: -expected[name][0])
    for group, name, *numbers in found:
        assert group is None
        assert numbers == pytest.approx(expected[name], rel=1e-9, abs=1e-12)


def test_columns_one_by_one_are_those_of_the_array(db: Database) -> None:
    db.keep("train_model('gbdt', 3 * a + b, {list}, '{\"trees\": 3}') AS m FROM t")
    array = db.written("{list}")
    whole = f"'{array}'" if db.name == "duck" else db.features(array)
    asked = "SELECT * FROM {}('t', '(SELECT m FROM f)', {}{}, {})"
    for function, label, more, names in (
        ("permutation_importance", "'3 * a + b', ", "repeats => 2", ["x1", "a"]),
        ("partial_dependence", "", "'{}', points => 3", ["x2", "b"]),
    ):
        each = db.features("a", "b", "i % 7")
        first = db.ask(asked.format(function, label, whole, more.format(names[0])))
        other = db.ask(asked.format(function, label, each, more.format(names[1])))
        numbers = [[one for one in row[2:] if one is not None] for row in first]
        assert [[one for one in row[2:] if one is not None] for row in other] == [
            pytest.approx(row, rel=1e-9, abs=1e-12) for row in numbers
        ]
        assert len(first) == 3


@pytest.mark.parametrize("task", ["gbdt", "svm"])
def test_classes_by_group(db: Database, task: str) -> None:
    """Of probabilities the log loss, and of classes without them the share of wrong ones."""
    options = {"gbdt": '{"objective": "logistic", "trees": 5}', "svm": ""}[task]
    db.keep(
        f"g, train_model('{task}', CASE WHEN a > 0.4 THEN 'late' ELSE 'early' END, {{row}}, '{options}') AS m FROM t GROUP BY g"
    )
    temp = "TEMP" if db.name == "post" else ""
    db.session.execute(f"CREATE {temp} VIEW joined AS SELECT t.*, f.m FROM t JOIN f ON t.g = f.g")
    label = "CASE WHEN a > 0.4 THEN ''late'' ELSE ''early'' END"
    found = db.ask(
        f"SELECT * FROM permutation_importance('joined', 'm', '{label}', {db.features('a', 'b', 'c')}, group_by => 'g', repeats => 2)"
    )
    assert [row[0] for row in found] == ["0"] * 3 + ["1"] * 3 + ["2"] * 3
    assert [row[1] for row in found[::3]] == ["a"] * 3
    scored = (
        "ln(predict_proba(m, {row}, y))"
        if task == "gbdt"
        else "-(predict_class(m, {row}) <> y)::integer"
    )
    losses = db.ask(
        f"SELECT g, -avg({db.written(scored)}) FROM (SELECT *, {label.replace(chr(39) * 2, chr(39))} AS y FROM joined) AS t GROUP BY g ORDER BY g"
    )
    assert [row[4] for row in found[::3]] == pytest.approx(
        [float(loss) for _, loss in losses], rel=1e-9
    )
    assert all(row[2] > 0.2 for row in found[::3])


def test_rows_in_another_order_give_the_same(db: Database) -> None:
    db.keep("train_model('gbdt', 3 * a + b, {row}, '{\"trees\": 3}') AS m FROM t")
    asked = "SELECT * FROM permutation_importance('{t}', '(SELECT m FROM f)', '3 * a + b', {x})"
    asked = asked.replace("{x}", db.features("a", "b", "c"))
    first = db.ask(asked.replace("{t}", "t"))
    temp = "TEMP" if db.name == "post" else ""
    db.session.execute(f"CREATE {temp} TABLE turned AS SELECT * FROM t ORDER BY i DESC")
    for one, other in zip(first, db.ask(asked.replace("{t}", "turned")), strict=True):
        assert one[1] == other[1]
        assert one[2:] == pytest.approx(other[2:], rel=1e-12, abs=1e-15)


def test_dependence_is_the_mean_prediction(db: Database) -> None:
    model = db.keep("train_model('gbdt', 3 * a + (i % 7), {list}, '{\"trees\": 10}') AS m FROM t")
    x = np.array(db.rows("a, b, i % 7"), float)
    features = (
        f"'{db.written('{list}')}'" if db.name == "duck" else db.features(db.written("{list}"))
    )
    asked = f"SELECT * FROM partial_dependence('t', '(SELECT m FROM f)', {features}, '{{}}', points => {{}})"
    found = db.ask(asked.format("x3", 50))
    assert [row[2] for row in found] == list(range(7))
    for _, _, number, name, mean, n in found:
        other = x.copy()
        other[:, 2] = number
        assert (name, n) == (None, len(x))
        assert mean == pytest.approx(np.mean(model.predict(other)), rel=1e-12)
    few = [row[2] for row in db.ask(asked.format("x1", 5))]
    ordered = np.sort(x[:, 0])  # the first value that so many rows are not above
    assert few == [ordered[math.ceil(len(x) * (2 + 9 * p) / 40) - 1] for p in range(5)]


def test_dependence_on_categories_has_all_classes(db: Database) -> None:
    """Of text the most frequent values, and of three classes a curve each."""
    db.keep(
        "train_model('gbdt', 'k' || (i % 3)::text, {row}, '{\"objective\": \"logistic\", \"trees\": 3}') AS m FROM t"
    )
    asked = f"SELECT value, class, prediction FROM partial_dependence('t', '(SELECT m FROM f)', {db.features('a', 'b', 'c')}, 'c', points => 2)"
    found = db.ask(asked)
    counts = db.ask("SELECT c FROM t GROUP BY c ORDER BY count(*) DESC, c")
    assert {value for value, _, _ in found} == {value for (value,) in counts[:2]}
    assert [name for _, name, _ in found] == ["k0", "k0", "k1", "k1", "k2", "k2"]
    for value in {value for value, _, _ in found}:
        assert sum(p for one, _, p in found if one == value) == pytest.approx(1, rel=1e-12)


def test_two_classes_have_the_higher_one(db: Database) -> None:
    db.keep("train_model('logistic', a > 0.5, {list}, '{\"l2\": 0.1}') AS m FROM t")
    features = (
        f"'{db.written('{list}')}'" if db.name == "duck" else db.features(db.written("{list}"))
    )
    found = db.ask(
        f"SELECT class, prediction FROM partial_dependence('t', '(SELECT m FROM f)', {features}, 'x1', points => 3)"
    )
    assert [name for name, _ in found] == ["true"] * 3
    assert found[0][1] < 0.4
    assert found[2][1] > 0.6
    ((best, *_),) = db.ask(
        f"SELECT feature FROM permutation_importance('t', '(SELECT m FROM f)', 'a > 0.5', {features}) LIMIT 1"
    )
    assert best == "x1"


def test_tables_of_the_schema_are_found(db: Database) -> None:
    """As the caller names them; the functions themselves have a search_path of their own."""
    for name, sql in (
        ("rows", "* FROM t"),
        ("kept", "train_model('gbdt', a, {list}) AS m FROM t"),
    ):
        db.session.execute(f"CREATE TABLE {name}_there AS SELECT {db.written(sql)}")
    features = db.features("a", "b", "i % 7")
    asked = f"('rows_there', '(SELECT m FROM kept_there)', {{}}{features}{{}})"
    found = db.ask("SELECT * FROM permutation_importance" + asked.format("'a', ", ""))
    assert found[0][1] == "a"
    assert (
        len(db.ask("SELECT * FROM partial_dependence" + asked.format("", ", 'a', points => 4")))
        == 4
    )


def test_another_feature_is_refused(db: Database) -> None:
    db.keep("train_model('gbdt', a, {row}, '{\"trees\": 3}') AS m FROM t")
    with pytest.raises(
        Exception, match="partial_dependence: feature is 'z', expected one of a, b, c"
    ):
        db.ask(
            f"SELECT * FROM partial_dependence('t', '(SELECT m FROM f)', {db.features('a', 'b', 'c')}, 'z')"
        )


@pytest.mark.nightly
def test_the_usual_order_of_the_database_does_not_matter(con: Any) -> None:
    """Nor for the nodes of trees."""
    con.execute(ROWS.format(temp=""))
    con.execute("CREATE TABLE f AS SELECT train_model('gbdt', a + b, [a, b]) AS m FROM t")
    calls = (
        "tree_dump((SELECT m FROM f))",
        "partial_dependence('t', '(SELECT m FROM f)', '[a, b]', 'x1', points := 5)",
        "permutation_importance('t', '(SELECT m FROM f)', 'a + b', '[a, b]')",
    )

    def found() -> list[Any]:
        return [con.execute(f"SELECT * FROM {one} ORDER BY ALL ASC").fetchall() for one in calls]

    expected = found()
    con.execute("SET default_order = 'DESC'")
    for one, other in zip(found(), expected, strict=True):
        assert one == [pytest.approx(row) for row in other]
