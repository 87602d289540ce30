"""Whether the database lets its statements use files: asked before a store is opened.

Stores are files that the database does not open itself, so nobody else looks at its settings.
"""

from collections.abc import Callable
from pathlib import Path

from tuskml.errors import StoreError

Rule = Callable[[int, str], str | None]
"""The database by its account, and a directory; a sentence where it may not be used."""

_rules: list[Rule] = []


class FilesRefused(StoreError):
    """The database's settings keep its statements from files."""

    sqlstate = "42501"


def follow(rule: Rule) -> None:
    """Sets the rule for files."""
    _rules[:] = [rule]


def check(path: "Path | str", account: int | None) -> None:
    """FilesRefused where the database that has this account does not let a directory be used.

    account: None where none has one; then there is no rule.
    """
    refused = _rules[0](account, str(path)) if _rules and account is not None else None
    if refused is not None:
        raise FilesRefused(refused)
