"""Numbers with more digits than a double keeps, where a number is a name, in both databases: they
are kept apart, or their group has a status that says why it has no model."""

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

OPTIONS: dict[str, dict[str, Any]] = {
    "categories": {"categories": ["c"]},
    "interactions": {"categories": ["c"], "interactions": [["c", "x"]]},
    "cluster": {"cluster": "c"},
    "absorb": {"absorb": "c"},
    "fold_by": {"fold_by": "c", "folds": 2, "l2": [0.1, 1]},
    "time_by": {"time_by": "c", "folds": 2, "l2": [0.1, 1]},
    "validation": {"time_by": "c", "validation": 0.5},
}
"""What makes names of the numbers of column c."""
WELL = ("ok", "not converged", "too few clusters", "too few rows")
JUST_ENOUGH = settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def trained(
    session: tuple[str, Any], values: tuple[str, str], place: str, task: str = "linear"
) -> tuple[str, str, list[str] | None]:
    """Status, plan and features of a model of rows that have one of two values, as SQL has them,
    at a place: `label`, `ids`, or an option."""
    name, db = session
    value = f"CASE WHEN i % 2 = 0 THEN {values[0]} ELSE {values[1]} END"
    options = json.dumps(OPTIONS.get(place, {}))
    listed = "[{}]" if name == "duck" else "ARRAY[{}]"
    if place == "label":
        call = f"train_model('logistic', {value}, {listed.format('(i * 7) % 11')})"
        rows = "generate_series(1, 60) AS s(i)"
    elif place == "ids":
        items = listed.format(f"{value}, 1")
        call, rows = f"train_model('{task}', i % 3, {items})", "generate_series(1, 60) AS s(i)"
    else:
        call = f"train_model('linear', (i * 7) % 11, r, '{options}')"
        row = "(SELECT q FROM (SELECT i % 5 AS x, v AS c) AS q)"
        row = "{'x': i % 5, 'c': v}" if name == "duck" else row
        inner = f"SELECT i, {value} AS v FROM generate_series(1, 60) AS s(i)"
        rows = f"(SELECT i, {row} AS r FROM ({inner}) AS a) AS b"
    return db.execute(
        f"SELECT (m).status, (m).plan, (m).features FROM (SELECT {call} AS m FROM {rows}) AS f"
    ).fetchone()


@JUST_ENOUGH
@given(st.integers(-(10**24), 10**24), st.integers(0, 20))
@example(9007199254740990, 1)  # of 16 digits, and the same double as the next one
@example(123456789012345, 2)
@example(15, 1)
@pytest.mark.parametrize("place", [*OPTIONS, "label"])
def test_decimals(session: tuple[str, Any], place: str, digits: int, scale: int) -> None:
    """Two that differ in the last digit are two names, or none at all."""
    both = [Decimal(one).scaleb(-scale) for one in (digits, digits + 1)]
    kind = "DECIMAL(38, 20)" if session[0] == "duck" else "numeric"
    if session[0] == "duck" and abs(both[0]) >= 10**17:
        both = [one.scaleb(-8) for one in both]
    first, second = (f"CAST('{one:f}' AS {kind})" for one in both)
    status, plan, features = trained(session, (first, second), place)
    if max(len(str(digits)), len(str(digits + 1))) <= 15:
        assert status != "invalid rows"
    if float(both[0]) == float(both[1]):
        assert status == "invalid rows"
        assert "digits" in plan or "2^53" in plan
    if status != "invalid rows" and place == "categories":
        assert features is not None
        assert len(features) == 2


@JUST_ENOUGH
@given(
    st.dates(min_value=date(1700, 1, 1)),
    st.sampled_from(["23:59:59.999998", "00:00:00.000001", "12:34:56.789012", "00:00:00"]),
    st.sampled_from([1, 1_000_000]),
)
@pytest.mark.parametrize("place", OPTIONS)
def test_times(session: tuple[str, Any], place: str, day: Any, clock: str, apart: int) -> None:
    """Timestamps of the centuries around 1970 are apart by the microsecond; later ones are refused
    where they would be one."""
    first = f"CAST('{day} {clock}' AS TIMESTAMP)"
    second = f"{first} + INTERVAL '{apart} microseconds'"
    status, plan, features = trained(session, (first, second), place)
    if 1800 < day.year < 2140:
        assert status != "invalid rows"
    if status == "invalid rows":
        assert "times in microseconds" in plan
    elif place == "categories":
        assert features is not None
        assert len(features) == 2


