"""Trainings drawn by chance (tests/faults/catalogue/chance.py): a sound model or one sentence with
its SQLSTATE, and the next training is right."""

import sys
from pathlib import Path

import psycopg
import pytest

sys.path.append(str(Path(__file__).parents[2] / "faults"))
sys.path.append(str(Path(__file__).parents[2] / "faults" / "catalogue"))

from chance import GOOD, complaint, statement
from hostile import is_sentence
from tried import Tally, times

pytestmark = pytest.mark.fault(family="bad input by chance")

FIRST, CASES = 10**6, 10_000
OF_THE_CALL = ("42883", "42P18", "42725", "42804")
"""SQLSTATEs with which PostgreSQL refuses a call's types before it runs."""
OF_A_CAST = ("value out of range", " is out of range for type ")
"""How PostgreSQL refuses a double, or a number of many digits, that is no real number."""


def test_models_or_sentences(pg: psycopg.Connection, tally: Tally) -> None:
    wrong, models = [], 0
    right = pg.execute(GOOD).fetchall()
    for number in range(FIRST, FIRST + times(CASES, 50)):
        found, made = answered(pg, statement(number))
        models += made
        if number % 20 == 0 and pg.execute(GOOD).fetchall() != right:
            found += " and the next training is wrong"
        if found:
            wrong.append([number, found, statement(number)])
        tally.tried += 1
    tally.wrong = len(wrong)
    assert wrong == []
    assert models > tally.tried / 5


def answered(pg: psycopg.Connection, sql: str) -> tuple[str, int]:
    """What is wrong with the answer, or nothing; and how many models there are."""
    try:
        answer = pg.execute(f"SELECT to_jsonb(m) FROM ({sql}) AS s").fetchall()
    except psycopg.Error as error:
        told, state = error.diag.message_primary or "", error.sqlstate or "no state"
        good = is_sentence(told) and state[:2] in ("22", "53", "54") and told.startswith("train_")
        before = state in OF_THE_CALL or any(text in told for text in OF_A_CAST)
        return ("" if good or before else f"{state}: {told[:500]}"), 0
    models = [m for (m,) in answer if m is not None]
    return "; ".join(filter(None, map(complaint, models))), len(models)
