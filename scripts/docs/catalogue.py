"""The functions of both databases, as their own catalogues and scripts have them."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import tuskml

ROOT = Path(__file__).resolve().parents[2]
MODEL = "tuskml_model"
CREATE = re.compile(
    r"CREATE (?P<kind>FUNCTION|AGGREGATE) (?:@extschema@\.)?(?P<name>[a-z]\w*)\s*"
    r"\((?P<arguments>[^()]*)\)\s*(?P<rest>.*?);\s*$",
    re.MULTILINE | re.DOTALL,
)
RESULT = re.compile(r"RETURNS (TABLE \([^)]*\)|[\w ]+?(?:\[\])?)(?=\s+(?:AS|LANGUAGE)\b|\s*$)")
HIDDEN = ("_", "tuskml_")


@dataclass
class Function:
    """A function: its overloads as (argument names, argument types, result), and its kind."""

    name: str
    kind: str
    overloads: list[tuple[tuple[str, ...], tuple[str, ...], str]] = field(default_factory=list)
    comment: str = ""

    def arguments(self) -> list[tuple[str, list[str], bool]]:
        """Name, the types that it may have, and whether every overload has it, by place."""
        longest = max(len(types) for _, types, _ in self.overloads)
        found = []
        for place in range(longest):
            having = [o for o in self.overloads if len(o[1]) > place]
            name = next((o[0][place] for o in having if o[0][place]), "")
            types = list(dict.fromkeys(o[1][place] for o in having))
            found.append((name, types, len(having) == len(self.overloads)))
        return found

    def results(self) -> list[str]:
        """What it may return."""
        return list(dict.fromkeys(result for _, _, result in self.overloads))


def public(name: str) -> bool:
    """Whether the function is for users."""
    return not name.startswith(HIDDEN)


def duckdb_functions() -> dict[str, Function]:
    """What a connection has with tuskml that it has not without."""
    query = (
        "SELECT DISTINCT function_name, function_type, parameters, parameter_types, return_type "
        "FROM duckdb_functions() WHERE schema_name = 'main'"
    )
    import duckdb

    with duckdb.connect() as plain, tuskml.connect(threads=1) as loaded:
        before = {repr(row) for row in plain.execute(query).fetchall()}
        rows = [row for row in loaded.execute(query).fetchall() if repr(row) not in before]
    found: dict[str, Function] = {}
    behind: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for name, kind, names, types, result in sorted(rows, key=repr):
        shown = tuple(readable(t or "") for t in types), readable(result or "")
        behind.setdefault(name.removeprefix("_tusk_"), []).append(shown)
        if public(name):
            function = found.setdefault(name, Function(name, kind.replace("_macro", " macro")))
            given = tuple("" if re.fullmatch(r"col\d+", n) else n for n in names)
            function.overloads.append((given, *shown))
    for text in macro_scripts():
        for comment, name, given in re.findall(
            r"((?:^--[^\n]*\n)+)CREATE OR REPLACE TEMP MACRO (\w+)\(([^)]*)\)", text, re.MULTILINE
        ):
            if name in found:
                found[name].comment = plain_comment(comment)
                typed(found[name], behind[name], given.count(":="))
    return found


def typed(macro: Function, behind: list[tuple[tuple[str, ...], str]], optional: int) -> None:
    """Gives a macro the types of the hidden function that it calls, and its optional arguments."""
    names = macro.overloads[0][0]
    known = [shown for shown in behind if any(shown[0])]
    macro.overloads = [(names, *shown) for shown in known or behind[:1]]
    names, types, result = macro.overloads[0]
    for short in range(len(names) - optional, len(names)):
        macro.overloads.append((names[:short], types[:short], result))


def macro_scripts() -> list[str]:
    """The macros' sources."""
    return [p.read_text() for p in sorted((ROOT / "sql" / "duckdb").glob("*.sql"))]


def readable(kind: str) -> str:
    """The long types by their names in the manual."""
    plain = kind.replace('"', "")
    if plain.startswith("STRUCT(task VARCHAR"):
        return "model"
    if plain.startswith("STRUCT(indices"):
        values = re.search(r"values (\w+)\[\]", plain)
        return f"sparse of {values[1] if values else 'numbers'}"
    return plain


def postgres_functions() -> dict[str, Function]:
    """What the extension's script creates."""
    found: dict[str, Function] = {}
    hidden: dict[str, str] = {}
    for path in sorted((ROOT / "sql" / "postgres").glob("[0-9]*.sql")):
        text = path.read_text()
        for name, result in re.findall(
            r"CREATE FUNCTION (_\w+)\([^)]*\) RETURNS ([\w\[\]]+)", text
        ):
            hidden[name] = result
        for match in CREATE.finditer(text):
            if not public(match["name"]):
                continue
            kind = match["kind"].lower()
            function = found.setdefault(match["name"], Function(match["name"], kind))
            names, types = arguments_of(match["arguments"])
            result = result_of(match["rest"], hidden)
            function.overloads.append((names, types, result))
            function.overloads.extend(
                (names[:short], types[:short], result)
                for short in range(len(types) - match["arguments"].count(" DEFAULT "), len(types))
            )
            function.comment = function.comment or comment_before(text, match.start())
    return found


def arguments_of(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and types of `name type [DEFAULT value], ...`."""
    parts = [part.strip().split(" DEFAULT ")[0] for part in text.split(",") if part.strip()]
    pairs = [part.split(" ", 1) for part in parts]
    return tuple(pair[0] for pair in pairs), tuple(postgres_type(pair[1]) for pair in pairs)


def postgres_type(name: str) -> str:
    """The composite types by their names in the manual."""
    known = {
        MODEL: "model",
        "tuskml_sparse_real": "sparse of real",
        "tuskml_sparse_double": "sparse of double precision",
        "float8": "double precision",
    }
    return known.get(name.strip(), name.strip())


def result_of(rest: str, hidden: dict[str, str]) -> str:
    """A function's own result, or that of an aggregate's final function."""
    final = re.search(r"FINALFUNC = (\w+)", rest)
    if final:
        return postgres_type(hidden[final[1]])
    result = RESULT.search(rest)
    if result is None:
        raise LookupError(f"no result in {rest[:80]!r}")
    return "table" if result[1].startswith("TABLE") else postgres_type(result[1])


def comment_before(text: str, place: int) -> str:
    """The comment that ends right before a place."""
    lines: list[str] = []
    for line in reversed(text[:place].splitlines()):
        if not line.startswith("--"):
            break
        lines.insert(0, line)
    return plain_comment("\n".join(lines))


def plain_comment(text: str) -> str:
    """Without the dashes, in one line."""
    return " ".join(line.removeprefix("--").strip() for line in text.splitlines()).strip()
