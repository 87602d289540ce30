"""The manual as a program: its fenced blocks, who runs each, and what it shows of the answers.

Blocks of a page run in their order, in one folder, which is empty at first: `sql` in one DuckDB
database, `pgsql` in one of PostgreSQL, `python` in one namespace, and the `tuskml` commands of
`console`. A `text` block behind one of them is what it printed, and so are the lines of `console`
without a `$`. In a section with a line *Both databases.*, `sql` runs in both and prints the
same. On the line above a fence `<!-- saved as: NAME -->` saves the block instead of running it,
and `<!-- not run: why -->` says why nothing is done with it. Pages with a test of their own are
in OWN_TESTS.
"""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tuskml
from tuskml.commands import cli
from tuskml.databases import script

BOTH = "*Both databases.*"
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: (\S.*\S) -->\n\Z")
COMMAND = re.compile(r"^\$ (?:.*\\\n)*.*$", re.MULTILINE)
SAVED = re.compile(r"<!-- saved as: ([\w.]+) -->\n\Z")
OWN_TESTS = {
    "dbt.md": "tests/dbt/test_flights.py",
    "python.md": "tests/front/manual/test_python_manual.py",
    "registry.md": "tests/front/registry/test_registry.py",
}
"""Pages whose blocks are not run here, and the tests that run what they show."""
RUN = ("sql", "pgsql", "python", "console")


@dataclass(frozen=True)
class Block:
    """A fenced block: place is where its text begins in the page; reason: why it is not run."""

    page: str
    line: int
    place: int
    language: str
    text: str
    reason: str | None
    both: bool
    saved: str | None = None

    def __str__(self) -> str:
        return f"{self.page}, line {self.line}"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page but Sphinx's own directives, `{...}`."""
    text = page.read_text()
    found = []
    end, both = 0, False
    own = OWN_TESTS.get(page.name)
    for fence in FENCE.finditer(text):
        between = text[end : fence.start()]
        both = BOTH in between.rsplit("\n#", 1)[-1] or (both and "\n#" not in between)
        reason = NOT_RUN.search(between)
        line = text.count("\n", 0, fence.start()) + 1
        end = fence.end()
        if not fence[1].startswith("{"):
            why = f"run by {own}" if own else reason[1] if reason else None
            name = SAVED.search(between)
            found.append(
                Block(
                    page.name,
                    line,
                    fence.start(2),
                    fence[1].strip(),
                    fence[2],
                    why,
                    both and not name,
                    name[1] if name else None,
                )
            )
    return found


def shown(results: list[script.Result]) -> str:
    """Results as `tuskml sql` prints them."""
    return "\n\n".join(result.as_table() for result in results) + "\n" if results else ""


def in_postgres(session: Any, text: str) -> str:
    """What statements answer in PostgreSQL, as `tuskml sql` would print it."""
    cursor = session.execute(text)
    results = []
    while True:
        if cursor.description is not None:
            names = [column.name for column in cursor.description]
            results.append(script.Result(names, cursor.fetchall()))
        if not cursor.nextset():
            return shown(results)


def in_console(text: str) -> str:
    """A console session as it goes: each `tuskml` command and what it prints."""
    out = io.StringIO()
    for line in COMMAND.findall(text):
        command, *arguments = shlex.split(line[2:].replace("\\\n", " "))
        assert command == "tuskml", f"only tuskml is run, not {command}"
        out.write(line + "\n")
        with contextlib.redirect_stdout(out):
            assert cli.main(arguments) == 0, line
    return out.getvalue()


def in_python(text: str, name: str, names: dict[str, Any]) -> str:
    """What a block of Python prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, name, "exec"), names)
    return out.getvalue()


@dataclass
class Shown:
    """What a block says that was printed, and what was."""

    block: Block
    written: str
    printed: str


class Runner:
    """Runs the blocks of one page; postgres: opens a session, which runs all of `pgsql`."""

    def __init__(self, postgres: Any = None) -> None:
        self.duckdb = tuskml.connect(threads=2, store_root="stores")
        self.names: dict[str, Any] = {"__name__": "manual"}
        self.postgres = postgres

    def run(self, block: Block) -> str:
        """What the block prints; a PostgreSQL that is not given prints nothing."""
        if block.saved:
            Path(block.saved).write_text(block.text)
            return ""
        if block.language == "sql":
            return shown(list(script.run(self.duckdb, block.text, str(block))))
        if block.language == "python":
            return in_python(block.text, str(block), self.names)
        if block.language == "console":
            return in_console(block.text)
        return in_postgres(self.postgres, block.text) if self.postgres else ""

    def page(self, found: list[Block]) -> Iterator[Shown]:
        """Runs a page, and compares what it shows."""
        printed = ""
        for block in found:
            if block.language == "text" and block.reason is None:
                if printed or self.postgres:
                    yield Shown(block, block.text, printed)
            elif block.reason is None:
                printed = self.run(block)
                if block.language == "console":
                    yield Shown(block, block.text, printed)
