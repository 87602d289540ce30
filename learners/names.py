"""Names that a user gives to tasks, operators and algorithms."""

import re
from collections.abc import Container

from tuskml.errors import OptionError

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")


def check_new(what: str, name: object, taken: Container[str]) -> None:
    """A name that SQL can say, and that none of tuskml's own has. Raises OptionError."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise OptionError(
            f"the name of a {what} is {name!r}, expected a letter and at most 62 more letters, "
            "digits and _ . -"
        )
    if name in taken:
        raise OptionError(f"{what} '{name}' is a name of tuskml's own, expected another one")
