"""Names and SQL expressions that a caller gives as text: which is which, and their parts."""

import re
from collections.abc import Collection, Iterable

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
QUOTED = re.compile(r'"(?:[^"]|"")+"')
MOST_SHOWN = 200
"""Characters of what a caller gave that a sentence repeats."""
DOTTED = re.compile(r'(?:"(?:[^"]|"")+"|[^".]+)(?:\.(?:"(?:[^"]|"")+"|[^".]+))*')
PART = re.compile(r'"(?:[^"]|"")+"|[^".]+')
RENAMED = re.compile(r'(.*\S)\s+AS\s+("(?:[^"]|"")+"|[^\W\d]\w*)', re.IGNORECASE | re.DOTALL)


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


def unquoted(name: str) -> str:
    """A name that may stand in quotes, without them."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def shortened(text: str) -> str:
    """So much of a text as a sentence has room for."""
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def checked_text(text: str, what: str) -> str:
    """The text, which a database can be sent. DataError for half a character, a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{what} is {shortened(text)!a}, which is not valid text at character "
            f"{error.start + 1}"
        ) from None
    return text


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
    shown = repr(shortened(checked_text(text, what)))
    for token in TOKEN.finditer(text):
        kind, piece = token.lastgroup, token[0]
        if kind == "comment":
            piece = " "
        elif kind == "other":
            if piece in "([{":
                open_.append(piece)
            elif piece in PAIRS and (not open_ or open_.pop() != PAIRS[piece]):
                raise DataError(f"{what} is {shown}, which closes a '{piece}' that is not open")
            elif piece in "'\"":
                raise DataError(f"{what} is {shown}, whose quote {piece} stays open")
            elif piece == ";":
                raise DataError(f"{what} is {shown}, expected an expression, without ;")
            elif piece == "," and not open_:
                parts.append("")
                continue
        parts[-1] += piece
    if open_:
        raise DataError(f"{what} is {shown}, whose '{open_[-1]}' stays open")
    parts = [part.strip() for part in parts]
    if not all(parts):
        raise DataError(f"{what} is {shown}, expected a column or an SQL expression")
    return parts


def one(text: object, what: str, columns: Collection[str] = ()) -> str:
    """Text that is one expression, or the name of one of the columns, in quotes or not.

    DataError where it is none, or several.
    """
    if not isinstance(text, str):
        raise DataError(f"{what} is {text!r}, expected a column or an SQL expression as text")
    if text in columns:
        return text
    if QUOTED.fullmatch(text) and unquoted(text) in columns:
        return unquoted(text)
    parts = split(text, what)
    if len(parts) > 1:
        raise DataError(
            f"{what} is {shortened(text)!r}, expected one expression, got {len(parts)}"
        )
    return parts[0]


def renamed(text: str) -> tuple[str, str | None]:
    """An expression, and the name that `AS` gives it."""
    found = RENAMED.fullmatch(text)
    return (text, None) if found is None else (found[1], unquoted(found[2]))


def column_named(text: str, columns: Iterable[str], fold: bool = True) -> str | None:
    """The column that text names, exactly or but for capitals; None where it names none.

    fold: whether capitals may differ.
    """
    columns = list(columns)
    if text in columns or not fold:
        return text if text in columns else None
    alike = [name for name in columns if name.lower() == text.lower()]
    return alike[0] if len(alike) == 1 else None
