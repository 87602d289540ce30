"""Options as a STRUCT or a MAP are those of the same JSON text, wherever a training takes them."""

import json
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tuskml

FEATURES = ["[x, z]", "{'x': x, 'z': z}", "sparse([0, 1], [x, z])"]
VALUES = {
    "l2": st.sampled_from([("0.125", 0.125), ("0.1", 0.1), ("2::HUGEINT", 2)]),
    "max_iter": st.sampled_from([("7", 7), ("7::UTINYINT", 7), ("7::DECIMAL(9, 3)", 7)]),
    "epsilon": st.sampled_from([("0.25::FLOAT", 0.25), ("0", 0), ("1e-7", 1e-7)]),
    "fit_intercept": st.sampled_from([("true", True), ("false", False)]),
    "algorithm": st.sampled_from([("'lbfgs'", "lbfgs"), ("'bgd'::ENUM('sgd', 'bgd')", "bgd")]),
    "deterministic": st.just(("true", True)),
    "speculate": st.just(("{'sample': 100, 'time': '1s'}", {"sample": 100, "time": "1s"})),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> duckdb.DuckDBPyConnection:
    """A connection with a table."""
    db = tuskml.connect()
    db.execute(
        "CREATE OR REPLACE TABLE as_given AS SELECT i % 3 AS g, (i % 7)::DOUBLE AS x, "
        "(i % 5)::DOUBLE AS z, 3 * (i % 7) + i % 5 + (i * 37 % 11) / 10 AS y FROM range(90) t(i)"
    )
    return db


def answer(db: duckdb.DuckDBPyConnection, arguments: str) -> Any:
    """Coefficients and options of one model without measured times, or the error."""
    query = f"SELECT m.coef, m.options FROM (SELECT train_model({arguments}) AS m FROM as_given)"
    try:
        coef, options = db.execute(query).fetchall()[0]
    except duckdb.Error as error:
        return str(error)
    kept = {k: v for k, v in json.loads(options).items() if k not in ("estimated", "actual")}
    return kept, coef


def check_same(db: duckdb.DuckDBPyConnection, call: str, ours: str, theirs: str) -> None:
    """Trains with the options in both spellings; sums over threads may differ in last digits."""
    found, expected = answer(db, call.format(ours)), answer(db, call.format(theirs))
    if isinstance(expected, tuple):
        expected = expected[0], pytest.approx(expected[1], rel=1e-12)
    assert found == expected


@given(
    chosen=st.fixed_dictionaries({}, optional=VALUES),
    features=st.sampled_from(FEATURES),
    extras=st.sampled_from(["", ", 2", ", 2, 0.5"]),
)
def test_a_struct_is_its_json(
    rows: duckdb.DuckDBPyConnection, chosen: dict[str, Any], features: str, extras: str
) -> None:
    if not chosen:
        chosen = {"l2": ("0.5", 0.5)}
    chosen |= {"threads": ("1::BIGINT", 1)}  # then nothing is timed
    struct = ", ".join(f"'{name}': {sql}" for name, (sql, _) in chosen.items())
    text = json.dumps({name: value for name, (_, value) in chosen.items()})
    task = "poisson" if extras.count(",") > 1 else "linear"
    called = features.replace("{", "{{").replace("}", "}}")
    check_same(rows, f"'{task}', y, {called}, {{}}{extras}", f"{{{struct}}}", f"'{text}'")


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("MAP {'l2': 0.25, 'epsilon': 1e-9}", '{"l2": 0.25, "epsilon": 1e-9}'),
        ("MAP {'l2': [0.1, 1.0]}", '{"l2": [0.1, 1.0]}'),
        ("{'l2': [0.1, 1], 'folds': 3, 'seed': 4}", '{"l2": [0.1, 1], "folds": 3, "seed": 4}'),
        ("{'l2': array_value(0.1, 1)}", '{"l2": [0.1, 1]}'),
        ("{'l2': 'a \"quoted\" \\ text'}", '{"l2": "a \\"quoted\\" \\\\ text"}'),
        ("{'l2': NULL}", '{"l2": null}'),
        ("{'l2': 'nan'::DOUBLE}", '{"l2": "nan"}'),
        ("{'l3': 1}", '{"l3": 1}'),
        ("NULL::STRUCT(l2 INTEGER)", ""),
        ("MAP {}", "{}"),
        ("{'seed': 9007199254740993}", '{"seed": 9007199254740993}'),
        ("{'seed': 18446744073709551615::UBIGINT}", '{"seed": 18446744073709551615}'),
        ("{'seed': 9007199254740993::HUGEINT}", '{"seed": 9007199254740993}'),
        ("MAP {'seed': -9007199254740993::HUGEINT}", '{"seed": -9007199254740993}'),
        ("{'seed': 9007199254740993::DECIMAL(38, 2)}", '{"seed": 9007199254740993.00}'),
        ("{'seed': 9007199254740993::DOUBLE}", '{"seed": 9007199254740992.0}'),
        ("{'seed': 1e17}", '{"seed": 1e+17}'),
        ("{'l2': -0.05::DECIMAL(4, 3)}", '{"l2": -0.050}'),
        ("{'classes': [1, 9007199254740993::HUGEINT]}", '{"classes": [1, 9007199254740993]}'),
    ],
)
def test_other_shapes(rows: duckdb.DuckDBPyConnection, sql: str, text: str, features: str) -> None:
    """Lists are searches, names and values that are wrong give the sentence of the text."""
    called = features.replace("{", "{{").replace("}", "}}")
    check_same(rows, f"'linear', y, {called}, {{}}", sql, f"'{text}'")


