"""Runs sqllogictest files with an extension: python sqllogic.py EXTENSION FILE...

It supports the parts of DuckDB's format that `packaging/duckdb-community/test` uses: `require`,
`load`, `statement ok`, `statement error` with a part of the message, and `query` with its columns'
types and values separated by tabs. The DuckDB is that of the Python that runs it.
"""

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import duckdb


class Step(NamedTuple):
    """A command of a file: its words, its SQL, the expected result, and its line number."""

    words: list[str]
    sql: str
    expected: list[str] | None
    line: int


def steps(text: str) -> Iterator[Step]:
    """The commands of a file, which empty lines separate."""
    line = 1
    for block in re.split(r"\n(?=\n)", text):
        lines = [one for one in block.splitlines() if one and not one.startswith("#")]
        if lines:
            body, _, expected = "\n".join(lines[1:]).partition("\n----")
            wanted = expected.lstrip("\n").splitlines() if "\n----" in block else None
            first = line + len(block) - len(block.lstrip("\n"))
            yield Step(lines[0].split(), body, wanted, first)
        line += block.count("\n") + 1


class Failure(Exception):
    """The actual result of a step that failed."""


class Runner:
    """Runs one file with a database of its own, and the extension that it requires."""

    def __init__(self, extension: Path, scratch: str) -> None:
        self.extension, self.scratch = extension, scratch
        self.open(":memory:")

    def open(self, path: str) -> None:
        """Opens another database."""
        self.connection = duckdb.connect(path, config={"allow_unsigned_extensions": "true"})

    def run(self, step: Step) -> None:
        """Runs a step; Failure where it answers otherwise."""
        kind = step.words[0]
        if kind == "load":
            self.open(step.words[1].replace("__TEST_DIR__", self.scratch))
        elif kind == "require":
            self.connection.execute(f"LOAD '{self.extension}'")
        elif kind == "statement":
            self.statement(step)
        elif kind == "query":
            self.query(step)
        else:
            raise Failure(f"{kind!r}, expected require, load, statement or query")

    def statement(self, step: Step) -> None:
        """Runs a statement that succeeds, or fails with a part of a message."""
        try:
            self.connection.execute(step.sql).fetchall()
        except duckdb.Error as error:
            if step.words[1] == "ok" or not self.says(str(error), step):
                raise Failure(str(error)) from error
        else:
            if step.words[1] == "error":
                raise Failure("no error")

    @staticmethod
    def says(message: str, step: Step) -> bool:
        """Returns whether the message contains the expected part."""
        return not step.expected or step.expected[0] in message

    def query(self, step: Step) -> None:
        """Runs a query and compares its rows."""
        rows = self.connection.execute(step.sql).fetchall()
        if any(len(row) != len(step.words[1]) for row in rows):
            raise Failure(f"{len(rows[0])} columns, expected {step.words[1]}")
        found = ["\t".join("NULL" if one is None else str(one) for one in row) for row in rows]
        if found != step.expected:
            raise Failure("\n".join(found))


def run_file(extension: Path, path: Path) -> list[str]:
    """Lines about the steps of a file that fail."""
    said = []
    with tempfile.TemporaryDirectory() as scratch:
        runner = Runner(extension, scratch)
        for step in steps(path.read_text()):
            try:
                runner.run(step)
            except (Failure, duckdb.Error) as error:
                said.append(f"{path.name}:{step.line}: {step.sql}\nanswered: {error}")
        runner.connection.close()
    return said


def main() -> None:
    """Runs the files, prints failures, and exits with 1 if there are any."""
    extension, *files = map(Path, sys.argv[1:])
    said = [line for path in files for line in run_file(extension.resolve(), path)]
    print("\n".join(said), file=sys.stderr)
    print(f"DuckDB {duckdb.__version__}: {len(files)} files, {len(said)} failures")
    sys.exit(bool(said))


if __name__ == "__main__":
    main()
