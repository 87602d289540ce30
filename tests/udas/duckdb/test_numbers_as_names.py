"""Numbers that name something are kept apart, or refused where they were rounded."""

import json
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tuskml

EXACT = 2**53
TYPES = ("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "DECIMAL(38,0)", "DECIMAL(30,2)", "DOUBLE")
TASKS = ("linear", "lasso", "gbdt", "random_forest", "mlp", "fm", "huber", "poisson")
ROLES = {
    "categories": {"categories": ["id"]},
    "interactions": {"categories": ["id"], "interactions": [["id", "x"]]},
    "cluster": {"cluster": "id"},
    "absorb": {"absorb": ["id"]},
    "fold_by": {"fold_by": "id", "folds": 2},
    "time_by": {"time_by": "id", "folds": 2},
}


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """One for all tests."""
    with tuskml.connect() as con:
        yield con


def train(
    con: duckdb.DuckDBPyConnection,
    task: str,
    ids: list[int],
    kind: str,
    options: dict[str, object],
) -> tuple[list[str], list[float], str, str]:
    """Features, coefficients, status and plan of 20 rows for each id."""
    listed = ", ".join(map(str, ids))
    found = con.execute(
        f"SELECT m.features, m.coef, m.status, m.plan FROM (SELECT train_model('{task}', "
        f"10 * k + (i // {len(ids)}) % 3, "
        f"{{'id': CAST(id AS {kind}), 'x': (i // {len(ids)}) % 7}}, '{json.dumps(options)}') AS m "
        f"FROM (SELECT i, i % {len(ids)} AS k, "
        f"([{listed}]::HUGEINT[])[1 + i % {len(ids)}] AS id FROM range(20 * {len(ids)}) t(i)))"
    ).fetchone()
    assert found is not None
    return found


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("role", sorted(ROLES))
def test_rounded_numbers_are_refused(
    connection: duckdb.DuckDBPyConnection, kind: str, role: str
) -> None:
    """In every role and of every type; the sentence names the option and the column."""
    option = "categories" if role == "interactions" else role
    options = ROLES[role] | ({"l2": [0.1, 1]} if role in ("fold_by", "time_by") else {})
    ids = [EXACT + 1, EXACT + 2, EXACT + 3]
    *_, status, plan = train(connection, "linear", ids, kind, options)
    assert status == "invalid rows"
    assert plan.startswith(f"option '{option}' names column 'id', which has ")
    with pytest.raises(duckdb.Error, match=rf"option '{option}' names column 'id', which has "):
        train(connection, "linear", ids, kind, options | {"invalid": "error"})


@pytest.mark.parametrize("task", TASKS)
def test_in_every_task(connection: duckdb.DuckDBPyConnection, task: str) -> None:
    """Whatever the learner is."""
    *_, status, plan = train(
        connection, task, [EXACT, EXACT + 1], "BIGINT", {"categories": ["id"]}
    )
    assert status == "invalid rows"
    assert "numbers of 2^53 = 9007199254740992 or more" in plan


@settings(max_examples=10)
@given(
    st.lists(st.integers(1 - EXACT, EXACT - 1), min_size=2, max_size=5, unique=True),
    st.sampled_from([kind for kind in TYPES if not kind.startswith("U")]),
)
def test_smaller_numbers_are_apart(
    connection: duckdb.DuckDBPyConnection, ids: list[int], kind: str
) -> None:
    """Each is a level of its own, called by its own digits, in the order of the numbers."""
    features, coef, *_ = train(connection, "linear", ids, kind, {"categories": ["id"]})
    assert features == [f"id[{one}]" for one in sorted(ids)[1:]] + ["x"]
    first = ids.index(min(ids))
    expected = [10.0 * (ids.index(one) - first) for one in sorted(ids)[1:]]
    assert coef[:-1] == pytest.approx(expected)


@pytest.mark.parametrize("kind", TYPES)
def test_predictions_know_no_rounded_number(
    connection: duckdb.DuckDBPyConnection, kind: str
) -> None:
    """A number that may have been rounded is not a level that training saw."""
    model = (
        "(SELECT train_model('linear', i, {'id': i % 3 + 9007199254740989}, "
        '\'{"categories": ["id"], "unseen": "error"}\') FROM range(30) t(i))'
    )
    for one, seen in ((EXACT - 1, True), (EXACT, False), (EXACT + 1, False)):
        asked = f"SELECT predict({model}, {{'id': CAST({one}::HUGEINT AS {kind})}})"
        if seen:
            assert connection.execute(asked).fetchall()
        else:
            with pytest.raises(duckdb.Error, match="not trained on"):
                connection.execute(asked).fetchall()


def test_text_keeps_them_apart(connection: duckdb.DuckDBPyConnection) -> None:
    """As the sentence says."""
    ids = [EXACT + 1, EXACT + 2, EXACT + 3]
    features, _, status, _ = train(connection, "linear", ids, "VARCHAR", {})
    assert features == [f"id[{one}]" for one in ids[1:]] + ["x"]
    assert status == "ok"
