"""`tuskml_activity()` in both databases, and the settings that say who takes part."""

import threading
import time
from contextlib import contextmanager

import duckdb
import psycopg
import pytest

import tuskml
from tuskml.schedule import shares

COLUMNS = [
    "session", "training", "program", "task", "plan", "n_groups", "n_models", "share", "threads",
    "weight", "seconds", "core_seconds", "rows_per_second", "progress", "estimated_end",
    "rho", "device",
]  # fmt: skip
ROWS = "SELECT i % 2 AS y, {array} AS x FROM {series}(1, 200000) AS t(i)"
TRAIN = """SELECT train_model('logistic', y, x,
    '{"algorithm": "bgd", "epsilon": 0, "max_iter": 100000000, "step": 0.001}') FROM activity"""


@pytest.fixture(autouse=True)
def own_table(tmp_path, monkeypatch):
    monkeypatch.setenv(shares.SETTING, str(tmp_path / "table"))


def listed(connection):
    """The running trainings by column."""
    found = connection.execute("SELECT * FROM tuskml_activity()")
    names = [column[0] for column in found.description]
    assert names == COLUMNS
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def until(connection, holds):
    """The only training, once it holds."""
    end = time.monotonic() + 60
    while True:
        found = listed(connection)
        if len(found) == 1 and holds(found[0]):
            return found[0]
        assert time.monotonic() < end, found
        time.sleep(0.01)


@contextmanager
def training(connection, cancel):
    """The connection trains meanwhile."""
    failed = []

    def run():
        try:
            connection.execute(TRAIN).fetchall()
        except (duckdb.Error, psycopg.Error) as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        cancel()
        thread.join()
    assert failed  # it never ends by itself


@pytest.fixture
def other(session, cluster):
    """Another connection to the session's database, or to another one of DuckDB."""
    if session[0] == "post":
        with cluster.connect(session[1].info.dbname) as connection:
            yield connection
    else:
        with tuskml.connect() as connection:
            yield connection


def made(session):
    name, connection = session
    array, series = ("[i % 7, 1 / i]", "range") if name == "duck" else (
        "ARRAY[i % 7, 1.0 / i]::float8[]", "generate_series")  # fmt: skip
    text = ROWS.format(array=array, series=series)
    connection.execute("DROP TABLE IF EXISTS activity")
    connection.execute(f"CREATE TABLE activity AS {text}")
    return connection.interrupt if name == "duck" else connection.cancel


def test_a_training_says_how_far_it_is(session, other):
    name, connection = session
    cancel = made(session)
    assert listed(other) == []
    with training(connection, cancel):
        seen = until(other, lambda one: one["progress"] and one["rows_per_second"])
        program = {"duck": "duckdb", "post": "postgres"}[name]
        assert (seen["program"], seen["task"], seen["plan"]) == (program, "logistic", "bgd")
        assert (seen["n_groups"], seen["n_models"], seen["weight"]) == (1, 0, 1.0)
        assert 1 <= seen["share"] <= seen["threads"]
        assert 0 < seen["progress"] < 0.01  # of a hundred million iterations
        assert seen["estimated_end"].timestamp() > time.time() + 60
        assert seen["rho"] == pytest.approx(1, abs=0.05)  # it is alone
        if name == "post":
            assert seen["session"] == connection.info.backend_pid
        later = until(other, lambda one: one["progress"] > seen["progress"])
        assert later["seconds"] > seen["seconds"]
    assert listed(other) == []


def test_trainings_that_take_no_part_are_not_listed(session, other):
    name, connection = session
    cancel = made(session)
    off = "SELECT tuskml_set_shares(false)" if name == "duck" else "SET tuskml.shares = off"
    on = "SELECT tuskml_set_shares(true)" if name == "duck" else "SET tuskml.shares = on"
    connection.execute(off)
    with training(connection, cancel):
        time.sleep(0.3)
        assert listed(other) == []
    connection.execute(on)
    with training(connection, cancel):
        until(other, lambda one: one["plan"] == "bgd")


def test_weights_are_a_setting(session, other):
    name, connection = session
    cancel = made(session)
    weight = "SELECT tuskml_set_weight(2.5)" if name == "duck" else "SET tuskml.weight = 2.5"
    connection.execute(weight)
    with training(connection, cancel):
        assert until(other, lambda one: one["plan"])["weight"] == 2.5
    if name == "duck":
        with pytest.raises(duckdb.Error, match="out of range"):
            connection.execute("SELECT tuskml_set_weight(0)")
    else:
        with pytest.raises(psycopg.Error, match="outside the valid range"):
            connection.execute("SET tuskml.weight = 0")


def test_off_in_the_environment_is_an_error_in_duckdb(con, monkeypatch):
    monkeypatch.setenv(shares.SETTING, "off")
    with pytest.raises(duckdb.Error, match="tuskml_activity: TUSKML_SHARES is 'off'"):
        con.execute("FROM tuskml_activity()")


def weigh(name, connection, weight):
    duck = f"SELECT tuskml_set_weight({weight})"
    connection.execute(duck if name == "duck" else f"SET tuskml.weight = {weight}")


@pytest.fixture
def heavy_and_light(session, other):
    """Both connections have the rows, and the second a ten-thousandth of the weight."""
    name, connection = session
    made(session)
    if name == "duck":
        made((name, other))
    for one, weight in ((connection, 100), (other, 0.01)):
        iterations(one, 0.1, [])  # which imports
        weigh(name, one, weight)
    yield connection, other
    weigh(name, connection, 1)


def iterations(connection, seconds, found):
    """Puts iterations that a training makes in its time into `found`, and when it ended."""
    options = TRAIN.replace("0.001", f'0.001, "time": "{seconds}s", "threads": 64')
    text = options.replace("train_model(", "(train_model(").replace("FROM", ").iterations FROM")
    try:
        found.append(connection.execute(text).fetchone()[0])
    except (duckdb.Error, psycopg.Error) as error:
        found.append(error)
    found.append(time.monotonic())


def test_sessions_have_the_cores_by_their_weights(heavy_and_light):
    found, threads = ([], []), []
    for connection, seconds, each in zip(heavy_and_light, (5, 3), found, strict=True):
        threads.append(threading.Thread(target=iterations, args=(connection, seconds, each)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert found[0][0] > 3 * found[1][0], found


def test_a_session_that_waits_for_its_turn_is_cancelled(session, heavy_and_light):
    heavy, light = heavy_and_light
    first, second = [], []
    threads = [
        threading.Thread(target=iterations, args=(heavy, 6, first)),
        threading.Thread(target=iterations, args=(light, 60, second)),
    ]
    for thread in threads:
        thread.start()
    time.sleep(2)
    began = time.monotonic()
    (light.interrupt if session[0] == "duck" else light.cancel)()
    threads[1].join()
    assert isinstance(second[0], (duckdb.Error, psycopg.Error)), second
    assert second[1] - began < 0.2 + 0.5, "0.2 s, and what a busy machine takes"
    threads[0].join()