@pytest.mark.parametrize("place", OPTIONS)
def test_nanoseconds(con: Any, place: str) -> None:
    """One nanosecond apart they are refused; microseconds of this type are apart."""
    first = 1_700_000_000_123_456_000
    for step, refused in ((1, True), (1000, False)):
        values = tuple(f"make_timestamp_ns({one})" for one in (first, first + step))
        status, *_ = trained(("duck", con), (values[0], values[1]), place)
        assert (status == "invalid rows") == refused


def test_days_of_nanoseconds(con: Any) -> None:
    """The last nanosecond of a year is of that year."""
    features = con.execute(
        "SELECT train_model('linear', i, {'d': TIMESTAMP_NS '2024-12-31 23:59:59.999999999' + "
        'INTERVAL (366 * i) DAYS}, \'{"dates": "parts"}\').features FROM range(40) t(i)'
    ).fetchone()[0]
    alone = con.execute(
        "SELECT train_model('linear', i, {'d': TIMESTAMP '2024-12-31 23:59:59.999999' + "
        'INTERVAL (366 * i) DAYS}, \'{"dates": "parts"}\').features FROM range(40) t(i)'
    ).fetchone()[0]
    assert features == alone


def test_ids(session: tuple[str, Any]) -> None:
    """A number that becomes whole by rounding is no id, neither of a factorization nor sparse."""
    name, db = session
    kind = "DECIMAL(38, 20)" if name == "duck" else "numeric"
    values = (f"CAST('5.00000000000000000001' AS {kind})", f"CAST('5' AS {kind})")
    status, plan, _ = trained(session, values, "ids", "matrix_factorization")
    assert status == "invalid rows"
    assert "digits" in plan
    listed = "[{}]" if name == "duck" else "ARRAY[{}]"
    for one in values[:1]:
        with pytest.raises(Exception, match="expected a whole feature id"):
            db.execute(f"SELECT sparse({listed.format(one)}, {listed.format('1')})").fetchall()
    large = f"CAST('9007199254740993' AS {kind.replace('20', '0')})"
    text = f"SELECT CAST((sparse({listed.format(large)}, {listed.format('1')})) AS text)"
    assert "9007199254740993" in db.execute(text).fetchone()[0]


def test_classes_of_metrics(session: tuple[str, Any]) -> None:
    """Labels of 2^53 and more are refused: doubles round them."""
    for metric in ("accuracy", "f1_score", "precision_score", "recall_score"):
        with pytest.raises(Exception, match=r"expected a number below 2\^53 in size, or text"):
            session[1].execute(f"SELECT {metric}(9007199254740994, 9007199254740992)").fetchall()
        with pytest.raises(Exception, match=r"below 2\^53|more digits than a double keeps"):
            session[1].execute(f"SELECT {metric}(9007199254740993, 9007199254740992)").fetchall()


OTHERS = {
    "duck": ("TIMETZ '12:00:00+01'", "'a'::BLOB",
             "'101'::BIT", "[1]", "{'a': 1}"),
    "post": ("timetz '12:00+01'", "'a'::bytea",
             "'101'::bit(3)", "'127.0.0.1'::inet", "'1'::money", "'1'::oid", "'1'::xid",
             "ARRAY[1]"),
}  # fmt: skip


def test_other_types(session: tuple[str, Any]) -> None:
    """One sentence names the column and its type."""
    for value in OTHERS[session[0]]:
        with pytest.raises(Exception, match=r"column 'c' is .*, expected a number, a date"):
            trained(session, (value, value), "categories")


def test_uuids_and_infinite_days(session: tuple[str, Any]) -> None:
    """Each text of a UUID is a level; an infinite day is no number."""
    uuids = [f"CAST('00000000-0000-0000-0000-00000000000{k}' AS uuid)" for k in (1, 2)]
    status, _, features = trained(session, (uuids[0], uuids[1]), "none")
    assert (status in WELL, len(features or ())) == (True, 2)
    status, plan, _ = trained(session, ("DATE 'infinity'", "DATE '2024-01-01'"), "categories")
    assert (status, "infinity" in plan) == ("invalid rows", True)
