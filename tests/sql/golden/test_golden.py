"""Golden SQL: each file of `cases/` runs in each database and answers what lies beside it.

Statements are in the dialect that DuckDB and PostgreSQL share, so that each interface of tuskml runs
the same files. `pytest tests/sql/golden/test_golden.py --golden-update` writes the answers, to be read in
review; `test_reference.py` holds the numbers against other packages.
"""

# ruff: noqa: E501, SQL is read better on one line

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

CASES = Path(__file__).with_name("cases")
DATA = Path(__file__).with_name("data")
ANSWERS = re.compile(r"\s*(SELECT|WITH|VALUES|EXECUTE)\b", re.IGNORECASE)

GPU_FROM = re.compile(r"(a GPU is used from )[\d,]+( MiB on)")
"""More bytes where the CPU has more threads."""
SLOW_READING = re.compile(r"^  reading   .*\n", re.MULTILINE)
"""What an explanation says besides on a machine that is busy."""

DIFFERENCES: dict[tuple[str, str], str] = {}
"""(database, case): why its answers are in `<case>.<database>.out` instead."""

Answer = tuple[list[str], list[tuple]]
Run = Callable[[str], Answer]


@pytest.fixture
def duckdb(con: Any) -> Run:
    def run(statement: str) -> Answer:
        cursor = con.execute(statement)
        return [column[0] for column in cursor.description], cursor.fetchall()

    return run


@pytest.fixture(scope="module")
def session(file_session: Any) -> Any:
    return file_session


@pytest.fixture
def postgres(session: Any) -> Iterator[Run]:
    """Each case has a schema of its own."""
    session.execute("CREATE SCHEMA golden_case")
    session.execute("SET search_path = golden_case, public")

    def run(statement: str) -> Answer:
        cursor = session.execute(statement)
        if cursor.description is None:
            return [], []
        return [column.name for column in cursor.description], cursor.fetchall()

    yield run
    session.execute("DROP SCHEMA golden_case CASCADE; DEALLOCATE ALL; RESET search_path")


def cases() -> list[str]:
    return sorted(path.stem for path in CASES.glob("*.sql"))


def statements(text: str) -> list[str]:
    """Statements end with a semicolon at the end of a line."""
    plain = re.sub(r"^\s*--.*\n", "", text, flags=re.MULTILINE)
    return [part.strip() for part in re.split(r";\s*\n", plain + "\n") if part.strip()]


def data_of(text: str) -> list[str]:
    """The tables that a case asks for: `-- data: cars, patients` is its first line."""
    asked = re.match(r"-- data: (.*)\n", text)
    return asked[1].split(", ") if asked else []


def shown(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(shown, value)) + "]"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)


def table(answer: Answer) -> str:
    names, rows = answer
    return "\n".join([" | ".join(names), *(" | ".join(map(shown, row)) for row in rows)])


def run_case(run: Run, text: str) -> str:
    for name in data_of(text):
        for statement in statements((DATA / f"{name}.sql").read_text()):
            run(statement)
    blocks = []
    for statement in statements(text):
        answer = run(statement)
        if ANSWERS.match(statement):
            blocks.append(f"{statement};\n{table(answer)}\n")
    return GPU_FROM.sub(r"\1...\2", SLOW_READING.sub("", "\n".join(blocks)))


def expected_file(database: str, case: str) -> Path:
    suffix = f".{database}.out" if (database, case) in DIFFERENCES else ".out"
    return CASES / (case + suffix)


@pytest.mark.sample(2 * len(cases()))  # every case in both databases
@pytest.mark.parametrize("case", cases())
@pytest.mark.parametrize("database", ["duckdb", "postgres"])
def test_golden(database: str, case: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(database)
    found = run_case(run, (CASES / f"{case}.sql").read_text())
    file = expected_file(database, case)
    if request.config.getoption("--golden-update"):
        file.write_text(found)
    assert found == file.read_text()


def test_each_answer_has_its_case() -> None:
    differing = {f"{case}.{database}" for database, case in DIFFERENCES}
    assert {path.stem for path in CASES.glob("*.out")} == set(cases()) | differing


def test_statements_are_split_at_the_ends_of_lines() -> None:
    assert statements("-- a; b\nSELECT ';',\n  1;\n\nSELECT 2;") == [
        "SELECT ';',\n  1",
        "SELECT 2",
    ]


@pytest.mark.parametrize("case", cases())
def test_columns_have_names_that_every_database_gives_them(case: str) -> None:
    for block in (CASES / f"{case}.out").read_text().split(";\n")[1:]:
        for name in block.split("\n")[0].split(" | "):
            assert re.fullmatch("[a-z][a-z0-9_]*", name)
