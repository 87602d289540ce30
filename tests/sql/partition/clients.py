"""The databases that partition_model is asked in, and their rows."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

CLICKS = """
CREATE TABLE clicks AS
SELECT i, i % 3 AS site, ARRAY[i % 7, 100 + i % 7, (i * i) % 23, 500 + (i * 7919) % 401] AS ids
FROM generate_series(1, 3000) AS s(i)
"""
WIDE = """CREATE TABLE wide AS SELECT i, [((i * 7919 + j * j * 104729) % 40009)::INTEGER FOR j IN range(20)]
          || [(i % 50)::INTEGER] AS ids FROM range(15000) AS t(i)"""
"""More features than the sketch counts exactly."""


class Client:
    """A database in which `clicks` lies; a call's value in plain types."""

    def __init__(self, run: Callable[[str], list[tuple]], errors: type[Exception]) -> None:
        self.run = run
        self.errors = errors

    def call(self, name: str, *arguments: str, rest: str = "FROM clicks") -> Any:
        """The value of an aggregate over all rows; a list of tuples, or a dictionary."""
        text = self.run(f"SELECT to_json({name}({', '.join(arguments)})) {rest}")[0][0]
        found = json.loads(text) if isinstance(text, str) else text
        if isinstance(found, list):
            return [tuple(one.values()) for one in found]
        return found

    def sentence(self, statement: str) -> str:
        """What a person is told; the next statement works."""
        with pytest.raises(self.errors) as caught:
            self.run(statement)
        assert self.run("SELECT 1") == [(1,)]
        diagnosis = getattr(caught.value, "diag", None)
        if diagnosis is not None:
            return str(diagnosis.message_primary)
        return re.sub(r"^[\w ]*Error: ", "", str(caught.value)).splitlines()[0]
