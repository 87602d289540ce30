"""Names and SQL expressions that a caller gives as text, told apart and taken apart."""

import re
from collections.abc import Iterable

from tuskml.errors import DataError

TOKEN = re.compile(
    r"""(?P<text>(?<!\w)[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
                 | (?<![\w$])\$(?P<tag>[^\W\d]\w*|)\$.*?\$(?P=tag)\$)
      | (?P<comment>--[^\n]* | /\*.*?\*/)
      | (?P<word>[\w$]+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
PAIRS = {")": "(", "]": "[", "}": "{"}
NAME = re.compile(r"[^\W\d]\w*")
DOTTED = re.compile(r'(?:"(?:[^"]|"")+"|[^".]+)(?:\.(?:"(?:[^"]|"")+"|[^".]+))*')
PART = re.compile(r'"(?:[^"]|"")+"|[^".]+')
RENAMED = re.compile(r'(.*\S)\s+AS\s+("(?:[^"]|"")+"|[^\W\d]\w*)', re.IGNORECASE | re.DOTALL)


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


def unquoted(name: str) -> str:
    """A name that may stand in quotes, without them."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def is_name(text: str) -> bool:
    """Whether text can only be a name: letters, digits and underscores."""
    return NAME.fullmatch(text) is not None


def dotted(text: str) -> list[str] | None:
    """The names in `schema.table`, each in quotes or not; None where text is no such thing."""
    if DOTTED.fullmatch(text) is None:
        return None
    return [unquoted(part) for part in PART.findall(text)]


def split(text: str, what: str) -> list[str]:
    """The expressions of a list with commas, without comments.

    DataError where a bracket or a quote stays open, an expression is empty, or a statement ends:
    each part can be put in parentheses, and stays within them.
    """
    parts, open_ = [""], []
    for token in TOKEN.finditer(text):
        kind, piece = token.lastgroup, token[0]
        if kind == "comment":
            piece = " "
        elif kind == "other":
            if piece in "([{":
                open_.append(piece)
            elif piece in PAIRS and (not open_ or open_.pop() != PAIRS[piece]):
                raise DataError(f"{what} is {text!r}, which closes a '{piece}' that is not open")
            elif piece in "'\"":
                raise DataError(f"{what} is {text!r}, whose quote {piece} stays open")
            elif piece == ";":
                raise DataError(f"{what} is {text!r}, expected an expression, without ;")
            elif piece == "," and not open_:
                parts.append("")
                continue
        parts[-1] += piece
    if open_:
        raise DataError(f"{what} is {text!r}, whose '{open_[-1]}' stays open")
    parts = [part.strip() for part in parts]
    if not all(parts):
        raise DataError(f"{what} is {text!r}, expected a column or an SQL expression")
    return parts


def one(text: object, what: str) -> str:
    """Text that is one expression. DataError where it is none, or several."""
    if not isinstance(text, str):
        raise DataError(f"{what} is {text!r}, expected a column or an SQL expression as text")
    parts = split(text, what)
    if len(parts) > 1:
        raise DataError(f"{what} is {text!r}, expected one expression, got {len(parts)}")
    return parts[0]


def renamed(text: str) -> tuple[str, str | None]:
    """An expression, and the name that `AS` gives it."""
    found = RENAMED.fullmatch(text)
    return (text, None) if found is None else (found[1], unquoted(found[2]))


def column_named(text: str, columns: Iterable[str]) -> str | None:
    """The column that text names, exactly or but for capitals; None where it names none."""
    columns = list(columns)
    if text in columns:
        return text
    alike = [name for name in columns if name.lower() == text.lower()]
    return alike[0] if len(alike) == 1 else None
