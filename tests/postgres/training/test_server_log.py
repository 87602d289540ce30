"""Lines of JSON about trainings in the server's log, by the setting tuskml.log_level."""

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

FIT = "SELECT train_model('linear', y, x) FROM logged"
WRONG = "SELECT train_model('linear', y, x, '{\"max_iter\": -1}') FROM logged"


@pytest.fixture(scope="module", autouse=True)
def logged(pg: psycopg.Connection) -> None:
    pg.execute("CREATE TABLE logged AS SELECT i % 4 AS g, sin(i) AS y, ARRAY[cos(i)] AS x FROM generate_series(1, 80) AS i")  # fmt: skip  # noqa: E501
    pg.execute("GRANT SELECT ON logged TO PUBLIC")


@pytest.fixture
def trained(connect: Callable[..., Any], cluster: Any) -> Callable[..., list[dict[str, Any]]]:
    """The lines that statements of a new session write at a level, and what the client hears."""

    def run(level: str | None, *statements: str) -> list[dict[str, Any]]:
        session = connect()
        heard: list[str] = []
        session.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
        session.execute("SELECT predict(NULL::tuskml_model, ARRAY[1.0])")
        if level is not None:
            session.execute(f"SET tuskml.log_level = '{level}'")
        before = len(cluster.messages())
        for statement in statements:
            try:
                session.execute(statement)
            except psycopg.Error:
                assert statement == WRONG
        written = cluster.messages()[before:].splitlines()
        process = session.info.backend_pid
        lines = [
            json.loads(line.split("tuskml: ", 1)[1]) for line in written if "tuskml: {" in line
        ]
        assert not heard
        return [line for line in lines if line["process"] == process]

    return run


def test_each_training_is_a_line(trained: Callable[..., list[dict[str, Any]]]) -> None:
    (all_rows, by_group) = trained("info", FIT, f"{FIT} GROUP BY g")
    assert [all_rows["task"], all_rows["groups"], all_rows["rows"]] == ["linear", 1, 80]
    assert [by_group["groups"], by_group["rows"], by_group["statuses"]] == [4, 80, {"ok": 4}]
    assert by_group["seconds"]["reading"] >= 0
    assert by_group["seconds"]["emitting"] > 0


def test_failures_alone(trained: Callable[..., list[dict[str, Any]]]) -> None:
    (line,) = trained("error", FIT, WRONG)
    assert line["event"] == "training failed"
    assert "max_iter" in line["error"]


@pytest.mark.parametrize("level", [None, "off"])
def test_nothing_by_default(trained: Callable[..., Any], level: str | None) -> None:
    assert trained(level, FIT, WRONG) == []


def test_superusers_alone_set_it(connect: Callable[..., Any], pg: psycopg.Connection) -> None:
    pg.execute("CREATE ROLE logless")
    session = connect()
    session.execute("SELECT predict(NULL::tuskml_model, ARRAY[1.0])")
    session.execute("SET ROLE logless")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute("SET tuskml.log_level = 'off'")
    session.execute("RESET ROLE")
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        session.execute("SET tuskml.log_level = 'loud'")
    assert refused.value.diag.message_hint == "Available values: off, error, info."