def test_options_of_each_group(rows: duckdb.DuckDBPyConnection) -> None:
    """Rows may differ in their options, where groups do not."""
    query = "SELECT train_model('linear', y, [x, z], {}).coef FROM as_given GROUP BY g ORDER BY g"
    struct = rows.execute(query.format("{'l2': g / 10}")).fetchall()
    text = rows.execute(query.format("'{\"l2\": ' || g / 10 || '}'")).fetchall()
    assert struct == text
    with pytest.raises(duckdb.Error, match="must be the same in all rows of a group"):
        rows.execute("SELECT train_model('linear', y, [x], {'l2': x}) FROM as_given")


@pytest.mark.parametrize("group_by", ["", ", group_by := 'g'"])
def test_the_table_form(rows: duckdb.DuckDBPyConnection, group_by: str) -> None:
    query = f"FROM train('as_given', 'linear', 'y', ['x', 'z'], {{}}{group_by})"
    expected = rows.execute(query.format("'{\"l2\": 0.25}'")).fetchall()
    for one in ("{'l2': 0.25}", "MAP {'l2': 0.25}", "'{\"l2\": 0.25}'::JSON"):
        found = rows.execute(query.format(one)).fetchall()
        assert [without_seconds(row) for row in found] == [without_seconds(r) for r in expected]


def without_seconds(row: tuple[Any, ...]) -> list[Any]:
    """The values of a row, of a model its coefficients alone."""
    return [
        value["coef"] if isinstance(value, dict) else value
        for value in row
        if not isinstance(value, float)
    ]


def test_a_dictionary_from_python(rows: duckdb.DuckDBPyConnection) -> None:
    query = (
        "SELECT explain_training('linear', y, [x], $o), train_model('linear', y, [x], $o).coef "
        "FROM as_given"
    )
    found = rows.execute(query, {"o": {"l2": 0.25, "algorithm": "lbfgs"}}).fetchone()
    expected = rows.execute(query, {"o": '{"l2": 0.25, "algorithm": "lbfgs"}'}).fetchone()
    assert found is not None
    assert expected is not None
    assert found[1] == expected[1]
    assert "lbfgs" in found[0]


OTHERS = ["4", "row(1)", "MAP {1: 2}", "{'l2': DATE '2026-01-01'}", "[1]", "{'l2': '\\x00'::BLOB}"]


@pytest.mark.parametrize("sql", OTHERS)
def test_other_types_are_refused(rows: duckdb.DuckDBPyConnection, sql: str) -> None:
    found = answer(rows, f"'linear', y, [x, z], {sql}")
    assert "the options a struct such as {'l2': 0.1} or JSON as text" in found
