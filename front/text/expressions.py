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
"""Characters of a caller's text that a sentence repeats."""
DOTTED = re.compile(r'(?:"(?:[^"]|"")+"|[^".]+)(?:\.(?:"(?:[^"]|"")+"|[^".]+))*')
PART = re.compile(r'"(?:[^"]|"")+"|[^".]+')
RENAMED = re.compile(r'(.*\S)\s+AS\s+("(?:[^"]|"")+"|[^\W\d]\w*)', re.IGNORECASE | re.DOTALL)


def quote_name(name: str) -> str:
    """A name as SQL takes it, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


def unquote(name: str) -> str:
    """A name that may stand in quotes, without them."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def shorten(text: str) -> str:
    """Cuts a text to the room in a sentence."""
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def check_text(text: str, what: str) -> str:
    """The text, which a database can be sent. Raises DataError for half a character, a lone
    surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{what} is {shorten(text)!a}, which is not valid text at character {error.start + 1}"
        ) from None
    return text


def is_name(text: str) -> bool:
    """Returns whether text can only be a name: letters, digits and underscores."""
    return NAME.fullmatch(text) is not None


def split_dotted(text: str) -> list[str] | None:
    """The names in `schema.table`, each quoted or not; None if text is something else."""
    if DOTTED.fullmatch(text) is None:
        return None
    return [unquote(part) for part in PART.findall(text)]


def split(text: str, what: str) -> list[str]:
    """The expressions of a list with commas, without comments.

    Raises DataError if a bracket or a quote stays open, an expression is empty, or a statement
    ends: each part can be put in parentheses, and stays within them.
    """
    parts, open_ = [""], []
    shown = repr(shorten(check_text(text, what)))
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
    """Text that is one expression, or the name of one of the columns, quoted or not.

    Raises DataError for several expressions or none.
    """
    if not isinstance(text, str):
        raise DataError(f"{what} is {text!r}, expected a column or an SQL expression as text")
    if text in columns:
        return text
    if QUOTED.fullmatch(text) and unquote(text) in columns:
        return unquote(text)
    parts = split(text, what)
    if len(parts) > 1:
        raise DataError(f"{what} is {shorten(text)!r}, expected one expression, got {len(parts)}")
    return parts[0]


def split_alias(text: str) -> tuple[str, str | None]:
    """An expression, and the name that `AS` gives it."""
    found = RENAMED.fullmatch(text)
    return (text, None) if found is None else (found[1], unquote(found[2]))


def column_named(text: str, columns: Iterable[str], fold: bool = True) -> str | None:
    """The column that text names, exactly or up to case; None if it names none.

    fold: whether case may differ.
    """
    columns = list(columns)
    if text in columns or not fold:
        return text if text in columns else None
    alike = [name for name in columns if name.lower() == text.lower()]
    return alike[0] if len(alike) == 1 else None


def plain_form(text: str, columns: Collection[str]) -> str:
    """An expression without parts that shift or scale its values uniformly, or hardly change them:
    casts, an alias, the table's name, quotes, parentheses, and constant summands and factors.

    columns: the names of columns, which are no table names: `s.b` is a field of `s`.
    """
    tokens = [
        token[0] if token[0].startswith(('"', "'")) else token[0].lower()
        for token in TOKEN.finditer(split_alias(text.strip())[0])
        if token.lastgroup != "comment" and token[0].strip()
    ]
    core = Affine(tokens, columns).core()
    return core if core else " ".join(tokens)


NUMERAL = ""
"""Replaces the column in a constant."""


class Affine:
    """Reads an expression of one column: sums and products of it and numbers, and casts.

    What is read has a core, the column's name or a NUMERAL, or is None: something else.
    """

    def __init__(self, tokens: list[str], columns: Collection[str]) -> None:
        self.tokens, self.columns, self.at = tokens, columns, 0

    def core(self) -> str | None:
        """The core of all tokens."""
        found = self.sum()
        return found if self.at == len(self.tokens) else None

    def take(self, *expected: str) -> str | None:
        """The next token if it is one of those expected, or if none is, any."""
        if self.at >= len(self.tokens) or (expected and self.tokens[self.at] not in expected):
            return None
        self.at += 1
        return self.tokens[self.at - 1]

    def sum(self) -> str | None:
        found = self.product()
        while self.take("+", "-"):
            found = either(found, self.product())
        return found

    def product(self) -> str | None:
        found = self.with_sign()
        while sign := self.take("*", "/"):
            other = self.with_sign()
            found = None if sign == "/" and other != NUMERAL else either(found, other)
        return found

    def with_sign(self) -> str | None:
        while self.take("+", "-"):
            pass
        found = self.unit()
        while self.tokens[self.at : self.at + 2] == [":", ":"]:
            self.at += 2
            self.type()
        return found

    def unit(self) -> str | None:
        token = self.take()
        if token == "(":
            found = self.sum()
            return found if self.take(")") else None
        if token in ("cast", "try_cast") and self.take("("):
            found = self.sum()
            return found if self.take("as") and self.type() and self.take(")") else None
        if token is None or not (token[0].isalnum() or token[0] in '"_.'):
            return None
        if token[0].isdigit() or token == ".":
            while self.at < len(self.tokens) and self.tokens[self.at][0] in ".0123456789":
                self.at += 1
            return NUMERAL
        parts = [unquote(token)]
        while self.take("."):
            parts.append(unquote(self.take() or ""))
        while parts[1:] and column_named(parts[0], self.columns) is None:
            del parts[0]  # a table, or its schema
        return ".".join(parts)

    def type(self) -> bool:
        """Passes over the name of a type."""
        first = self.at
        while self.at < len(self.tokens) and NAME.fullmatch(self.tokens[self.at]):
            self.at += 1
        if self.at > first and self.take("("):
            while self.take() not in (")", None):
                pass
        return self.at > first


def either(one: str | None, other: str | None) -> str | None:
    """The core of a sum or a product of two, one of which at least is a number."""
    if one is None or other is None or (one and other):
        return None
    return one or other
