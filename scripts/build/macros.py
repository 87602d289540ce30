"""DuckDB's macros and the type of models as a text in C, which the extension runs at LOAD.

The query for clashes is another text.

python macros.py FOLDER HEADER
"""

import re
import sys
from pathlib import Path

MARK = "\1"
"""Before the names of macros in the text, where the extension may put a schema."""
DEFINED = re.compile(r"MACRO (?:IF NOT EXISTS )?(\w+)\s*\((.*?)\) AS( TABLE)?", re.DOTALL)


def marked(text: str) -> str:
    """The SQL with a mark where a macro is defined or called, in texts of SQL too, or a type.

    A table function is called after FROM only: elsewhere its name is that of a function in C.
    """
    found = DEFINED.findall(text)
    scalars = {name for name, _, table in found if not table}
    tables = {name for name, _, table in found if table}
    scalar, table = ("|".join(sorted(names, key=len, reverse=True)) for names in (scalars, tables))
    defines, calls = r"MACRO (?:IF NOT EXISTS )?", r"FROM\s+"
    others = rf"{defines}(?=\")|TYPE IF NOT EXISTS "
    named = rf"({defines}|{calls})({table})(?=\s*\()|({scalar})(?=\s*\()|({others})"
    return re.sub(rf"(?<![\w.])(?:{named})", put_mark, text)


def put_mark(at: re.Match[str]) -> str:
    """The match, with the mark before the name."""
    before, table, scalar, quoted = at.groups()
    return (before or quoted or "") + MARK + (table or scalar or "")


def script(folder: Path) -> str:
    """The macros, and their documented names, except those that the database already has."""
    macros, names = ((folder / f"{name}.sql").read_text() for name in ("macros", "names"))
    return macros + names.replace(
        "CREATE OR REPLACE TEMP MACRO", "CREATE TEMP MACRO IF NOT EXISTS"
    )


def defined(name: str, text: str) -> str:
    """A text as a definition in C."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in text.splitlines())
    body = "".join(f' \\\n    "{line}\\n"' for line in escaped).replace(MARK, '\\1" "')
    return f"#define {name}{body}\n"


def write(folder: Path, target: Path) -> None:
    """Writes the header, if it has changed."""
    taken = (folder / "taken.sql").read_text()
    text = defined("MACROS", marked(script(folder))) + defined("TAKEN", taken)
    if not target.exists() or target.read_text() != text:
        target.write_text(text)


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:3]))
