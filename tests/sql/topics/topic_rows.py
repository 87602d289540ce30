"""Documents in a table of either database, and a model of them."""

import random
from typing import Any

import duckdb
import psycopg
import pytest

FRUIT = ["apple", "banana", "cherry", "mango", "a fruit with a long name", "Ünïcödé", "苹果"]
TOOLS = ["axe", "drill", "hammer", "saw", "a tool with a long name", "", "工具"]
OPTIONS = '{"topics": 2, "alpha": 0.5, "beta": 0.05, "seed": 3, "max_iter": 60}'
MODEL = f"SELECT train_model('lda', NULL, t, '{OPTIONS}') AS m FROM docs"


def documents(n: int = 60, seed: int = 1) -> list[list[str | None] | None]:
    """Documents of fruit, of tools, and of both; one is NULL, one empty, and one has a NULL."""
    chosen = random.Random(seed)
    found: list[list[str | None] | None] = []
    for i in range(n):
        words = (FRUIT, TOOLS, FRUIT + TOOLS)[min(i % 7, 2) if i % 7 in (0, 1) else i % 2]
        found.append([chosen.choice(words) for _ in range(chosen.randrange(5, 30))])
    found[5], found[6], found[7] = None, [], ["apple", None, "saw"]
    return found


def fill(name: str, connection: Any, docs: list[Any], table: str = "docs") -> None:
    """A table of documents, numbered and in three groups."""
    kind, mark = {"duck": ("VARCHAR[]", "?"), "post": ("text[]", "%s")}[name]
    cursor = connection if name == "duck" else connection.cursor()
    cursor.execute(
        f"CREATE {'TEMP ' if name == 'post' else ''}TABLE {table} (i int, g int, t {kind})"
    )
    rows = [(i, i % 3, one) for i, one in enumerate(docs)]
    if name == "duck":  # which takes one row of a statement at a time
        number, group, text = map(list, zip(*rows, strict=True))
        asked = "unnest($1::int[]), unnest($2::int[]), unnest($3::VARCHAR[][])"
        cursor.execute(f"INSERT INTO {table} SELECT {asked}", [number, group, text])
        return
    cursor.executemany(f"INSERT INTO {table} VALUES ({mark}, {mark}, {mark})", rows)


def error_of(ask: Any, sql: str) -> str:
    with pytest.raises((duckdb.Error, psycopg.Error)) as caught:
        ask(sql)
    return str(caught.value).splitlines()[0].removeprefix("Invalid Input Error: ")
