"""NULL in the arguments of metrics: both databases leave the row out, whatever else is in it, or
take the default.

PostgreSQL's catalogue tells which metrics there are and what they take, so that a new one is tried
as well.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import duckdb
import psycopg
import pytest

DECIMAL = "0.12345678901234567890::decimal(38, 20)"
"""It has more digits than a double keeps, which is refused in rows that count."""
ROWS = {
    "numeric": [DECIMAL, "1.5::decimal(38, 20)", "1::decimal(38, 20)"],
    "double precision": ["1.0::float8", "0.25::float8"],
    "boolean": ["true"],
    "text": ["'1'::text"],
    '"any"': [DECIMAL, "1::bigint", "'1'::text"],
    "jsonb": ["{shares}"],
}
"""Labels and predictions by type."""
SHARES = ("map(['1', '0'], [0.5, 0.5])", """'{"1": 0.5, "0": 0.5}'::jsonb""")
NAMED = {"average": "'macro'", "metric": "'accuracy'", "positive": "'1'", "power": "1.5::float8"}
TYPED = {"double precision": "0.5::float8", "bigint": "2::bigint", "integer": "2", "text": "'1'"}
METRICS = """
SELECT p.proname, p.proargnames,
       array(SELECT format_type(t, NULL) FROM unnest(p.proargtypes::oid[]) AS t)
FROM pg_proc AS p
WHERE pronamespace = 'tuskml'::regnamespace AND prokind = 'a' AND p.pronargs > 2
  AND proargnames[1] = 'label' AND proargnames[2] IN ('p', 'score', 'predicted', 'prediction_a')
ORDER BY 1, p.pronargs, p.oid
"""


def value(name: str, kind: str) -> str:
    return NAMED.get(name) or (TYPED.get(kind) or ROWS[kind][0])


def calls(name: str, names: list[str], kinds: list[str]) -> Iterator[str]:
    """Calls of a metric with NULL in some of its arguments, of their type or of none."""
    others = range(2, len(names))
    for n in range(1, len(others) + 1):
        for nulls in itertools.combinations(others, n):
            for row in itertools.product(ROWS[kinds[0]], ROWS[kinds[1]]):
                for untyped in (False, True):
                    given = list(row) + [value(names[k], kinds[k]) for k in others]
                    for k in nulls:
                        kind = kinds[k].replace('"any"', "bigint")
                        given[k] = "NULL" if untyped else f"NULL::{kind}"
                    # PostgreSQL takes an untyped third one for the class, or finds two functions.
                    if not (untyped and name == "calibration"):
                        yield f"{name}({', '.join(given)})"


def answer(asked: Any, call: str) -> Any:
    """The value, a table as tuples, or the sentence of an error."""
    call = call.replace("{shares}", SHARES[asked.postgres])
    try:
        found = asked.all(f"SELECT to_json({call})" if asked.postgres else f"SELECT {call}")[0][0]
    except (duckdb.Error, psycopg.Error) as error:
        found = " ".join(str(error).split()).removeprefix("Invalid Input Error: ")
        return found.partition(" LINE 1")[0]
    if isinstance(found, list):
        return [tuple(map(plain, row.values())) for row in found]
    return tuple(map(plain, found.values())) if isinstance(found, dict) else plain(found)


def plain(cell: Any) -> Any:
    """A cell of a table; NaN is a text in JSON, and is equal to itself as one."""
    found = float(cell) if cell in ("Infinity", "-Infinity") else cell
    return "NaN" if isinstance(found, float) and math.isnan(found) else found


def test_a_null_means_the_same_in_both_databases(here: Any, there: Any) -> None:
    metrics = there.all(METRICS)
    assert len({name for name, _, _ in metrics}) > 25
    tried, different = set(), []
    for name, names, kinds in metrics:
        for call in calls(name, names, kinds):
            if call in tried:
                continue
            tried.add(call)
            found, expected = answer(there, call), answer(here, call)
            if found != expected:
                different.append((call, found, expected))
    assert len(tried) > 3000
    assert not different, different[:5]


@pytest.mark.parametrize("weight", ["NULL", "NULL::float8"])
def test_a_row_without_a_weight_is_left_out_whatever_its_label(asked: Any, weight: str) -> None:
    for call in ("accuracy", "confusion", "log_loss", "brier", "auc", "ks", "roc_curve", "lift"):
        query = f"SELECT {call}({DECIMAL}, 1.0::float8, {weight})"
        assert asked.all(query) == [(None,)], call
