"""Whatever the options are, or goes wrong in Python: one sentence, an SQLSTATE, a session that
works on, and no process that crashed (which the fixture of the database asserts)."""

# ruff: noqa: E501, SQL is read better on one line

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tried import times

sys.path.append(str(Path(__file__).parents[2] / "faults"))

from hostile import OFFLINE, TRAINING, is_sentence, large, scrambled, texts

pytestmark = pytest.mark.fault(family="bad input by name")

Connect = Callable[..., psycopg.Connection]
CALLS = dict.fromkeys(TRAINING, "('linear', i, ARRAY[i %% 7], %s)") | dict.fromkeys(
    OFFLINE, "(ARRAY[i, i + 1], %s)"
)
GOOD = "SELECT (train_model('linear', i, ARRAY[i])).n_rows FROM generate_series(1, 9) AS i"
STATES = {"22023", "53200", "54000"}


@pytest.fixture(scope="module")
def session(cluster: Any, database: str) -> Iterator[psycopg.Connection]:
    """One for all: what an option left behind, the next statement would meet."""
    with cluster.connect(database) as opened:
        yield opened


def refusal(
    session: psycopg.Connection, sql: str, *given: str
) -> psycopg.errors.Diagnostic | None:
    """What a statement is refused with; afterwards the session works."""
    told = None
    try:
        session.execute(sql, given or None).fetchall()
    except psycopg.Error as error:
        told = error.diag
        assert is_sentence(told.message_primary or ""), told.message_primary
        assert "Traceback" not in (told.context or "") + (told.message_detail or "")
    assert session.execute(GOOD).fetchall() == [(9,)]
    return told


def refused(session: psycopg.Connection, name: str, text: str) -> bool:
    sql = f"SELECT {name}{CALLS[name]} FROM generate_series(1, 9) AS i"
    told = refusal(session, sql, text)
    assert told is None or (told.message_primary or "").startswith(f"{name}: ")
    assert told is None or told.sqlstate in STATES, (told.sqlstate, told.message_primary)
    return told is not None


@pytest.mark.parametrize("name", CALLS)
def test_hostile_options(session: psycopg.Connection, name: str) -> None:
    for text in texts().values():
        assert refused(session, name, text), text[:80]


@pytest.mark.nightly
def test_large_options(session: psycopg.Connection) -> None:
    for text in large():
        sql = f"SELECT train_model('linear', i, ARRAY[i], {text}) FROM generate_series(1, 9) AS i"
        told = refusal(session, sql)
        assert told is not None
        assert told.sqlstate == "22023"


@pytest.mark.nightly
def test_a_store_root_that_is_not_utf_8(cluster: Any) -> None:
    """Of a database in SQL_ASCII, where a setting may have any bytes."""
    with cluster.connect("postgres") as admin:
        admin.execute(
            "CREATE DATABASE bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    try:
        with cluster.connect("bytes") as session:
            session.execute("CREATE EXTENSION tuskml_train CASCADE")
            session.execute(
                "SELECT set_config('tuskml.store_root', 'root' || chr(255) || chr(254), false)"
            )
            for options in ('{"store": "a", "max_iter": 2}', '{"warm_start": {"store": "a@1"}}'):
                refusal(
                    session,
                    f"SELECT train_model('linear', i, sparse(ARRAY[i % 3], ARRAY[1.0]), '{options}') FROM generate_series(1, 9) AS i",
                )
    finally:
        with cluster.connect("postgres") as admin:
            admin.execute("DROP DATABASE bytes")


def test_scrambled_options(session: psycopg.Connection) -> None:
    for name in ("train_model", "partition_model"):
        given = scrambled(times(150, 3), 2)
        assert sum(refused(session, name, text) for text in given) > len(given) // 2


def test_p_values_first_in_a_session(connect: Connect) -> None:
    """Of t = 2 with 10 degrees of freedom it is 0.0734 (tables of Student's t)."""
    query = "SELECT tuskml._tuskml_p_value(t, 10) FROM unnest(ARRAY[2, NULL, 'nan'::float8]) AS t"
    found = [p for (p,) in connect().execute(query).fetchall()]
    assert found[0] == pytest.approx(0.0734, abs=5e-5)
    assert found[1:] == [None, None]


ANSWER = "SELECT tuskml._tuskml_answer()"


def test_a_function_in_python_before_the_library_is_there(connect: Connect) -> None:
    """A superuser may call them, whom nobody else may."""
    session = connect()
    with pytest.raises(psycopg.Error, match="called by the extension's own functions, which load"):
        session.execute(ANSWER)
    assert session.execute(GOOD).fetchall() == [(9,)]


def test_a_function_in_python_with_the_library(connect: Connect) -> None:
    session = connect()
    session.execute(GOOD)
    with pytest.raises(psycopg.Error, match="only train_model may call"):
        session.execute(ANSWER)


MODULE = """
from tuskml import register_operator, register_task
from tuskml.errors import TuskError


class Mute(Exception):
    def __str__(self):
        raise ValueError("no words")


class Odd(TuskError):
    sqlstate = "\\ud800 and far too long"


class Endless(Exception):
    def __str__(self):
        return str(self)


ERRORS = {
    "mute": Mute(), "odd": Odd("b"), "endless": Endless(), "keyboard": KeyboardInterrupt(),
    "exit": SystemExit(3), "memory": MemoryError(), "recursion": RecursionError("r"),
    "generator": GeneratorExit(), "base": BaseException("base"), "lone": Exception("\\ud800"),
    "zeros": Exception("\\0" * 4000), "long": Exception("x" * 10**7), "lines": Exception("one\\ntwo"),
}


def failing(error):
    def make(setting):
        raise error
    return make


for name, error in ERRORS.items():
    register_operator("converge", "raise_" + name, failing(error))


def after_a_while(error):
    def loss(m, y):
        if len(m) > 900:
            raise error
        return (m - y) ** 2
    return loss


for name in ("keyboard", "exit", "mute"):
    register_task("fail_" + name, loss=after_a_while(ERRORS[name]), derivative=lambda m, y: 2 * (m - y))
"""
EXPECTED = {"keyboard": "57014", "memory": "53200"}


def test_whatever_an_operator_raises(connect: Connect, cluster: Any) -> None:
    folder = Path(cluster.data) / "hostile_modules"
    folder.mkdir(exist_ok=True)
    (folder / "raises_anything.py").write_text(MODULE)
    folder.chmod(0o755)
    session = connect()
    session.execute("LOAD 'tuskml'")
    path = session.execute("SHOW tuskml.python_path").fetchall()[0][0]
    session.execute(f"SET tuskml.python_path = '{path}:{folder}'")
    session.execute("SET tuskml.modules = 'raises_anything'")
    for name in re.findall(r'"(\w+)": ', MODULE):
        sql = f"SELECT train_model('linear', i, ARRAY[i], '{{\"converge\": \"raise_{name}\"}}') FROM generate_series(1, 9) AS i"
        with pytest.raises(psycopg.Error) as caught:
            session.execute(sql)
        told = caught.value.diag
        assert told.sqlstate == EXPECTED.get(name, "38000"), (name, told.message_primary)
        assert (told.message_primary or "").isprintable()
        assert len(told.message_primary or "") < 1100
        assert session.execute(GOOD).fetchall() == [(9,)]
    for name in ("keyboard", "exit", "mute"):
        with pytest.raises(psycopg.Error):
            session.execute(
                f"SELECT train_model('fail_{name}', i, ARRAY[i % 7]) FROM generate_series(1, 1000) AS i"
            )
        assert session.execute(GOOD).fetchall() == [(9,)]
