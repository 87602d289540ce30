"""Rules of the database on file access, checked before a store is opened.

Stores are files that the database does not open itself, so its settings must be checked here.
"""

from collections.abc import Callable
from pathlib import Path

from tuskml.errors import StoreError

Rule = Callable[[int, str], str | None]
"""Maps a database's account and a directory to the reason against its use, or None."""

_rules: list[Rule] = []


class FilesRefused(StoreError):
    """The database's settings do not allow its statements to use files."""

    sqlstate = "42501"


def follow(rule: Rule) -> None:
    """Sets the rule for files."""
    _rules[:] = [rule]


def check(path: "Path | str", account: int | None) -> None:
    """Raises FilesRefused if the database of this account does not allow a directory.

    account: None without a database; then there is no rule.
    """
    refused = _rules[0](account, str(path)) if _rules and account is not None else None
    if refused is not None:
        raise FilesRefused(refused)
