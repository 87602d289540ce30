"""Ordinal models whose thresholds somebody changed: a sentence, and no read beyond the end."""

# ruff: noqa: E501, SQL is read better on one line

import struct
import sys
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

sys.path.append(str(Path(__file__).parent))

from test_payload import HEAD, signed

MODEL = "(SELECT train_model('ordinal', i * 7 % 3, [i % 17, i % 5]) AS m FROM range(300) t(i))"
NOT_RISING = (
    "the coefficients of the model do not begin with the rising thresholds of its 3 levels"
)


@pytest.mark.parametrize(
    "coef", ["[2.0, 1.0, 0.5, 0.5]", "[1.0, 1.0, 0.5, 0.5]", "[1.0]", "[1.0, 2.0]"]
)
def test_thresholds_rise(con: duckdb.DuckDBPyConnection, coef: str) -> None:
    sql = f"SELECT predict(with_payload(struct_update(m, coef := {coef})), [1, 2]) FROM {MODEL}"
    with pytest.raises(duckdb.InvalidInputException, match=NOT_RISING):
        con.execute(sql).fetchall()


def test_a_model_of_fewer_features_says_so(con: duckdb.DuckDBPyConnection) -> None:
    sql = f"SELECT predict(with_payload(struct_update(m, coef := [1.0, 2.0, 0.5])), [1, 2]) FROM {MODEL}"
    with pytest.raises(duckdb.InvalidInputException, match="the model has 1 features, row has 2"):
        con.execute(sql).fetchall()


@pytest.mark.parametrize("levels", [0.0, 1.0, 2.0, 4.0, 5.0, 1e9, -3.0, float("nan")])
@pytest.mark.parametrize("call", ["predict", "predict_class", "decision"])
def test_forged_numbers_of_levels(
    con: duckdb.DuckDBPyConnection, levels: float, call: str
) -> None:
    """The number of levels is in the head; the labels and thresholds follow from it."""
    ((payload,),) = con.execute(f"SELECT m.payload FROM {MODEL}").fetchall()
    changed = bytearray(payload)
    changed[HEAD.size - 24 : HEAD.size - 16] = struct.pack("<d", levels)
    given = f"{{'payload': from_hex('{signed(bytes(changed)).hex()}'), 'class_names': ['a', 'b', 'c'], 'classes': [0.0, 1, 2]}}"
    with suppress(duckdb.InvalidInputException):
        con.execute(f"SELECT {call}({given}, [1, 2])").fetchall()


def test_the_same_without_a_payload(con: duckdb.DuckDBPyConnection) -> None:
    """`with_payload` makes it of the other fields."""
    sql = f"SELECT predict(m, [1, 2]), predict(with_payload(m), [1, 2]), m.payload = with_payload(m).payload FROM {MODEL}"
    ((one, other, same),) = con.execute(sql).fetchall()
    assert (one, same) == (other, True)
