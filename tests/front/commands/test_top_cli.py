"""`tuskml top`: what runs on this host."""

import json
import os
import threading
import time

import pytest

import tuskml
from tuskml.commands import cli
from tuskml.schedule import shares

LONG = """
SELECT train_model('logistic', i % 2, [i % 7, hash(i) % 100],
    '{"algorithm": "bgd", "epsilon": 0, "max_iter": 100000000, "step": 0.001}')
FROM range(400000) t(i)
"""


@pytest.fixture(autouse=True)
def own_table(tmp_path, monkeypatch):
    monkeypatch.setenv(shares.SETTING, str(tmp_path / "table"))
    monkeypatch.setenv("COLUMNS", "200")


def test_nothing_runs(capsys):
    assert cli.main(["top"]) == 0
    assert capsys.readouterr().out == "no training runs\n"


def test_a_statement_that_trains(capsys):
    with tuskml.connect() as con:
        training = threading.Thread(target=cancelled, args=(con,))
        training.start()
        listed = until_listed(capsys, training)
        assert cli.main(["top"]) == 0
        header, _, line = capsys.readouterr().out.splitlines()
        con.interrupt()
        training.join()
    assert (listed["program"], listed["task"], listed["plan"]) == ("duckdb", "logistic", "bgd")
    assert (listed["session"], listed["n_groups"]) == (os.getpid(), 1)
    assert 1 <= listed["share"] <= listed["threads"]
    assert header.split() == [
        "session", "training", "program", "task", "plan", "models", "share", "seconds", "rows/s",
        "progress", "end", "rho",
    ]  # fmt: skip
    number = str(listed["training"])
    assert line.split()[:5] == [str(os.getpid()), number, "duckdb", "logistic", "bgd"]
    assert listed["device"] == "cpu"
    assert shares.activity() == []


def cancelled(con):
    with pytest.raises(Exception, match=r"(?i)interrupt"):
        con.execute(LONG)


def until_listed(capsys, training):
    while training.is_alive():
        assert cli.main(["top", "--json"]) == 0
        if found := [one for one in json.loads(capsys.readouterr().out) if one["plan"]]:
            return found[0]
        time.sleep(0.01)
    raise AssertionError("it ended before it was listed")


def test_it_says_why_it_cannot(capsys, monkeypatch):
    monkeypatch.setenv(shares.SETTING, "off")
    assert cli.main(["top"]) == 1
    assert capsys.readouterr().err == (
        "tuskml: TUSKML_SHARES is 'off', so nobody knows of running trainings: unset it\n"
    )
