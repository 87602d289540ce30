"""Whatever the options are, or goes wrong in Python: one sentence, a process that lives, a
connection that works.

In a process of its own, since what is looked for ends it.
"""

# ruff: noqa: E501, SQL is read better on one line

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tried import times

sys.path.append(str(Path(__file__).parent))

from hostile import OFFLINE, TRAINING, is_sentence, large, texts

pytestmark = pytest.mark.fault(family="bad input by name")

CALLS = dict.fromkeys(TRAINING, "('linear', i, [i % 7], $1)") | dict.fromkeys(
    OFFLINE, "([i, i + 1], $1)"
)
MANY = times(150, 3)
"""Scrambled texts."""
CHILD = """
import faulthandler, json, sys
faulthandler.dump_traceback_later(280, exit=True)
sys.path.append(sys.argv[1])
import duckdb, tuskml
import hostile
con = tuskml.connect(threads=2)
con.execute("SET enable_progress_bar = false")
given = list(hostile.texts().values()) if sys.argv[2] == "named" else hostile.scrambled(MANY, 1)
for call in sys.argv[3:]:
    for number, text in enumerate(given):
        print("START", call, number, flush=True)
        try:
            con.execute(f"SELECT {call} FROM range(10) t(i)", [text]).fetchall()
            print("DONE", flush=True)
        except duckdb.Error as error:
            print("SAID", json.dumps(str(error)), flush=True)
        assert con.execute("SELECT train_model('linear', i, [i]).n_rows FROM range(9) t(i)").fetchall() == [(9,)]
print("END", flush=True)
""".replace("MANY", str(MANY))


