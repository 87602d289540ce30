"""Trainings drawn by chance (chance.py): a sound model or one sentence, and the next one is right.

In a process of its own, since what is looked for may end it.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))

from chance import complaint, statement
from tried import Tally, times

HERE = Path(__file__).parent
pytestmark = pytest.mark.fault(family="bad input by chance")

CASES, BATCH = 10_000, 1000
CHILD = """
import faulthandler, json, sys
faulthandler.dump_traceback_later(550, exit=True)
sys.path += json.loads(sys.argv[3])
import duckdb, tuskml
from chance import GOOD, complaint, statement
from hostile import is_sentence
con = tuskml.connect(threads=2)
con.execute("SET enable_progress_bar = false")
right = con.execute(GOOD).fetchall()
models = errors = 0
for number in range(int(sys.argv[1]), int(sys.argv[2])):
    sql, found = statement(number), ""
    print("START", number, flush=True)
    try:
        made = [m for _, m in con.execute(sql).fetchall() if m is not None]
        found = "; ".join(filter(None, map(complaint, made)))
        models += len(made)
    except duckdb.BinderException as error:
        found = "" if "train_model" in str(error) else str(error)
        errors += 1
    except duckdb.Error as error:
        said = str(error).split(": ", 1)[1]
        good = is_sentence(said) and said.startswith("train_model")
        found = "" if good else said[:500]
        errors += 1
    if number % 20 == 0 and con.execute(GOOD).fetchall() != right:
        found += " and the next training is wrong"
    if found:
        print("WRONG", json.dumps([number, found, sql]), flush=True)
print("END", json.dumps([models, errors]))
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", range(4))
def test_models_or_sentences(tally: Tally, part: int) -> None:
    wrong: list[Any] = []
    models = errors = 0
    begin = part * CASES
    end = begin + times(CASES, 100)
    for first in range(begin, end, BATCH):
        found, made, refused = batch(first, min(first + BATCH, end), tally)
        wrong, models, errors = wrong + found, models + made, errors + refused
    tally.wrong = len(wrong)
    assert wrong == []
    assert tally.down == 0
    assert models > tally.tried / 5
    assert errors > tally.tried / 20


def batch(first: int, last: int, tally: Tally) -> tuple[list[Any], int, int]:
    """Cases in a process: what is wrong, how many models there are, and how many errors."""
    places = json.dumps([str(HERE), str(HERE.parent)])
    command = [sys.executable, "-c", CHILD, str(first), str(last), places]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    lines = done.stdout.splitlines()
    started = [int(line.split()[1]) for line in lines if line.startswith("START")]
    wrong = [json.loads(line[6:]) for line in lines if line.startswith("WRONG")]
    tally.tried += len(started)
    if done.returncode == 0 and lines[-1].startswith("END"):
        models, errors = json.loads(lines[-1][4:])
        return wrong, models, errors
    tally.down += 1
    last_one = started[-1] if started else -1
    how = f"ended with {done.returncode}: {done.stderr[-1500:]}"
    return [*wrong, [last_one, how, statement(last_one)]], 0, 0


def test_what_is_looked_for_would_be_seen() -> None:
    sound = {"coef": [1.0], "intercept": 0.0, "loss": 0.5, "status": "ok"}
    assert complaint(sound) == ""
    assert "coef" in complaint(sound | {"coef": [float("nan")]})
    assert "intercept" in complaint(sound | {"intercept": "Infinity"})
    assert "loss" in complaint(sound | {"loss": float("inf")})
    assert len({statement(number) for number in range(200)}) > 195  # some have no rows
