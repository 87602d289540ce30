"""Writes the script that brings the PostgreSQL extension from one version's script to another's.

    python scripts/build/upgrade.py OLD.sql NEW.sql > sql/postgres/upgrade/tuskml--OLD--NEW.sql

OLD.sql and NEW.sql are install scripts as the Makefile of udas/postgres makes them. Functions and
aggregates that are new or other than before are created or replaced, those that went are dropped,
helpers of theirs last, and what sets rights, comments and names is said again. A type gets the
fields that are new, at its end; values that are stored have NULL there. Where it differs otherwise
the script is a person's work.
"""

import re
import sys
from pathlib import Path

TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|(\$\w*\$).*?\1|;|[^;'\"$/-]+|.", re.DOTALL
)
ROUTINE = re.compile(
    r"CREATE\s+(FUNCTION|AGGREGATE)\s+((?:@extschema@\.|\w+\.)?\w+\s*\([^)]*\))", re.IGNORECASE
)
TYPE = re.compile(r"CREATE\s+TYPE\s+(\S+)\s+AS\s*\(([^()]*)\)", re.IGNORECASE)
ALWAYS = ("REVOKE", "GRANT", "COMMENT", "DO")
CALL = "SELECT"
"""The prefix of statements that name functions in another schema, after removed ones are
dropped.
"""


def statements(script: str) -> list[str]:
    """The statements of a script, without comments between them, and without psql's commands."""
    found, now = [], ""
    for token in TOKEN.finditer(re.sub(r"(?m)^\\.*$", "", script)):
        text = token[0]
        if text.startswith(("--", "/*")):
            continue
        if text == ";":
            found.append(now.strip())
            now = ""
        else:
            now += text
    if now.strip():
        raise ValueError(f"the script ends within a statement: {now.strip()[:60]}")
    return found


def routine(statement: str) -> tuple[str, str] | None:
    """FUNCTION or AGGREGATE, and its name and arguments as DROP takes them."""
    found = ROUTINE.match(statement)
    return (found[1].upper(), " ".join(found[2].split())) if found else None


def new_fields(types: dict[str, str], new: str) -> tuple[str, list[str]] | None:
    """The type that a statement made before, and the statements that add its new fields.

    types: the statements that made composite types, by name. None if more differs than new fields.
    """
    now = TYPE.fullmatch(new)
    was = TYPE.fullmatch(types.get(now[1], "")) if now else None
    if was is None or now is None:
        return None
    had, has = ([field.strip() for field in found[2].split(",")] for found in (was, now))
    added = [field for field in has if field not in had]
    if [field for field in has if field in had] != had or not added:
        return None
    return was[0], [f"ALTER TYPE {now[1]} ADD ATTRIBUTE {field}" for field in added]


def upgrade(old: str, new: str) -> str:
    """The upgrade script; raises ValueError if a statement can be no part of one."""
    before, after = statements(old), statements(new)
    had = {named: text for text in before if (named := routine(text))}
    has = {named for text in after if (named := routine(text))}
    types = {found[1]: text for text in before if (found := TYPE.fullmatch(text))}
    out: list[str] = []
    calls: list[str] = []
    altered = set()
    for text in after:
        named = routine(text)
        kind = text.split(None, 1)[0].upper()
        if kind in ALWAYS:
            out.append(text)
        elif kind == CALL:
            calls.append(text)
        elif text in before:
            continue
        elif named in had:
            out.append(re.sub(r"^CREATE", "CREATE OR REPLACE", text, flags=re.IGNORECASE))
        elif named or ((made := TYPE.fullmatch(text)) and made[1] not in types):
            out.append(text)
        elif (added := new_fields(types, text)) is not None:
            out += added[1]
            altered.add(added[0])
        else:
            raise ValueError(f"only a person can upgrade this: {text}")
    for text in before:
        kept = text in after or text in altered or text.upper().startswith((*ALWAYS, CALL))
        if routine(text) is None and not kept:
            raise ValueError(f"only a person can upgrade this, which is no more: {text}")
    gone = [named for named in reversed(had) if named not in has]
    dropped = [(f"DROP {kind} {name}", name.partition(".")[2][:1]) for kind, name in gone]
    out += [drop for drop, first in dropped if first != "_"]
    out += calls + [drop for drop, first in dropped if first == "_"]
    guard = '\\echo Use "ALTER EXTENSION tuskml UPDATE" to load this file. \\quit\n'
    return guard + "".join(f"{text};\n" for text in out)


if __name__ == "__main__":
    old_script, new_script = (Path(name).read_text() for name in sys.argv[1:3])
    try:
        sys.stdout.write(upgrade(old_script, new_script))
    except ValueError as error:
        sys.exit(f"upgrade.py: {error}")
