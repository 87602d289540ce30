"""The functions of both databases, from their own catalogues and scripts."""

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

import tuskml

ROOT = Path(__file__).resolve().parents[2]
MODEL = "tuskml_model"
CREATE = re.compile(
    r"CREATE (?P<kind>FUNCTION|AGGREGATE) tuskml\.(?P<name>[a-z]\w*)\s*"
    r"\((?P<arguments>(?:[^()]|\([^()]*\))*)\)\s*(?P<rest>.*?);\s*$",
    re.MULTILINE | re.DOTALL,
)
RESULT = re.compile(r"RETURNS (TABLE \([^)]*\)|[\w ]+?(?:\[\])?)(?=\s+(?:AS|LANGUAGE)\b|\s*$)")
MACRO = re.compile(
    r"((?:^--[^\n]*\n)+)CREATE OR REPLACE TEMP MACRO (\w+)\s*\(([^)]*)\)", re.MULTILINE
)
MIXED = [
    [first, second]
    for first, second in permutations(("VARCHAR", "DOUBLE", "BOOLEAN"), 2)
    if "VARCHAR" in (first, second)
]
"""A label and a predicted class of which one is text: an overload of a metric refuses them."""
PREFIX = "tuskml_"
HIDDEN, BEHIND = ("_", PREFIX), "_tusk_"

REFUSED = (
    r'VARIADIC "any"|'
    r"\bfeatures (double precision|text|boolean|jsonb|timestamp with time zone)\b(?!\[)"
)
"""Arguments of PostgreSQL's functions that only say why they refuse a call."""


Overload = tuple[tuple[str, ...], tuple[str, ...], str]
"""Names of the arguments, which may be empty, their types, and the type of the result."""


@dataclass(frozen=True)
class Argument:
    """The types that an argument may have; optional: some overloads do without it."""

    name: str
    types: list[str]
    optional: bool


@dataclass
class Function:
    """A function of a database, with the comment before it in the script that makes it."""

    name: str
    kind: str
    overloads: list[Overload] = field(default_factory=list)
    comment: str = ""

    def shapes(self) -> list[tuple[list[Argument], list[str]]]:
        """Arguments and results of overloads of which one has the arguments of all others; without
        names, as DuckDB's functions are, the others lack the last ones.
        """

        def lacks(one: Overload, other: Overload) -> bool:
            n = len(one[0])
            if not any(one[0]):
                return other[0][:n] == one[0] and (n == len(other[0]) or other[1][:n] == one[1])
            left = iter(other[0])
            return all(name in left for name in one[0])

        found: list[list[Overload]] = []
        for one in sorted(set(self.overloads), key=lambda o: (-len(o[0]), repr(o))):
            home = next((s for s in found if any(lacks(one, other) for other in s)), None)
            if home is None:
                found.append([one])
            else:
                home.append(one)
        return [
            (arguments_of_all(shape), unique(o[2] for o in shape)) for shape in reversed(found)
        ]


def arguments_of_all(shape: list[Overload]) -> list[Argument]:
    """By name, or by position without names; the first overload has most arguments."""
    found = []
    for position, name in enumerate(shape[0][0]):
        indices = [
            names.index(name) if name in names else len(kinds) if name else position
            for names, kinds, _ in shape
        ]
        types = [
            kinds[index]
            for (_, kinds, _), index in zip(shape, indices, strict=True)
            if index < len(kinds)
        ]
        found.append(Argument(name, unique(types) or [""], len(types) < len(shape)))
    return found


def unique(texts: Iterable[str]) -> list[str]:
    """The distinct texts, in alphabetical order."""
    return sorted(set(texts))


def public(name: str) -> bool:
    """Returns whether the function is for users."""
    return not name.startswith(HIDDEN)


def duckdb_functions() -> dict[str, Function]:
    """The functions that a connection has only with tuskml."""
    query = (
        "SELECT DISTINCT function_name, function_type, parameters, parameter_types, return_type "
        "FROM duckdb_functions() WHERE schema_name = 'main'"
    )
    import duckdb

    with duckdb.connect() as plain, tuskml.connect(threads=1) as loaded:
        before = {repr(row) for row in plain.execute(query).fetchall()}
        for text in macro_scripts():  # macros over tables are there once the tables are
            if "CREATE TABLE" in text:
                loaded.execute(text)
        tuskml.load(loaded)
        rows = [row for row in loaded.execute(query).fetchall() if repr(row) not in before]
    macros = {name for name, kind, *_ in rows if kind == "macro"}
    found: dict[str, Function] = {}
    hidden: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    ours = {name for name, *_ in rows}
    for spelled, kind, names, types, result in sorted(rows, key=repr):
        name = spelled.removeprefix(PREFIX)
        twice = spelled != name and name in ours
        if twice != ("macro" in kind and f"{PREFIX}{name}" in ours):
            continue  # of macros those with the prefix have the types, of others either
        name = name if twice else spelled
        behind_macro = kind == "scalar" and name in macros  # the same, for connections without
        refuses = types[:2] in MIXED and types[2:] in ([], ["VARCHAR"])
        refuses |= {"ANY", "ANY[]"} & set(types) != set() and not takes_any_label(name, kind)
        if behind_macro or refuses:
            continue
        shown = tuple(readable(t or "") for t in types), readable(result or "")
        if name.startswith(BEHIND):
            hidden.setdefault(name.removeprefix(BEHIND), []).append(shown)
        if public(name):
            function = found.setdefault(name, Function(name, kind.replace("_macro", " macro")))
            given = tuple("" if re.fullmatch(r"col\d+", n) else n for n in names)
            function.overloads.append((given, *shown))
    for comment, spelled, given in MACRO.findall("\n".join(macro_scripts())):
        name = spelled.removeprefix(PREFIX)
        if name in found:
            found[name].comment = found[name].comment or plain_comment(comment)
            typed(found[name], hidden.get(name, []), given.count(":="))
    return found