def lines_of(*command: str) -> list[str]:
    """What a program prints that must not crash, hang, or leave an exception in a callback."""
    done = subprocess.run(
        [sys.executable, "-c", *command], capture_output=True, text=True, check=False, timeout=300
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (done.returncode, lines[-1:], done.stderr[-2000:])
    assert lines[-1] == "END"
    assert "Traceback" not in done.stderr
    return lines


def refusals(kind: str, *calls: str) -> list[str]:
    lines = lines_of(CHILD, str(Path(__file__).parent), kind, *calls)
    said = [json.loads(line[5:]) for line in lines if line.startswith("SAID")]
    for sentence in said:
        assert is_sentence(sentence.split(": ", 1)[1]), sentence
        assert sentence.split(": ")[1] in CALLS, sentence
    return said


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("functions", [TRAINING, OFFLINE], ids=["training", "offline"])
def test_hostile_options(functions: tuple[str, ...]) -> None:
    said = refusals("named", *(name + CALLS[name] for name in functions))
    assert len(said) == len(functions) * len(texts())


@pytest.mark.nightly
@pytest.mark.parametrize("megabytes", [16, pytest.param(64, marks=pytest.mark.nightly)])
def test_large_options(megabytes: int) -> None:
    """By night as many characters as there may be, which is a limit of the C code for both
    databases: tests/postgres/faults/test_hostile.py comes to it each time.
    """
    child = CHILD.replace(
        f"hostile.scrambled({MANY}, 1)",
        f"[con.execute('SELECT ' + one).fetchall()[0][0] for one in hostile.large({megabytes})]",
    )
    lines = lines_of(
        child.replace("range(10)", "range(1)"),
        str(Path(__file__).parent),
        "large",
        "train_model" + CALLS["train_model"],
    )
    said = [json.loads(line[5:]) for line in lines if line.startswith("SAID")]
    assert len(said) == len(large(megabytes))
    assert all(is_sentence(sentence.split(": ", 1)[1]) for sentence in said)


@pytest.mark.nightly
@pytest.mark.fault(family="bad input by chance")
def test_scrambled_options() -> None:
    names = ("train_model", "partition_model")
    said = refusals("scrambled", *(name + CALLS[name] for name in names))
    assert len(said) > MANY


def test_a_character_of_code_0() -> None:
    """DuckDB's strings may have one, and C's end there: what follows would count for nothing."""
    said = refusals(
        "named",
        "train_model('linear', i, [i], '{}' || chr(0) || $1)",
        "train_model('linear' || chr(0), i, [i], '{}' || $1)",
        "partition_model([i], '{}' || chr(0) || $1)",
    )
    assert len(said) == 3 * len(texts())
    assert all("has a character of code 0" in s or "have a character of code 0" in s for s in said)


RAISED = """
import sys
import duckdb, tuskml
from tuskml.learners.linear.learner import Linear

class Mute(Exception):
    def __str__(self):
        raise ValueError("no words")

class Stateful(tuskml.TuskError):
    @property
    def sqlstate(self):
        raise RuntimeError

class Odd(tuskml.TuskError):
    sqlstate = "\\ud800 and far too long"

class Endless(Exception):
    def __str__(self):
        return str(self)

def deep():
    return deep()

class Deep(Exception):
    def __str__(self):
        return deep()

raised = [Mute(), Stateful("a"), Odd("b"), Endless(), Deep(), KeyboardInterrupt(), SystemExit(3),
          MemoryError(), RecursionError("r"), GeneratorExit(), BaseException("base"),
          Exception("\\ud800\\udfff"), Exception("\\0" * 4000), Exception("x" * 10**7),
          Exception("one\\ntwo"), KeyError(), BaseExceptionGroup("many", [Mute()])]
con = tuskml.connect(threads=2)
con.execute("SET enable_progress_bar = false")
train = Linear.train
functions = ["train_model('linear', i, [i])", "explain_training('linear', i, [i])"]
for error in raised:
    def broken(*_):
        raise error
    for place in ("train", "explain"):
        setattr(Linear, place, broken)
    for call in functions:
        try:
            con.execute(f"SELECT {call} FROM range(9) t(i)").fetchall()
            raise SystemExit("no error")
        except duckdb.Error as found:
            assert str(found).isprintable() and len(str(found)) < 1100, found
            print(type(error).__name__, found)

# A callback that ends well and has not answered for every group.
Linear.train = lambda *_: iter([])
try:
    con.execute("SELECT i % 3, train_model('linear', i, [i]) FROM range(9) t(i) GROUP BY ALL").fetchall()
    raise SystemExit("made up")
except duckdb.Error as found:
    print(found)
Linear.train = train
assert con.execute("SELECT train_model('linear', i, [i]).n_rows FROM range(9) t(i)").fetchall() == [(9,)]
print("END")
"""


def test_nothing_leaves_the_trainers_callback() -> None:
    lines = lines_of(RAISED)
    assert len(lines) == 17 * 2 + 1 + 1
    assert any(line.startswith("Mute ") and "cannot be shown" in line for line in lines)
    assert any(line.startswith("KeyboardInterrupt ") and "interrupted" in line for line in lines)


P_VALUES = """
import sys
import duckdb, tuskml
con = tuskml.connect()
con.execute("CREATE TABLE m AS SELECT train_model('linear', 3*i + i*7919 % 13, [i, i % 7]) AS model FROM range(99) t(i)")

class Broken:
    def __getattr__(self, name):
        raise KeyboardInterrupt

sys.modules["scipy.special"] = Broken()
try:
    con.execute("SELECT _tusk_p_value(2.0, 10.0)").fetchall()
    raise SystemExit("no error")
except duckdb.Error as found:
    assert "SciPy was interrupted, or cannot be imported" in str(found)
del sys.modules["scipy.special"]
assert 0.07 < con.execute("SELECT _tusk_p_value(2.0, 10.0)").fetchall()[0][0] < 0.075
print("END")
"""


def test_p_values_that_are_broken_off() -> None:
    """Of t = 2 with 10 degrees of freedom it is 0.0734 (tables of Student's t)."""
    lines_of(P_VALUES)


STORE_ROOT = """
import os
import duckdb, tuskml
con = tuskml.connect()
con.execute("SET enable_progress_bar = false")
for options in ('{"store": "a", "max_iter": 2}', '{"warm_start": {"store": "a@1"}}'):
    sql = f"SELECT train_model('linear', i, sparse([i % 3], [1.0]), '{options}') FROM range(9) t(i)"
    try:
        print("DONE" if con.execute(sql).fetchall() else "")
    except duckdb.Error as error:
        print("SAID", error)
    assert con.execute("SELECT train_model('linear', i, [i]).n_rows FROM range(9) t(i)").fetchall() == [(9,)]
print("END")
"""


@pytest.mark.nightly
def test_a_store_root_that_is_not_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUSKML_STORE_ROOT", os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    for line in lines_of(STORE_ROOT)[:-1]:
        assert line == "DONE" or is_sentence(line.split("Error: ", 1)[1])
