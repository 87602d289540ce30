"""Writes the files derived from the schema of a model value, `udas/rowblock/model_fields.h`.

python scripts/build/model_fields.py            writes them

python scripts/build/model_fields.py --check    names the files that are stale
"""

import re
import sys
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "udas" / "rowblock" / "model_fields.h"
FIELD = re.compile(r'FIELD\([A-Z_]+, (\w+), ([A-Z]+),((?:\s*\\?\s*"[^"]*")+)\)')
TYPES = {
    "TEXT": ("VARCHAR", "text"),
    "TEXTS": ("VARCHAR[]", "text[]"),
    "NUMBER": ("DOUBLE", "float8"),
    "NUMBERS": ("DOUBLE[]", "float8[]"),
    "COUNT": ("BIGINT", "bigint"),
    "TRUTH": ("BOOLEAN", "boolean"),
    "PAYLOAD": ("BLOB", "bytea"),
}
"""DuckDB's type and PostgreSQL's, by kind."""
PYTHON = '''\
"""The fields of a model value; `scripts/build/model_fields.py` writes this from the schema."""

from typing import NamedTuple


class ModelField(NamedTuple):
    """A field: its name, its kind as the schema calls it, and its types in SQL."""

    name: str
    kind: str
    duckdb: str
    postgres: str


MODEL_FIELDS = (
%s)
"""In the order of both databases' types (`udas/rowblock/model_fields.h`)."""
'''


class Part(NamedTuple):
    """The lines of a file from one that starts with `begin` to one that starts with `end`."""

    path: str
    begin: str
    end: str
    text: str


def fields() -> list[tuple[str, str, str]]:
    """Name, kind and meaning of each field. Raises ValueError if the table has something else."""
    text = SCHEMA.read_text()
    rows = text[text.index("#define TUSK_MODEL_FIELDS(FIELD)") :].split("/* clang-format on")[0]
    rows = rows.split("\n", 1)[1]
    found = [
        (name, kind, "".join(re.findall(r'"([^"]*)"', meaning)))
        for name, kind, meaning in FIELD.findall(rows)
    ]
    if len(found) != rows.count("FIELD("):
        raise ValueError(f"{SCHEMA} has a line that is no FIELD(NAME, name, KIND, meaning)")
    return found


def python() -> str:
    """The module `tuskml.udas.model_fields`."""
    lines = [
        f'    ModelField("{name}", "{kind}", "{TYPES[kind][0]}", "{TYPES[kind][1]}"),\n'
        for name, kind, _ in fields()
    ]
    return PYTHON % "".join(lines)


def columns(database: int, indent: str) -> str:
    """The fields of a type in SQL, as many on a line as have room."""
    names = ", ".join(f"{name} {TYPES[kind][database]}" for name, kind, _ in fields())
    glued = names.replace(" ", "\0").replace(",\0", ", ")  # a name stays with its type
    text = fill(glued, 114, initial_indent=indent, subsequent_indent=indent)
    return text.replace("\0", " ")


def manual() -> str:
    """The table of the manual, below its head."""
    return "".join(
        f"| `{name}` | {TYPES[kind][0]} | {meaning} |\n".replace("|  |", "| |")
        for name, kind, meaning in fields()
    )


def parts() -> list[Part]:
    """The generated parts of hand-written files."""
    duckdb = "    model STRUCT(\n" + columns(0, " " * 8) + ") NOT NULL,\n"
    cast = "    CAST(struct_pack(m := model).m AS STRUCT("
    whole = cast + "\n" + columns(0, " " * 8) + "));\n"
    named = "CREATE TEMP TYPE IF NOT EXISTS tuskml_model AS STRUCT("
    kind = named + "\n" + columns(0, " " * 4) + ");\n"
    postgres = "CREATE TYPE @extschema@.tuskml_model AS (\n" + columns(1, " " * 4) + ");\n"
    return [
        Part("sql/duckdb/registry.sql", "    model STRUCT(", ") NOT NULL,\n", duckdb),
        Part("sql/duckdb/macros.sql", cast, "));\n", whole),
        Part("sql/duckdb/macros.sql", named, ");\n", kind),
        Part(
            "sql/postgres/tuskml/10_types.sql",
            "CREATE TYPE @extschema@.tuskml_model",
            ");\n",
            postgres,
        ),
        Part("docs/sql/model.md", "| `task` | VARCHAR", "|\n\n", manual() + "\n"),
    ]


def contents() -> dict[Path, str]:
    """The content of each file."""
    files = {ROOT / "udas" / "model_fields.py": python()}
    for part in parts():
        path = ROOT / part.path
        text = files.get(path) or path.read_text()
        begin = text.index("\n" + part.begin) + 1
        end = text.index(part.end, begin) + len(part.end)
        files[path] = text[:begin] + part.text + text[end:]
    return files


def main(check: bool) -> int:
    """Writes the files that differ, or names them; how many differ where they are only named."""
    stale = [
        path for path, text in contents().items() if not path.exists() or path.read_text() != text
    ]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is stale: run scripts/build/model_fields.py")
        else:
            path.write_text(contents()[path])
    return len(stale) if check else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