def takes_any_label(name: str, kind: str) -> bool:
    """Returns whether an argument of any type is one of a metric, and does not only refuse a
    call.
    """
    return kind == "aggregate" and name not in ("train_model", "explain_training")


def typed(macro: Function, hidden: list[tuple[tuple[str, ...], str]], optional: int) -> None:
    """Gives a macro the types of the hidden function of its name, which it calls with a model, and
    its optional arguments.
    """
    given, macro.overloads = macro.overloads, []
    for names, types, result in given:
        if hidden and names[0] == "model":
            macro.overloads += [(names, *shown) for shown in hidden]
        else:
            macro.overloads.append((names, types, hidden[0][1] if hidden else result))
        for short in range(len(names) - optional, len(names)):
            macro.overloads.append((names[:short], types[:short], result))


def macro_scripts() -> list[str]:
    """The macros' sources."""
    return [p.read_text() for p in sorted((ROOT / "sql" / "duckdb").glob("*.sql"))]


def readable(kind: str) -> str:
    """The long types by their names in the manual."""
    plain = kind.replace('"', "").replace("ANY", "any type")
    if plain.startswith("STRUCT(task VARCHAR"):
        return "model"
    if plain.startswith("STRUCT(indices"):
        values = re.search(r"values (\w+)\[\]", plain)
        return f"sparse of {values[1] if values else 'numbers'}"
    return plain


def postgres_functions() -> dict[str, Function]:
    """The functions that the scripts of the extensions create."""
    found: dict[str, Function] = {}
    hidden: dict[str, str] = {}
    folder = ROOT / "sql" / "postgres"
    overloads = ["awk", "-f", str(folder / "overloads.awk")]
    for path in sorted(folder.glob("tuskml*/[0-9]*.sql"), key=lambda script: script.name):
        text = subprocess.check_output([*overloads, str(path)], text=True)
        for name, result in re.findall(
            r"CREATE FUNCTION tuskml\.(_\w+)\([^)]*\)\s+RETURNS ([\w\[\]]+)", text
        ):
            hidden[name] = result
        for match in CREATE.finditer(text):
            refuses = re.search(REFUSED, match["arguments"])
            if refuses or not public(match["name"]):
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
    """A type by its name in the manual, which is DuckDB's where DuckDB has it."""
    known = {
        MODEL: "model",
        "tuskml_sparse_real": "sparse of FLOAT",
        "tuskml_sparse_double": "sparse of DOUBLE",
        "double precision": "DOUBLE",
        "float8": "DOUBLE",
        "real": "FLOAT",
        "text": "VARCHAR",
        "boolean": "BOOLEAN",
        "bigint": "BIGINT",
        "integer": "INTEGER",
        "smallint": "SMALLINT",
        "numeric": "DECIMAL",
    }
    item = name.strip()
    element = item.removesuffix("[]")
    return known.get(element, element) + item[len(element) :]


def result_of(rest: str, hidden: dict[str, str]) -> str:
    """A function's own result, or that of an aggregate's final function."""
    final = re.search(r"FINALFUNC = tuskml\.(\w+)", rest)
    if final:
        return postgres_type(hidden[final[1]])
    result = RESULT.search(rest)
    if result is None:
        raise LookupError(f"no result in {rest[:80]!r}")
    return "table" if result[1].startswith("TABLE") else postgres_type(result[1])


def comment_before(text: str, place: int) -> str:
    """The comment that ends right before an index."""
    lines: list[str] = []
    for line in reversed(text[:place].splitlines()):
        if not line.startswith("--"):
            break
        lines.insert(0, line)
    return plain_comment("\n".join(lines))


def plain_comment(text: str) -> str:
    """Without the dashes, in one line."""
    return " ".join(line.removeprefix("--").strip() for line in text.splitlines()).strip()
